"""Metadata, DescribeCluster, DescribeTopicPartitions."""

from __future__ import annotations

import pytest

from kafka_wire.api.describe_cluster import DescribeClusterRequest
from kafka_wire.api.describe_topic_partitions import Cursor, DescribeTopicPartitionsRequest, TopicRequest
from kafka_wire.api.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from kafka_wire.errors import ErrorCode
from kafka_wire.schema import ZERO_UUID
from tests.broker.topics.world import World


@pytest.fixture
def world() -> World:
    return World(auto_create_topics_enable=False, offsets_topic_num_partitions=2, node_id=3)


def ask(world: World, version: int, *names: str, allow: bool = True) -> MetadataResponse:
    request = MetadataRequest([MetadataRequestTopic(name=name) for name in names], allow)
    response: MetadataResponse = world.call(3, version, request)
    return response


@pytest.mark.parametrize("version", range(14))
def test_a_topic_and_its_node(world: World, version: int) -> None:
    topic_id = world.create("orders", 2)
    response = ask(world, version, "orders", "orders")
    [node] = response.brokers
    assert (node.node_id, node.host, node.port) == (3, "localhost", 9092)
    assert response.controller_id == (3 if version >= 1 else -1)
    assert response.cluster_id == (world.data.cluster_id if version >= 2 else None)
    [topic] = response.topics
    assert (topic.error_code, topic.name, topic.is_internal) == (0, "orders", False)
    assert topic.topic_id == (topic_id if version >= 10 else ZERO_UUID)
    assert topic.topic_authorized_operations == -(2**31)
    assert [partition.partition_index for partition in topic.partitions] == [0, 1]
    for partition in topic.partitions:
        assert (partition.error_code, partition.leader_id) == (0, 3)
        assert (partition.replica_nodes, partition.isr_nodes, partition.offline_replicas) == ([3], [3], [])
        assert partition.leader_epoch == (0 if version >= 7 else -1)


def test_all_topics_and_none(world: World) -> None:
    world.create("orders")
    everything = {"orders", "__consumer_offsets"}
    for version in range(14):
        empty = {topic.name for topic in ask(world, version).topics}
        assert empty == (everything if version == 0 else set())
        if version:
            listed = world.call(3, version, MetadataRequest(None)).topics
            assert {topic.name: topic.is_internal for topic in listed} == {"orders": False, "__consumer_offsets": True}


def test_a_topic_that_kafka_does_not_have_is_found_by_its_name_alone(world: World) -> None:
    """Its own listTopics tests count the topics; deletion tests delete all that are listed."""
    world.create("orders")
    world.topics.create_ledger_topic()
    topic_id = world.topics.catalogue.by_name["__rebalances"].topic_id
    everything = {"orders", "__consumer_offsets"}
    assert {topic.name for topic in ask(world, 0).topics} == everything
    for version in range(1, 14):
        listed = world.call(3, version, MetadataRequest(None)).topics
        assert {topic.name for topic in listed} == everything
        [named] = ask(world, version, "__rebalances").topics
        assert (named.error_code, named.name, len(named.partitions)) == (0, "__rebalances", 2)
    [by_id] = world.call(3, 12, MetadataRequest([MetadataRequestTopic(topic_id, None)])).topics
    assert by_id.name == "__rebalances"

    def described(request: DescribeTopicPartitionsRequest) -> list[str]:
        return [topic.name for topic in world.call(75, 0, request).topics]

    assert set(described(DescribeTopicPartitionsRequest())) == everything
    assert described(DescribeTopicPartitionsRequest([TopicRequest("__rebalances")])) == ["__rebalances"]


def test_topics_that_do_not_exist(world: World) -> None:
    response = ask(world, 13, "missing", "no such name", "__transaction_state")
    assert [(topic.error_code, topic.name, topic.is_internal) for topic in response.topics] == [
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "missing", False),
        (ErrorCode.INVALID_TOPIC_EXCEPTION, "no such name", False),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "__transaction_state", True),
    ]
    assert response.error_code == 0


def test_by_topic_id(world: World) -> None:
    topic_id = world.create("orders")
    request = MetadataRequest([MetadataRequestTopic(topic_id, None), MetadataRequestTopic(b"\7" * 16, None)])
    for version in (12, 13):
        found, missing = world.call(3, version, request).topics
        assert (found.error_code, found.name, found.topic_id) == (0, "orders", topic_id)
        assert (missing.error_code, missing.name, missing.topic_id) == (ErrorCode.UNKNOWN_TOPIC_ID, None, b"\7" * 16)


