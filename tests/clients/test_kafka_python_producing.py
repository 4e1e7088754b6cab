"""What kafka-python's producer can write, and that its consumer reads the same."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.codec import has_gzip, has_lz4, has_snappy, has_zstd
from kafka.errors import MessageSizeTooLargeError, UnknownTopicOrPartitionError

from tests.clients.kinds import MakeProducer, MakeTopic, Name, ReadAll
from tests.clients.members import PATIENT_POLL_TIMEOUT_MS, polled
from tests.support.waiting import wait_until

pytestmark = pytest.mark.clients

CODECS = {"gzip": has_gzip, "snappy": has_snappy, "lz4": has_lz4, "zstd": has_zstd}


@pytest.fixture
def make_producer(bootstrap: str) -> Iterator[Callable[..., KafkaProducer]]:
    made: list[KafkaProducer] = []

    def make(**settings: Any) -> KafkaProducer:
        made.append(KafkaProducer(bootstrap_servers=bootstrap, **settings))
        return made[-1]

    yield make
    for one in made:
        one.close(timeout=10)


@pytest.fixture
def read_all(bootstrap: str) -> Callable[..., list[Any]]:
    """`read_all(topic, count)` are the first records of a topic, by partition and offset."""

    def read(topic: str, count: int, **settings: Any) -> list[Any]:
        consumer = KafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", **settings)
        wait_until(lambda: consumer.partitions_for_topic(topic), f"the partitions of {topic}")
        consumer.assign([TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic)])
        records: list[Any] = []

        def enough() -> bool:
            records.extend(polled(consumer))
            return len(records) >= count

        try:
            wait_until(enough, f"{count} records of {topic}", seen=lambda: f"{len(records)} came")
        finally:
            consumer.close()
        assert len(records) == count
        return sorted(records, key=lambda record: (record.partition, record.offset))

    return read


@pytest.mark.parametrize("codec", CODECS)
def test_compression(codec: str, make_topic: MakeTopic, make_producer: MakeProducer, read_all: ReadAll) -> None:
    if not CODECS[codec]():
        pytest.skip(f"skipped: needs kafka-python[{codec}]")
    topic = make_topic()
    producer = make_producer(compression_type=codec, linger_ms=50)
    written = [b"the same again and again, number %d" % number for number in range(500)]
    sent = [producer.send(topic, value) for value in written]
    producer.flush(timeout=30)
    assert [future.get(timeout=10).offset for future in sent] == list(range(500))
    assert [record.value for record in read_all(topic, 500)] == written


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"enable_idempotence": False, "acks": "all"},
        {"enable_idempotence": False, "acks": 1},
        {"enable_idempotence": False, "acks": 0},
        {"batch_size": 0},
        {"linger_ms": 30, "batch_size": 1_000_000},
    ],
    ids=["defaults", "not idempotent", "acks=1", "acks=0", "a batch per record", "large batches"],
)
def test_ways_to_produce(
    settings: dict[str, Any], make_topic: MakeTopic, make_producer: MakeProducer, read_all: ReadAll
) -> None:
    """Every record comes, once, and in the order in which it was sent."""
    topic = make_topic(3)
    producer = make_producer(**settings)
    sent = [producer.send(topic, b"%d" % number, partition=number % 3) for number in range(300)]
    producer.flush(timeout=30)
    offsets = [future.get(timeout=10).offset for future in sent]
    if settings.get("acks") != 0:  # otherwise nobody has told the producer where its records are
        assert offsets == [number // 3 for number in range(300)]
    records = read_all(topic, 300)
    assert [int(record.value) for record in records] == sorted(range(300), key=lambda number: (number % 3, number))


def test_what_a_record_carries(make_topic: MakeTopic, producer: KafkaProducer, read_all: ReadAll) -> None:
    topic = make_topic()
    at_ms = 1_650_000_000_123
    headers = [("trace", b"\x00\xff"), ("empty", b""), ("trace", b"again"), ("größe", "ü".encode())]
    acknowledged = producer.send(topic, b"v", key=b"k", headers=headers, timestamp_ms=at_ms).get(timeout=10)
    assert (acknowledged.topic, acknowledged.partition, acknowledged.offset) == (topic, 0, 0)
    assert acknowledged.timestamp == at_ms
    producer.send(topic, None, key=b"deleted").get(timeout=10)
    producer.send(topic, b"", key=b"").get(timeout=10)
    before_ms = time.time() * 1000
    producer.send(topic, b"now").get(timeout=10)
    first, tombstone, empty, now = read_all(topic, 4)
    assert (first.key, first.value, first.timestamp, first.timestamp_type) == (b"k", b"v", at_ms, 0)
    assert [(name, bytes(value)) for name, value in first.headers] == headers
    assert (tombstone.key, tombstone.value) == (b"deleted", None)
    assert (empty.key, empty.value) == (b"", b"")
    assert now.key is None
    assert abs(now.timestamp - before_ms) < 60_000


def test_log_append_time(make_topic: MakeTopic, producer: KafkaProducer, read_all: ReadAll) -> None:
    topic = make_topic(**{"message.timestamp.type": "LogAppendTime"})
    before_ms = int(time.time() * 1000) - 1
    acknowledged = producer.send(topic, b"v", timestamp_ms=1_000).get(timeout=10)
    (record,) = read_all(topic, 1)
    assert record.timestamp_type == 1
    assert before_ms <= record.timestamp <= int(time.time() * 1000) + 1
    assert acknowledged.timestamp == record.timestamp


def test_keys_choose_partitions(make_topic: MakeTopic, producer: KafkaProducer, read_all: ReadAll) -> None:
    topic = make_topic(4)
    for number in range(100):
        producer.send(topic, b"%d" % number, key=b"key-%d" % (number % 10))
    producer.flush(timeout=30)
    partitions: dict[bytes, set[int]] = {}
    for record in read_all(topic, 100):
        partitions.setdefault(record.key, set()).add(record.partition)
    assert len(partitions) == 10
    assert all(len(where) == 1 for where in partitions.values())
    assert len(set.union(*partitions.values())) > 1


def test_large_messages(make_topic: MakeTopic, make_producer: MakeProducer, read_all: ReadAll) -> None:
    """Up to message.max.bytes (1 MiB and 12 bytes); what is larger is refused, and the producer goes on."""
    topic = make_topic()
    # An idempotent producer of kafka-python's gives up for good after the refusal.
    producer = make_producer(max_request_size=4_000_000, enable_idempotence=False)
    written = [secrets.token_bytes(size) for size in (1, 100_000, 1_000_000)]
    for value in written:
        producer.send(topic, value).get(timeout=20)
    with pytest.raises(MessageSizeTooLargeError):
        producer.send(topic, bytes(1_100_000)).get(timeout=20)
    producer.send(topic, b"after it").get(timeout=20)
    assert [record.value for record in read_all(topic, 4)] == [*written, b"after it"]


def test_a_topic_may_have_larger_messages(
    make_topic: MakeTopic, make_producer: MakeProducer, read_all: ReadAll
) -> None:
    topic = make_topic(**{"max.message.bytes": "3000000"})
    value = secrets.token_bytes(2_500_000)
    make_producer(max_request_size=4_000_000).send(topic, value).get(timeout=20)
    (record,) = read_all(topic, 1)
    assert record.value == value


def test_a_topic_comes_into_being_when_it_is_produced_to(
    admin: KafkaAdminClient, producer: KafkaProducer, name: Name, read_all: ReadAll
) -> None:
    """auto.create.topics.enable, with num.partitions partitions."""
    topic = name("new")
    producer.send(topic, b"the first").get(timeout=20)
    (described,) = admin.describe_topics([topic])
    assert len(described["partitions"]) == 2
    assert [record.value for record in read_all(topic, 1)] == [b"the first"]


def test_a_topic_comes_into_being_when_it_is_subscribed_to(bootstrap: str, producer: KafkaProducer, name: Name) -> None:
    topic = name("new")
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=name("group"),
        auto_offset_reset="earliest",
        metadata_max_age_ms=300,
    )
    wait_until(
        lambda: consumer.poll(timeout_ms=PATIENT_POLL_TIMEOUT_MS) or len(consumer.assignment()) == 2,
        "the new topic's partitions",
    )
    producer.send(topic, b"the first").get(timeout=20)
    records: list[Any] = []
    wait_until(lambda: records.extend(polled(consumer)) or records, "the record")
    assert records[0].value == b"the first"
    consumer.close()


def test_a_topic_that_is_not_there(bootstrap: str, admin: KafkaAdminClient, name: Name) -> None:
    """Asking whether it is there does not create it."""
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, allow_auto_create_topics=False)
    missing = name("missing")
    assert missing not in consumer.topics()
    assert consumer.partitions_for_topic(missing) == set()
    with pytest.raises(UnknownTopicOrPartitionError):
        admin.list_partition_offsets({TopicPartition(missing, 0): -1})
    assert missing not in admin.list_topics()
    consumer.close()


def test_a_name_that_no_topic_can_have(producer: KafkaProducer) -> None:
    with pytest.raises(ValueError, match="illegal"):
        producer.send("no spaces", b"v")


def test_an_empty_topic(make_topic: MakeTopic, bootstrap: str) -> None:
    topic = make_topic(2)
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")
    partitions = [TopicPartition(topic, number) for number in (0, 1)]
    consumer.assign(partitions)
    assert consumer.poll(timeout_ms=300) == {}
    assert [consumer.position(partition) for partition in partitions] == [0, 0]
    consumer.close()


def test_read_committed_sees_what_no_transaction_wrote(
    make_topic: MakeTopic, producer: KafkaProducer, read_all: ReadAll
) -> None:
    topic = make_topic()
    for number in range(20):
        producer.send(topic, b"%d" % number)
    producer.flush(timeout=30)
    assert len(read_all(topic, 20, isolation_level="read_committed")) == 20
