"""Members of a share group join, send heartbeats, leave and expire: a table of states and events, and its epochs."""

from __future__ import annotations

from typing import Any

import pytest

from coordinatord.coordination.group import events
from coordinatord.coordination.group.classic.step import step
from coordinatord.coordination.group.share.state import NewState
from coordinatord.coordination.group.states import ShareState
from kafka_wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafka_wire.api.heartbeat import HeartbeatRequest
from kafka_wire.api.join_group import JoinGroupRequest
from kafka_wire.api.leave_group import LeaveGroupRequest
from kafka_wire.api.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kafka_wire.api.offset_delete import OffsetDeleteRequest
from kafka_wire.api.share_group_heartbeat import ShareGroupHeartbeatRequest
from kafka_wire.api.sync_group import SyncGroupRequest
from kafka_wire.errors import ErrorCode
from kafka_wire.records.offsets import OffsetCommitKey, OffsetCommitValue
from kafka_wire.records.share_group import ShareGroupMetadataKey, ShareGroupStatePartitionMetadataKey
from tests.coordination.group.share.world import GROUP_ID, RETRY_MS, SESSION_MS, World

T = (1).to_bytes(16)


def world(**partitions: int) -> World:
    """A world with topics."""
    made = World()
    for name, count in (partitions or {"t": 3}).items():
        made.topics.put(name, count)
    return made


def joined(*member_ids: str, **partitions: int) -> World:
    """A group whose members subscribe to all topics, and have taken over their targets."""
    made = world(**partitions)
    for member_id in member_ids:
        made.heartbeat(member_id, 0, *made.topics.by_name)
        made.settled(*made.share.members)
    return made


def kinds(made: World) -> list[str]:
    """The types of the last step's records; tombstones with a minus."""
    return [
        ("-" if value is None else "") + type(key).__name__.removeprefix("ShareGroup").removesuffix("Key")
        for key, value in made.records
    ]


def test_a_first_member_gets_an_epoch_and_its_topics_are_initialised() -> None:
    made = world()
    answer = made.heard("a", 0, "t")
    assert (answer.response.member_epoch, answer.response.heartbeat_interval_ms) == (2, 5_000)
    assert answer.response.assignment.topic_partitions == []
    assert answer.create == tuple(NewState(T, each, state_epoch=2) for each in range(3))
    assert kinds(made) == [
        "MemberMetadata",
        "Metadata",
        "TargetAssignmentMember",
        "TargetAssignmentMetadata",
        "CurrentMemberAssignment",
        "StatePartitionMetadata",
    ]
    assert made.share.state is ShareState.STABLE


def test_partitions_are_assigned_when_their_state_is_there() -> None:
    made = world()
    made.heartbeat("a", 0, "t")
    assert made.heartbeat("a", 2).assignment is None, "the assignment interval has not passed"
    assert kinds(made) == ["Metadata"]
    made.advance(1_000)
    response = made.heartbeat("a", 2)
    assert (response.member_epoch, made.assigned("a")) == (3, {"t": [0, 1, 2]})
    assert response.assignment is not None
    assert made.heartbeat("a", 3).assignment is None
    assert made.records == []


def test_members_share_partitions() -> None:
    made = joined("a", "b", t=3)
    assert sorted(made.assigned("a")["t"] + made.assigned("b")["t"]) == [0, 1, 2]
    made = joined("a", "b", t=1)
    assert made.assigned("a") == made.assigned("b") == {"t": [0]}


@pytest.mark.parametrize("leaves", [True, False])
def test_others_take_over_from_a_member_that_leaves_or_expires(leaves: bool) -> None:
    made = joined("a", "b")
    epoch = made.share.epoch
    if leaves:
        assert made.heartbeat("b", -1).member_epoch == -1
    else:
        made.advance(SESSION_MS - 2_000)
        made.heartbeat("a", made.share.members["a"].epoch)
        made.advance(2_000)
    assert kinds(made) == ["-CurrentMemberAssignment", "-TargetAssignmentMember", "-MemberMetadata", "Metadata"]
    assert (made.share.epoch, list(made.share.members)) == (epoch + 1, ["a"])
    made.settled("a")
    assert made.assigned("a") == {"t": [0, 1, 2]}


