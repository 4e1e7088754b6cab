"""Shortcuts on a daemon, among requests and members that the stories of the single shortcuts do not have."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from coordinatord.testing.conform.raw_client import RawClient
from kafka_wire.api.consumer_group_describe import ConsumerGroupDescribeRequest
from kafka_wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafka_wire.api.create_topics import CreatableTopic, CreateTopicsRequest
from kafka_wire.api.fetch import FetchPartition, FetchRequest, FetchTopic
from kafka_wire.api.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kafka_wire.api.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafka_wire.errors import ErrorCode
from kafka_wire.records.batch import build_batch
from tests.reference.in_process import InProcess, run, running_in_process

TIMES = 10
Story = Callable[[InProcess, RawClient], Awaitable[None]]


def played(tmp_path: Path, story: Story) -> None:
    async def main() -> None:
        async with running_in_process(tmp_path, {"log.flush": "always"}) as ours:
            client = await ours.connect("client")
            await client.ask(CreateTopicsRequest([CreatableTopic("t", 2, 1)], 60_000), 4)
            await story(ours, client)

    run(main())


def commit(offset: int, group: str = "simple", member: str = "", epoch: int = -1) -> OffsetCommitRequest:
    partitions = [OffsetCommitRequestPartition(0, offset, -1, "")]
    return OffsetCommitRequest(group, epoch, member, topics=[OffsetCommitRequestTopic("t", partitions=partitions)])


def fetch(offset: int) -> FetchRequest:
    asked = FetchPartition(0, fetch_offset=offset, partition_max_bytes=1 << 20)
    return FetchRequest(max_wait_ms=500, min_bytes=1, topics=[FetchTopic("t", partitions=[asked])])


def produce(value: bytes) -> ProduceRequest:
    records = bytes(build_batch([(None, value)], 1_750_000_000_000))
    return ProduceRequest(None, -1, 5_000, [TopicProduceData("t", partition_data=[PartitionProduceData(0, records)])])


async def joined(client: RawClient) -> int:
    """The epoch of the only member of a consumer group, which says its heartbeat again and again."""
    joining = ConsumerGroupHeartbeatRequest(
        "g", "m", 0, rebalance_timeout_ms=60_000, subscribed_topic_names=["t"], topic_partitions=[]
    )
    epoch: int = (await client.ask(joining, 1)).member_epoch
    for _ in range(4):
        assert (await client.ask(ConsumerGroupHeartbeatRequest("g", "m", epoch), 1)).error_code == ErrorCode.NONE
    return epoch


async def received(client: RawClient) -> list[type]:
    """The kinds of the answers to all that was sent. One out of order is an error of the client's."""
    kinds = []
    while client.unanswered:
        answer = await client.receive()
        assert answer is not None
        kinds.append(type(answer.request))
    return kinds


def test_a_fetch_that_a_producer_wakes_is_answered_behind_a_commit_before_it(tmp_path: Path) -> None:
    async def story(ours: InProcess, client: RawClient) -> None:
        producer, other = await ours.connect("producer"), await ours.connect("other")
        for number in range(TIMES):
            other.send(commit(number), 8)
            client.send(commit(number), 8)
            client.send(fetch(number), 12)
            producer.send(produce(b"v"), 9)
            assert await received(client) == [OffsetCommitRequest, FetchRequest]
            assert await received(producer) + await received(other) == [ProduceRequest, OffsetCommitRequest]

    played(tmp_path, story)


def test_a_heartbeat_of_the_consumer_protocol_is_answered_behind_a_commit_before_it(tmp_path: Path) -> None:
    async def story(_ours: InProcess, client: RawClient) -> None:
        epoch = await joined(client)
        for number in range(TIMES):
            client.send(commit(number, "g", "m", epoch), 9)
            client.send(ConsumerGroupHeartbeatRequest("g", "m", epoch), 1)
            assert await received(client) == [OffsetCommitRequest, ConsumerGroupHeartbeatRequest]

    played(tmp_path, story)


def test_a_member_of_the_consumer_protocol_may_not_commit_in_a_version_that_does_not_know_it(tmp_path: Path) -> None:
    async def story(_ours: InProcess, client: RawClient) -> None:
        epoch = await joined(client)

        async def error(version: int, offset: int) -> int:
            answer: Any = await client.ask(commit(offset, "g", "m", epoch), version)
            code: int = answer.topics[0].partitions[0].error_code
            return code

        assert [await error(9, number) for number in range(4)] == [ErrorCode.NONE] * 4
        assert [await error(8, number) for number in range(6)] == [ErrorCode.UNSUPPORTED_VERSION] * 6

    played(tmp_path, story)


@pytest.mark.parametrize("client_id", [None, "", "é", "x" * 127, "x" * 128, "x" * 300])
def test_a_client_of_any_id_commits_the_same_again(tmp_path: Path, client_id: str | None) -> None:
    async def story(ours: InProcess, _client: RawClient) -> None:
        client = await ours.connect("")
        client.client_id = client_id
        for number in range(5):
            answer = await client.ask(commit(number), 8)
            assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE

    played(tmp_path, story)


def test_a_member_that_moves_to_another_rack_is_there(tmp_path: Path) -> None:
    async def story(_ours: InProcess, client: RawClient) -> None:
        epoch = await joined(client)
        for rack in ("r2", "r3"):
            assert (await client.ask(ConsumerGroupHeartbeatRequest("g", "m", epoch, rack_id=rack), 1)).error_code == 0
            [group] = (await client.ask(ConsumerGroupDescribeRequest(["g"]), 1)).groups
            assert [member.rack_id for member in group.members] == [rack]
            epoch = group.members[0].member_epoch

    played(tmp_path, story)
