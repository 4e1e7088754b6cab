"""kafka-python under ACLs and quotas: it logs in by SASL/PLAIN, its ACLs are revoked while it works, and a producer
over its quota takes as long as the quota says. Also with two workers, and over a kill.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.daemon import Daemon, running

pytestmark = pytest.mark.clients

USERS = ("admin", "alice", "bob")
SETTINGS = {
    "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "sasl.jaas.config": "PlainLoginModule required " + " ".join(f'user_{user}="{user}-pw"' for user in USERS) + ";",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin",
    "group.initial.rebalance.delay.ms": "0",
    "num.partitions": "2",
}


def of(daemon: Daemon, user: str) -> dict[str, Any]:
    """What a client of `user` is made with."""
    return {
        "bootstrap_servers": daemon.bootstrap,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": user,
        "sasl_plain_password": f"{user}-pw",
    }


def acls(*names: tuple[str, str, str]) -> list[Any]:
    """Permissions of alice: (operation, resource type, name)."""
    from kafka.admin import ACL, ACLOperation, ACLPermissionType, ResourcePattern, ResourceType

    return [
        ACL(
            "User:alice",
            "*",
            ACLOperation[operation],
            ACLPermissionType.ALLOW,
            ResourcePattern(ResourceType[kind], name),
        )
        for operation, kind, name in names
    ]


def again_and_again(call: Callable[[], object]) -> None:
    """A client may learn of it with its next request, or the one after that."""
    for _ in range(20):
        call()


@pytest.mark.parametrize("workers", [1, 2])
def test_what_is_revoked_is_refused_from_then_on(tmp_path: Path, workers: int) -> None:
    from kafka import KafkaConsumer, KafkaProducer
    from kafka.admin import ACLFilter, ACLOperation, ACLPermissionType, KafkaAdminClient, NewTopic, ResourcePattern
    from kafka.admin import ResourceType as Type
    from kafka.errors import GroupAuthorizationFailedError, TopicAuthorizationFailedError

    with running(tmp_path, SETTINGS, workers=workers) as daemon:
        admin = KafkaAdminClient(**of(daemon, "admin"))
        admin.create_topics([NewTopic("orders", 2, 1)])
        admin.create_acls(acls(("WRITE", "TOPIC", "orders"), ("READ", "TOPIC", "orders"), ("READ", "GROUP", "billing")))
        producer = KafkaProducer(**of(daemon, "alice"), retries=0)
        producer.send("orders", b"first").get(60)
        consumer = KafkaConsumer("orders", group_id="billing", auto_offset_reset="earliest", **of(daemon, "alice"))
        assert next(consumer).value == b"first"
        consumer.commit()
        for topic in ("orders", "other"):
            stranger = KafkaProducer(**of(daemon, "bob"), retries=0, max_block_ms=60_000)
            with pytest.raises(TopicAuthorizationFailedError):
                stranger.send(topic, b"never").get(60)
            stranger.close()

        daemon.kill()
        daemon.start()
        producer.send("orders", b"second").get(60)
        assert next(consumer).value == b"second"
        # Its metadata are of now: if it asked for them after the topic was taken from it, it would not fetch any more.
        consumer.topics()
        consumer.poll(timeout_ms=200)

        pattern = ResourcePattern(Type.TOPIC, "orders")
        admin = KafkaAdminClient(**of(daemon, "admin"))
        admin.delete_acls([ACLFilter("User:alice", "*", ACLOperation.ANY, ACLPermissionType.ANY, pattern)])
        with pytest.raises(TopicAuthorizationFailedError):
            producer.send("orders", b"third").get(60)
        with pytest.raises(TopicAuthorizationFailedError):
            again_and_again(lambda: consumer.poll(timeout_ms=500))
        admin.delete_acls(
            [
                ACLFilter(
                    "User:alice", "*", ACLOperation.ANY, ACLPermissionType.ANY, ResourcePattern(Type.GROUP, "billing")
                )
            ]
        )
        with pytest.raises(GroupAuthorizationFailedError):
            again_and_again(consumer.commit)
        consumer.close(autocommit=False)
        producer.close(1)
        admin.close()


def test_a_producer_over_its_quota_is_slowed_to_it(tmp_path: Path) -> None:
    """A burst of one window of a second is free: 400 KB of 2,000 KB at 400 KB a second."""
    from kafka import KafkaProducer
    from kafka.admin import KafkaAdminClient, NewTopic

    settings = {"quota.window.num": "2", "log.flush": "never"}
    with running(tmp_path, settings) as daemon:
        admin = KafkaAdminClient(bootstrap_servers=daemon.bootstrap)
        admin.create_topics([NewTopic("orders", 1, 1)])

        def took(client_id: str) -> float:
            producer = KafkaProducer(bootstrap_servers=daemon.bootstrap, client_id=client_id, linger_ms=0)
            producer.send("orders", b"warm").get(60)
            began_s = time.monotonic()
            for _ in range(20):
                producer.send("orders", bytes(100_000)).get(60)
            producer.close()
            return time.monotonic() - began_s

        limit(daemon, "slow", 400_000)
        slow_s = took("slow")
        assert slow_s >= 3.5, "four seconds by the quota"
        assert min(took("quick") for _ in range(4)) < slow_s / 2
        admin.close()


def limit(daemon: Daemon, client_id: str, rate: float) -> None:
    """Set a client id's producer_byte_rate. kafka-python has no function for it."""
    import asyncio

    from coordinatord.testing.conform.raw_client import RawClient
    from kafka_wire.api.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData

    async def alter() -> None:
        client = await RawClient.connect("127.0.0.1", daemon.port)
        entry = EntryData([EntityData("client-id", client_id)], [OpData("producer_byte_rate", rate)])
        answer = await client.ask(AlterClientQuotasRequest([entry]), 1)
        assert [each.error_code for each in answer.entries] == [0]
        client.close()

    asyncio.run(alter())
