"""ListOffsets and OffsetForLeaderEpoch."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from coordinatord.broker.log import times
from coordinatord.broker.log.disk import FilePool
from coordinatord.broker.topics import offsets
from coordinatord.transport.net.cooperative_tasks import CooperativeTask, TaskSteps, run_through
from kafka_wire.api.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kafka_wire.api.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kafka_wire.api.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kafka_wire.errors import ErrorCode
from kafka_wire.records.batch import BatchBuilder, BatchHeader, Buffer
from kafka_wire.records.compression import Compression
from tests.broker.topics.world import START_MS, Context, World, batch, produce


@pytest.fixture
def world() -> World:
    """Offsets 0 and 1 at START_MS, 2 at +20, 3 at +10; partition 1 is empty."""
    made = World()
    made.create("orders", 2)
    made.produce("orders", batch(b"a", b"b"))
    made.produce("orders", batch(b"c", timestamp_ms=START_MS + 20))
    made.produce("orders", batch(b"d", timestamp_ms=START_MS + 10))
    return made


def find(
    world: World,
    timestamp: int,
    *,
    partition: int = 0,
    version: int = 11,
    topic: str = "orders",
    epoch: int = -1,
    replica_id: int = -1,
) -> tuple[int, int, int, int]:
    """(error, timestamp, offset, leader epoch)"""
    asked = ListOffsetsTopic(topic, [ListOffsetsPartition(partition, epoch, timestamp)])
    response = world.call(2, version, ListOffsetsRequest(replica_id, 0, [asked]))
    [found] = response.topics[0].partitions
    assert found.partition_index == partition
    return found.error_code, found.timestamp, found.offset, found.leader_epoch


@pytest.mark.parametrize("version", range(1, 12))
def test_both_ends(world: World, version: int) -> None:
    epoch = 0 if version >= 4 else -1
    assert find(world, -1, version=version) == (0, -1, 4, epoch)
    assert find(world, -2, version=version) == (0, -1, 0, epoch)
    assert find(world, -1, version=version, partition=1) == (0, -1, 0, epoch)


@pytest.mark.parametrize(
    ("timestamp", "found"),
    [
        (0, (0, START_MS, 0, 0)),
        (START_MS, (0, START_MS, 0, 0)),
        (START_MS + 1, (0, START_MS + 20, 2, 0)),
        (START_MS + 20, (0, START_MS + 20, 2, 0)),
        (START_MS + 21, (0, -1, -1, -1)),
    ],
)
def test_by_timestamp(world: World, timestamp: int, found: tuple[int, int, int, int]) -> None:
    assert find(world, timestamp) == found


def test_the_special_timestamps(world: World) -> None:
    assert find(world, -3) == (0, START_MS + 20, 2, 0)
    assert find(world, -3, partition=1) == (0, -1, -1, -1)
    assert find(world, -4) == (0, -1, 0, 0)
    assert find(world, -5) == (0, -1, -1, -1)
    assert find(world, -6) == (0, -1, -1, -1)


@pytest.mark.parametrize(("timestamp", "version"), [(-3, 6), (-4, 7), (-5, 8), (-6, 10), (-7, 11), (-100, 11)])
def test_timestamps_before_their_version(world: World, timestamp: int, version: int) -> None:
    assert find(world, timestamp, version=version) == (ErrorCode.UNSUPPORTED_VERSION, -1, -1, -1)


def test_errors(world: World) -> None:
    assert find(world, -1, topic="missing")[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert find(world, -1, partition=2)[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert find(world, -1, epoch=1)[0] == ErrorCode.UNKNOWN_LEADER_EPOCH
    twice = ListOffsetsTopic("orders", [ListOffsetsPartition(0, -1, -1), ListOffsetsPartition(0, -1, -2)])
    response = world.call(2, 11, ListOffsetsRequest(-1, 0, [twice]))
    assert [found.error_code for found in response.topics[0].partitions] == [ErrorCode.INVALID_REQUEST]


def test_consumers_see_what_is_durable(world: World) -> None:
    world.send(0, 9, produce("orders", batch(b"e", timestamp_ms=START_MS + 99)))
    ends = []
    for replica_id in (-1, -2):
        asked = ListOffsetsTopic("orders", [ListOffsetsPartition(0, -1, -1)])
        context = world.send(2, 11, ListOffsetsRequest(replica_id, 0, [asked]))
        ends.append(context.response.topics[0].partitions[0].offset)
    assert ends == [4, 5]


def end_of_epoch(world: World, leader_epoch: int, *, current: int = -1, partition: int = 0) -> tuple[int, int, int]:
    """(error, leader epoch, end offset)"""
    asked = OffsetForLeaderTopic("orders", [OffsetForLeaderPartition(partition, current, leader_epoch)])
    response = world.call(23, 4, OffsetForLeaderEpochRequest(-1, [asked]))
    [found] = response.topics[0].partitions
    assert found.partition == partition
    return found.error_code, found.leader_epoch, found.end_offset


def test_the_end_of_an_epoch(world: World) -> None:
    assert end_of_epoch(world, 0) == (0, 0, 4)
    assert end_of_epoch(world, 0, current=0) == (0, 0, 4)
    assert end_of_epoch(world, 1) == (0, -1, -1)
    assert end_of_epoch(world, -1) == (0, -1, -1)
    assert end_of_epoch(world, 0, current=1) == (ErrorCode.UNKNOWN_LEADER_EPOCH, -1, -1)
    assert end_of_epoch(world, 0, partition=2) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)


def lookup(world: World, *timestamps: int, version: int = 11) -> TaskSteps:
    """The steps of a request for partition 0, once for each topic."""
    topics = [ListOffsetsTopic("orders", [ListOffsetsPartition(0, -1, each)]) for each in timestamps]
    slices = world.handlers[2](Context(world, 2, version), ListOffsetsRequest(-1, 0, topics))
    assert isinstance(slices, CooperativeTask), "the log is read on the event loop"
    return slices.steps


def test_the_log_is_read_on_another_thread(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the event loop's thread does reads no file."""
    for timestamp in (0, START_MS, -3):
        steps = lookup(world, timestamp)
        with monkeypatch.context() as patched:
            patched.setattr(type(world.disk), "open", refuse)
            patched.setattr(FilePool, "get", refuse)
            while (job := next(steps)) is None:
                pass
        assert callable(job)
        assert not job()
        assert run_through(steps).topics[0].partitions[0].error_code == 0


