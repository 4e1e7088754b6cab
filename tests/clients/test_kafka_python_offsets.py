"""What a kafka-python consumer does with positions and committed offsets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import (
    CommitFailedError,
    NoOffsetForPartitionError,
    OffsetMetadataTooLargeError,
    UnknownTopicOrPartitionError,
)
from kafka.structs import OffsetAndMetadata, OffsetAndTimestamp

from kafka_wire.records.keys import decode_key, decode_value
from kafka_wire.records.offsets import OffsetCommitKey
from tests.clients.kinds import MakeConsumer, MakeMember, MakeTopic, Name, Produce
from tests.clients.members import polled, wait_for_assignment, wait_for_members, wait_for_values
from tests.support.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.clients


@pytest.fixture
def consumer(bootstrap: str) -> Iterator[Callable[..., KafkaConsumer]]:
    """`consumer(group, partition, ...)` reads what it is told to: no members, no rebalances."""
    made: list[KafkaConsumer] = []

    def make(group: str | None, *partitions: TopicPartition, **settings: Any) -> KafkaConsumer:
        settings = {"auto_offset_reset": "earliest", "enable_auto_commit": False, **settings}
        one = KafkaConsumer(bootstrap_servers=bootstrap, group_id=group, **settings)
        one.assign(list(partitions))
        made.append(one)
        return one

    yield make
    for one in made:
        one.close(timeout_ms=10_000)


def read(consumer: KafkaConsumer, count: int) -> list[Any]:
    """The next `count` records, however many polls they take."""
    records: list[Any] = []

    def enough() -> bool:
        records.extend(polled(consumer, max_records=count - len(records)))
        return len(records) >= count

    wait_until(enough, f"{count} records", seen=lambda: f"{len(records)} came")
    return records


def values(records: list[Any]) -> list[bytes]:
    return [record.value for record in records]


def test_committed_is_what_was_committed(
    consumer: MakeConsumer, make_topic: MakeTopic, produce: Produce, name: Name
) -> None:
    topic, group = make_topic(2), name("group")
    produce(topic, 40, 2)
    zero, one = TopicPartition(topic, 0), TopicPartition(topic, 1)
    reader = consumer(group, zero, one)
    assert reader.committed(zero) is None
    reader.commit({zero: OffsetAndMetadata(7, "read by hand", -1)})
    assert reader.committed(zero) == 7
    assert reader.committed(zero, metadata=True).metadata == "read by hand"
    assert reader.committed(one) is None
    assert len(read(reader, 33)) == 33, "from the committed offset on where there is one"
    reader.commit()
    assert (reader.committed(zero), reader.committed(one)) == (20, 20)
    assert consumer(group, zero).committed(one) == 20, "another client of the same group sees it too"
    assert consumer(name("other"), zero).committed(zero) is None, "another group does not"


def test_a_restarted_consumer_goes_on_from_its_commit(
    consumer: MakeConsumer, make_topic: MakeTopic, produce: Produce, name: Name
) -> None:
    topic, group = make_topic(1), name("group")
    written = produce(topic, 50)
    partition = TopicPartition(topic, 0)
    first = consumer(group, partition)
    assert values(read(first, 20)) == written[:20]
    first.commit()
    assert values(read(first, 10)) == written[20:30]  # read, and not committed
    first.close()
    second = consumer(group, partition)
    assert values(read(second, 30)) == written[20:]


def test_a_restarted_member_goes_on_from_its_commit(
    make_topic: MakeTopic, produce: Produce, member: MakeMember, name: Name
) -> None:
    topic, group = make_topic(2), name("group")
    before = produce(topic, 40, 2)
    first = member(group, topic)
    wait_for_values([first], before)
    first.close()  # commits
    after = produce(topic, 20, 2)
    second = member(group, topic)
    wait_for_values([second], after)
    assert sorted(second.values) == after


def test_auto_commit(
    admin: KafkaAdminClient, make_topic: MakeTopic, produce: Produce, member: MakeMember, name: Name
) -> None:
    topic, group = make_topic(1), name("group")
    reader = member(group, topic, auto_commit_interval_ms=200)
    written = produce(topic, 30)
    wait_for_values([reader], written)
    partition = TopicPartition(topic, 0)

    def committed() -> int:
        known = admin.list_group_offsets([group])[group].get(partition)
        return known.offset if known is not None else -1

    wait_until(lambda: committed() == 30, "the offset of the last record, committed by itself", seen=committed)


def test_seeking(consumer: MakeConsumer, make_topic: MakeTopic, produce: Produce, name: Name) -> None:
    topic = make_topic(1)
    written = produce(topic, 30)
    partition = TopicPartition(topic, 0)
    reader = consumer(name("group"), partition)
    assert values(read(reader, 30)) == written
    assert reader.position(partition) == 30
    reader.seek_to_beginning(partition)
    assert values(read(reader, 5)) == written[:5]
    reader.seek(partition, 25)
    assert values(read(reader, 5)) == written[25:]
    reader.seek_to_end(partition)
    assert reader.position(partition) == 30
    written += produce(topic, 3)
    assert values(read(reader, 3)) == written[30:]
    reader.seek(partition, 1_000)  # out of range: auto.offset.reset is earliest
    assert values(read(reader, 2)) == written[:2]


def test_pause_and_resume(make_topic: MakeTopic, produce: Produce, member: MakeMember) -> None:
    """A paused partition gives nothing and is kept: its member goes on sending heartbeats."""
    topic = make_topic(2)
    reader = member(topic + "-group", topic, session_timeout_ms=10_000)
    wait_for_assignment([reader], 2)
    generation = reader.generation
    paused, other = TopicPartition(topic, 0), TopicPartition(topic, 1)
    reader.call(lambda consumer: consumer.pause(paused))
    written = produce(topic, 40, 2)
    wait_for_values([reader], written[1::2])
    assert {record.partition for record in reader.records} == {other.partition}
    reader.call(lambda consumer: consumer.resume(paused))
    wait_for_values([reader], written)
    assert reader.generation == generation


def test_offsets_by_time(consumer: MakeConsumer, make_topic: MakeTopic, producer: KafkaProducer) -> None:
    topic = make_topic(1)
    partition, empty = TopicPartition(topic, 0), TopicPartition(make_topic(1), 0)
    base_ms = 1_700_000_000_000
    for step in range(5):
        producer.send(topic, b"at %d" % step, partition=0, timestamp_ms=base_ms + 1_000 * step).get(timeout=10)
    reader = consumer(None, partition, empty)
    found = {
        after_ms: reader.offsets_for_times({partition: base_ms + after_ms})[partition]
        for after_ms in (-1, 0, 1, 1_000, 3_999, 4_000, 4_001)
    }
    assert {after_ms: None if at is None else at.offset for after_ms, at in found.items()} == {
        -1: 0,
        0: 0,
        1: 1,
        1_000: 1,
        3_999: 4,
        4_000: 4,
        4_001: None,
    }
    assert found[1] == OffsetAndTimestamp(1, base_ms + 1_000, found[1].leader_epoch)
    assert reader.offsets_for_times({empty: base_ms}) == {empty: None}
    assert reader.beginning_offsets([partition, empty]) == {partition: 0, empty: 0}
    assert reader.end_offsets([partition, empty]) == {partition: 5, empty: 0}


def test_no_offset_and_no_reset(consumer: MakeConsumer, make_topic: MakeTopic, produce: Produce, name: Name) -> None:
    topic = make_topic(1)
    produce(topic, 3)
    reader = consumer(name("group"), TopicPartition(topic, 0), auto_offset_reset="none")
    with pytest.raises(NoOffsetForPartitionError):
        wait_until(lambda: reader.poll(timeout_ms=100), "an error, not records")


def test_commits_that_are_refused(consumer: MakeConsumer, make_topic: MakeTopic, name: Name) -> None:
    partition = TopicPartition(make_topic(1), 0)
    reader = consumer(name("group"), partition)
    with pytest.raises(OffsetMetadataTooLargeError):
        reader.commit({partition: OffsetAndMetadata(1, "x" * 5_000, -1)}, timeout_ms=30_000)
    assert reader.committed(partition) is None
    reader.commit({partition: OffsetAndMetadata(1, "x" * 4_096, -1)})
    assert reader.committed(partition) == 1
    elsewhere = TopicPartition(name("never-created"), 0)
    sent = reader.commit_async({elsewhere: OffsetAndMetadata(1, "", -1)})
    wait_until(lambda: reader.poll(timeout_ms=50) or sent.is_done, "the answer to the commit")
    assert isinstance(sent.exception, UnknownTopicOrPartitionError)


def test_an_expelled_member_cannot_commit(
    admin: KafkaAdminClient, make_topic: MakeTopic, produce: Produce, member: MakeMember, name: Name
) -> None:
    """What it has read belongs to another member by then; it joins again as a new one and goes on."""
    from kafka.admin import MemberToRemove

    topic, group = make_topic(1), name("group")
    reader = member(group, topic, enable_auto_commit=False)
    wait_for_values([reader], produce(topic, 10))
    member_id = reader.member_id

    def expel_and_commit(consumer: KafkaConsumer) -> None:
        admin.remove_group_members(group, [MemberToRemove(member_id=member_id, reason="test")])
        consumer.commit(timeout_ms=30_000)

    with pytest.raises(CommitFailedError):
        reader.call(expel_and_commit)
    wait_for_members([reader], lambda: reader.member_id not in ("", member_id), "another member id")
    assert admin.list_group_offsets([group])[group] == {}


def test_small_fetches_still_make_progress(
    consumer: MakeConsumer, make_topic: MakeTopic, producer: KafkaProducer
) -> None:
    """Each batch is larger than the client asks for at a time: it comes all the same, one by one (KIP-74)."""
    topic = make_topic(2)
    written = [b"%d" % number * 5_000 for number in range(10)]
    for number, value in enumerate(written):
        producer.send(topic, value, partition=number % 2).get(timeout=10)
    reader = consumer(None, TopicPartition(topic, 0), TopicPartition(topic, 1), max_partition_fetch_bytes=1_000)
    assert sorted(values(read(reader, 10))) == sorted(written)
    reader = consumer(None, TopicPartition(topic, 0), TopicPartition(topic, 1), fetch_max_bytes=1_000)
    assert sorted(values(read(reader, 10))) == sorted(written)


def test_a_waiting_fetch_is_answered_by_a_new_record(
    consumer: MakeConsumer, make_topic: MakeTopic, produce: Produce
) -> None:
    """The fetch would wait for half a minute; the poll does not."""
    topic = make_topic(1)
    reader = consumer(None, TopicPartition(topic, 0), fetch_max_wait_ms=29_000)
    assert reader.poll(timeout_ms=500) == {}  # the fetch is under way
    written = produce(topic, 1)
    records: list[Any] = []
    wait_until(lambda: records.extend(polled(reader)) or records, "the record", timeout_s=20)
    assert values(records) == written


def test_the_offsets_topic_can_be_read(
    consumer: MakeConsumer, make_topic: MakeTopic, produce: Produce, name: Name
) -> None:
    """A commit is a record of `__consumer_offsets`, which any client may read."""
    topic, group = make_topic(1), name("group")
    produce(topic, 5)
    committer = consumer(group, TopicPartition(topic, 0))
    committer.commit({TopicPartition(topic, 0): OffsetAndMetadata(4, "noted", -1)})
    reader = consumer(None)
    wait_until(lambda: reader.partitions_for_topic("__consumer_offsets"), "its partitions")
    partitions = reader.partitions_for_topic("__consumer_offsets")
    assert len(partitions) == 50
    reader.assign([TopicPartition("__consumer_offsets", number) for number in partitions])
    found = []

    def commit_found() -> list[Any]:
        for record in polled(reader):
            key = decode_key(record.key)
            if isinstance(key, OffsetCommitKey) and key.group == group and record.value is not None:
                found.append((key, decode_value(key, record.value)))
        return found

    wait_until(commit_found, "the commit's record", timeout_s=PATIENCE_S)
    key, value = found[0]
    assert (key.topic, key.partition, value.offset, value.metadata) == (topic, 0, 4, "noted")
