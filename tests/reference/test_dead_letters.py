"""Dead letters of Kafka 4.4 and of ours: the same consumer on both, and the same letters."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition

from tests.clients.librdkafka import admin_client
from tests.daemon import running
from tests.reference import broker
from tests.support.waiting import PATIENCE_S

pytestmark = [pytest.mark.reference, pytest.mark.clients, pytest.mark.timeout(600)]

TOPIC, GROUP = "orders", "pickers"
PARTITIONS, EACH = 3, 12
SETTINGS = {
    "errors.deadletterqueue.auto.create.topics.enable": "true",
}

Letter = tuple[int, bytes | None, bytes | None, tuple[tuple[str, bytes], ...]]


def _prepare(bootstrap: str, copies: str, topic: str, creates: bool) -> None:
    from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource

    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    topics: dict[str, Any] = {TOPIC: {"num_partitions": PARTITIONS, "replication_factor": 1}}
    if not creates:
        own = {"errors.deadletterqueue.group.enable": "true"}
        topics[topic] = {"num_partitions": 2, "replication_factor": 1, "configs": own}
    admin.create_topics(topics)
    admin.close()
    settings = {
        "share.auto.offset.reset": "earliest",
        "share.delivery.count.limit": "2",
        "errors.deadletterqueue.topic.name": topic,
        "errors.deadletterqueue.copy.record.enable": copies,
    }
    entries = [ConfigEntry(*each, incremental_operation=AlterConfigOpType.SET) for each in settings.items()]
    resource = ConfigResource(ConfigResource.Type.GROUP, GROUP, incremental_configs=entries)
    for future in admin_client(bootstrap).incremental_alter_configs([resource]).values():
        future.result()
    producer = KafkaProducer(bootstrap_servers=bootstrap, compression_type="gzip", linger_ms=200)
    for number in range(EACH):
        for partition in range(PARTITIONS):
            value = None if number == 6 else b"value %d" % number
            producer.send(TOPIC, value, b"key %d" % number, partition=partition, headers=[("own", b"x")])
    producer.close()


def _consume(bootstrap: str) -> None:
    """Reject every third record, always release every fourth, accept the others."""
    from confluent_kafka import AcknowledgeType, ShareConsumer

    consumer = ShareConsumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": GROUP,
            "share.acknowledgement.mode": "explicit",
            "log_level": 0,
        }
    )
    consumer.subscribe([TOPIC])
    left = {(partition, offset) for partition in range(PARTITIONS) for offset in range(EACH)}
    deadline_s = time.monotonic() + 3 * PATIENCE_S
    while left:
        assert time.monotonic() < deadline_s, left
        messages = [message for message in consumer.poll(1.0) if message.error() is None]
        for message in messages:
            where, offset = (message.partition(), message.offset()), message.offset()
            if offset % 3 == 0:
                consumer.acknowledge(message, AcknowledgeType.REJECT)
            elif offset % 4 == 0:
                consumer.acknowledge(message, AcknowledgeType.RELEASE)
            else:
                consumer.acknowledge(message)
            if offset % 3 == 0 or offset % 4 or message.delivery_count() == 2:
                left.discard(where)
        if messages:
            consumer.commit_sync(PATIENCE_S)
    consumer.close()


def letters(bootstrap: str, topic: str, count: int) -> list[Letter]:
    """The first letters of a topic, whatever their order."""
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")
    deadline_s = time.monotonic() + PATIENCE_S
    while not (partitions := consumer.partitions_for_topic(topic)):
        assert time.monotonic() < deadline_s, f"no topic {topic}"
    consumer.assign([TopicPartition(topic, each) for each in sorted(partitions)])
    found: list[Letter] = []
    while len(found) < count:
        assert time.monotonic() < deadline_s, found
        for records in consumer.poll(1_000).values():
            found += [(each.partition, each.key, each.value, tuple(each.headers)) for each in records]
    consumer.close()
    return sorted(found, key=repr)


def _played(bootstrap: str, copies: str, topic: str, *, creates: bool) -> list[Letter]:
    _prepare(bootstrap, copies, topic, creates)
    _consume(bootstrap)
    per_partition = [offset for offset in range(EACH) if offset % 3 == 0 or offset % 4 == 0]
    return letters(bootstrap, topic, PARTITIONS * len(per_partition))


@pytest.mark.parametrize(
    ("copies", "creates"), [("true", False), ("false", True)], ids=["key and value", "a new topic"]
)
def test_the_letters_are_kafkas(kafka_libs: Path, tmp_path: Path, copies: str, creates: bool) -> None:
    pytest.importorskip("confluent_kafka", "2.16", reason="pip install '.[clients]'")
    with broker.running_broker(kafka_libs, tmp_path / "kafka", SETTINGS) as kafka:
        theirs = _played(kafka.bootstrap, copies, "dlq.orders", creates=creates)
    with running(tmp_path / "ours", SETTINGS) as daemon:
        ours = _played(daemon.bootstrap, copies, "dlq.orders", creates=creates)
    assert ours == theirs
    assert {dict(each[3])["__dlq.errors.message"] for each in ours} == {
        b"Offset rejected by client.", b"Offset delivery count exceeded the threshold."
    }  # fmt: skip
    assert any(each[2] for each in ours) == (copies == "true")
