"""LeaveGroup: by member id, by instance id, several at once, ids that were only handed out."""

from __future__ import annotations

import pytest

from coordinatord.coordination.group import events
from coordinatord.coordination.group.classic.step import step
from coordinatord.coordination.group.states import Cause
from kafka_wire.api.leave_group import LeaveGroupRequest, MemberIdentity
from kafka_wire.errors import ErrorCode
from tests.coordination.group.world import World

UNKNOWN = ErrorCode.UNKNOWN_MEMBER_ID


def state(world: World) -> str:
    return world.group.state.value


def test_the_last_member_leaves_an_empty_group_behind_with_a_new_generation() -> None:
    world = World()
    (member_id,) = world.stable()
    reply = world.leave(member_id)
    assert reply.error_code == 0
    assert [(m.member_id, m.error_code) for m in reply.members] == [(member_id, 0)]
    assert state(world) == "Empty"
    (_, value) = world.log[-1]
    assert (value.generation, value.members, value.leader, value.protocol) == (2, [], None, None)
    assert value.protocol_type == "consumer"
    assert value.current_state_timestamp == world.now_ms
    assert len(world.wheel) == 0


def test_the_others_rebalance() -> None:
    world = World()
    leader, follower = world.stable(2)
    identity = MemberIdentity(leader, None, "the consumer is being closed")
    world.leave(identities=(identity,))
    assert state(world) == "PreparingRebalance"
    assert world.group.leader_id == follower
    assert "the consumer is being closed" in world.results[-1].transitions[0].reason
    assert world.results[-1].changes[0].cause == Cause.LEFT
    assert world.join(follower).generation_id == 2


def test_a_leave_completes_a_rebalance_that_waited_for_it() -> None:
    world = World()
    leader, follower = world.stable(2)
    parked = world.join(leader)
    world.leave(follower)
    assert world.answers[parked].generation_id == 2


def test_a_parked_join_of_a_member_that_leaves_is_answered() -> None:
    world = World()
    leader, _ = world.stable(2)
    parked = world.join(leader)
    world.leave(leader)
    assert world.answers[parked].error_code == UNKNOWN
    assert world.answers[parked].member_id == ""


def test_an_id_that_was_handed_out_can_leave() -> None:
    world = World()
    pending = world.join().member_id
    assert world.leave(pending).members[0].error_code == 0
    assert not world.group.pending_members
    assert len(world.wheel) == 0
    assert state(world) == "Empty"


def test_and_makes_a_stable_group_rebalance_although_it_was_no_member() -> None:
    """So it is in Kafka."""
    world = World()
    (leader,) = world.stable()
    pending = world.join().member_id
    world.leave(pending)
    assert state(world) == "PreparingRebalance"
    assert list(world.group.members) == [leader]


def test_several_leave_with_an_answer_each_and_one_rebalance() -> None:
    world = World(initial_rebalance_delay_ms=0)
    static = world.join(group_instance_id="i").member_id
    world.sync(static, {})
    dynamic, _ = world.enter()
    world.join(static, group_instance_id="i")
    world.sync(static, {})
    world.sync(dynamic)
    generation_id = world.group.generation_id
    pending = world.join().member_id
    identities = (
        MemberIdentity("stray"),
        MemberIdentity("", "i"),
        MemberIdentity("", "i"),  # gone by now
        MemberIdentity("", "nobody"),
        MemberIdentity("", None),
        MemberIdentity(dynamic, "i"),
        MemberIdentity(dynamic),
        MemberIdentity(pending),
    )
    reply = world.leave(identities=identities)
    assert [m.error_code for m in reply.members] == [UNKNOWN, 0, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, 0, 0]
    assert [m.member_id for m in reply.members] == [identity.member_id for identity in identities]
    assert [m.group_instance_id for m in reply.members] == [identity.group_instance_id for identity in identities]
    assert state(world) == "Empty"
    assert world.group.generation_id == generation_id + 1


def test_a_fenced_member_cannot_leave_in_the_place_of_its_successor() -> None:
    world = World(initial_rebalance_delay_ms=0)
    old = world.join(group_instance_id="i").member_id
    world.sync(old, {})
    new = world.join(group_instance_id="i").member_id
    reply = world.leave(identities=(MemberIdentity(old, "i"), MemberIdentity(new, "other")))
    assert [m.error_code for m in reply.members] == [ErrorCode.FENCED_INSTANCE_ID, UNKNOWN]
    assert list(world.group.members) == [new]


def test_strangers_change_nothing() -> None:
    world = World()
    world.stable()
    records = len(world.log)
    assert world.leave("stray").members[0].error_code == UNKNOWN
    assert state(world) == "Stable"
    assert len(world.log) == records


def test_a_group_that_is_not_there_knows_nobody() -> None:
    world = World()
    reply = world.leave("a", "b")
    assert reply.error_code == 0
    assert [m.error_code for m in reply.members] == [UNKNOWN, UNKNOWN]
    assert not world.group.exists


def test_nobody_leaves() -> None:
    world = World()
    world.stable()
    assert world.leave().members == []
    assert state(world) == "Stable"


@pytest.mark.parametrize("version", [0, 2])
def test_before_v3_the_error_is_that_of_the_response(version: int) -> None:
    world = World()
    (member_id,) = world.stable()
    reply = world.leave("stray", version=version)
    assert (reply.error_code, reply.members) == (UNKNOWN, [])
    reply = world.leave(member_id, version=version)
    assert (reply.error_code, reply.members) == (0, [])
    assert state(world) == "Empty"


def test_the_empty_group_id_and_a_dead_group() -> None:
    world = World()
    world.stable()
    dead = world.group
    world.tell(events.Unload())
    event = events.Leave.of(LeaveGroupRequest("g", members=[MemberIdentity("m")]), 5)
    assert step(dead, event, 0).reply.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    world.group.group_id = ""
    assert world.tell(event).reply.error_code == ErrorCode.INVALID_GROUP_ID
