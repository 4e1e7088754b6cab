"""Share groups in the daemon, from requests to the state of share partitions and back, over restarts, with ACLs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from coordinatord.coordination.share.persister import PartitionSummary, TopicIdPartition
from coordinatord.transport.net.cooperative_tasks import MAX_RUNNING
from coordinatord.transport.security.authorizer import Operation, PatternType, Permission, ResourceType
from kafka_wire.api.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from kafka_wire.api.create_acls import AclCreation, CreateAclsRequest
from kafka_wire.api.create_topics import CreatableTopic, CreateTopicsRequest
from kafka_wire.api.delete_groups import DeleteGroupsRequest
from kafka_wire.api.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from kafka_wire.api.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from kafka_wire.api.find_coordinator import FindCoordinatorRequest
from kafka_wire.api.list_groups import ListGroupsRequest
from kafka_wire.api.share_group_describe import ShareGroupDescribeRequest
from kafka_wire.api.share_group_heartbeat import ShareGroupHeartbeatRequest
from kafka_wire.errors import ErrorCode
from tests.handlers.test_share_state import SHARE
from tests.reference.in_process import run, running_in_process
from tests.server.access.cases import SUPER
from tests.server.access.ours import AUTHORIZER, authorized

SETTINGS = {**SHARE, "group.share.assignment.interval.ms": "0", "group.share.min.assignment.interval.ms": "0"}
NONE = ErrorCode.NONE


async def create(client: Any, **topics: int) -> None:
    made = [CreatableTopic(name, count, -1) for name, count in topics.items()]
    response = await client.ask(CreateTopicsRequest(made), 7)
    assert [each.error_code for each in response.topics] == [NONE] * len(made)


async def heartbeat(client: Any, member_id: str, epoch: int, *names: str) -> Any:
    request = ShareGroupHeartbeatRequest("g", member_id, epoch, None, list(names) or None)
    return await client.ask(request, 1)


async def member(client: Any, member_id: str, *names: str) -> int:
    """Join, and send heartbeats until the topics' partitions are assigned; return the member epoch."""
    response = await heartbeat(client, member_id, 0, *names)
    while True:
        assert response.error_code == NONE, response
        if response.assignment is not None and response.assignment.topic_partitions:
            return int(response.member_epoch)
        response = await heartbeat(client, member_id, response.member_epoch)
        await asyncio.sleep(0)


async def offsets(client: Any, *topics: tuple[str, list[int]], version: int = 1) -> Any:
    """DescribeShareGroupOffsets: of these, or of all."""
    asked = [DescribeShareGroupOffsetsRequestTopic(*each) for each in topics] or None
    request = DescribeShareGroupOffsetsRequest([DescribeShareGroupOffsetsRequestGroup("g", asked)])
    [group] = (await client.ask(request, version)).groups
    return group


def starts(group: Any) -> dict[str, dict[int, tuple[int, int]]]:
    """Start offset and lag of each partition."""
    return {
        topic.topic_name: {each.partition_index: (each.start_offset, each.lag) for each in topic.partitions}
        for topic in group.topics
    }


async def alter(client: Any, topic: str, **fields: Any) -> Any:
    offsets = [AlterShareGroupOffsetsRequestPartition(*each) for each in fields.pop("offsets").items()]
    return await client.ask(AlterShareGroupOffsetsRequest("g", [AlterShareGroupOffsetsRequestTopic(topic, offsets)]), 0)


async def delete_offsets(client: Any, *topics: str) -> Any:
    request = DeleteShareGroupOffsetsRequest("g", [DeleteShareGroupOffsetsRequestTopic(each) for each in topics])
    return await client.ask(request, 0)


async def describe(client: Any, group_id: str = "g") -> Any:
    [group] = (await client.ask(ShareGroupDescribeRequest([group_id]), 1)).groups
    return group


async def listed(client: Any) -> list[tuple[str, str, str, str]]:
    groups = (await client.ask(ListGroupsRequest(types_filter=["share"]), 5)).groups
    return [(each.group_id, each.protocol_type, each.group_state, each.group_type) for each in groups]


