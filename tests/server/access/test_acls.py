"""ACLs through the protocol: kept over a kill, told as Kafka tells them, and in force at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from coordinatord.transport.security.authorizer import Operation, Permission, ResourceType
from kafka_wire.api.create_acls import AclCreation, CreateAclsRequest
from kafka_wire.api.create_topics import CreatableTopic, CreateTopicsRequest
from kafka_wire.api.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from kafka_wire.api.delete_groups import DeleteGroupsRequest
from kafka_wire.api.describe_acls import DescribeAclsRequest
from kafka_wire.api.describe_groups import DescribeGroupsRequest
from kafka_wire.api.fetch import FetchPartition, FetchRequest, FetchTopic
from kafka_wire.api.find_coordinator import FindCoordinatorRequest
from kafka_wire.api.heartbeat import HeartbeatRequest
from kafka_wire.api.metadata import MetadataRequest, MetadataRequestTopic
from kafka_wire.api.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kafka_wire.api.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from kafka_wire.errors import ErrorCode
from tests.reference.in_process import run
from tests.server.access.ours import AUTHORIZER, authorized

ALL = DescribeAclsRequest(1, None, 1, None, None, 1, 1)


def read_of(group: str, user: str = "alice", permission: int = Permission.ALLOW) -> AclCreation:
    return AclCreation(ResourceType.GROUP, group, 3, f"User:{user}", "*", Operation.READ, permission)


def test_acls_survive_a_restart_and_are_no_topic(tmp_path: Path) -> None:
    async def create() -> None:
        async with authorized(tmp_path) as (_daemon, connect):
            client = await connect("super")
            assert [each.error_code for each in (await client.ask(CreateAclsRequest([read_of("g")]), 3)).results] == [0]

    async def look() -> Any:
        async with authorized(tmp_path) as (_daemon, connect):
            client = await connect("super")
            topics = (await client.ask(MetadataRequest(None), 12)).topics
            assert "__cluster_metadata" not in [topic.name for topic in topics]
            alice = await connect("alice")
            answer = await alice.ask(HeartbeatRequest("g", 1, "m"), 4)
            assert answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID
            return await client.ask(ALL, 3)

    run(create())
    for _ in range(2):
        (resource,) = run(look()).resources
        assert (resource.resource_name, resource.acls[0].principal) == ("g", "User:alice")


def test_acls_are_in_force_at_once_and_until_they_are_removed(tmp_path: Path) -> None:
    async def story() -> list[int]:
        seen = []
        async with authorized(tmp_path) as (_daemon, connect):
            root, alice = await connect("super"), await connect("alice")

            async def beat() -> None:
                seen.append((await alice.ask(HeartbeatRequest("g", 1, "m"), 4)).error_code)

            await beat()
            for _ in range(2):  # the second time there is nothing to log
                await root.ask(CreateAclsRequest([read_of("g"), read_of("g")]), 3)
                await beat()
            await root.ask(CreateAclsRequest([read_of("*", "*", Permission.DENY)]), 3)
            await beat()
            removed = await root.ask(
                DeleteAclsRequest([DeleteAclsFilter(3, None, 1, None, None, 1, Permission.DENY)] * 2), 3
            )
            assert [len(each.matching_acls) for each in removed.filter_results] == [1, 1]
            await beat()
            assert sum(len(each.acls) for each in (await root.ask(ALL, 3)).resources) == 1
        return seen

    known, denied = ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert run(story()) == [denied, known, known, denied, known]


def test_a_revoked_topic_leaves_a_fetch_session(tmp_path: Path) -> None:
    """The session keeps the partition: each fetch asks again."""

    async def story() -> list[list[tuple[str, int]]]:
        seen = []
        async with authorized(tmp_path) as (_daemon, connect):
            root, alice = await connect("super"), await connect("alice")
            await root.ask(MetadataRequest([MetadataRequestTopic(bytes(16), "orders")], True), 12)
            grant = AclCreation(ResourceType.TOPIC, "orders", 3, "User:alice", "*", Operation.READ, Permission.ALLOW)
            await root.ask(CreateAclsRequest([grant]), 3)
            topics = [FetchTopic("orders", bytes(16), [FetchPartition(0, -1, 0, partition_max_bytes=1000)])]
            first = await alice.ask(FetchRequest(max_bytes=1000, session_epoch=0, topics=topics), 12)
            for epoch in (1, 2):
                answer = await alice.ask(
                    FetchRequest(max_bytes=1000, session_id=first.session_id, session_epoch=epoch), 12
                )
                seen.append([(t.topic, p.error_code) for t in answer.responses for p in t.partitions])
                await root.ask(DeleteAclsRequest([DeleteAclsFilter(2, "orders", 3, None, None, 1, 1)]), 3)
        return seen

    assert run(story()) == [[], [("orders", ErrorCode.TOPIC_AUTHORIZATION_FAILED)]]


@pytest.mark.parametrize("version", [7, 9])
def test_a_topic_that_may_not_be_described_has_no_offset(version: int, tmp_path: Path) -> None:
    """As KafkaApis.fetchOffsets: beside the error are INVALID_OFFSET, no leader epoch, and no metadata."""

    async def story() -> list[tuple[Any, ...]]:
        async with authorized(tmp_path) as (_daemon, connect):
            root, alice = await connect("super"), await connect("alice")
            await root.ask(CreateTopicsRequest([CreatableTopic("orders", 2, 1)]), 7)
            committed = [OffsetCommitRequestPartition(number, 5, 3, "note") for number in range(2)]
            topics = [OffsetCommitRequestTopic("orders", partitions=committed)]
            await root.ask(OffsetCommitRequest("g", -1, "", topics=topics), 8)
            await root.ask(CreateAclsRequest([read_of("g")]), 3)
            request = OffsetFetchRequest(
                "g",
                [OffsetFetchRequestTopic("orders", [0, 1])],
                [OffsetFetchRequestGroup("g", topics=[OffsetFetchRequestTopics("orders", bytes(16), [0, 1])])],
            )
            answer = await alice.ask(request, version)
            group = answer.groups[0] if version >= 8 else answer
            assert group.error_code == 0
            return [
                (
                    each.partition_index,
                    each.committed_offset,
                    each.committed_leader_epoch,
                    each.metadata,
                    each.error_code,
                )
                for topic in group.topics
                for each in topic.partitions
            ]

    assert run(story()) == [(number, -1, -1, "", ErrorCode.TOPIC_AUTHORIZATION_FAILED) for number in range(2)]


@pytest.mark.parametrize(
    ("acl", "message"),
    [
        (read_of(""), "Invalid empty resource name"),
        (
            AclCreation(4, "other", 3, "User:a", "*", 3, 3),
            "The only valid name for the CLUSTER resource is kafka-cluster",
        ),
        (AclCreation(99, "a", 3, "User:a", "*", 3, 3), "Invalid resourceType UNKNOWN"),
        (AclCreation(2, "a", 99, "User:a", "*", 3, 3), "Invalid patternType UNKNOWN"),
    ],
)
def test_what_is_no_acl_is_refused_and_the_others_are_created(tmp_path: Path, acl: AclCreation, message: str) -> None:
    async def story() -> Any:
        async with authorized(tmp_path) as (_daemon, connect):
            client = await connect("super")
            answer = await client.ask(CreateAclsRequest([acl, read_of("g")]), 3)
            return answer.results, (await client.ask(ALL, 3)).resources

    results, resources = run(story())
    assert [(each.error_code, each.error_message) for each in results] == [(42, message), (0, "")]
    assert len(resources) == 1


def test_without_an_authorizer(tmp_path: Path) -> None:
    """Everybody may do everything but look at ACLs, which Kafka answers with SECURITY_DISABLED."""

    async def story() -> None:
        async with authorized(tmp_path, {}) as (_daemon, connect):
            client = await connect("anybody")
            assert (await client.ask(ALL, 3)).error_code == ErrorCode.SECURITY_DISABLED
            created = await client.ask(CreateAclsRequest([read_of("g")]), 3)
            assert [each.error_code for each in created.results] == [ErrorCode.SECURITY_DISABLED]
            removed = await client.ask(DeleteAclsRequest([DeleteAclsFilter(1, None, 1, None, None, 1, 1)]), 3)
            assert [each.error_code for each in removed.filter_results] == [ErrorCode.SECURITY_DISABLED]
            described = await client.ask(DescribeGroupsRequest(["g"], True), 5)
            assert described.groups[0].authorized_operations == 3400

    run(story())


def test_acls_of_an_authorizer_that_is_off_are_kept(tmp_path: Path) -> None:
    async def create() -> None:
        async with authorized(tmp_path) as (_daemon, connect):
            await (await connect("super")).ask(CreateAclsRequest([read_of("g")]), 3)

    async def start(settings: dict[str, str]) -> int:
        async with authorized(tmp_path, settings) as (daemon, _connect):
            return len(daemon.admission.authorizer)

    run(create())
    assert run(start({})) == 1
    assert run(start(AUTHORIZER)) == 1


def test_requests_that_are_split_and_encoded_aside_are_checked_in_each_part(tmp_path: Path) -> None:
    """Beyond sixteen elements the handler gets some at a time; beyond some KiB a request is decoded on a thread."""

    async def story() -> None:
        async with authorized(tmp_path) as (_daemon, connect):
            root, alice = await connect("super"), await connect("alice")
            allowed = [f"group-{number}" for number in range(0, 200, 2)]
            await root.ask(CreateAclsRequest([read_of(group) for group in allowed]), 3)
            for count in (10, 60, 200, 2000):
                names = [f"group-{number}" for number in range(count)]
                expected = {name: 0 if name in allowed else ErrorCode.GROUP_AUTHORIZATION_FAILED for name in names}
                described = await alice.ask(DescribeGroupsRequest(names, True), 5)
                assert {each.group_id: each.error_code for each in described.groups} == expected
                operations = {each.group_id: each.authorized_operations for each in described.groups}
                assert {name for name, known in operations.items() if known == (1 << 3) | (1 << 8)} == {
                    name for name in names if name in allowed
                }
                found = await alice.ask(FindCoordinatorRequest("", 0, names), 4)
                assert {each.key: each.error_code for each in found.coordinators} == expected
                deleted = await alice.ask(DeleteGroupsRequest(names), 2)
                assert {each.error_code for each in deleted.results} == {ErrorCode.GROUP_AUTHORIZATION_FAILED}

    run(story())


def test_metadata_of_many_topics_is_that_of_topics_which_may_be_described(tmp_path: Path) -> None:
    async def story() -> None:
        async with authorized(tmp_path) as (_daemon, connect):
            root, alice = await connect("super"), await connect("alice")
            names = [f"topic-{number}" for number in range(600)]
            await root.ask(CreateTopicsRequest([CreatableTopic(name, 1, 1) for name in names]), 7)
            grant = AclCreation(ResourceType.TOPIC, "topic-5", 4, "User:alice", "*", Operation.READ, Permission.ALLOW)
            await root.ask(CreateAclsRequest([grant]), 3)
            allowed = {name for name in names if name.startswith("topic-5")}
            everything = await alice.ask(MetadataRequest(None), 12)
            assert {topic.name for topic in everything.topics} == allowed
            asked = [MetadataRequestTopic(bytes(16), name) for name in names]
            named = await alice.ask(MetadataRequest(asked, False), 12)
            assert {topic.name for topic in named.topics if not topic.error_code} == allowed
            assert len(named.topics) == 600

    run(story())
