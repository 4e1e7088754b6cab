"""The APIs of the share coordinator, keys 83 to 87, through their codecs."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_wire.api import delete_share_group_state as delete
from kafka_wire.api import initialize_share_group_state as initialize
from kafka_wire.api import read_share_group_state as read
from kafka_wire.api import read_share_group_state_summary as summary
from kafka_wire.api import write_share_group_state as write
from kafka_wire.errors import ErrorCode, message_of
from tests.coordination.share.coordinator.world import World

INITIALIZE, READ, WRITE, DELETE, SUMMARY = 83, 84, 85, 86, 87
OTHER_TOPIC = bytes(15) + b"\x07"


def initializing(topic_id: bytes, *partitions: int, group: str = "g", epoch: int = 1, start: int = -1) -> Any:
    parts = [initialize.PartitionData(each, epoch, start) for each in partitions]
    return initialize.InitializeShareGroupStateRequest(group, [initialize.InitializeStateData(topic_id, parts)])


def reading(topic_id: bytes, *partitions: int, leader_epoch: int = 5) -> Any:
    parts = [read.PartitionData(each, leader_epoch) for each in partitions]
    return read.ReadShareGroupStateRequest("g", [read.ReadStateData(topic_id, parts)])


def writing(topic_id: bytes, partition: int, *batches: tuple[int, int, int, int], complete: int = 0) -> Any:
    stored = [write.StateBatch(*each) for each in batches]
    parts = [write.PartitionData(partition, 1, 5, 10, complete, stored)]
    return write.WriteShareGroupStateRequest("g", [write.WriteStateData(topic_id, parts)])


def deleting(topic_id: bytes, *partitions: int) -> Any:
    parts = [delete.PartitionData(each) for each in partitions]
    return delete.DeleteShareGroupStateRequest("g", [delete.DeleteStateData(topic_id, parts)])


def summarizing(topic_id: bytes, *partitions: int) -> Any:
    parts = [summary.PartitionData(each, -1) for each in partitions]
    return summary.ReadShareGroupStateSummaryRequest("g", [summary.ReadStateSummaryData(topic_id, parts)])


MAKERS: dict[int, Any] = {
    INITIALIZE: initializing,
    READ: reading,
    DELETE: deleting,
    SUMMARY: summarizing,
    WRITE: writing,
}


def served() -> World:
    world = World()
    world.share.partitions.ensure()
    return world


def test_the_life_of_a_state() -> None:
    world = served()
    topic = world.topic_id
    assert world.call(INITIALIZE, 0, initializing(topic, 0, 1, start=10)).results == [
        initialize.InitializeStateResult(topic, [initialize.PartitionResult(0), initialize.PartitionResult(1)])
    ]
    assert world.call(READ, 0, reading(topic, 0)).results == [
        read.ReadStateResult(topic, [read.PartitionResult(0, 0, None, 1, 10, [])])
    ]
    assert world.call(WRITE, 1, writing(topic, 0, (10, 19, 0, 1), (12, 13, 2, 1), complete=2)).results == [
        write.WriteStateResult(topic, [write.PartitionResult(0)])
    ]
    batches = [read.StateBatch(10, 11, 0, 1), read.StateBatch(12, 13, 2, 1), read.StateBatch(14, 19, 0, 1)]
    assert world.call(READ, 0, reading(topic, 0)).results == [
        read.ReadStateResult(topic, [read.PartitionResult(0, 0, None, 1, 10, batches)])
    ]
    assert world.call(SUMMARY, 1, summarizing(topic, 0, 2)).results == [
        summary.ReadStateSummaryResult(
            topic,
            [summary.PartitionResult(0, 0, None, 1, 5, 10, 2), summary.PartitionResult(2, 0, None, 0, 0, -1, -1)],
        )
    ]
    assert world.call(DELETE, 0, deleting(topic, 0, 1, 2)).results == [
        delete.DeleteStateResult(topic, [delete.PartitionResult(each) for each in range(3)])
    ]
    assert world.call(SUMMARY, 0, summarizing(topic, 0)).results[0].partitions[0].start_offset == -1


@pytest.mark.parametrize("version", [0, 1])
def test_versions_without_the_delivery_complete_count(version: int) -> None:
    world = served()
    world.call(INITIALIZE, 0, initializing(world.topic_id, 0, start=0))
    world.call(WRITE, version, writing(world.topic_id, 0, complete=7))
    found = world.call(SUMMARY, 1, summarizing(world.topic_id, 0)).results[0].partitions[0]
    assert found.delivery_complete_count == (7 if version else -1)


def test_each_partition_has_its_own_error() -> None:
    world = served()
    world.call(INITIALIZE, 0, initializing(world.topic_id, 0, epoch=3))
    result = world.call(INITIALIZE, 0, initializing(world.topic_id, 0, 1, 3, -1, epoch=2)).results[0]
    assert [(each.partition, each.error_code) for each in result.partitions] == [
        (0, ErrorCode.FENCED_STATE_EPOCH),
        (1, ErrorCode.NONE),
        (3, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (-1, ErrorCode.INVALID_REQUEST),
    ]
    [failed] = world.call(SUMMARY, 0, summarizing(OTHER_TOPIC, 0)).results
    assert failed.topic_id == OTHER_TOPIC
    assert failed.partitions == [
        summary.PartitionResult(
            0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message_of(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        )
    ]


def test_a_partition_named_twice_has_one_result_the_last() -> None:
    world = served()
    request = initializing(world.topic_id, 0, 0, epoch=3)
    request.topics[0].partitions[1].state_epoch = 2
    [result] = world.call(INITIALIZE, 0, request).results
    assert [each.error_code for each in result.partitions] == [ErrorCode.FENCED_STATE_EPOCH]


@pytest.mark.parametrize("api_key", [INITIALIZE, READ, WRITE, DELETE, SUMMARY])
def test_requests_about_nothing(api_key: int) -> None:
    world = served()
    request = MAKERS[api_key](world.topic_id, 0)
    request.group_id = ""
    assert world.call(api_key, 0, request).results == []
    request.group_id, request.topics[0].partitions = "g", []
    assert world.call(api_key, 0, request).results == []
    request.topics = []
    assert world.call(api_key, 0, request).results == []


@pytest.mark.parametrize("api_key", [READ, WRITE, DELETE, SUMMARY])
def test_a_topic_without_partitions_empties_the_request(api_key: int) -> None:
    world = served()
    request = MAKERS[api_key](world.topic_id, 0)
    request.topics += MAKERS[api_key](OTHER_TOPIC, 0).topics
    request.topics[1].partitions = []
    assert world.call(api_key, 0, request).results == []


def test_an_initialization_skips_a_topic_without_partitions() -> None:
    world = served()
    request = initializing(world.topic_id, 0)
    request.topics += initializing(OTHER_TOPIC).topics
    assert [each.topic_id for each in world.call(INITIALIZE, 0, request).results] == [world.topic_id]


@pytest.mark.parametrize(
    ("api_key", "what"),
    [(INITIALIZE, "initialize"), (READ, "read"), (WRITE, "write"), (DELETE, "delete"), (SUMMARY, "read")],
)
def test_no_topic_is_created(api_key: int, what: str) -> None:
    """Brokers ask for the coordinator first, which creates it."""
    world = World()
    [result] = world.call(api_key, 0, MAKERS[api_key](world.topic_id, 0)).results
    [partition] = result.partitions
    assert partition.error_code == ErrorCode.NOT_COORDINATOR
    suffix = " summary" if api_key == SUMMARY else ""
    assert partition.error_message == (
        f"Unable to {what} share group state{suffix}: {message_of(ErrorCode.NOT_COORDINATOR)}"
    )
    assert not world.share.partitions


def test_a_response_waits_for_the_log() -> None:
    world = served()
    context = world.send(INITIALIZE, 0, initializing(world.topic_id, 0))
    assert context.answers == 0
    world.settle()
    assert context.answers == 1


def test_a_failed_log() -> None:
    world = served()
    world.disk.datasyncs_left = 0
    context = world.send(INITIALIZE, 0, initializing(world.topic_id, 0))
    world.settle()
    assert context.response.results[0].partitions[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    found = world.call(INITIALIZE, 0, initializing(world.topic_id, 1)).results[0].partitions[0]
    assert found.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
