"""ListOffsets and OffsetForLeaderEpoch."""

from __future__ import annotations

import pytest

from kafka_wire.api.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kafka_wire.api.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kafka_wire.errors import ErrorCode
from tests.topics.world import START_MS, World, batch, produce


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
