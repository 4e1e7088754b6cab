"""Fixed scripts: one kind of request each, sent to a whole daemon whose clients are transports in memory.

A script is an async generator function of a :class:`Stage`. It prepares, then yields once for each round, with all that
is to be measured between two yields done by `stage.send`, which is given frames that were made before. What a round
does is the same every time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

from coordinatord.coordination.group.states import STABLE
from coordinatord.server.daemon.daemon import Daemon
from coordinatord.transport.net.connection import Connection
from kafka_wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from kafka_wire.api.create_topics import CreatableTopic, CreateTopicsRequest
from kafka_wire.api.fetch import FetchPartition, FetchRequest, FetchTopic
from kafka_wire.api.find_coordinator import FindCoordinatorRequest
from kafka_wire.api.heartbeat import HeartbeatRequest
from kafka_wire.api.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kafka_wire.api.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafka_wire.api.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kafka_wire.api.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from kafka_wire.api.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafka_wire.api.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kafka_wire.client import codec_of
from kafka_wire.errors import ErrorCode
from kafka_wire.records.batch import build_batch
from tests.support.shell import Transport, request_frame, response_of

TOPIC, PARTITIONS = "topic", 4
IN_ROUND = 16
"""Requests of a round, or a multiple of it: every sixteenth of an API is timed, so that each round has one."""
WARM_UP = 20
"""Rounds before the first that counts: a router times the first 256 requests of each kind."""
SESSION_TIMEOUT_MS = 1_800_000


class Client:
    """One connection in memory."""

    def __init__(self, stage: Stage) -> None:
        self.transport = Transport()
        self.connection = Connection(stage.daemon.door, "PLAINTEXT")
        self.connection.connection_made(self.transport)
        stage.clients.append(self)

    def take(self, message: Any, version: int) -> Any:
        """The only answer since the last look, decoded."""
        data = bytes(self.transport.written)
        self.transport.written.clear()
        size = int.from_bytes(data[:4], "big")
        assert len(data) == 4 + size, f"{len(data)} bytes are not one answer"
        return response_of(codec_of(message, version), data[4:])[1]


class Stage:
    """A daemon, its clients, and the two moments between which is measured."""

    def __init__(self, daemon: Daemon) -> None:
        self.daemon = daemon
        self.clients: list[Client] = []
        self.before: Callable[[], object] = lambda: None
        self.unanswered: Callable[[], object] = lambda: None
        self.after: Callable[[], object] = lambda: None

    async def settle(self) -> None:
        """Let the loop turn until whatever was asked is answered or parked, and the log is written."""
        for _ in range(3):
            await asyncio.sleep(0)
        while self.daemon.writer.flushed_epoch < self.daemon.writer.epoch - 1:  # noqa: ASYNC110  # another thread writes
            await asyncio.sleep(0.001)
        for _ in range(3):
            await asyncio.sleep(0)

    def leave(self) -> None:
        """All clients are gone."""
        for client in self.clients:
            client.connection.connection_lost(None)

    async def ask(self, client: Client, message: Any, version: int) -> Any:
        """A request that is not measured."""
        client.connection.data_received(request_frame(message, version, 1))
        await self.settle()
        while not client.transport.written:  # noqa: ASYNC110  # another thread has a part of it
            await asyncio.sleep(0.001)
        return client.take(message, version)

    async def send(self, chunks: list[tuple[Client, bytes]]) -> None:
        """What is measured: bytes arrive at connections, then the loop turns until all is done."""
        self.before()
        for client, data in chunks:
            client.connection.data_received(data)
        self.unanswered()
        await self.settle()
        # Otherwise a quarter of a second later, in a round that the clock chooses.
        self.daemon.ledger_writer.flush()
        await self.settle()
        self.after()

    async def create_topic(self, client: Client) -> None:
        made = await self.ask(client, CreateTopicsRequest([CreatableTopic(TOPIC, PARTITIONS, 1)]), 5)
        assert made.topics[0].error_code == ErrorCode.NONE

    async def reconciled(self, client: Client, member_id: str) -> int:
        """A member of a consumer group says that it owns what it is to own. Returns its epoch."""
        consumer = self.daemon.coordinator.actors["group"].group.consumer
        assert consumer is not None
        member = consumer.members[member_id]
        owned = [TopicPartitions(topic_id, list(epochs)) for topic_id, epochs in member.assigned.items()]
        request = ConsumerGroupHeartbeatRequest("group", member_id, member.epoch, topic_partitions=owned)
        answer = await self.ask(client, request, 1)
        assert answer.error_code == ErrorCode.NONE
        epoch: int = answer.member_epoch
        return epoch

    async def member(self, client: Client, group: str) -> tuple[str, int]:
        """A group of one member: its id and generation."""
        member_id = (await self.ask(client, join(group), 9)).member_id
        joined = await self.ask(client, join(group, member_id), 9)
        synced = await self.ask(client, sync(group, joined.generation_id, member_id), 5)
        assert (joined.error_code, synced.error_code) == (0, 0)
        return member_id, joined.generation_id


Script = Callable[[Stage], AsyncIterator[None]]


@dataclass(frozen=True)
class Entry:
    """`per_round`: by how many what is counted in a round is divided."""

    script: Script
    what: str
    per_round: int


SCRIPTS: dict[str, Entry] = {}


def script(what: str, per_round: int = IN_ROUND) -> Callable[[Script], Script]:
    """Name a script in figures.json by its function."""

    def add(function: Script) -> Script:
        SCRIPTS[function.__name__] = Entry(function, what, per_round)
        return function

    return add


def join(group: str, member_id: str = "") -> JoinGroupRequest:
    protocols = [JoinGroupRequestProtocol("range", b"\0\1\0\0\0\1\0\5topic\0\0\0\0\xff\xff\xff\xff")]
    return JoinGroupRequest(group, SESSION_TIMEOUT_MS, SESSION_TIMEOUT_MS, member_id, None, "consumer", protocols)


def consumer_join(member_id: str, topics: list[str]) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(
        "group", member_id, 0, rebalance_timeout_ms=60_000, subscribed_topic_names=topics, topic_partitions=[]
    )


def sync(group: str, generation: int, *members: str) -> SyncGroupRequest:
    """The leader's, who is the first of the members."""
    assignments = [SyncGroupRequestAssignment(member, b"\0\1\0\0\0\0\0\0\0\0") for member in members]
    return SyncGroupRequest(group, generation, members[0], None, "consumer", "range", assignments)


