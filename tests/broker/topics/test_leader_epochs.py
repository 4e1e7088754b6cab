"""What clients are told of leader epochs after records may have been lost (KIP-320).

The log has offsets 0 to 4 of epoch 0, of which a client may have read ten, and 5 to 12 of epoch 1.
"""

from __future__ import annotations

import pytest

from kafka_wire.api.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kafka_wire.api.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from kafka_wire.api.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from kafka_wire.api.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kafka_wire.api.metadata import MetadataRequest, MetadataRequestTopic
from kafka_wire.api.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kafka_wire.errors import ErrorCode
from kafka_wire.records.batch import iterate_batches
from tests.broker.topics.world import START_MS, World, batch

MIB = 1 << 20
NONE, FENCED, UNKNOWN = ErrorCode.NONE, ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH
OUT_OF_RANGE = ErrorCode.OFFSET_OUT_OF_RANGE
NO_EPOCH = -1, -1


@pytest.fixture
def world() -> World:
    made = World()
    made.create("orders", 1)
    for number in range(5):
        made.produce("orders", batch(b"%d" % number, timestamp_ms=START_MS + number))
    made.crash()
    made.open()
    for number in range(5, 13):
        made.produce("orders", batch(b"%d" % number, timestamp_ms=START_MS + number))
    return made


def fetched(world: World, offset: int, *, last: int = -1, current: int = -1, **fields: int) -> PartitionData:
    partition = FetchPartition(0, current, offset, last, partition_max_bytes=MIB)
    request = FetchRequest(
        max_wait_ms=500, min_bytes=1, max_bytes=MIB, topics=[FetchTopic("orders", bytes(16), [partition])]
    )
    for name, value in fields.items():
        setattr(request, name, value)
    context = world.send(1, 12, request)
    assert context.response is not None, "the answer waits"
    [data] = context.response.responses[0].partitions
    assert isinstance(data, PartitionData)
    return data


def test_batches_have_the_epoch_of_their_leader(world: World) -> None:
    found = {header.base_offset: header.leader_epoch for _, header in iterate_batches(fetched(world, 0).records or b"")}
    assert found == dict.fromkeys(range(5), 0) | dict.fromkeys(range(5, 13), 1)


@pytest.mark.parametrize(
    ("offset", "last", "error", "diverging"),
    [
        (10, 0, NONE, (0, 5)),  # it has read what was lost
        (14, 0, NONE, (0, 5)),  # beyond the end, too
        (6, 0, NONE, (0, 5)),
        (5, 0, NONE, NO_EPOCH),
        (0, 0, NONE, NO_EPOCH),
        (12, 1, NONE, NO_EPOCH),
        (14, 1, NONE, (1, 13)),
        (5, 2, OUT_OF_RANGE, NO_EPOCH),  # there was no such epoch
        (14, -1, OUT_OF_RANGE, NO_EPOCH),
    ],
)
def test_a_fetch_after_records_that_were_lost(
    world: World, offset: int, last: int, error: ErrorCode, diverging: tuple[int, int]
) -> None:
    data = fetched(world, offset, last=last)
    assert (data.error_code, data.diverging_epoch.epoch, data.diverging_epoch.end_offset) == (error, *diverging)
    has_records = error is NONE and diverging == NO_EPOCH
    assert bool(data.records) is has_records
    if not has_records and error is NONE:
        assert (data.high_watermark, data.last_stable_offset, data.log_start_offset) == (13, 13, 0)
        assert data.aborted_transactions is None


def test_an_epoch_whose_records_were_deleted(world: World) -> None:
    request = DeleteRecordsRequest([DeleteRecordsTopic("orders", [DeleteRecordsPartition(0, 7)])], 1000)
    world.call(21, 2, request)
    assert [fetched(world, offset, last=0).error_code for offset in (5, 6, 7)] == [OUT_OF_RANGE, OUT_OF_RANGE, NONE]
    assert found_at(world, -2) == (NONE, 7, 1)
    assert end_of(world, 0) == (NONE, 0, 7)


@pytest.mark.parametrize(("current", "error"), [(-1, NONE), (0, FENCED), (1, NONE), (2, UNKNOWN)])
def test_the_epoch_that_a_client_believes_in(world: World, current: int, error: ErrorCode) -> None:
    assert fetched(world, 0, current=current).error_code == error
    assert found_at(world, -1, current=current)[0] == error
    assert end_of(world, 0, current=current)[0] == error


def test_a_diverging_partition_is_news_of_a_session(world: World) -> None:
    """An incremental fetch names it, though nothing else has changed."""
    request = FetchRequest(
        max_wait_ms=0,
        max_bytes=MIB,
        session_epoch=0,
        topics=[FetchTopic("orders", bytes(16), [FetchPartition(0, -1, 13, 1)])],
    )
    session_id = world.call(1, 12, request).session_id
    assert session_id
    again = fetched(world, 10, last=0, session_id=session_id, session_epoch=1)
    assert (again.diverging_epoch.epoch, again.diverging_epoch.end_offset) == (0, 5)


def found_at(world: World, timestamp: int, *, current: int = -1) -> tuple[int, int, int]:
    """(error, offset, leader epoch)"""
    asked = ListOffsetsTopic("orders", [ListOffsetsPartition(0, current, timestamp)])
    [found] = world.call(2, 9, ListOffsetsRequest(-1, 0, [asked])).topics[0].partitions
    return found.error_code, found.offset, found.leader_epoch


@pytest.mark.parametrize(
    ("timestamp", "offset", "epoch"),
    [(-2, 0, 0), (-4, 0, 0), (-1, 13, 1), (-3, 12, 1), (START_MS + 4, 4, 0), (START_MS + 5, 5, 1)],
)
def test_offsets_have_the_epoch_of_their_records(world: World, timestamp: int, offset: int, epoch: int) -> None:
    assert found_at(world, timestamp) == (NONE, offset, epoch)


def end_of(world: World, epoch: int, *, current: int = -1) -> tuple[int, int, int]:
    """(error, leader epoch, end offset)"""
    asked = OffsetForLeaderTopic("orders", [OffsetForLeaderPartition(0, current, epoch)])
    [found] = world.call(23, 4, OffsetForLeaderEpochRequest(-1, [asked])).topics[0].partitions
    return found.error_code, found.leader_epoch, found.end_offset


@pytest.mark.parametrize(("epoch", "found"), [(0, (0, 5)), (1, (1, 13)), (2, NO_EPOCH), (-1, NO_EPOCH)])
def test_where_an_epoch_ended(world: World, epoch: int, found: tuple[int, int]) -> None:
    assert end_of(world, epoch) == (NONE, *found)


def test_an_epoch_without_records(world: World) -> None:
    """It is the current one from the start on, as on Kafka."""
    world.crash()
    world.open()
    assert [end_of(world, epoch)[1:] for epoch in range(4)] == [(0, 5), (1, 13), (2, 13), NO_EPOCH]
    assert found_at(world, -1) == (NONE, 13, 2)
    assert found_at(world, -3) == (NONE, 12, 1)
    assert fetched(world, 14, last=1).diverging_epoch.end_offset == 13


def test_metadata_has_the_current_epoch(world: World) -> None:
    [topic] = world.call(3, 12, MetadataRequest([MetadataRequestTopic(name="orders")])).topics
    assert topic.partitions[0].leader_epoch == 1
    [described] = world.call(75, 0, DescribeTopicPartitionsRequest([TopicRequest("orders")])).topics
    assert described.partitions[0].leader_epoch == 1
