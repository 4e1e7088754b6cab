"""CreateTopics, DeleteTopics, CreatePartitions, DeleteRecords. The sentences are those of Kafka's controller."""

from __future__ import annotations

import pytest

from kafka_wire.api.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from kafka_wire.api.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kafka_wire.api.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kafka_wire.api.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kafka_wire.api.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kafka_wire.errors import ErrorCode
from kafka_wire.schema import ZERO_UUID
from tests.broker.topics.world import START_MS, World, batch


@pytest.fixture
def world() -> World:
    return World(max_partitions=200)


def assigned(*partitions: tuple[int, list[int]]) -> list[CreatableReplicaAssignment]:
    return [CreatableReplicaAssignment(index, brokers) for index, brokers in partitions]


def setting(name: str, value: str | None) -> list[CreatableTopicConfig]:
    return [CreatableTopicConfig(name, value)]


@pytest.mark.parametrize("version", range(2, 8))
def test_a_topic_is_created_and_described(world: World, version: int) -> None:
    topic = CreatableTopic("orders", 3, 1, [], setting("retention.ms", "1000"))
    [result] = world.call(19, version, CreateTopicsRequest([topic])).topics
    assert (result.error_code, result.error_message) == (0, None)
    assert world.topics.exists("orders", 2)
    if version >= 5:
        assert (result.num_partitions, result.replication_factor) == (3, 1)
        shown = {config.name: (config.value, config.config_source) for config in result.configs}
        assert shown["retention.ms"] == ("1000", 1)
        assert shown["cleanup.policy"] == ("delete", 5)
        assert len(shown) == 37
    assert result.topic_id == (world.topics.topic_id("orders") if version >= 7 else ZERO_UUID)


def test_a_client_may_create_the_topic_of_transactions_before_their_coordinator(world: World) -> None:
    topic = CreatableTopic("__transaction_state", 3, 1, [], setting("segment.bytes", "2097152"))
    [result] = world.call(19, 7, CreateTopicsRequest([topic])).topics
    assert (result.error_code, result.error_message) == (0, None)
    shown = {config.name: config.value for config in result.configs}
    assert (shown["cleanup.policy"], shown["segment.bytes"]) == ("compact", "2097152")
    assert world.topics.create_internal("__transaction_state") == 3


def test_an_internal_setting_is_described_where_it_is_set(world: World) -> None:
    asked = [
        CreatableTopic("small", 1, 1, [], setting("internal.segment.bytes", "1000")),
        CreatableTopic("usual", 1, 1, [], []),
    ]
    created = world.call(19, 7, CreateTopicsRequest(asked)).topics
    shown = [{config.name: config.value for config in each.configs} for each in created]
    assert [each.get("internal.segment.bytes") for each in shown] == ["1000", None]
    resources = [DescribeConfigsResource(2, name, ["internal.segment.bytes"]) for name in ("small", "usual")]
    described = world.call(32, 4, DescribeConfigsRequest(resources)).results
    assert [[(each.name, each.value) for each in result.configs] for result in described] == [
        [("internal.segment.bytes", "1000")], [],
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["__cluster_metadata", "__rebalances"])
def test_other_internal_topics_are_not_created_by_clients(world: World, name: str) -> None:
    [result] = world.call(19, 7, CreateTopicsRequest([CreatableTopic(name, 1, 1)])).topics
    assert result.error_message == f"Creation of internal topic {name} is prohibited."


def test_defaults(world: World) -> None:
    [result] = world.call(19, 7, CreateTopicsRequest([CreatableTopic("orders", -1, -1)])).topics
    assert (result.num_partitions, result.replication_factor) == (1, 1)


def test_manual_assignments(world: World) -> None:
    topic = CreatableTopic("orders", -1, -1, assigned((1, [0]), (0, [0])))
    [result] = world.call(19, 7, CreateTopicsRequest([topic])).topics
    assert (result.error_code, result.num_partitions) == (0, 2)


