"""Share groups of Kafka 4.4 and of ours: the same answers to the same requests, and the same records in the log.

One program for both. What differs by nature is left out: topic ids, and with them the hash of topics and which of two
members gets which partition, times, and hosts.
"""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path
from typing import Any

import pytest

from coordinatord.testing.conform.raw_client import RawClient
from kafka_wire.api.consumer_group_describe import ConsumerGroupDescribeRequest
from kafka_wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafka_wire.api.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from kafka_wire.api.describe_groups import DescribeGroupsRequest
from kafka_wire.api.fetch import FetchPartition, FetchRequest, FetchTopic
from kafka_wire.api.find_coordinator import FindCoordinatorRequest
from kafka_wire.api.heartbeat import HeartbeatRequest
from kafka_wire.api.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafka_wire.api.leave_group import LeaveGroupRequest, MemberIdentity
from kafka_wire.api.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kafka_wire.api.offset_delete import OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from kafka_wire.api.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from kafka_wire.api.sync_group import SyncGroupRequest
from kafka_wire.errors import ErrorCode
from kafka_wire.records.batch import iterate_batches
from kafka_wire.records.batch import records as read_batch
from kafka_wire.records.keys import SHARE_GROUP_KEYS, UnknownRecordError, decode_key, decode_value
from kafka_wire.schema import ZERO_UUID
from tests.handlers.test_share_groups import (
    SETTINGS,
    alter,
    create,
    delete_offsets,
    describe,
    heartbeat,
    listed,
    member,
    offsets,
)
from tests.reference import broker
from tests.reference.in_process import run, running_in_process

pytestmark = [pytest.mark.reference, pytest.mark.timeout(600)]

ONE_PARTITION = {"offsets.topic.num.partitions": "1", "share.coordinator.state.topic.num.partitions": "1"}
HIDDEN = {"client_host": "", "metadata_hash": 0, "assignment_timestamp": 0, "throttle_time_ms": 0, "client_id": ""}


def shown(message: Any) -> Any:
    """A message as plain data; topic ids are shown as whether there is one."""
    if isinstance(message, list):
        return [shown(each) for each in message]
    if isinstance(message, bytes):
        return message != ZERO_UUID
    if not dataclasses.is_dataclass(message):
        return message
    if isinstance(message, DeleteGroupsResponse):
        message.results.sort(key=lambda each: each.group_id)
    names = [field.name for field in dataclasses.fields(message)]
    if names[-1] == "partitions" and is_assignment(message):
        return type(message).__name__, len(message.partitions)
    return (type(message).__name__, {name: HIDDEN.get(name, shown(getattr(message, name))) for name in names})


def is_assignment(message: Any) -> bool:
    """Whether this is a part of an assignment: which member gets which partitions depends on the topics' ids, as the
    comparison of assignors shows, but not how many.
    """
    return type(message).__name__ in ("TopicPartitions", "TopicPartition")


async def program(client: RawClient) -> list[Any]:
    """The answers, in order."""
    said: list[Any] = []

    async def ask(request: Any, version: int) -> None:
        said.append(shown(await client.ask(request, version)))

    await create(client, t=3, u=1)
    await ready(client)
    for request in (("a", 1), ("a", -1), ("a", -2), ("a", 0), ("", 0, "t"), (" ", 0, "t"), ("m" * 37, 0, "t")):
        said.append(shown(await heartbeat(client, *request)))
    said.append(shown(await describe(client)))
    epoch = await member(client, "a", "t")
    said.append(shown(await heartbeat(client, "a", epoch)))
    said.append(shown(await describe(client)))
    said.append(shown(await heartbeat(client, "b", 0, "t")))
    said.append(shown(await heartbeat(client, "a", epoch)))
    said.append(shown(await heartbeat(client, "a", epoch)))
    for request in (("a", 99), ("a", 1), ("c", 1), ("c", -1)):
        said.append(shown(await heartbeat(client, *request)))
    said.append(shown(await describe(client)))
    said.append(await listed(client))
    said.append(shown(await offsets(client)))
    said.append(shown(await alter(client, "t", offsets={0: 0})))
    said.append(shown(await delete_offsets(client, "t")))
    await others(ask)
    for name in ("a", "b"):
        said.append(shown(await heartbeat(client, name, -1)))
    said.append(shown(await describe(client)))
    await others(ask)
    said.append(shown(await alter(client, "t", offsets={0: 0, 1: 5, 7: 1})))
    said.append(shown(await alter(client, "no", offsets={0: 0})))
    said.append(shown(await offsets(client, ("t", [0, 1, 2]), ("no", [0]))))
    said.append(shown(await offsets(client, ("t", [0, 1, 2]), version=0)))
    said.append(shown(await offsets(client)))
    said.append(shown(await delete_offsets(client, "t", "u", "no")))
    said.append(shown(await delete_offsets(client, "t")))
    said.append(shown(await offsets(client)))
    await ask(DeleteGroupsRequest(["g", "no"]), 2)
    said.append(await listed(client))
    said.append(shown(await describe(client)))
    return said