async def groups(stage: Stage, client: Client) -> list[tuple[str, str, int]]:
    """As many groups of one member as there are requests in a round."""
    names = [f"group-{number:02d}" for number in range(IN_ROUND)]
    return [(name, *await stage.member(client, name)) for name in names]


@script("a heartbeat, 8 in a read")
async def heartbeat(stage: Stage) -> AsyncIterator[None]:
    client = Client(stage)
    members = await groups(stage, client)
    frames = [request_frame(HeartbeatRequest(group, generation, member), 4, 1) for group, member, generation in members]
    while True:
        await stage.send([(client, b"".join(frames[:8])), (client, b"".join(frames[8:]))])
        yield


@script("a heartbeat that is not what its member said before, 8 in a read")
async def heartbeat_decoded(stage: Stage) -> AsyncIterator[None]:
    client = Client(stage)
    members = await groups(stage, client)
    names = [
        [
            request_frame(HeartbeatRequest(group, generation, member), 4, 1, f"client-{number}")
            for group, member, generation in members
        ]
        for number in range(100, 300)
    ]
    for frames in names:
        await stage.send([(client, b"".join(frames[:8])), (client, b"".join(frames[8:]))])
        yield


@script("a commit of 4 partitions, 8 in a read, not flushed")
async def commit(stage: Stage) -> AsyncIterator[None]:
    client = Client(stage)
    await stage.create_topic(client)
    frames = [
        request_frame(
            OffsetCommitRequest(
                group,
                generation,
                member,
                topics=[
                    OffsetCommitRequestTopic(
                        TOPIC, partitions=[OffsetCommitRequestPartition(p, 1_000, 0, "") for p in range(PARTITIONS)]
                    )
                ],
            ),
            8,
            1,
        )
        for group, member, generation in await groups(stage, client)
    ]
    while True:
        await stage.send([(client, b"".join(frames[:8])), (client, b"".join(frames[8:]))])
        yield