@pytest.mark.parametrize(
    ("topic", "error", "message"),
    [
        (CreatableTopic("a b", 1, 1), ErrorCode.INVALID_TOPIC_EXCEPTION, "Topic name is invalid: 'a b' contains one"),
        (CreatableTopic("there", 1, 1), ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 'there' already exists."),
        (CreatableTopic("__consumer_offsets", 1, 1), ErrorCode.TOPIC_ALREADY_EXISTS, "Topic '__consumer_offsets'"),
        (CreatableTopic("__cluster_metadata", 1, 1), ErrorCode.INVALID_REQUEST, "Creation of internal topic"),
        (
            CreatableTopic("or.ders", 1, 1),
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            "Topic 'or.ders' collides with existing topic: or_ders",
        ),
        (CreatableTopic("new", 0, 1), ErrorCode.INVALID_PARTITIONS, "Number of partitions was set to an invalid"),
        (CreatableTopic("new", -2, 1), ErrorCode.INVALID_PARTITIONS, "Number of partitions was set to an invalid"),
        (CreatableTopic("new", 1, 0), ErrorCode.INVALID_REPLICATION_FACTOR, "Replication factor must be larger than 0"),
        (
            CreatableTopic("new", 1, 3),
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Unable to replicate the partition 3 time(s): The target replication factor of 3 cannot be reached because "
            "only 1 broker(s) are registered or some brokers have all their log directories cordoned.",
        ),
        (CreatableTopic("new", 1, -1, assigned((0, [0]))), ErrorCode.INVALID_REQUEST, "A manual partition assignment"),
        (CreatableTopic("new", -1, 1, assigned((0, [0]))), ErrorCode.INVALID_REQUEST, "A manual partition assignment"),
        (
            CreatableTopic("new", -1, -1, assigned((0, [0]), (0, [0]))),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "Found multiple manual partition assignments for partition 0",
        ),
        (
            CreatableTopic("new", -1, -1, assigned((0, [0]), (2, [0]))),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "partitions should be a consecutive 0-based integer sequence",
        ),
        (
            CreatableTopic("new", -1, -1, assigned((0, []))),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "The manual partition",
        ),
        (
            CreatableTopic("new", -1, -1, assigned((0, [0, 0]))),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "The manual partition assignment includes the broker 0 more than once.",
        ),
        (
            CreatableTopic("new", -1, -1, assigned((0, [1]))),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "The manual partition assignment includes broker 1, but no such broker is registered.",
        ),
        (
            CreatableTopic("new", 1, 1, [], setting("retention.ms", None)),
            ErrorCode.INVALID_CONFIG,
            "Null value not supported for topic configs: retention.ms",
        ),
        (
            CreatableTopic("new", 1, 1, [], setting("no.such", "1")),
            ErrorCode.INVALID_CONFIG,
            "Unknown topic config name: no.such",
        ),
        (
            CreatableTopic("new", 1, 1, [], setting("retention.ms", "soon")),
            ErrorCode.INVALID_CONFIG,
            "Invalid value soon for configuration retention.ms: Not a number of type LONG",
        ),
        (CreatableTopic("new", 150, 1), ErrorCode.POLICY_VIOLATION, "150 more partitions"),
    ],
)
def test_topics_that_cannot_be_created(world: World, topic: CreatableTopic, error: ErrorCode, message: str) -> None:
    world.create("there")
    world.create("or_ders")
    [result] = world.call(19, 7, CreateTopicsRequest([topic])).topics
    assert ErrorCode(result.error_code) is error
    assert result.error_message.startswith(message)
    assert len(world.topics.catalogue) == 3


def test_each_topic_for_itself(world: World) -> None:
    topics = [CreatableTopic(name, 1, 1) for name in ("good", "twice", "bad name", "twice")]
    results = world.call(19, 7, CreateTopicsRequest(topics)).topics
    assert [(result.name, result.error_code) for result in results] == [("good", 0), ("bad name", 17), ("twice", 42)]
    assert world.topics.exists("good", 0)
    assert not world.topics.exists("twice", 0)


def test_a_request_for_too_much_is_refused_whole() -> None:
    world = World(max_partitions=20_000)
    topics = [CreatableTopic("a", 6000, 1), CreatableTopic("b", 6000, 1)]
    results = world.call(19, 7, CreateTopicsRequest(topics)).topics
    assert [result.error_code for result in results] == [ErrorCode.POLICY_VIOLATION] * 2


def test_validate_only_creates_nothing(world: World) -> None:
    topics = [CreatableTopic("good", 1, 1), CreatableTopic("bad", 0, 1)]
    results = world.call(19, 7, CreateTopicsRequest(topics, validate_only=True)).topics
    assert [result.error_code for result in results] == [0, ErrorCode.INVALID_PARTITIONS]
    assert not world.topics.exists("good", 0)


# DeleteTopics


@pytest.mark.parametrize("version", range(1, 7))
def test_topics_are_deleted(world: World, version: int) -> None:
    world.create("orders", 2)
    world.produce("orders", batch(b"a"))
    request = (
        DeleteTopicsRequest([DeleteTopicState("orders")])
        if version >= 6
        else DeleteTopicsRequest(topic_names=["orders", "missing"])
    )
    results = world.call(20, version, request).responses
    codes = {result.name: result.error_code for result in results}
    assert codes == ({"orders": 0} if version >= 6 else {"orders": 0, "missing": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
    assert not world.topics.exists("orders", 0)
    assert not [name for name in world.disk.listdir("/data") if name.startswith("orders-")]


def test_by_id_and_in_every_wrong_way(world: World) -> None:
    ids = {name: world.create(name) for name in ("a", "b", "c", "d")}
    asked = [
        DeleteTopicState(None, ids["a"]),
        DeleteTopicState(None, b"\7" * 16),
        DeleteTopicState(None, ZERO_UUID),
        DeleteTopicState("b", ids["b"]),
        DeleteTopicState("c"),
        DeleteTopicState("c"),
        DeleteTopicState("d"),
        DeleteTopicState(None, ids["d"]),
        DeleteTopicState("__consumer_offsets"),
    ]
    results = world.call(20, 6, DeleteTopicsRequest(asked)).responses
    told = {(result.name, result.topic_id): (result.error_code, result.error_message) for result in results}
    assert told == {
        ("a", ids["a"]): (0, None),
        (None, b"\7" * 16): (ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID."),
        (None, ZERO_UUID): (ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified."),
        ("b", ids["b"]): (ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id."),
        ("c", ZERO_UUID): (ErrorCode.INVALID_REQUEST, "Duplicate topic name."),
        ("d", ids["d"]): (
            ErrorCode.INVALID_REQUEST,
            "The provided topic name maps to an ID that was already supplied.",
        ),
        ("__consumer_offsets", ZERO_UUID): (
            ErrorCode.INVALID_REQUEST,
            "Deletion of internal topic __consumer_offsets is prohibited.",
        ),
    }
    assert [world.topics.exists(name, 0) for name in "abcd"] == [False, True, True, True]


@pytest.mark.parametrize(("version", "error"), [(2, ErrorCode.INVALID_REQUEST), (3, ErrorCode.TOPIC_DELETION_DISABLED)])
def test_deletion_can_be_off(version: int, error: ErrorCode) -> None:
    world = World(delete_topic_enable=False)
    world.create("orders")
    [result] = world.call(20, version, DeleteTopicsRequest(topic_names=["orders"])).responses
    assert result.error_code == error
    assert world.topics.exists("orders", 0)


# CreatePartitions


@pytest.mark.parametrize("version", range(4))
def test_a_topic_grows(world: World, version: int) -> None:
    world.create("orders", 2)
    request = CreatePartitionsRequest([CreatePartitionsTopic("orders", 4, None)])
    [result] = world.call(37, version, request).results
    assert (result.name, result.error_code, result.error_message) == ("orders", 0, None)
    world.stop()
    world.open()
    assert world.topics.exists("orders", 3)
    assert not world.topics.exists("orders", 4)


@pytest.mark.parametrize(
    ("asked", "error", "message"),
    [
        (CreatePartitionsTopic("missing", 2, None), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ""),
        (CreatePartitionsTopic("orders", 2, None), ErrorCode.INVALID_PARTITIONS, "Topic already has 2 partition(s)."),
        (
            CreatePartitionsTopic("orders", 1, None),
            ErrorCode.INVALID_PARTITIONS,
            "The topic orders currently has 2 partition(s); 1 would not be an increase.",
        ),
        (CreatePartitionsTopic("orders", 200, None), ErrorCode.POLICY_VIOLATION, "198 more partitions"),
        (
            CreatePartitionsTopic("orders", 4, [CreatePartitionsAssignment([0])]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified.",
        ),
        (
            CreatePartitionsTopic("orders", 3, [CreatePartitionsAssignment([4])]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "The manual partition assignment includes broker 4",
        ),
        (CreatePartitionsTopic("__consumer_offsets", 60, None), ErrorCode.INVALID_REQUEST, "Partitions of internal"),
    ],
)
def test_topics_that_cannot_grow(world: World, asked: CreatePartitionsTopic, error: ErrorCode, message: str) -> None:
    world.create("orders", 2)
    [result] = world.call(37, 3, CreatePartitionsRequest([asked])).results
    assert ErrorCode(result.error_code) is error
    assert (result.error_message or "").startswith(message)
    assert not world.topics.exists("orders", 2)


def test_growth_twice_or_for_show(world: World) -> None:
    world.create("orders")
    twice = [CreatePartitionsTopic("orders", count, None) for count in (2, 3)]
    [result] = world.call(37, 3, CreatePartitionsRequest(twice)).results
    assert (result.error_code, result.error_message) == (ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    [result] = world.call(37, 3, CreatePartitionsRequest(twice[:1], validate_only=True)).results
    assert result.error_code == 0
    assert not world.topics.exists("orders", 1)


# DeleteRecords


def delete_before(world: World, offset: int, *, topic: str = "orders", partition: int = 0) -> tuple[int, int]:
    """(error, low watermark)"""
    asked = DeleteRecordsTopic(topic, [DeleteRecordsPartition(partition, offset)])
    response = world.call(21, 2, DeleteRecordsRequest([asked], 1000))
    [result] = response.topics[0].partitions
    return result.error_code, result.low_watermark


@pytest.mark.parametrize("version", range(3))
def test_records_are_deleted_and_stay_so(world: World, version: int) -> None:
    world.create("orders")
    world.produce("orders", batch(b"a", b"b", b"c"))
    asked = DeleteRecordsTopic("orders", [DeleteRecordsPartition(0, 2)])
    context = world.send(21, version, DeleteRecordsRequest([asked], 1000))
    assert context.answers == 0
    world.settle()
    [result] = context.response.topics[0].partitions
    assert (result.error_code, result.low_watermark) == (0, 2)
    world.crash("power")
    world.open()
    assert world.topics.catalogue.by_name["orders"].partitions[0].log.log_start_offset == 2


def test_what_can_be_deleted(world: World) -> None:
    world.create("orders")
    world.create("state", cleanup_policy="compact")
    world.create("both", cleanup_policy="compact,delete")
    for topic in ("orders", "both"):
        world.produce(topic, batch(b"a", b"b", b"c", keys=b"k"))
    assert delete_before(world, 1) == (0, 1)
    assert delete_before(world, 0) == (0, 1)
    assert delete_before(world, -1) == (0, 3)
    assert delete_before(world, 4) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    assert delete_before(world, -2) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    assert delete_before(world, 0, partition=1) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
    assert delete_before(world, 0, topic="state") == (ErrorCode.POLICY_VIOLATION, -1)
    assert delete_before(world, 1, topic="both") == (0, 1)
    assert delete_before(world, 0, topic="__consumer_offsets") == (ErrorCode.INVALID_TOPIC_EXCEPTION, -1)


# Retention


def test_retention_by_time_and_by_size(world: World) -> None:
    world.create("by_time", retention_ms="1000", internal_segment_bytes="100")
    world.create("by_size", retention_bytes="150", internal_segment_bytes="100")
    for topic in ("by_time", "by_size"):
        for offset in range(5):
            world.produce(topic, batch(b"x" * 20, timestamp_ms=START_MS + 1000 * offset))
    assert world.topics.enforce_retention(START_MS + 3000) > 0
    topics = world.topics.catalogue.by_name
    starts = {name: topics[name].partitions[0].log.log_start_offset for name in ("by_time", "by_size")}
    assert starts == {"by_time": 2, "by_size": 3}
    assert world.produce("by_time", batch(b"x")).log_start_offset == 2


def test_idle_producers_expire(world: World) -> None:
    world.create("orders")
    world.produce("orders", batch(b"a", producer_id=1, producer_epoch=0, base_sequence=0))
    partition = world.topics.catalogue.by_name["orders"].partitions[0]
    day_ms = 86_400_000
    world.topics.expire_producers(START_MS + day_ms - 1)
    assert len(partition.producers) == 1
    world.topics.expire_producers(START_MS + day_ms)
    assert len(partition.producers) == 0
