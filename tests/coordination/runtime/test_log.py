"""What a coordinator may rely on, whatever keeps its log (coordinatord/coordination/runtime/log.py). Here it is the
topics' own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from coordinatord.broker.log import LogFailed
from coordinatord.broker.log.simulated_disk import SimulatedDisk
from coordinatord.broker.topics.names import OFFSETS_TOPIC, TRANSACTION_TOPIC
from coordinatord.coordination.runtime.log import Log
from coordinatord.coordination.runtime.topic_log import TopicLog
from coordinatord.server.fastpath.commit_shape import CommitShape, ShapedRecords
from kafka_wire.api.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kafka_wire.codecs import encode_message
from kafka_wire.records.batch import Bodies, KeyValues, Records, record_body
from tests.broker.topics.world import START_MS, World

NOW = START_MS + 7
PRODUCER = 4711, 3

Contents = list[tuple[int, bytes | None, bytes | None]]


def shaped() -> tuple[Records, int]:
    partitions = [OffsetCommitRequestPartition(index, 5, 0, "") for index in range(3)]
    request = OffsetCommitRequest("g", 1, "m", topics=[OffsetCommitRequestTopic("orders", partitions=partitions)])
    body = encode_message(request, 8)
    shape = CommitShape(request, 8)
    numbers = shape.numbers(body, 0, len(body))
    assert numbers is not None
    return ShapedRecords(shape, numbers), 3


def opened(**settings: Any) -> tuple[World, Log]:
    world = World(offsets_topic_num_partitions=3, **settings)
    return world, TopicLog(OFFSETS_TOPIC, world.topics.transactional, world.writer)


def contents(log: Log, partition: int = 0) -> Contents:
    return [record[1:] for batch in log.read(partition) if batch.control is None for record in batch.records]


def pair(name: bytes, value: bytes | None = b"v") -> KeyValues:
    return KeyValues([(name, value)])


def test_records_come_back_in_order_whatever_form_they_had() -> None:
    world, log = opened()
    commit, many = shaped()
    log.append(1, KeyValues([(b"a", b"1"), (b"b", None)]), NOW)
    log.append(1, Bodies([record_body(b"c", b"3")]), NOW)
    log.append(1, commit, NOW)
    log.append(0, pair(b"elsewhere"), NOW)
    assert contents(log, 1) == [], "nothing of it is durable"
    world.settle()
    found = contents(log, 1)
    assert found[:3] == [(NOW, b"a", b"1"), (NOW, b"b", None), (NOW, b"c", b"3")]
    assert len(found) == 3 + many == 3 + commit.count
    assert contents(log) == [(NOW, b"elsewhere", b"v")]
    assert (log.size_bytes(0) > 0, log.size_bytes(2)) == (True, 0)
    *_, last = log.read(1)
    assert last.bytes_read == log.size_bytes(1)


def test_what_a_transaction_writes_says_so_and_its_partition_knows_the_producer() -> None:
    world, log = opened()
    epoch = log.append(0, pair(b"a"), NOW, PRODUCER)
    world.settle()
    [batch] = log.read(0)
    assert (batch.header.producer_id, batch.header.producer_epoch, batch.header.is_transactional) == (*PRODUCER, True)
    assert batch.header.max_timestamp == NOW
    found = world.topics.transactional.find(OFFSETS_TOPIC, 0)
    assert found is not None
    assert found.producers.is_in_transaction(*PRODUCER)
    assert found.last_epoch == epoch


def test_epochs_rise_over_all_partitions_and_logs_and_holds_are_called_in_order() -> None:
    world, log = opened()
    world.topics.create_internal("__transaction_state")
    other = TopicLog(TRANSACTION_TOPIC, world.topics.transactional, world.writer)
    assert other.gate is log.gate
    told: list[tuple[str, int]] = []

    def tell(what: str, epoch: int) -> Callable[[], object]:
        def call() -> None:
            assert log.gate.flushed_epoch >= epoch, "it says so before anybody is called"
            told.append((what, epoch))

        return call

    epochs = []
    for turn in range(3):
        for name, into in (("offsets", log), ("transactions", other)):
            epoch = into.append(turn, pair(b"k%d" % turn), NOW, PRODUCER if turn == 1 else None)
            epochs.append(epoch)
            log.gate.hold(epoch, tell(name, epoch))
        world.loop.turn()
    assert epochs == sorted(epochs)
    assert told == []
    world.settle()
    assert [epoch for _, epoch in told] == epochs
    assert [what for what, _ in told] == ["offsets", "transactions"] * 3
    log.gate.hold(epochs[-1], tell("at once", epochs[-1]))
    assert told[-1] == ("at once", epochs[-1])


def test_records_of_one_append_survive_together() -> None:
    survived = set()
    for seed in range(30):
        world, log = opened(disk=SimulatedDisk(seed))
        log.append(0, pair(b"before"), NOW)
        world.settle()
        log.append(0, KeyValues([(b"k%d" % number, bytes(30)) for number in range(10)]), NOW)
        world.disk.datasyncs_left = 0
        world.settle()
        world.disk.datasyncs_left = None
        world.crash("power")
        world.open()
        again = TopicLog(OFFSETS_TOPIC, world.topics.transactional, world.writer)
        survived.add(len(contents(again)))
    assert survived == {1, 11}


def test_offsets_are_known_before_the_append_and_records_before_one_can_be_deleted() -> None:
    world, log = opened()
    offsets = []
    for name in (b"a", b"b", b"c"):
        offsets.append(log.end_offset(0))
        log.append(0, pair(name), NOW)
    assert offsets == [0, 1, 2]
    world.settle()
    epoch = log.delete_before(0, 2)
    world.settle()
    assert log.gate.flushed_epoch >= epoch
    found = world.topics.transactional.find(OFFSETS_TOPIC, 0)
    assert found is not None
    assert (found.log.log_start_offset, log.end_offset(0), log.end_offset(1)) == (2, 3, 0)
    log.append(0, pair(b"d"), NOW)
    log.delete_before(0, 4)
    assert found.log.log_start_offset == 3, "only what is durable is deleted"
    world.stop()
    world.open()
    found = world.topics.transactional.find(OFFSETS_TOPIC, 0)
    assert found is not None
    assert found.log.log_start_offset == 3


def test_the_first_failure_is_the_end() -> None:
    world, log = opened()
    log.append(0, pair(b"durable"), NOW)
    world.settle()
    flushed = log.gate.flushed_epoch
    world.disk.datasyncs_left = 0
    told: list[str] = []
    epoch = log.append(0, pair(b"lost"), NOW)
    log.gate.hold(epoch, lambda: told.append("durable"), lambda: told.append("failed"))
    log.gate.hold(epoch, lambda: told.append("durable"))
    world.settle()
    assert told == ["failed"]
    for producer in (None, PRODUCER):
        with pytest.raises(LogFailed):
            log.append(1, pair(b"more"), NOW, producer)
    log.gate.hold(epoch, lambda: told.append("durable"), lambda: told.append("failed at once"))
    assert told[1:] == ["failed at once"]
    assert log.gate.flushed_epoch == flushed
    assert contents(log) == [(NOW, b"durable", b"v")]


def test_reading_ends_where_the_log_ended_when_it_began() -> None:
    world, log = opened()
    log.append(0, pair(b"a"), NOW)
    world.settle()
    seen = 0
    for _ in log.read(0):
        seen += 1
        log.append(0, pair(b"b"), NOW)
        world.settle()
    assert seen == 1


def test_a_topic_may_be_made_later() -> None:
    world, _ = opened(transaction_state_log_num_partitions=2)
    log = TopicLog(TRANSACTION_TOPIC, world.topics.transactional, world.writer)
    with pytest.raises(AssertionError, match="has all its partitions"):
        log.append(0, pair(b"a"), NOW)
    world.topics.create_internal("__transaction_state")
    log.append(1, pair(b"a"), NOW)
    world.settle()
    assert contents(log, 1) == [(NOW, b"a", b"v")]
