"""One broker of Kafka's for the tests of this folder: plain, with SASL and TLS, and behind a proxy that can be cut."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kafka import KafkaConsumer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient, NewTopic
from kafka.structs import OffsetAndMetadata

from coordinatord.monitoring.offsets_log.source.segments import OFFSETS_TOPIC
from tests.daemon import free_port
from tests.reference import broker as reference
from tests.support.waiting import wait_until

READER, WORD, PLAIN_WORD = "reader", "correct-horse-scram", "correct-horse-plain"
STRANGER, STRANGER_WORD = "stranger", "battery-staple"
STORE_WORD = "changeit"
TOPIC, PARTITIONS = "orders", 3

SETTINGS = {
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,PROXIED:PLAINTEXT,SECURE:SASL_SSL",
    "listener.name.secure.ssl.keystore.type": "PKCS12",
    "listener.name.secure.ssl.keystore.password": STORE_WORD,
    "listener.name.secure.sasl.enabled.mechanisms": "SCRAM-SHA-512,PLAIN",
    "listener.name.secure.scram-sha-512.sasl.jaas.config": (
        "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    ),
    "listener.name.secure.plain.sasl.jaas.config": (
        f'org.apache.kafka.common.security.plain.PlainLoginModule required user_{READER}="{PLAIN_WORD}";'
    ),
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "offsets.topic.num.partitions": "3",
    "offsets.topic.compression.codec": "3",  # lz4
    "group.initial.rebalance.delay.ms": "0",
    "log.cleaner.backoff.ms": "100",
}


@dataclass(slots=True)
class Kafka:
    """`plain`, `secure` and `proxied` are addresses; behind `proxied` there is nobody until a proxy is put there."""

    broker: reference.KafkaBroker
    plain: str
    secure: str
    proxied_port: int
    proxy_target_port: int
    directory: Path

    @property
    def cafile(self) -> str:
        return str(self.directory / "ca.pem")

    def secure_options(self, **changed: str | None) -> dict[str, str]:
        """Options of the source that READER connects with."""
        options = {
            "security_protocol": "SASL_SSL",
            "ssl_cafile": self.cafile,
            "sasl_mechanism": "SCRAM-SHA-512",
            "sasl_plain_username": READER,
            "sasl_plain_password": WORD,
            **changed,
        }
        return {f"kafka.{name}": value for name, value in options.items() if value is not None}

    def commit(self, group: str, rounds: range) -> None:
        """A group without members commits, round by round, one offset in all partitions."""
        consumer = KafkaConsumer(group_id=group, bootstrap_servers=self.plain, enable_auto_commit=False)
        places = [TopicPartition(TOPIC, partition) for partition in range(PARTITIONS)]
        for offset in rounds:
            consumer.commit(dict.fromkeys(places, OffsetAndMetadata(offset, "", -1)))
        consumer.close()

    def configure(self, **settings: str) -> None:
        """Settings of the offsets topic."""
        admin = KafkaAdminClient(bootstrap_servers=self.plain)
        admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, OFFSETS_TOPIC, configs=settings)])
        admin.close()


def certificate(directory: Path, name: str) -> Path:
    """A key store with a new key, and beside it its certificate in PEM. Java brings the tool."""
    store = directory / f"{name}.p12"
    keytool = ["keytool", "-alias", "it", "-storepass", STORE_WORD, "-keystore", str(store)]
    made = ["-genkeypair", "-keyalg", "EC", "-dname", "CN=broker", "-ext", "san=ip:127.0.0.1", "-storetype", "PKCS12"]
    subprocess.run([*keytool, *made], check=True, capture_output=True, timeout=60)
    exported = subprocess.run([*keytool, "-exportcert", "-rfc"], check=True, capture_output=True, timeout=60)
    (directory / f"{name}.pem").write_bytes(exported.stdout)
    return store


@contextlib.contextmanager
def running_kafka(libs: Path, directory: Path) -> Iterator[Kafka]:
    directory.mkdir(parents=True)
    store = certificate(directory, "ca")
    certificate(directory, "other")
    host = reference.HOST
    plain, secure, proxied, target, controller = range(first := free_port(5), first + 5)
    listeners = f"PLAINTEXT://{host}:{plain},SECURE://{host}:{secure}"
    overrides = {
        **SETTINGS,
        "listeners": f"{listeners},PROXIED://{host}:{target},CONTROLLER://{host}:{controller}",
        "advertised.listeners": f"{listeners},PROXIED://{host}:{proxied}",
        "controller.quorum.voters": f"0@{host}:{controller}",
        "listener.name.secure.ssl.keystore.location": str(store),
    }
    prepared = reference.prepare_broker(libs, directory, overrides)
    prepared.port = plain
    scram: list[str] = []
    scram = [
        f"SCRAM-SHA-512=[name={name},password={word}]" for name, word in ((READER, WORD), (STRANGER, STRANGER_WORD))
    ]
    prepared.format(*(each for user in scram for each in ("--add-scram", user)))
    broker = prepared.start()
    try:
        kafka = Kafka(broker, f"{host}:{plain}", f"{host}:{secure}", proxied, target, directory)
        admin = KafkaAdminClient(bootstrap_servers=kafka.plain)
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])
        allow(admin, OFFSETS_TOPIC)
        allow(admin, TOPIC)
        admin.close()
        yield kafka
    finally:
        broker.stop()


def allow(admin: Any, topic: str) -> None:
    """READER may read the topic."""
    from kafka.admin import ACL, ACLOperation, ACLPermissionType, ResourcePattern, ResourceType

    pattern = ResourcePattern(ResourceType.TOPIC, topic)
    admin.create_acls([ACL(f"User:{READER}", "*", ACLOperation.READ, ACLPermissionType.ALLOW, pattern)])


def wait(done: Any, what: str, seconds: float = 180) -> None:
    wait_until(done, what, timeout_s=seconds)
