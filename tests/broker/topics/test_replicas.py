"""DescribeLogDirs, ElectLeaders, ListPartitionReassignments, ListConfigResources: of each partition one replica."""

from __future__ import annotations

import pytest

from coordinatord.broker.log.simulated_disk import SimulatedDisk
from coordinatord.broker.topics.config_apis import BROKER, CLIENT_METRICS, GROUP, TOPIC
from kafka_wire.api.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest, DescribeLogDirsResult
from kafka_wire.api.elect_leaders import ElectLeadersRequest, TopicPartitions
from kafka_wire.api.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kafka_wire.api.list_config_resources import ListConfigResourcesRequest
from kafka_wire.api.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from kafka_wire.errors import ErrorCode
from tests.broker.topics.world import PATH, World, batch


@pytest.fixture
def world() -> World:
    return World(auto_create_topics_enable=False, offsets_topic_num_partitions=2, node_id=3)


def described(world: World, version: int, topics: dict[str, list[int]] | None = None) -> DescribeLogDirsResult:
    asked = None if topics is None else [DescribableLogDirTopic(name, indexes) for name, indexes in topics.items()]
    response = world.call(35, version, DescribeLogDirsRequest(asked))
    assert response.error_code == 0
    [result] = response.results
    assert isinstance(result, DescribeLogDirsResult)
    return result


def sizes(result: DescribeLogDirsResult) -> dict[str, dict[int, int]]:
    topics = {topic.name: topic.partitions for topic in result.topics}
    return {name: {each.partition_index: each.partition_size for each in of} for name, of in topics.items()}


@pytest.mark.parametrize("version", range(1, 6))
def test_the_directory_tells_the_size_of_each_partition(version: int) -> None:
    disk = SimulatedDisk(capacity=1_000_000)
    world = World(disk, offsets_topic_num_partitions=2)
    world.create("orders", 2)
    written = batch(b"value")
    world.produce("orders", written, 1)
    world.produce("orders", written, 1)
    result = described(world, version)
    assert (result.error_code, result.log_dir, result.is_cordoned) == (0, PATH, False)
    assert sizes(result) == {"__consumer_offsets": {0: 0, 1: 0}, "orders": {0: 0, 1: 2 * len(written)}}
    assert not any(each.offset_lag or each.is_future_key for topic in result.topics for each in topic.partitions)
    room = (1_000_000, 1_000_000 - disk.used()) if version >= 4 else (-1, -1)
    assert (result.total_bytes, result.usable_bytes) == room


def test_some_partitions_and_those_that_are_not_there(world: World) -> None:
    world.create("orders", 3)
    assert sizes(described(world, 5, {"orders": [2, 0, 2, 9], "missing": [0]})) == {"orders": {0: 0, 2: 0}}
    assert sizes(described(world, 5, {"orders": [9]})) == {}
    assert sizes(described(world, 5, {})) == {}


def test_a_disk_that_fails(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def space(_path: str) -> tuple[int, int]:
        raise OSError

    monkeypatch.setattr(world.disk, "space", space)
    result = described(world, 4)
    assert (result.error_code, result.topics) == (ErrorCode.KAFKA_STORAGE_ERROR, [])
    assert sizes(described(world, 3)) == {"__consumer_offsets": {0: 0, 1: 0}}


@pytest.mark.parametrize("version", range(3))
def test_no_election_is_needed(world: World, version: int) -> None:
    world.create("orders")
    asked = [TopicPartitions("orders", [0, 1]), TopicPartitions("missing", [0])]
    for kind in (0, 1) if version else (0,):
        response = world.call(43, version, ElectLeadersRequest(kind, asked))
        assert response.error_code == 0
        results = {each.topic: each.partition_result for each in response.replica_election_results}
        told = {topic: [(each.partition_id, each.error_code) for each in of] for topic, of in results.items()}
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert told == {"orders": [(0, ErrorCode.ELECTION_NOT_NEEDED), (1, unknown)], "missing": [(0, unknown)]}
    response = world.call(43, version, ElectLeadersRequest(0, None))
    told = {each.topic: each.partition_result for each in response.replica_election_results}
    assert told == {"__consumer_offsets": [], "orders": []}


def test_an_election_of_a_kind_that_is_not_known(world: World) -> None:
    world.create("orders")
    response = world.call(43, 2, ElectLeadersRequest(7, [TopicPartitions("orders", [0])]))
    assert response.error_code == ErrorCode.INVALID_REQUEST
    [[result]] = [each.partition_result for each in response.replica_election_results]
    assert (result.error_code, result.error_message) == (ErrorCode.INVALID_REQUEST, "Unknown election type 7")


def test_nothing_is_being_moved(world: World) -> None:
    world.create("orders")
    some = [ListPartitionReassignmentsTopics(name, [0]) for name in ("orders", "missing")]
    for topics in (None, some):
        response = world.call(46, 0, ListPartitionReassignmentsRequest(topics=topics))
        assert (response.error_code, response.error_message, response.topics) == (0, None, [])


def listed(world: World, version: int, *kinds: int) -> list[tuple[int, str]] | int:
    response = world.call(74, version, ListConfigResourcesRequest(list(kinds)))
    if response.error_code:
        return int(response.error_code)
    return [(each.resource_type, each.resource_name) for each in response.config_resources]


def test_what_has_settings_is_listed(world: World) -> None:
    world.create("orders")
    assert listed(world, 1) == [(BROKER, "3"), (TOPIC, "__consumer_offsets"), (TOPIC, "orders")]
    change = AlterConfigsResource(GROUP, "billing", [AlterableConfig("offsets.retention.minutes", 0, "5")])
    assert world.call(44, 1, IncrementalAlterConfigsRequest([change])).responses[0].error_code == 0
    assert listed(world, 1, TOPIC, GROUP) == [(GROUP, "billing"), (TOPIC, "__consumer_offsets"), (TOPIC, "orders")]
    assert listed(world, 1, CLIENT_METRICS) == listed(world, 0) == []
    assert listed(world, 1, TOPIC, 3) == ErrorCode.UNSUPPORTED_VERSION