def played(tmp_path: Path, play: Callable[[Any], Any], **settings: str) -> None:
    async def running() -> None:
        async with running_in_process(tmp_path, {**SETTINGS, **settings}) as ours:
            await play(await ours.connect("raw"))

    run(running())


def test_members_are_assigned_what_the_share_coordinator_has_initialised(tmp_path: Path) -> None:
    async def first(client: Any) -> None:
        await create(client, t=3)
        epoch = await member(client, "a", "t")
        group = await describe(client)
        [only] = group.members
        assert (group.group_state, group.assignor_name, group.group_epoch) == ("Stable", "simple", epoch)
        assert [each.partitions for each in only.assignment.topic_partitions] == [[0, 1, 2]]
        assert await listed(client) == [("g", "share", "Stable", "share")]
        assert starts(await offsets(client)) == {"t": dict.fromkeys(range(3), (-1, -1))}

    async def again(client: Any) -> None:
        group = await describe(client)
        assert (group.group_state, [each.member_id for each in group.members]) == ("Stable", ["a"])
        epoch = group.members[0].member_epoch
        assert (await heartbeat(client, "a", epoch)).member_epoch == epoch
        assert (await heartbeat(client, "a", -1)).member_epoch == -1
        assert await listed(client) == [("g", "share", "Empty", "share")]

    played(tmp_path, first)
    played(tmp_path, again)


