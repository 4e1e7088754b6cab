"""kafka-python's transactional producer and its read_committed consumer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka.errors import KafkaError

from tests.clients.kinds import MakeTopic, Name
from tests.clients.members import polled
from tests.daemon import running
from tests.support.waiting import wait_until

pytestmark = pytest.mark.clients

Make = Callable[..., KafkaProducer]


@pytest.fixture
def transactional(bootstrap: str) -> Iterator[Make]:
    """`transactional(id)` is a producer that owns the id."""
    made: list[KafkaProducer] = []

    def make(transactional_id: str, to: str = bootstrap, **settings: Any) -> KafkaProducer:
        settings = {"retry_backoff_ms": 20, "transaction_timeout_ms": 30_000, **settings}
        made.append(KafkaProducer(bootstrap_servers=to, transactional_id=transactional_id, **settings))
        made[-1].init_transactions()
        return made[-1]

    yield make
    for one in made:
        one.close(timeout=0.2)


def transaction(producer: KafkaProducer, topic: str, *values: bytes, commit: bool = True) -> None:
    producer.begin_transaction()
    for value in values:
        producer.send(topic, value, partition=0)
    if commit:
        producer.commit_transaction()
    else:
        producer.flush(timeout=60)
        producer.abort_transaction()


def values_of(bootstrap: str, topic: str, isolation: str = "read_committed") -> list[bytes]:
    """All that can be read of partition 0."""
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", isolation_level=isolation)
    partition = TopicPartition(topic, 0)
    consumer.assign([partition])
    values: list[bytes] = []
    try:
        end = consumer.end_offsets([partition])[partition]

        def at_end() -> bool:
            values.extend(record.value for record in polled(consumer))
            return bool(consumer.position(partition) >= end)

        wait_until(at_end, f"the end of {topic}", seen=lambda: f"{values}")
    finally:
        consumer.close()
    return values


def test_what_is_committed_is_read_and_what_is_aborted_is_not(
    bootstrap: str, make_topic: MakeTopic, transactional: Make, name: Name
) -> None:
    topic = make_topic()
    producer = transactional(name("tx"))
    for number in range(6):
        transaction(producer, topic, b"%d a" % number, b"%d b" % number, commit=number % 3 != 1)
    committed = [0, 2, 3, 5]
    assert values_of(bootstrap, topic) == [b"%d %s" % (number, half) for number in committed for half in (b"a", b"b")]
    assert len(values_of(bootstrap, topic, "read_uncommitted")) == 12


def test_an_open_transaction_is_not_read(
    bootstrap: str, make_topic: MakeTopic, transactional: Make, name: Name
) -> None:
    topic = make_topic()
    producer = transactional(name("tx"))
    transaction(producer, topic, b"first")
    producer.begin_transaction()
    producer.send(topic, b"second", partition=0).get(timeout=60)
    assert values_of(bootstrap, topic) == [b"first"]
    assert values_of(bootstrap, topic, "read_uncommitted") == [b"first", b"second"]
    producer.commit_transaction()
    assert values_of(bootstrap, topic) == [b"first", b"second"]


def test_a_new_producer_fences_the_old_one(
    bootstrap: str, make_topic: MakeTopic, transactional: Make, name: Name
) -> None:
    topic, transactional_id = make_topic(), name("tx")
    old = transactional(transactional_id)
    old.begin_transaction()
    old.send(topic, b"old", partition=0).get(timeout=60)
    new = transactional(transactional_id)
    with pytest.raises(KafkaError):
        old.commit_transaction()
    transaction(new, topic, b"new")
    assert values_of(bootstrap, topic) == [b"new"]


def test_offsets_are_committed_with_the_records(
    bootstrap: str, make_topic: MakeTopic, transactional: Make, name: Name
) -> None:
    source, target, group = make_topic(), make_topic(), name("group")
    transaction(transactional(name("source")), source, *(b"%d" % number for number in range(10)))
    producer = transactional(name("tx"))
    consumer = KafkaConsumer(
        source,
        bootstrap_servers=bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        isolation_level="read_committed",
        max_poll_records=4,
    )
    partition = TopicPartition(source, 0)
    try:
        first: list[Any] = []
        wait_until(lambda: bool(first.extend(polled(consumer)) or first), "records")
        for commit in (False, True):
            producer.begin_transaction()
            for record in first:
                producer.send(target, record.value, partition=0)
            offsets = {partition: OffsetAndMetadata(first[-1].offset + 1, "read", -1)}
            producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
            if commit:
                producer.commit_transaction()
            else:
                producer.abort_transaction()
                assert consumer.committed(partition) is None
        assert consumer.committed(partition) == first[-1].offset + 1
    finally:
        consumer.close()
    assert values_of(bootstrap, target) == [record.value for record in first]


def test_a_transaction_outlives_the_daemon(tmp_path: Path, transactional: Make) -> None:
    with running(tmp_path) as daemon:
        more = {"transaction_timeout_ms": 300_000, "reconnect_backoff_max_ms": 1_000}
        producer = transactional("tx", daemon.bootstrap, **more)
        transaction(producer, "orders", b"before")
        producer.begin_transaction()
        producer.send("orders", b"first half", partition=0).get(timeout=60)
        daemon.kill()
        daemon.start()
        assert values_of(daemon.bootstrap, "orders") == [b"before"]
        producer.send("orders", b"second half", partition=0).get(timeout=60)
        producer.commit_transaction()
        assert values_of(daemon.bootstrap, "orders") == [b"before", b"first half", b"second half"]
        producer.close(timeout=1)