async def ready(client: RawClient) -> None:
    """Wait until the coordinator serves the group: Kafka creates the topic of offsets for the first client."""
    loading = {ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR}
    while True:
        [found] = (await client.ask(FindCoordinatorRequest(coordinator_keys=["g"]), 6)).coordinators
        if found.error_code not in loading and (await heartbeat(client, "a", 1)).error_code not in loading:
            return
        await asyncio.sleep(0.1)


async def others(ask: Any) -> None:
    """What other protocols ask of a share group."""
    await ask(JoinGroupRequest("g", 10_000, 10_000, "", None, "consumer", [JoinGroupRequestProtocol("range", b"")]), 9)
    await ask(SyncGroupRequest("g", 1, "m", None, "consumer", "range"), 5)
    await ask(HeartbeatRequest("g", 1, "a"), 4)
    await ask(LeaveGroupRequest("g", members=[MemberIdentity("a")]), 5)
    for generation in (-1, 1):
        topic = OffsetCommitRequestTopic("t", partitions=[OffsetCommitRequestPartition(0, 1)])
        await ask(OffsetCommitRequest("g", generation, "", topics=[topic]), 9)
    await ask(OffsetDeleteRequest("g", [OffsetDeleteRequestTopic("t", [OffsetDeleteRequestPartition(0)])]), 0)
    topics = [OffsetFetchRequestTopics("t", partition_indexes=[0])]
    await ask(OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", None, -1, topics)]), 9)
    await ask(ConsumerGroupHeartbeatRequest("g", "x", 0, None, None, 1_000, ["t"], None, None, []), 1)
    await ask(ConsumerGroupDescribeRequest(["g"]), 1)
    await ask(DescribeGroupsRequest(["g"]), 6)


async def records(client: RawClient) -> list[Any]:
    """The share group's records in the offsets log, in order."""
    topic = FetchTopic("__consumer_offsets", partitions=[FetchPartition(0, partition_max_bytes=1 << 20)])
    response = await client.ask(FetchRequest(max_bytes=1 << 20, min_bytes=1, max_wait_ms=1_000, topics=[topic]), 12)
    [partition] = response.responses[0].partitions
    found = []
    data = bytes(partition.records)
    for pos, header in iterate_batches(data):
        for record in read_batch(data, pos, header):
            try:
                key = decode_key(record.key)
            except UnknownRecordError:
                continue
            if type(key) in SHARE_GROUP_KEYS:
                found.append((shown(key), None if record.value is None else shown(decode_value(key, record.value))))
    return found


async def played(client: RawClient) -> tuple[list[Any], list[Any]]:
    said = await program(client)
    return said, await records(client)


def test_kafka_answers_and_logs_the_same(tmp_path: Path) -> None:
    async def ours() -> Any:
        async with running_in_process(tmp_path / "ours", {**SETTINGS, **ONE_PARTITION}) as process:
            return await played(await process.connect("raw"))

    async def kafkas(port: int) -> Any:
        return await played(await RawClient.connect(broker.HOST, port))

    settings = {name: value for name, value in SETTINGS.items() if "rebalance.protocols" not in name}
    libs = broker.kafka_libs(broker.KAFKA_VERSION)
    with broker.running_broker(libs, tmp_path / "kafka", {**settings, **ONE_PARTITION}) as kafka:
        theirs = asyncio.run(kafkas(kafka.port))
    mine = run(ours())
    answers = zip(mine[0], theirs[0], strict=True)
    assert not [(number, *both) for number, both in enumerate(answers) if both[0] != both[1]]
    assert mine[1] == theirs[1]