@script("an offset fetch of 4 partitions, 8 in a read")
async def offset_fetch(stage: Stage) -> AsyncIterator[None]:
    client = Client(stage)
    await stage.create_topic(client)
    frames = []
    for group, member, generation in await groups(stage, client):
        partitions = [OffsetCommitRequestPartition(p, 1_000, 0, "") for p in range(PARTITIONS)]
        topics = [OffsetCommitRequestTopic(TOPIC, partitions=partitions)]
        await stage.ask(client, OffsetCommitRequest(group, generation, member, topics=topics), 8)
        asked = [OffsetFetchRequestTopics(TOPIC, partition_indexes=list(range(PARTITIONS)))]
        frames.append(request_frame(OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, topics=asked)]), 8, 1))
    while True:
        await stage.send([(client, b"".join(frames[:8])), (client, b"".join(frames[8:]))])
        yield


@script("a group of one member made: find, join (v3, without a second round), sync")
async def one_member_group(stage: Stage) -> AsyncIterator[None]:
    clients = [Client(stage) for _ in range(IN_ROUND)]
    number = 0
    stage.daemon.coordinator.new_id = lambda: f"id-{number:08d}"
    while True:
        names = [f"new-{number + each:08d}" for each in range(IN_ROUND)]
        number += IN_ROUND
        finds = [request_frame(FindCoordinatorRequest(key_type=0, coordinator_keys=[name]), 4, 1) for name in names]
        joins = [request_frame(join(name), 3, 1) for name in names]
        # The same id in all groups of a round: there is no telling it before.
        member = f"test-id-{number:08d}"
        syncs = [request_frame(sync(name, 1, member), 3, 1) for name in names]
        await stage.send(
            [(client, b"".join(three)) for client, *three in zip(clients, finds, joins, syncs, strict=True)]
        )
        assert all(actor.group.state is STABLE for actor in map(stage.daemon.coordinator.find, names))  # type: ignore[union-attr]
        yield


@script("a rebalance of 50 members: they rejoin and sync, v3", per_round=1)
async def rebalance_of_50(stage: Stage) -> AsyncIterator[None]:
    async for _ in _rebalances(stage, 3, 3):
        yield


@script("a rebalance of 50 members in flexible versions: they rejoin (v9) and sync (v5)", per_round=1)
async def rebalance_of_50_flexible(stage: Stage) -> AsyncIterator[None]:
    async for _ in _rebalances(stage, 9, 5):
        yield


async def _rebalances(stage: Stage, join_version: int, sync_version: int) -> AsyncIterator[None]:
    """Of a group of 50. The versions are those in which its members rejoin and sync."""
    clients = [Client(stage) for _ in range(50)]
    number = 0

    def new_id() -> str:
        nonlocal number
        number += 1
        return f"id-{number:02d}"

    stage.daemon.coordinator.new_id = new_id
    members = [f"test-id-{each:02d}" for each in range(1, 51)]
    for client in clients:
        client.connection.data_received(request_frame(join("many"), 3, 1))
        await stage.settle()
    # The first was answered when it was alone, with generation 1; the others wait for it to rejoin.
    clients[0].connection.data_received(request_frame(join("many", members[0]), 3, 1))
    generation = 2
    rejoins = [request_frame(join("many", member), join_version, 1) for member in members]

    def syncs() -> list[tuple[Client, bytes]]:
        leader = sync("many", generation, *members)
        followers = [SyncGroupRequest("many", generation, each, None, "consumer", "range") for each in members[1:]]
        return list(zip(clients, [request_frame(each, sync_version, 1) for each in (leader, *followers)], strict=True))

    for client, frame in syncs():
        client.connection.data_received(frame)
    while True:
        await stage.settle()
        for client in clients:
            client.transport.written.clear()
        generation += 1
        await stage.send([*zip(clients, rejoins, strict=True), *syncs()])
        assert all(len(client.transport.written) > 70 for client in clients), "two answers each"
        yield


