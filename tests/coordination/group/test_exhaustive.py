"""Every event in every state: a defined answer, a legal transition, and all that must hold after each step.

Each situation is a world brought to a state in one of the ways that matter. Each event comes from each kind of sender:
leader, follower, static member, an id that was handed out, a fenced one, a stranger.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from coordinatord.coordination.group import events
from coordinatord.coordination.group.classic.step import HANDLERS
from coordinatord.coordination.group.result import TimerKey
from coordinatord.coordination.group.states import NEXT_STATES, GroupState
from kafka_wire.api.heartbeat import HeartbeatRequest
from kafka_wire.api.leave_group import LeaveGroupRequest, MemberIdentity
from kafka_wire.api.offset_commit import OffsetCommitRequest
from kafka_wire.api.offset_delete import OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from kafka_wire.api.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kafka_wire.api.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kafka_wire.errors import ErrorCode
from tests.coordination.group.world import TOPIC_ID, World, commit_topic, join_request, subscription


def absent(world: World) -> None:
    pass


def empty(world: World) -> None:
    world.join()


def simple(world: World) -> None:
    world.commit()


def emptied(world: World) -> None:
    world.leave(*world.stable(2))
    world.join()


def first_rebalance(world: World) -> None:
    world.join()
    world.enter(client_id="leader")
    world.join(group_instance_id="static")


def stable(world: World) -> None:
    world.join(group_instance_id="static")
    for name in ("leader", "follower"):
        world.enter(client_id=name)
    world.advance(9_000)
    leader = world.group.leader_id or ""
    for member_id in list(world.group.members):
        world.sync(member_id, {leader: b"L"} if member_id == leader else None)
    world.commit(leader, 1)
    world.join()


def preparing(world: World) -> None:
    stable(world)
    world.join(_role(world, "follower"), protocols={"range": subscription("other")})


def completing(world: World) -> None:
    stable(world)
    for member_id in list(world.group.pending_members):
        world.leave(member_id)
    for member_id in list(world.group.members):
        world.join(member_id)


def half_synced(world: World) -> None:
    completing(world)
    world.sync(_role(world, "follower"))


def stable_not_all_synced(world: World) -> None:
    completing(world)
    world.sync(_role(world, "leader"), {})


def in_transaction(world: World) -> None:
    stable(world)
    world.commit_transactional(1, 6)
    world.commit_transactional(2, 7)


def replaced(world: World) -> None:
    stable(world)
    world.join(group_instance_id="static")


def restarted(world: World) -> None:
    stable(world)
    world.restart()


SITUATIONS: list[Callable[[World], None]] = [
    absent,
    empty,
    simple,
    emptied,
    first_rebalance,
    stable,
    preparing,
    completing,
    half_synced,
    stable_not_all_synced,
    in_transaction,
    replaced,
    restarted,
]

SENDERS = ["leader", "follower", "static", "fenced", "pending", "stranger", ""]


def _role(world: World, sender: str) -> str:
    group = world.group
    if sender == "leader":
        return group.leader_id or "leader-gone"
    if sender == "follower":
        return next((m for m in reversed(group.members) if m != group.leader_id), "follower-gone")
    if sender == "static":
        return group.static_members.get("static", "static-gone")
    if sender == "fenced":
        return "static-1"
    if sender == "pending":
        return next(iter(group.pending_members), "pending-gone")
    return sender


def every_event(world: World) -> list[Any]:
    """Everything that can be sent, by everybody, right and wrong."""
    made: list[Any] = [
        events.Rebalance("a test"),
        events.Delete(),
        events.Expire(0),
        events.Expire(10**9),
        events.TopicDeleted("t", TOPIC_ID),
        events.Unload(),
        events.EndTransaction(1, committed=True),
        events.EndTransaction(1, committed=False),
        OffsetDeleteRequest("g", [OffsetDeleteRequestTopic("t", [OffsetDeleteRequestPartition(0)])]),
        events.TimedOut(TimerKey("g", "join")),
        events.TimedOut(TimerKey("g", "sync")),
    ]
    group = world.group
    for sender in SENDERS:
        member_id = _role(world, sender)
        made.append(events.TimedOut(TimerKey("g", "session", member_id)))
        for instance_id in (None, "static", "other"):
            made += [
                events.Join.of(request, version, f"{number} {sender} {instance_id} {version}", "c", "/h")
                for version in ((9,) if member_id else (0, 4, 8, 9))
                for number, request in enumerate(
                    [
                        join_request(member_id, group_instance_id=instance_id),
                        join_request(member_id, group_instance_id=instance_id, protocols={"range": b"changed"}),
                        join_request(member_id, group_instance_id=instance_id, protocols={"none": b""}),
                        join_request(member_id, group_instance_id=instance_id, session_timeout_ms=1),
                    ]
                )
            ]
            made.append(events.Leave.of(LeaveGroupRequest("g", members=[MemberIdentity(member_id, instance_id)]), 5))
            for generation_id in (group.generation_id, group.generation_id + 1, -1):
                made.append(HeartbeatRequest("g", generation_id, member_id, instance_id))
                commit = OffsetCommitRequest("g", generation_id, member_id, instance_id)
                commit.topics = [commit_topic("t", {0: 9})]
                made.append(events.Commit.of(commit, 9))
                transactional = TxnOffsetCommitRequest("tx", "g", 1, 0, generation_id, member_id, instance_id)
                partitions = [TxnOffsetCommitRequestPartition(0, 9), TxnOffsetCommitRequestPartition(1, 9)]
                transactional.topics = [TxnOffsetCommitRequestTopic("t", partitions=partitions)]
                made.append(events.TxnCommit(transactional))
                sync = SyncGroupRequest("g", generation_id, member_id, instance_id, "consumer", "range")
                sync.assignments = [SyncGroupRequestAssignment(member_id, b"A")]
                made.append(events.Sync.of(sync, 5, f"sync {sender} {instance_id} {generation_id}"))
    return made


def made(situation: Callable[[World], None]) -> World:
    world = World(check=False)
    situation(world)
    world.check = True
    world.check_group()
    return world


def error_codes(reply: Any) -> list[int]:
    """All error codes of a reply, wherever it has them."""
    if hasattr(reply, "topics") and not getattr(reply, "error_code", 0):
        return [p.error_code for topic in reply.topics for p in topic.partitions]
    return [reply.error_code, *(m.error_code for m in getattr(reply, "members", []) if hasattr(m, "error_code"))]


@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda situation: situation.__name__)
@pytest.mark.parametrize("late", [False, True], ids=["now", "ten minutes later, before any timer"])
def test_every_event_in_every_state(situation: Callable[[World], None], late: bool) -> None:
    allowed = {code.value for code in ErrorCode} - {ErrorCode.UNKNOWN_SERVER_ERROR.value}
    for event in every_event(made(situation)):  # ids are the same in each of these worlds
        world = made(situation)
        if late:
            world.now_ms += 600_000
        asks_as_pending = isinstance(event, events.Join) and event.request.member_id in world.group.pending_members
        result = world.tell(event)
        if result.reply is not None:
            for code in error_codes(result.reply):
                assert code in allowed or (asks_as_pending and event.request.group_instance_id is not None)
        elif isinstance(event, events.Join | events.Sync):
            assert event.reply_to in world.parked
        world.advance(2_000_000)  # whatever was begun comes to an end
        assert not world.parked
        assert not world.group.members


def test_every_kind_of_event_is_among_them() -> None:
    # What a group of the consumer protocol is asked is asked in test_consumer_groups.py.
    assert {type(event) for event in every_event(made(stable))} == set(HANDLERS) - {events.ConsumerHeartbeat}


def test_every_state_is_among_the_situations_and_every_transition_happens() -> None:
    states = {made(situation).group.state for situation in SITUATIONS}
    assert states == set(GroupState) - {GroupState.DEAD}
    seen = set()
    for situation in SITUATIONS:
        for event in every_event(made(situation)):
            world = made(situation)
            world.check = False
            world.tell(event)
            seen |= {(t.old, t.new) for result in world.results for t in result.transitions}
    table = {(old, new) for old, news in NEXT_STATES.items() for new in news}
    assert seen == table - {(GroupState.DEAD, GroupState.DEAD)}