def test_ids_before_v12_are_refused(world: World) -> None:
    topic_id = world.create("orders")
    for asked in (MetadataRequestTopic(topic_id, "orders"), MetadataRequestTopic(ZERO_UUID, None)):
        [topic] = world.call(3, 11, MetadataRequest([asked])).topics
        assert (topic.error_code, topic.name) == (ErrorCode.INVALID_REQUEST, asked.name or "")


def test_topics_are_created_when_asked_for() -> None:
    world = World(num_partitions=3)
    [topic] = ask(world, 13, "orders").topics
    assert (topic.error_code, len(topic.partitions)) == (0, 3)
    assert ask(world, 13, "orders").topics[0].topic_id == topic.topic_id
    assert ask(world, 13, "quiet", allow=False).topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    # v0-v3 have no such field, which means yes.
    assert ask(world, 3, "loud", allow=False).topics[0].error_code == 0


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("no such name", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("or.ders", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("__transaction_state", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("__share_group_state", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("__cluster_metadata", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_but_not_all(name: str, error: ErrorCode) -> None:
    world = World()
    world.create("or_ders")
    assert ask(world, 13, name).topics[0].error_code == error


def test_nobody_asks_for_more_partitions_than_there_may_be() -> None:
    world = World(num_partitions=10, max_partitions=75)
    codes = [ask(world, 13, f"topic-{number}").topics[0].error_code for number in range(4)]
    assert codes == [0, 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_authorized_operations_are_all_there_are(world: World) -> None:
    world.create("orders")
    request = MetadataRequest([MetadataRequestTopic(name="orders")], True, True, True)
    response = world.call(3, 9, request)
    # Kafka's answers without an authorizer: measured on 4.3.
    assert response.cluster_authorized_operations == 8096
    assert response.topics[0].topic_authorized_operations == 3576


@pytest.mark.parametrize("version", range(3))
def test_the_cluster(world: World, version: int) -> None:
    response = world.call(60, version, DescribeClusterRequest(include_cluster_authorized_operations=True))
    assert (response.error_code, response.cluster_id, response.controller_id) == (0, world.data.cluster_id, 3)
    assert [(node.broker_id, node.host, node.port) for node in response.brokers] == [(3, "localhost", 9092)]
    assert response.cluster_authorized_operations == 8096


@pytest.mark.parametrize(("endpoint_type", "error"), [(2, 114), (3, 115)])
def test_controllers_are_elsewhere(world: World, endpoint_type: int, error: int) -> None:
    assert world.call(60, 2, DescribeClusterRequest(endpoint_type=endpoint_type)).error_code == error


def pages(world: World, limit: int, *names: str) -> list[list[tuple[str, list[int]]]]:
    cursor = None
    found = []
    while True:
        request = DescribeTopicPartitionsRequest([TopicRequest(name) for name in names], limit, cursor)
        response = world.call(75, 0, request)
        found.append(
            [(topic.name, [partition.partition_index for partition in topic.partitions]) for topic in response.topics]
        )
        cursor = response.next_cursor
        if cursor is None:
            return found


def test_topics_page_by_page(world: World) -> None:
    world.create("b", 3)
    world.create("a", 2)
    assert pages(world, 2000) == [[("__consumer_offsets", [0, 1]), ("a", [0, 1]), ("b", [0, 1, 2])]]
    assert pages(world, 3) == [[("__consumer_offsets", [0, 1]), ("a", [0])], [("a", [1]), ("b", [0, 1])], [("b", [2])]]
    assert pages(world, 2, "b", "a") == [[("a", [0, 1])], [("b", [0, 1])], [("b", [2])]]
    assert pages(world, 0, "a") == [[("a", [0])], [("a", [1])]]


def test_what_cannot_be_described(world: World) -> None:
    request = DescribeTopicPartitionsRequest([TopicRequest("missing"), TopicRequest("no such name")])
    topics = world.call(75, 0, request).topics
    assert [(topic.name, topic.error_code) for topic in topics] == [("missing", 3), ("no such name", 17)]
    for cursor in (Cursor("other", 0), Cursor("missing", -1)):
        request = DescribeTopicPartitionsRequest([TopicRequest("missing")], cursor=cursor)
        [topic] = world.call(75, 0, request).topics
        assert topic.error_code == ErrorCode.INVALID_REQUEST