@script("a heartbeat by which a member of a consumer group reaches the next epoch")
async def consumer_move(stage: Stage) -> AsyncIterator[None]:
    ids = [f"member-{number:02d}" for number in range(IN_ROUND)]
    clients = [Client(stage) for _ in ids]
    restless = Client(stage)
    await stage.ask(restless, CreateTopicsRequest([CreatableTopic("moving", 2 * (IN_ROUND + 1), 1)]), 5)
    without_interval = [AlterableConfig("consumer.assignment.interval.ms", 0, "0")]
    await stage.ask(restless, IncrementalAlterConfigsRequest([AlterConfigsResource(32, "group", without_interval)]), 1)
    topics = [["moving"], ["moving", "another"]]
    epoch = 0
    for client, member_id in [*zip(clients, ids, strict=True), (restless, "restless")]:
        joined = await stage.ask(client, consumer_join(member_id, topics[0]), 1)
        assert joined.error_code == ErrorCode.NONE
        epoch = joined.member_epoch
    reached = dict.fromkeys(ids, epoch)
    for _ in range(IN_ROUND):  # the first had everything, and each gives up what the next ones are to have
        for client, member_id in [*zip(clients, ids, strict=True), (restless, "restless")]:
            reached[member_id] = await stage.reconciled(client, member_id)
    assert set(reached.values()) == {epoch}
    while True:
        topics.reverse()
        request = ConsumerGroupHeartbeatRequest("group", "restless", epoch, subscribed_topic_names=topics[0])
        assert (await stage.ask(restless, request, 1)).member_epoch == epoch + 1
        moves = [ConsumerGroupHeartbeatRequest("group", member_id, epoch) for member_id in ids]
        frames = [request_frame(each, 1, 1) for each in moves]
        await stage.send(list(zip(clients, frames, strict=True)))
        epoch += 1
        assert {client.take(moves[0], 1).member_epoch for client in clients} == {epoch}
        yield


@script("a produce of one record of 100 bytes")
async def produce(stage: Stage) -> AsyncIterator[None]:
    client = Client(stage)
    await stage.create_topic(client)
    frame = request_frame(produce_request(bytes(100)), 9, 1)
    while True:
        await stage.send([(client, frame)] * IN_ROUND)
        yield


@script("a fetch of one record of 1,024 bytes")
async def fetch(stage: Stage) -> AsyncIterator[None]:
    client = Client(stage)
    await stage.create_topic(client)
    for _ in range(IN_ROUND):
        produced = await stage.ask(client, produce_request(bytes(1024)), 9)
        assert produced.responses[0].partition_responses[0].error_code == ErrorCode.NONE
    frames = [
        request_frame(
            FetchRequest(
                max_wait_ms=0,
                max_bytes=1 << 20,
                session_epoch=-1,
                topics=[FetchTopic(TOPIC, partitions=[FetchPartition(0, -1, offset, partition_max_bytes=1)])],
            ),
            12,
            1,
        )
        for offset in range(IN_ROUND)
    ]
    while True:
        await stage.send([(client, frame) for frame in frames])
        yield


@script("a fetch of a mebibyte in batches of 15,000 bytes")
async def fetch_much(stage: Stage) -> AsyncIterator[None]:
    client = Client(stage)
    await stage.create_topic(client)
    for _ in range(80):
        produced = await stage.ask(client, produce_request(bytes(15_000)), 9)
        assert produced.responses[0].partition_responses[0].error_code == ErrorCode.NONE
    partition = FetchPartition(0, -1, 0, partition_max_bytes=1 << 20)
    wanted = FetchRequest(
        max_wait_ms=0, max_bytes=50 << 20, session_epoch=-1, topics=[FetchTopic(TOPIC, partitions=[partition])]
    )
    frame = request_frame(wanted, 12, 1)
    while True:
        await stage.send([(client, frame)] * IN_ROUND)
        assert len(client.transport.written) > IN_ROUND * 1_000_000, "whole batches, as many as fit"
        client.transport.written.clear()
        yield


def produce_request(value: bytes) -> ProduceRequest:
    data = PartitionProduceData(0, bytes(build_batch([(None, value)], 1_700_000_000_000)))
    return ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[TopicProduceData(TOPIC, partition_data=[data])])