def test_a_group_without_members_is_empty_and_stays() -> None:
    made = joined("a")
    made.heartbeat("a", -1)
    assert kinds(made)[-2:] == ["Metadata", "TargetAssignmentMetadata"]
    assert (made.share.state, made.share.assignment_epoch) == (ShareState.EMPTY, made.share.epoch)
    made.tell(events.Expire(1))
    assert made.group.exists, "Kafka does not expire share groups"
    made.heartbeat("b", 0, "t")
    assert made.assigned("b") == {"t": [0, 1, 2]}


def test_a_heartbeat_keeps_a_member() -> None:
    made = joined("a")
    for _ in range(3):
        made.advance(SESSION_MS - 1)
        assert made.heartbeat("a", 3).error_code == ErrorCode.NONE
    made.restart()
    made.advance(SESSION_MS - 1)
    assert made.heartbeat("a", 3).error_code == ErrorCode.NONE
    made.advance(SESSION_MS)
    assert made.share.state is ShareState.EMPTY


def test_a_topic_that_grows_raises_the_epoch_and_is_initialised() -> None:
    made = joined("a", t=1)
    made.topics.put("t", 2)
    answer = made.heard("a", 3)
    assert answer.create == (NewState(T, 1, state_epoch=4),)
    made.create(answer.create)
    made.settled("a")
    assert made.assigned("a") == {"t": [0, 1]}


def test_a_member_loses_topics_that_it_no_longer_subscribes_to_at_once() -> None:
    made = joined("a", t=1, u=1)
    response = made.heartbeat("a", made.share.members["a"].epoch, "u")
    assert response.assignment is not None
    assert made.assigned("a") == {"u": [0]}


def test_initialisation_is_tried_again_after_a_time() -> None:
    made = world()
    first = made.heard("a", 0, "t").create
    assert made.heard("a", 2).create == ()
    made.advance(RETRY_MS - 1)
    assert made.heard("a", 2).create == ()
    made.advance(1)
    assert [each.partition for each in made.heard("a", 2).create] == [each.partition for each in first]
    assert made.heard("a", 2).create == ()


def test_initialisation_that_fails_is_tried_again_at_once() -> None:
    made = world()
    made.create(made.heard("a", 0, "t").create, succeeded=False)
    assert made.share.partitions is not None
    assert made.share.partitions.initializing == made.share.partitions.initialized == {}
    assert len(made.heard("a", 2).create) == 3


def test_a_deleted_topic_is_forgotten() -> None:
    made = joined("a", t=1, u=1)
    topic = made.topics.by_name["t"]
    made.topics.delete("t")
    made.tell(events.TopicDeleted("t", topic.topic_id))
    assert [type(key) for key, _ in made.records] == [ShareGroupStatePartitionMetadataKey]
    assert made.share.partitions is not None
    assert topic.topic_id not in made.share.partitions.initialized
    made.settled("a")
    assert made.assigned("a") == {"u": [0]}


REFUSED: list[tuple[str, str, int, tuple[str, ...], ErrorCode, str]] = [
    ("none", "a", 1, (), ErrorCode.GROUP_ID_NOT_FOUND, "Share group g not found."),
    ("none", "a", -1, (), ErrorCode.GROUP_ID_NOT_FOUND, "Group g not found."),
    ("none", "a", -2, (), ErrorCode.INVALID_REQUEST, "MemberEpoch is invalid."),
    ("none", "a", 0, (), ErrorCode.INVALID_REQUEST, "SubscribedTopicNames must be set in first request."),
    ("none", " ", 0, ("t",), ErrorCode.INVALID_REQUEST, "MemberId can't be empty."),
    ("classic", "a", 0, ("t",), ErrorCode.GROUP_ID_NOT_FOUND, "Group g is not a share group."),
    ("classic", "a", -1, (), ErrorCode.GROUP_ID_NOT_FOUND, "Group g is not a share group."),
    ("a", "b", 1, (), ErrorCode.UNKNOWN_MEMBER_ID, "Member b is not a member of group g."),
    ("a", "b", -1, (), ErrorCode.UNKNOWN_MEMBER_ID, "Member b is not a member of group g."),
    ("a", "a", 4, (), ErrorCode.FENCED_MEMBER_EPOCH,
     "The share group member has a greater member epoch (4) than the one known by the group coordinator (3). "
     "The member must abandon all its partitions and rejoin."),
    ("a", "a", 1, (), ErrorCode.FENCED_MEMBER_EPOCH,
     "The share group member has a smaller member epoch (1) than the one known by the group coordinator (3), and it "
     "does not match the previous member epoch (2). The member must abandon all its partitions and rejoin."),
    ("a b c", "d", 0, ("t",), ErrorCode.GROUP_MAX_SIZE_REACHED,
     "The share group has reached its maximum capacity of 3 members."),
]  # fmt: skip
"""The group, the request's member, epoch and topics, and the error. The texts are those of Kafka 4.3's sources."""