def test_offsets_are_set_read_and_deleted(tmp_path: Path) -> None:
    async def play(client: Any) -> None:
        await create(client, t=2, u=1)
        altered = await alter(client, "t", offsets={0: 0, 5: 1})
        [topic] = altered.responses
        assert [(each.partition_index, each.error_code) for each in topic.partitions] == [
            (0, NONE),
            (5, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ]
        assert starts(await offsets(client)) == {"t": {0: (0, 0)}}
        assert starts(await offsets(client, ("t", [0, 1]), ("no", [0]))) == {
            "t": {0: (0, 0), 1: (-1, -1)},
            "no": {0: (-1, -1)},
        }
        deleted = await delete_offsets(client, "t", "u")
        assert [(each.topic_name, each.error_code) for each in deleted.responses] == [
            ("t", NONE),
            ("u", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ]
        assert starts(await offsets(client)) == {}
        assert starts(await offsets(client, ("t", [0]))) == {"t": {0: (-1, -1)}}

    played(tmp_path, play)


def test_a_group_is_deleted_with_its_state(tmp_path: Path) -> None:
    async def play(client: Any) -> None:
        await create(client, t=1)
        await member(client, "a", "t")
        for expected in (ErrorCode.NON_EMPTY_GROUP, NONE, ErrorCode.GROUP_ID_NOT_FOUND):
            response = await client.ask(DeleteGroupsRequest(["g", "no"]), 2)
            assert {each.group_id: each.error_code for each in response.results} == {
                "g": expected,
                "no": ErrorCode.GROUP_ID_NOT_FOUND,
            }
            if expected == ErrorCode.NON_EMPTY_GROUP:
                assert (await alter(client, "t", offsets={0: 0})).error_code == expected
                await heartbeat(client, "a", -1)
        assert await listed(client) == []
        assert starts(await offsets(client, ("t", [0]))) == {"t": {0: (-1, -1)}}

    played(tmp_path, play)


def test_refused_requests(tmp_path: Path) -> None:
    async def play(client: Any) -> None:
        for member_id in ("", "m" * 37):
            assert (await heartbeat(client, member_id, 0, "t")).error_code == ErrorCode.INVALID_REQUEST
        missing = await describe(client, "no")
        assert (missing.error_code, missing.error_message) == (ErrorCode.GROUP_ID_NOT_FOUND, "Group no not found.")
        assert (await describe(client, "")).error_code == ErrorCode.INVALID_GROUP_ID
        assert (await delete_offsets(client, "t")).error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert await listed(client) == []

    played(tmp_path, play)


def test_the_coordinator_of_a_share_partition_is_this_node(tmp_path: Path) -> None:
    async def play(client: Any) -> None:
        keys = ["g:AAAAAAAAAAAAAAAAAAAAAQ:0", "g:0", "no key", " :AAAAAAAAAAAAAAAAAAAAAQ:0"]
        found = (await client.ask(FindCoordinatorRequest(key_type=2, coordinator_keys=keys), 6)).coordinators
        assert [each.error_code for each in found] == [NONE, *[ErrorCode.INVALID_REQUEST] * 3]
        assert found[0].node_id >= 0
        old = (await client.ask(FindCoordinatorRequest(key_type=2, coordinator_keys=keys[:1]), 5)).coordinators
        assert [each.error_code for each in old] == [ErrorCode.INVALID_REQUEST]

    played(tmp_path, play)


def test_permissions(tmp_path: Path) -> None:
    """Who may do nothing learns nothing; who may use the group alone sees none of its topics."""

    async def play() -> None:
        async with authorized(tmp_path, {**AUTHORIZER, **SETTINGS}) as (_, connect):
            ours = await connect(SUPER)
            await create(ours, t=1)
            await member(ours, "a", "t")
            stranger = await connect("stranger")
            no_group, no_topic = ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.TOPIC_AUTHORIZATION_FAILED
            assert (await heartbeat(stranger, "b", 0, "t")).error_code == no_group
            assert (await describe(stranger)).error_code == no_group
            assert (await offsets(stranger)).error_code == no_group
            assert (await alter(stranger, "t", offsets={0: 0})).error_code == no_group
            assert (await delete_offsets(stranger, "t")).error_code == no_group
            creation = AclCreation(
                ResourceType.GROUP, "g", PatternType.LITERAL, "User:guest", "*", Operation.ALL, Permission.ALLOW
            )
            [made] = (await ours.ask(CreateAclsRequest([creation]), 3)).results
            assert made.error_code == NONE
            guest = await connect("guest")
            assert (await heartbeat(guest, "b", 0, "t")).error_code == no_topic
            assert (await describe(guest)).error_code == no_topic
            assert (await offsets(guest)).topics == []
            [topic] = (await offsets(guest, ("t", [0]))).topics
            assert [each.error_code for each in topic.partitions] == [no_topic]
            assert (await heartbeat(guest, "a", -1)).error_code == NONE
            [topic] = (await alter(guest, "t", offsets={0: 0})).responses
            assert [each.error_code for each in topic.partitions] == [no_topic]
            [topic] = (await delete_offsets(guest, "t")).responses
            assert topic.error_code == no_topic

    run(play())


def test_requests_that_wait_for_another_node_leave_room_for_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More of them than tasks may run at one time."""
    count = MAX_RUNNING + 1
    asked: list[tuple[list[TopicIdPartition], Callable[[list[PartitionSummary]], object]]] = []
    topic = DescribeShareGroupOffsetsRequestTopic("orders", [0])
    waiting = DescribeShareGroupOffsetsRequest([DescribeShareGroupOffsetsRequestGroup("g", [topic])])

    async def play() -> None:
        async with running_in_process(tmp_path, SETTINGS) as ours:
            await create(await ours.connect("admin"), orders=1)
            assert ours.daemon.share is not None
            keep = lambda group_id, partitions, done: asked.append((partitions, done))  # noqa: E731
            monkeypatch.setattr(ours.daemon.share.persister, "read_summary", keep)
            clients = [await ours.connect("admin") for _ in range(count)]
            answers = [asyncio.create_task(client.ask(waiting, 1)) for client in clients]
            while len(asked) < count:  # noqa: ASYNC110  # the persister has no event for it
                await asyncio.sleep(0)
            other = await ours.connect("admin")
            assert (await other.ask(DescribeShareGroupOffsetsRequest([]), 1)).groups == []
            for partitions, done in asked:
                done([PartitionSummary(*each, start_offset=7) for each in partitions])
            for answer in await asyncio.gather(*answers):
                assert [each.start_offset for each in answer.groups[0].topics[0].partitions] == [7]

    run(play())
