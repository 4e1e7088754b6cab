"""Heartbeats of the consumer protocol that are the same bytes are not decoded, and nobody can tell."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from coordinatord.server.fastpath.consumer_heartbeats import ConsumerHeartbeats
from coordinatord.testing.conform.raw_client import RawClient
from coordinatord.transport.net.connection import Connection
from coordinatord.transport.security.authorizer import Operation, PatternType, Permission, ResourceType
from coordinatord.transport.security.principal import Principal
from kafka_wire.api.consumer_group_describe import ConsumerGroupDescribeRequest
from kafka_wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafka_wire.api.create_acls import AclCreation, CreateAclsRequest
from kafka_wire.api.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kafka_wire.api.create_topics import CreatableTopic, CreateTopicsRequest
from kafka_wire.api.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from kafka_wire.api.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kafka_wire.api.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kafka_wire.errors import ErrorCode
from kafka_wire.framing import Frames
from tests.reference.in_process import InlineWorker, InProcess, run, running_in_process

pytestmark = pytest.mark.interpreted

SETTINGS = {
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.min.session.timeout.ms": "6000",
    "group.consumer.session.timeout.ms": "10000",
    "group.consumer.min.heartbeat.interval.ms": "1000",
}
GROUP_RESOURCE = 32


class Scene:
    """A daemon, a group of one member that has its partitions, and how many heartbeats the shortcut has answered."""

    def __init__(self, ours: InProcess, client: RawClient) -> None:
        self.ours = ours
        self.client = client
        self.epoch = 0
        self.hits = 0

    async def say(self, member_id: str = "one", client: RawClient | None = None, **fields: Any) -> Any:
        """A heartbeat; without fields one that says nothing new."""
        epoch = fields.pop("member_epoch", self.epoch)
        request = ConsumerGroupHeartbeatRequest("g", member_id, epoch, **fields)
        return await (client or self.client).ask(request, 1)

    async def join(self, member_id: str) -> Any:
        fields = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": ["t"], "topic_partitions": []}
        return await self.say(member_id, member_epoch=0, **fields)

    async def steady(self) -> None:
        """The second of two equal heartbeats is answered by the shortcut, and like the first one."""
        first, hits = await self.say(), self.hits
        assert first.error_code == ErrorCode.NONE
        assert await self.say() == first
        assert self.hits == hits + 1


def played(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    story: Callable[[Scene], Awaitable[None]],
    settings: Mapping[str, str] = SETTINGS,
) -> None:
    scenes: list[Scene] = []
    answer = ConsumerHeartbeats.answer

    def counted(self: ConsumerHeartbeats, connection: Connection, frames: Frames, first: int, stop: int) -> int:
        count = answer(self, connection, frames, first, stop)
        scenes[0].hits += count
        return count

    monkeypatch.setattr(ConsumerHeartbeats, "answer", counted)

    async def main() -> None:
        async with running_in_process(tmp_path, settings) as ours:
            scene = Scene(ours, await ours.connect("client"))
            scenes.append(scene)
            await scene.client.ask(CreateTopicsRequest([CreatableTopic("t", 4, 1)], 60_000), 4)
            joined = await scene.join("one")
            scene.epoch = joined.member_epoch
            await scene.say(topic_partitions=joined.assignment.topic_partitions)
            assert scene.hits == 0
            await asyncio.sleep(1)  # the ledger makes its topic when an epoch is over
            await scene.say()
            await scene.steady()
            await story(scene)

    run(main())


def test_the_session_goes_on_and_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(scene: Scene) -> None:
        hits = scene.hits
        for _ in range(10):
            await asyncio.sleep(4)
            assert (await scene.say()).error_code == ErrorCode.NONE
        assert scene.hits == hits + 10
        await asyncio.sleep(10.5)
        assert (await scene.say()).error_code == ErrorCode.UNKNOWN_MEMBER_ID

    played(tmp_path, monkeypatch, story)


def test_a_member_hears_of_others_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(scene: Scene) -> None:
        hits = scene.hits
        await scene.join("two")
        told = await scene.say()
        assert scene.hits == hits
        assert [len(each.partitions) for each in told.assignment.topic_partitions] == [2]
        said = await scene.say(topic_partitions=told.assignment.topic_partitions)
        scene.epoch = said.member_epoch
        await scene.steady()

    played(tmp_path, monkeypatch, story)


def test_a_member_hears_of_new_partitions_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(scene: Scene) -> None:
        await scene.client.ask(CreatePartitionsRequest([CreatePartitionsTopic("t", 6, None)], 60_000), 1)
        told = await scene.say()
        assert [len(each.partitions) for each in told.assignment.topic_partitions] == [6]

    played(tmp_path, monkeypatch, story)


def test_a_member_hears_of_another_interval_and_has_another_session_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(scene: Scene) -> None:
        configs = [
            AlterableConfig("consumer.heartbeat.interval.ms", 0, "2000"),
            AlterableConfig("consumer.session.timeout.ms", 0, "20000"),
        ]
        await scene.client.ask(IncrementalAlterConfigsRequest([AlterConfigsResource(GROUP_RESOURCE, "g", configs)]), 1)
        assert (await scene.say()).heartbeat_interval_ms == 2_000
        await scene.steady()
        await asyncio.sleep(15)
        await scene.steady()

    played(tmp_path, monkeypatch, story)


def test_the_same_bytes_of_another_client_host_or_epoch_are_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(scene: Scene) -> None:
        hits = scene.hits
        assert (await scene.say(member_epoch=scene.epoch + 1)).error_code == ErrorCode.FENCED_MEMBER_EPOCH
        other = await scene.ours.connect("client")
        monkeypatch.setattr(other.link.connection, "client_host", "/10.0.0.1")  # type: ignore[attr-defined]
        assert (await scene.say(client=other)).error_code == ErrorCode.NONE
        described = await scene.client.ask(ConsumerGroupDescribeRequest(["g"]), 1)
        assert described.groups[0].members[0].client_host == "/10.0.0.1"
        assert scene.hits == hits

    played(tmp_path, monkeypatch, story)


def test_a_heartbeat_that_says_all_is_told_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(scene: Scene) -> None:
        owned = (await scene.say(topic_partitions=[])).assignment
        assert owned is None
        hits = scene.hits
        for _ in range(3):
            full = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": ["t"], "topic_partitions": []}
            answer = await scene.say(**full)
            assert [len(each.partitions) for each in answer.assignment.topic_partitions] == [4]
        assert scene.hits == hits

    played(tmp_path, monkeypatch, story)


AUTHORIZED = {
    **SETTINGS,
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}


def test_permissions_are_those_of_now_and_of_who_asks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(scene: Scene) -> None:
        other = await scene.ours.connect("client")
        other.link.connection.principal = Principal("User", "bob")  # type: ignore[attr-defined]
        hits = scene.hits
        assert (await scene.say(client=other)).error_code == ErrorCode.NONE
        assert scene.hits == hits, "the same bytes of somebody else"
        denied = AclCreation(
            ResourceType.GROUP, "g", PatternType.LITERAL, "User:ANONYMOUS", "*", Operation.READ, Permission.DENY
        )
        await scene.client.ask(CreateAclsRequest([denied]), 3)
        for _ in range(3):
            assert (await scene.say()).error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
        assert scene.hits == hits
        every = DeleteAclsFilter(ResourceType.ANY, None, PatternType.ANY, None, None, Operation.ANY, Permission.ANY)
        await scene.client.ask(DeleteAclsRequest([every]), 3)
        assert (await scene.say()).error_code == ErrorCode.NONE
        assert scene.hits == hits
        await scene.steady()

    played(tmp_path, monkeypatch, story, AUTHORIZED)


def test_it_waits_for_a_record_of_its_group_and_is_not_remembered_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(scene: Scene) -> None:
        coordinator = scene.ours.daemon.coordinator
        made = await scene.client.ask(CreateTopicsRequest([CreatableTopic("gone", 1, 1)], 60_000), 7)
        partitions = [OffsetCommitRequestPartition(0, 5)]
        topics = [OffsetCommitRequestTopic("gone", partitions=partitions)]
        committed = await scene.client.ask(OffsetCommitRequest("g", scene.epoch, "one", topics=topics), 9)
        assert committed.topics[0].partitions[0].error_code == ErrorCode.NONE
        # The topics' version is another one now: heartbeats are remembered anew.
        hits, jobs = scene.hits, []
        with monkeypatch.context() as held:
            held.setattr(InlineWorker, "submit", lambda _self, job: jobs.append(job))
            coordinator.topic_deleted("gone", made.topics[0].topic_id)  # a tombstone
            waiting = [asyncio.ensure_future(scene.say(client=await scene.ours.connect("client"))) for _ in range(3)]
            await asyncio.sleep(0.1)
            assert [each.done() for each in waiting] == [False] * 3
        for job in jobs:
            job()
        assert [(await each).error_code for each in waiting] == [ErrorCode.NONE] * 3
        assert scene.hits == hits
        await scene.say()
        await scene.steady()

    played(tmp_path, monkeypatch, story, {**SETTINGS, "log.flush": "always"})
