"""Every API that returns addresses returns those of the client's own listener.

Two workers, so that Produce and Fetch also return the addresses of leaders on another node.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
from kafka import KafkaConsumer, KafkaProducer

from coordinatord.testing.member.client import Client
from coordinatord.testing.member.state import MemberSettings
from kafka_wire.api.describe_cluster import DescribeClusterRequest
from kafka_wire.api.fetch import FetchPartition, FetchRequest, FetchTopic
from kafka_wire.api.find_coordinator import FindCoordinatorRequest
from kafka_wire.api.metadata import MetadataRequest, MetadataRequestTopic
from kafka_wire.api.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafka_wire.errors import ErrorCode
from kafka_wire.records.batch import build_batch
from kafka_wire.registry import versions_of
from tests.clients.raw import Line
from tests.daemon import HOST, Daemon, free_port

WORKERS = 2
TOLD = {"INSIDE": ("inside.test", 1_000), "OUTSIDE": ("outside.test", 2_000)}
"""The advertised host and first port by listener; nothing listens there."""


def daemon(directory: Path, workers: int, told: dict[str, tuple[str, int]] | None) -> tuple[Daemon, dict[str, int]]:
    """A daemon, not started, and its first port by listener. `told` is None: advertise the bound addresses."""
    port = free_port(2 * workers)
    ports = {"INSIDE": port, "OUTSIDE": port + workers}
    told = told or {name: (HOST, each) for name, each in ports.items()}
    settings = {
        "listeners": ",".join(f"{name}://{HOST}:{each}" for name, each in ports.items()),
        "advertised.listeners": ",".join(f"{name}://{host}:{each}" for name, (host, each) in told.items()),
        "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
        "num.partitions": "4",
        "group.initial.rebalance.delay.ms": "0",
    }
    return Daemon(directory, settings, workers=workers, port=port), ports


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, int]]:
    made, found = daemon(tmp_path_factory.mktemp("two-listeners"), WORKERS, TOLD)
    made.start()
    yield found
    assert made.stop() == 0


@pytest_asyncio.fixture(params=list(TOLD))
async def line(request: pytest.FixtureRequest, ports: dict[str, int]) -> AsyncIterator[tuple[Line, str]]:
    """A connection to the first worker through a listener, and the listener's name."""
    made = await Line.connect(HOST, ports[request.param], "endpoints")
    yield made, request.param
    made.close()


def expected(listener: str) -> list[tuple[str, int]]:
    host, port = TOLD[listener]
    return [(host, port + worker) for worker in range(WORKERS)]


async def test_metadata(line: tuple[Line, str]) -> None:
    asked, listener = line
    served = versions_of(3)
    for version in range(served.first, served.last + 1):
        response = await asked.ask(MetadataRequest([]), version)
        assert [(each.host, each.port) for each in response.brokers] == expected(listener), version


async def test_describe_cluster(line: tuple[Line, str]) -> None:
    asked, listener = line
    served = versions_of(60)
    for version in range(served.first, served.last + 1):
        response = await asked.ask(DescribeClusterRequest(), version)
        assert [(each.host, each.port) for each in response.brokers] == expected(listener), version


@pytest.mark.parametrize("key_type", [0, 1], ids=["group", "transaction"])
async def test_find_coordinator(line: tuple[Line, str], key_type: int) -> None:
    asked, listener = line
    keys = [f"key-{n}" for n in range(8)]
    served = versions_of(10)
    for version in range(max(served.first, key_type), served.last + 1):
        found = []
        if version >= 4:
            found = (
                await asked.ask(FindCoordinatorRequest(key_type=key_type, coordinator_keys=keys), version)
            ).coordinators
        else:
            found = [await asked.ask(FindCoordinatorRequest(key, key_type), version) for key in keys]
        assert {each.error_code for each in found} == {0}
        assert {(each.host, each.port) for each in found} == set(expected(listener)), version


async def topic_of(asked: Line) -> tuple[bytes, dict[int, int]]:
    """The topic's id, and the leader of each partition."""
    for _ in range(100):
        response = await asked.ask(MetadataRequest([MetadataRequestTopic(name="t")]), 12)
        [topic] = response.topics
        if not topic.error_code:
            return topic.topic_id, {each.partition_index: each.leader_id for each in topic.partitions}
    raise AssertionError("no topic")


async def test_produce_and_fetch_tell_the_leaders_of_what_they_refuse(line: tuple[Line, str]) -> None:
    """KIP-951."""
    asked, listener = line
    topic_id, leaders = await topic_of(asked)
    first = min(leaders.values())
    elsewhere = [partition for partition, leader in leaders.items() if leader != first]
    assert elsewhere
    other = expected(listener)[1]
    data = [PartitionProduceData(each, bytes(build_batch([(None, b"v")], 0))) for each in elsewhere]
    produced = await asked.ask(ProduceRequest(None, 1, 5_000, [TopicProduceData("t", partition_data=data)]), 12)
    codes = {each.error_code for topic in produced.responses for each in topic.partition_responses}
    assert codes == {ErrorCode.NOT_LEADER_OR_FOLLOWER}
    assert [(each.host, each.port) for each in produced.node_endpoints] == [other]
    topics = [
        FetchTopic(topic_id=topic_id, partitions=[FetchPartition(each, partition_max_bytes=99) for each in elsewhere])
    ]
    fetched = await asked.ask(FetchRequest(max_wait_ms=0, min_bytes=0, topics=topics), 16)
    codes = {each.error_code for topic in fetched.responses for each in topic.partitions}
    assert codes == {ErrorCode.NOT_LEADER_OR_FOLLOWER}
    assert [(each.host, each.port) for each in fetched.node_endpoints] == [other]


async def test_our_client_reads_by_the_second_listener_when_the_first_leads_nowhere(tmp_path: Path) -> None:
    """Like a program outside of the containers."""
    made, found = daemon(tmp_path, 1, None)
    made.settings = {**made.settings}
    outside = f"{HOST}:{found['OUTSIDE']}"
    made.settings["advertised.listeners"] = f"INSIDE://inside.invalid:9092,OUTSIDE://{outside}"
    made.start()
    try:
        producer = KafkaProducer(bootstrap_servers=outside)
        producer.send("t", b"v", partition=0).get(60)
        producer.close(timeout=10)
        async with Client(outside, MemberSettings("g", auto_offset_reset="earliest")) as client:
            client.subscribe(["t"])
            seen: list[bytes | None] = []
            for _ in range(100):
                for records in (await client.poll(0.3)).values():
                    seen += [each.value for each in records]
                if seen:
                    break
            assert seen == [b"v"]
        consumer = KafkaConsumer("t", bootstrap_servers=outside, group_id="h", auto_offset_reset="earliest")
        records = consumer.poll(timeout_ms=20_000)
        assert [each.value for batch in records.values() for each in batch] == [b"v"]
        consumer.close()
    finally:
        made.stop()
