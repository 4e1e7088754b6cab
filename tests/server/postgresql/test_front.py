"""A node that waits tells who leads, refuses all else as a node of Kafka's does that leads nothing, and so real clients
find the next leader without going back to the addresses of their start.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from coordinatord.broker.topics.catalogue_file import Content, Entry
from coordinatord.server.postgresql.registry import KnownNode
from coordinatord.server.postgresql.standby_listener import View, others
from coordinatord.transport.cluster.nodes import Node as ToldNode
from kafka_wire import registry
from kafka_wire.api.api_versions import ApiVersionsRequest
from kafka_wire.api.create_topics import CreatableTopic, CreateTopicsRequest
from kafka_wire.api.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kafka_wire.api.describe_cluster import DescribeClusterRequest
from kafka_wire.api.describe_configs import DescribeConfigsRequest
from kafka_wire.api.describe_log_dirs import DescribeLogDirsRequest
from kafka_wire.api.fetch import FetchPartition, FetchRequest, FetchTopic
from kafka_wire.api.find_coordinator import FindCoordinatorRequest
from kafka_wire.api.heartbeat import HeartbeatRequest
from kafka_wire.api.init_producer_id import InitProducerIdRequest
from kafka_wire.api.join_group import JoinGroupRequest
from kafka_wire.api.list_groups import ListGroupsRequest
from kafka_wire.api.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kafka_wire.api.list_transactions import ListTransactionsRequest
from kafka_wire.api.metadata import MetadataRequest, MetadataRequestTopic
from kafka_wire.api.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafka_wire.errors import ErrorCode
from kafka_wire.schema import schema_of
from tests.clients.raw import Line
from tests.daemon import HOST
from tests.server.postgresql.test_nodes import Node, nodes, until, waits, with_topic

__all__ = ["nodes"]

pytestmark = [pytest.mark.full, pytest.mark.postgresql, pytest.mark.timeout(600)]

TOPIC_ID = b"T" * 16


def known(node_id: int, *, leads: bool = False, lease_s: float = 3.0, rack: str | None = None) -> KnownNode:
    seat = 0 if leads else None
    return KnownNode(node_id, rack, {"PLAINTEXT": (f"host-{node_id}", 9092)}, 10.0, lease_s, f"h{node_id}", seat)


def test_a_view_tells_of_the_living_nodes_and_the_leader_first() -> None:
    view = View(
        [known(1), known(2, leads=True, rack="r"), known(3, lease_s=-1), known(2)],
        Content({"orders": Entry(TOPIC_ID, 3, {})}, {}, 1),
    )
    assert view.controller_id == 2
    assert view.alive("PLAINTEXT") == [ToldNode(2, "host-2", 9092, "r"), ToldNode(1, "host-1", 9092)]
    assert view.alive("OTHER") == []
    assert view.leader("PLAINTEXT") == (2, "host-2", 9092)
    assert view.leader("OTHER") is None
    assert [each.leader_id for each in view.by_id[TOPIC_ID].partitions] == [2, 2, 2]
    assert view.partition("orders", 2) is not None
    assert view.partition("orders", 3) is None


def test_a_leader_is_among_the_brokers_while_it_leads() -> None:
    """Its registration may end a moment before its lead. kafka-python fails if no broker has the leader's id."""
    view = View([known(1), known(2, leads=True, lease_s=-0.1)], Content({"orders": Entry(TOPIC_ID, 1, {})}, {}, 1))
    assert [each.leader_id for each in view.by_id[TOPIC_ID].partitions] == [2]
    assert 2 in [each.node_id for each in view.alive("PLAINTEXT")]


def test_while_nobody_leads_no_node_is_named() -> None:
    view = View([known(1), known(2)], Content({"orders": Entry(TOPIC_ID, 1, {})}, {}, 1))
    assert view.controller_id == -1
    assert view.leader("PLAINTEXT") is None
    assert [each.node_id for each in view.alive("PLAINTEXT")] == [1, 2]
    assert view.by_name["orders"].partitions[0].leader_id == -1


def test_nodes_with_the_leaders_id_are_not_told_apart_by_clients() -> None:
    assert [each.node_id for each in others([known(0), known(1)], "PLAINTEXT", 0)] == [1]


def versions(request: type[Any]) -> range:
    found = registry.versions_of(schema_of(request).api_key or 0)
    return range(found.first, found.last + 1)