@pytest.mark.parametrize(("there", "member_id", "epoch", "names", "error", "text"), REFUSED)
def test_refusals(there: str, member_id: str, epoch: int, names: tuple[str, ...], error: ErrorCode, text: str) -> None:
    made = world() if there in ("none", "classic") else joined(*there.split())
    if there == "classic":
        made.group.offsets["t"] = {0: OffsetCommitValue()}
        made.group.exists = True
        result = step(made.group, share_heartbeat(member_id, epoch, names), made.now_ms)
        response, records = result.reply.response, result.records
    else:
        response, records = made.heard(member_id, epoch, *names).response, made.records
    assert (response.error_code, response.error_message, records) == (error, text, [])


def share_heartbeat(member_id: str, epoch: int, names: tuple[str, ...]) -> events.ShareHeartbeat:
    request = ShareGroupHeartbeatRequest(GROUP_ID, member_id, epoch, None, list(names) or None)
    return events.ShareHeartbeat(request, "client", "/127.0.0.1")


@pytest.mark.parametrize("epoch", [0, 2, 3])
def test_epochs_that_are_not_refused(epoch: int) -> None:
    """A member may rejoin, and repeat a request whose response was lost."""
    made = joined("a")
    assert made.heartbeat("a", epoch, *(["t"] if epoch == 0 else [])).member_epoch == 3


OTHERS: list[tuple[Any, ErrorCode]] = [
    (events.Join.of(JoinGroupRequest(GROUP_ID, session_timeout_ms=10_000), 9, "r", "c", "/h"),
     ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    (events.Sync.of(SyncGroupRequest(GROUP_ID), 5, "r"), ErrorCode.UNKNOWN_MEMBER_ID),
    (HeartbeatRequest(GROUP_ID), ErrorCode.UNKNOWN_MEMBER_ID),
    (events.Leave.of(LeaveGroupRequest(GROUP_ID, "a"), 2), ErrorCode.UNKNOWN_MEMBER_ID),
    (OffsetDeleteRequest(GROUP_ID), ErrorCode.GROUP_ID_NOT_FOUND),
    (events.ConsumerHeartbeat(ConsumerGroupHeartbeatRequest(GROUP_ID, "m", 0), "c", "/h"),
     ErrorCode.GROUP_ID_NOT_FOUND),
]  # fmt: skip


@pytest.mark.parametrize(("event", "error"), OTHERS, ids=lambda each: type(each).__name__)
@pytest.mark.parametrize("is_empty", [True, False])
def test_requests_of_other_protocols(event: Any, error: ErrorCode, is_empty: bool) -> None:
    made = joined("a")
    if is_empty:
        made.heartbeat("a", -1)
    assert made.tell(event).error_code == error
    assert made.records == []


def test_offsets_cannot_be_committed() -> None:
    made = joined("a")
    made.heartbeat("a", -1)
    request = OffsetCommitRequest(
        GROUP_ID, -1, topics=[OffsetCommitRequestTopic("t", partitions=[OffsetCommitRequestPartition(0, 1)])]
    )
    response = made.tell(events.Commit.of(request, 9))
    assert response.topics[0].partitions[0].error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert not any(type(key) is OffsetCommitKey for key, _ in made.log)


def test_a_forced_rebalance_assigns_anew() -> None:
    made = joined("a")
    made.tell(events.Rebalance("test"))
    assert [type(key) for key, _ in made.records] == [ShareGroupMetadataKey]
    made.settled("a")
    assert made.share.members["a"].epoch == made.share.epoch == 4


def test_a_long_assignment_continues_by_a_timer() -> None:
    made = world(t=20_000)
    made.heartbeat("a", 0, "t")
    made.advance(1_000)
    answer = made.heartbeat("a", 2)
    assert (answer.member_epoch, answer.assignment) == (2, None), "the assignment before it"
    made.advance(1_000)
    made.heartbeat("a", 2)
    made.advance(5_000)
    made.heartbeat("a", 2)
    assert len(made.assigned("a")["t"]) == 20_000
