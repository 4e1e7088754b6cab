"""One of several nodes: what it leads, what it says of the others', and where it sends clients."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from coordinatord.broker.topics.names import OFFSETS_TOPIC
from coordinatord.coordination.runtime.partitions import Partitions
from coordinatord.coordination.service.apis.find_coordinator import FindCoordinator
from coordinatord.transport.cluster.nodes import Nodes
from coordinatord.transport.cluster.partitioner import partition_for
from kafka_wire.api.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kafka_wire.api.describe_cluster import DescribeClusterRequest
from kafka_wire.api.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from kafka_wire.api.describe_producers import DescribeProducersRequest, TopicRequest
from kafka_wire.api.fetch import FetchPartition, FetchRequest, FetchTopic
from kafka_wire.api.find_coordinator import FindCoordinatorRequest
from kafka_wire.api.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kafka_wire.api.metadata import MetadataRequest, MetadataRequestTopic
from kafka_wire.api.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kafka_wire.api.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafka_wire.errors import ErrorCode
from tests.broker.topics.world import Context, World, batch

FIRST_ID = 7
WORKERS = 3
THIS = 1
THIS_ID = FIRST_ID + THIS
PARTITIONS = 12
ELSEWHERE = ErrorCode.NOT_LEADER_OR_FOLLOWER


class OneOfThree(World):
    """The second of three nodes, which have the ids 7, 8 and 9."""

    def nodes(self) -> Nodes:
        nodes = Nodes(THIS_ID, "rack", worker=THIS, workers=WORKERS)
        nodes.advertise("PLAINTEXT", ("localhost", 9092), ("localhost", 9093), ("localhost", 9094))
        self.all_nodes = nodes
        return nodes


@pytest.fixture
def world() -> OneOfThree:
    world = OneOfThree()
    world.create("orders", PARTITIONS)
    return world


def partitions_by_leader(world: OneOfThree) -> dict[int, list[int]]:
    """What Metadata says of "orders"."""
    response = world.call(3, 12, MetadataRequest([MetadataRequestTopic(name="orders")]))
    [topic] = response.topics
    found: dict[int, list[int]] = {}
    for partition in topic.partitions:
        assert partition.replica_nodes == partition.isr_nodes == [partition.leader_id]
        found.setdefault(partition.leader_id, []).append(partition.partition_index)
    return found


def of_another(world: OneOfThree) -> int:
    return next(each for leader, all_ in partitions_by_leader(world).items() for each in all_ if leader != THIS_ID)


@pytest.mark.parametrize("topic", [OFFSETS_TOPIC, "orders", "", "ж"])
@pytest.mark.parametrize("workers", [1, 2, 3, 7])
def test_every_partition_has_one_leader_and_all_lead_alike(topic: str, workers: int) -> None:
    nodes = [Nodes(worker, worker=worker, workers=workers) for worker in range(workers)]
    leaders: Counter[int] = Counter()
    for partition in range(10 * workers):
        [leader] = {node.leader_of(topic, partition) for node in nodes}
        assert [node.node_id for node in nodes if node.owns(topic, partition)] == [leader]
        leaders[leader] += 1
    assert leaders == dict.fromkeys(range(workers), 10)


def test_metadata_names_all_nodes_and_each_partitions_leader(world: OneOfThree) -> None:
    response = world.call(3, 12, MetadataRequest(None))
    told = [(broker.node_id, broker.host, broker.port, broker.rack) for broker in response.brokers]
    assert told == [(FIRST_ID + number, "localhost", 9092 + number, "rack") for number in range(WORKERS)]
    assert response.controller_id == FIRST_ID
    by_leader = partitions_by_leader(world)
    assert {leader: len(all_) for leader, all_ in by_leader.items()} == dict.fromkeys([7, 8, 9], PARTITIONS // WORKERS)
    cluster = world.call(60, 1, DescribeClusterRequest(endpoint_type=1))
    assert ([broker.broker_id for broker in cluster.brokers], cluster.controller_id) == ([7, 8, 9], FIRST_ID)


def test_a_group_is_found_where_its_partition_is_led(world: OneOfThree) -> None:
    find = FindCoordinator(world.all_nodes, Partitions(50), Partitions(0))
    names = [f"group-{number}" for number in range(30)]
    request: Any = FindCoordinatorRequest(key_type=0, coordinator_keys=names)
    response = find.find(Context(world, 10, 4), request)  # type: ignore[arg-type]
    told = {found.key: (found.node_id, found.port) for found in response.coordinators}
    leaders = {name: world.all_nodes.leader_of(OFFSETS_TOPIC, partition_for(name, 50)) for name in names}
    assert told == {name: (leader, 9092 + leader - FIRST_ID) for name, leader in leaders.items()}
    assert len(set(leaders.values())) == WORKERS


def test_its_own_partitions_are_served(world: OneOfThree) -> None:
    for partition in partitions_by_leader(world)[THIS_ID]:
        assert world.produce("orders", batch(b"v"), partition).error_code == 0


@pytest.mark.parametrize("version", [9, 10, 12, 13])
def test_produce_to_anothers_partition_says_whose_it_is(world: OneOfThree, version: int) -> None:
    index = of_another(world)
    topic_id = world.topics.topic_id("orders") or b""
    data = [PartitionProduceData(index, batch(b"v"))]
    request = ProduceRequest(None, -1, 1000, [TopicProduceData("orders", topic_id, data)])
    response = world.call(0, version, request)
    [answer] = response.responses[0].partition_responses
    assert (answer.error_code, answer.base_offset) == (ELSEWHERE, -1)
    if version >= 10:
        [node] = response.node_endpoints
        assert answer.current_leader.leader_id == node.node_id == world.all_nodes.leader_of("orders", index)
        assert node.port == 9092 + node.node_id - FIRST_ID
    assert world.topics.catalogue.by_name["orders"].partitions[index].log.end_offset == 0


def test_fetch_from_anothers_partition_does_not_wait(world: OneOfThree) -> None:
    index = of_another(world)
    asked = FetchTopic("orders", world.topics.topic_id("orders") or b"", [FetchPartition(index, fetch_offset=0)])
    response = world.call(1, 16, FetchRequest(max_wait_ms=10_000, min_bytes=1, max_bytes=1000, topics=[asked]))
    [answer] = response.responses[0].partitions
    assert answer.error_code == ELSEWHERE
    [node] = response.node_endpoints
    assert answer.current_leader.leader_id == node.node_id == world.all_nodes.leader_of("orders", index)


def test_whatever_else_is_asked_about_anothers_partition(world: OneOfThree) -> None:
    index = of_another(world)
    offsets = world.call(2, 9, ListOffsetsRequest(-1, 0, [ListOffsetsTopic("orders", [ListOffsetsPartition(index)])]))
    assert offsets.topics[0].partitions[0].error_code == ELSEWHERE
    epochs = world.call(
        23, 4, OffsetForLeaderEpochRequest(-1, [OffsetForLeaderTopic("orders", [OffsetForLeaderPartition(index)])])
    )
    assert epochs.topics[0].partitions[0].error_code == ELSEWHERE
    deleted = world.call(
        21, 2, DeleteRecordsRequest([DeleteRecordsTopic("orders", [DeleteRecordsPartition(index, 0)])], 1000)
    )
    assert deleted.topics[0].partitions[0].error_code == ELSEWHERE
    producers = world.call(61, 0, DescribeProducersRequest([TopicRequest("orders", [index])]))
    assert producers.topics[0].partitions[0].error_code == ELSEWHERE


def test_log_directories_tell_of_its_own_partitions(world: OneOfThree) -> None:
    own = partitions_by_leader(world)[THIS_ID]
    for topics in (None, [DescribableLogDirTopic("orders", list(range(PARTITIONS)))]):
        [result] = world.call(35, 5, DescribeLogDirsRequest(topics)).results
        [partitions] = [topic.partitions for topic in result.topics if topic.name == "orders"]
        assert [each.partition_index for each in partitions] == own


def test_nothing_can_be_appended_to_anothers_log(world: OneOfThree) -> None:
    log = world.topics.catalogue.by_name["orders"].partitions[of_another(world)].log
    with pytest.raises(AssertionError, match="another process's"):
        world.writer.append(log, bytearray(batch(b"v")))