def refuse(*_arguments: object, **_named: object) -> None:
    raise AssertionError("a file is read")


def test_a_batch_is_decompressed_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lookups of other times in it read it no more."""
    read: list[int] = []
    section_of = times.record_section

    def counted(data: bytes, pos: int, header: BatchHeader) -> Buffer:
        read.append(header.base_offset)
        return section_of(data, pos, header)

    monkeypatch.setattr(times, "record_section", counted)
    builder = BatchBuilder()
    for number in range(30):
        builder.add(None, bytes(10_000), START_MS + 100 + number // 2 - number % 3)
    world.produce("orders", bytes(builder.finish(compression=Compression.ZSTD)))
    told = [START_MS + 100 + number // 2 - number % 3 for number in range(30)]
    for timestamp in range(START_MS + 21, max(told) + 1):
        offset = next(at for at, time in enumerate(told) if time >= timestamp)
        assert find(world, timestamp) == (0, told[offset], 4 + offset, 0)
    assert find(world, -3) == (0, max(told), 4 + told.index(max(told)), 0)
    assert read == [4]
    world.call(21, 2, DeleteRecordsRequest([DeleteRecordsTopic("orders", [DeleteRecordsPartition(0, 10)])], 1_000))
    assert find(world, 0) == (0, told[6], 10, 0)
    assert read == [4, 4], "what is remembered begins before the log's start"


def test_the_greatest_time_of_deleted_records_reads_little(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kafka's answers are in the story list_offsets_of_deleted_records."""
    world.produce("orders", batch(b"z", timestamp_ms=START_MS + 500))
    for _ in range(300):
        world.produce("orders", batch(bytes(100)))
    world.call(21, 2, DeleteRecordsRequest([DeleteRecordsTopic("orders", [DeleteRecordsPartition(0, 200)])], 1_000))
    walked = count_headers(monkeypatch)
    assert find(world, -3) == (0, START_MS + 500, 4, 0)
    assert len(walked) < 60, "some kilobytes"


def test_the_greatest_time_that_is_written_while_a_greater_one_is_not(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(300):
        world.produce("orders", batch(bytes(100), timestamp_ms=START_MS + 100 + (number == 150)))
    world.send(0, 9, produce("orders", batch(b"e", timestamp_ms=START_MS + 999)))
    walked = count_headers(monkeypatch)
    assert find(world, -3) == (0, START_MS + 101, 154, 0)
    assert len(walked) < 120, "some kilobytes"


def count_headers(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The positions of the headers that are read from now on."""
    walked: list[int] = []
    walk = times.walk

    def counted(*arguments: Any) -> Iterator[tuple[int, BatchHeader]]:
        for position, header in walk(*arguments):
            walked.append(position)
            yield position, header

    monkeypatch.setattr(times, "walk", counted)
    return walked


def test_a_lookup_pauses(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it reads many headers, jobs of other requests have their turn."""
    for number in range(400):
        world.produce("orders", batch(b"", timestamp_ms=START_MS - number))
    world.produce("orders", batch(b"", timestamp_ms=START_MS + 21))
    monkeypatch.setattr(offsets, "BACKGROUND_SLICE_S", 0.0)
    monkeypatch.setattr(times, "SLICE_ITEMS", 100)
    steps = lookup(world, START_MS + 21)
    jobs = 0
    step = next(steps)
    with contextlib.suppress(StopIteration):
        while True:
            jobs += step is not None
            step = steps.send(None if step is None else step())  # type: ignore[operator]
    assert jobs >= 4


def test_files_that_go_meanwhile(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lookup begins again, and says so in the end if that does not help."""
    steps = lookup(world, 0)
    while (job := next(steps)) is None:
        pass
    assert callable(job)
    opened = type(world.disk).open
    with monkeypatch.context() as patched:
        patched.setattr(type(world.disk), "open", gone)
        job()
    assert run_through(steps).topics[0].partitions[0].offset == 0
    with monkeypatch.context() as patched:
        patched.setattr(type(world.disk), "open", gone)
        assert find(world, 0)[0] == ErrorCode.KAFKA_STORAGE_ERROR
    assert type(world.disk).open is opened


def gone(*_arguments: object, **_named: object) -> None:
    raise FileNotFoundError("it is gone")