async def refused(line: Line) -> None:
    """Everything that only the leader can do, in all versions."""
    wrong = ErrorCode.NOT_LEADER_OR_FOLLOWER
    for version in versions(ProduceRequest):
        data = TopicProduceData("topic", TOPIC_ID, [PartitionProduceData(0, b"")])
        answer = await line.ask(ProduceRequest(None, -1, 1_000, [data]), version)
        assert answer.responses[0].partition_responses[0].error_code == wrong
    for version in versions(FetchRequest):
        answer = await line.ask(FetchRequest(topics=[FetchTopic("topic", TOPIC_ID, [FetchPartition(0)])]), version)
        assert answer.responses[0].partitions[0].error_code == wrong
    again = await line.ask(FetchRequest(session_id=7, session_epoch=3), 12)
    assert again.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    for version in versions(ListOffsetsRequest):
        asked = ListOffsetsTopic("topic", [ListOffsetsPartition(0)])
        answer = await line.ask(ListOffsetsRequest(topics=[asked]), version)
        assert answer.topics[0].partitions[0].error_code == wrong
    for version in versions(CreateTopicsRequest):
        answer = await line.ask(CreateTopicsRequest([CreatableTopic("new", 1, 1)]), version)
        assert answer.topics[0].error_code == ErrorCode.NOT_CONTROLLER
    for version in versions(DeleteTopicsRequest):
        request = DeleteTopicsRequest(topic_names=["topic"])
        if version >= 6:
            request = DeleteTopicsRequest(topics=[DeleteTopicState("topic")])
        answer = await line.ask(request, version)
        assert [each.error_code for each in answer.responses] == [ErrorCode.NOT_CONTROLLER]
    for version in versions(JoinGroupRequest):
        assert (await line.ask(JoinGroupRequest("group", 10_000), version)).error_code == ErrorCode.NOT_COORDINATOR
    for version in versions(HeartbeatRequest):
        assert (await line.ask(HeartbeatRequest("group", 1, "m"), version)).error_code == ErrorCode.NOT_COORDINATOR
    for version in versions(InitProducerIdRequest):
        for name, error in (("t", ErrorCode.NOT_COORDINATOR), (None, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)):
            assert (await line.ask(InitProducerIdRequest(name, 60_000), version)).error_code == error
    for request, listed in (
        (ListGroupsRequest, "groups"),
        (ListTransactionsRequest, "transaction_states"),
        (DescribeLogDirsRequest, "results"),
    ):
        for version in versions(request):
            assert getattr(await line.ask(request(), version), listed) == []


async def the_same(one: Line, other: Line, request: Any, version: int) -> Any:
    first, second = await one.ask(request, version), await other.ask(request, version)
    assert first == second
    return first


def test_a_node_that_waits_tells_who_leads(nodes: Callable[..., Node], database: str) -> None:
    async def play() -> None:
        first, second = (nodes(database, number, lease_ms=10_000) for number in (1, 2))
        first.start()
        leading = await with_topic(first)
        second.start()
        await until(lambda: waits(second), "the second to wait")
        line = await Line.connect(HOST, second.port, "test")
        brokers: set[int] = set()

        async def told() -> None:  # the leader looks around with each renewal, the other one with each look
            while len(brokers) < 2:
                answers = [await each.ask(MetadataRequest([]), 12) for each in (leading, line)]
                brokers.update({each.node_id for each in answers[0].brokers} & {e.node_id for e in answers[1].brokers})
                await asyncio.sleep(0.05)

        await asyncio.wait_for(told(), 90)
        await the_same(leading, line, ApiVersionsRequest("test", "1"), 4)
        asked = [MetadataRequestTopic(name="topic"), MetadataRequestTopic(name="missing")]
        answers = [await each.ask(MetadataRequest(asked, False), 12) for each in (leading, line)]
        for answer in answers:
            assert answer.controller_id == 1
            assert {(each.node_id, each.port) for each in answer.brokers} == {(1, first.port), (2, second.port)}
            topic, missing = answer.topics
            assert (topic.error_code, topic.partitions[0].leader_id) == (ErrorCode.NONE, 1)
            assert missing.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert answers[0].cluster_id == answers[1].cluster_id
        assert answers[0].topics[0].topic_id == answers[1].topics[0].topic_id
        await the_same(leading, line, DescribeClusterRequest(), 1)
        for key_type in (0, 1, 9):
            for version in versions(FindCoordinatorRequest):
                if version or not key_type:
                    request = FindCoordinatorRequest("group", key_type, ["group"])
                    await the_same(leading, line, request, version)
        await refused(line)
        with pytest.raises(ConnectionError):
            await line.ask(DescribeConfigsRequest([]), 4)
        silent = await Line.connect(HOST, second.port, "test")
        with pytest.raises(ConnectionError):
            await silent.ask(ProduceRequest(None, 0, 1_000, []), 9)
        assert not second.events(level="error")

    asyncio.run(play())


def test_a_real_client_finds_the_next_leader(nodes: Callable[..., Node], database: str) -> None:
    """kafka-python asks only the nodes that it was told of: without a front it would never find the second one."""
    first, second = nodes(database, 1), nodes(database, 2)
    first.start()
    asyncio.run(with_topic(first))
    second.start()
    bootstrap = [first.bootstrap]
    producer = KafkaProducer(
        bootstrap_servers=bootstrap, acks="all", metadata_max_age_ms=1_000, delivery_timeout_ms=90_000
    )
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap, group_id="real", enable_auto_commit=False, metadata_max_age_ms=1_000
    )
    partition = TopicPartition("topic", 0)
    try:
        consumer.assign([partition])
        consumer.seek_to_beginning(partition)
        values: list[bytes] = []

        def poll() -> None:
            values.extend(record.value for batch in consumer.poll(timeout_ms=200).values() for record in batch)

        async def both_told() -> None:
            def are_known() -> bool:
                producer.send("topic", b"before").get(timeout=60)
                poll()
                clients = (producer._metadata, consumer._client.cluster)
                return all({each.node_id for each in client.brokers()} == {1, 2} for client in clients)

            await until(are_known, "both clients to know both nodes")

        asyncio.run(both_told())
        first.kill()
        assert producer.send("topic", b"after").get(timeout=90).offset > 0

        def read() -> bool:
            poll()
            return b"after" in values

        asyncio.run(until(read, "the consumer to read from the second node"))
        assert b"before" in values
    finally:
        producer.close(timeout=5)
        consumer.close()
