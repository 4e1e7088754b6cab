"""SyncGroup: refusals, parking, the leader's assignment, and the end of the wait for those who do not sync."""

from __future__ import annotations

from typing import Any

import pytest

from coordinatord.coordination.group.events import Sync
from coordinatord.coordination.group.result import TimerKey
from coordinatord.coordination.group.states import Cause
from kafka_wire.api.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kafka_wire.errors import ErrorCode
from tests.coordination.group.world import World


def completing(world: World, count: int = 2, **fields: Any) -> tuple[str, list[str]]:
    """A group in CompletingRebalance: (leader, followers)."""
    ids = [world.enter(client_id=f"c{number}", **fields)[0] for number in range(count)]
    while state(world) == "PreparingRebalance":
        world.advance(1_000)
    assert world.group.state.value == "CompletingRebalance"
    leader = world.group.leader_id
    assert leader is not None
    return leader, [member_id for member_id in ids if member_id != leader]


def state(world: World) -> str:
    return world.group.state.value


def test_followers_wait_for_the_leader_and_get_their_parts() -> None:
    world = World()
    leader, (follower,) = completing(world)
    parked = world.sync(follower)
    assert parked in world.parked
    answer = world.sync(leader, {leader: b"L", follower: b"F", "stranger": b"S"})
    assert (answer.assignment, answer.protocol_type, answer.protocol_name) == (b"L", "consumer", "range")
    assert world.answers[parked].assignment == b"F"
    assert state(world) == "Stable"
    (_, value) = world.log[-1]
    assert (value.generation, value.leader, value.protocol, value.protocol_type) == (1, leader, "range", "consumer")
    assert {m.member_id: m.assignment for m in value.members} == {leader: b"L", follower: b"F"}
    member = value.members[0]
    assert (member.client_id, member.client_host) == ("c0", "/127.0.0.1")
    assert (member.session_timeout, member.rebalance_timeout) == (10_000, 60_000)


def test_the_logged_timestamp_is_when_the_generation_began() -> None:
    world = World()
    leader, _ = completing(world)
    began_ms = world.group.current_state_timestamp_ms
    world.advance(500)
    world.sync(leader, {})
    assert world.log[-1][1].current_state_timestamp == began_ms
    assert world.group.current_state_timestamp_ms == world.now_ms


def test_a_member_that_the_leader_leaves_out_gets_nothing() -> None:
    world = World()
    leader, (follower,) = completing(world)
    parked = world.sync(follower)
    world.sync(leader, {leader: b"L"})
    assert world.answers[parked].assignment == b""
    assert world.answers[parked].error_code == 0


def test_of_two_assignments_for_one_member_the_last_counts() -> None:
    world = World()
    leader, _ = completing(world, 1)
    twice = [SyncGroupRequestAssignment(leader, b"1"), SyncGroupRequestAssignment(leader, b"2")]
    reply = world.tell(Sync(SyncGroupRequest("g", 1, leader, assignments=twice), "r", require_protocol=False)).reply
    assert reply.assignment == b"2"


def test_a_stable_group_answers_at_once_and_logs_nothing() -> None:
    world = World()
    leader, follower = world.stable(2)
    records = len(world.log)
    assert world.sync(follower).assignment == f"for {follower}".encode()
    assert world.sync(leader, {leader: b"changed"}).assignment == f"for {leader}".encode()
    assert len(world.log) == records


def test_a_second_sync_on_another_connection_leaves_the_first_unanswered() -> None:
    world = World()
    leader, (follower,) = completing(world)
    first = world.sync(follower)
    second = world.sync(follower)
    assert world.dropped == [first]
    world.sync(leader, {})
    assert second in world.answers
    assert first not in world.answers


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"generation_id": 0}, ErrorCode.ILLEGAL_GENERATION),
        ({"generation_id": 2}, ErrorCode.ILLEGAL_GENERATION),
        ({"generation_id": -1}, ErrorCode.ILLEGAL_GENERATION),
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_name": "sticky"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": None}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_name": None}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"group_instance_id": "i"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_refusals(fields: dict[str, Any], error: ErrorCode) -> None:
    for stable in (False, True):
        world = World()
        leader = world.stable(1)[0] if stable else completing(world, 1)[0]
        answer = world.sync(leader, {}, **fields)
        assert answer.error_code == error
        assert answer.assignment == b""


def test_before_v5_type_and_name_may_be_missing() -> None:
    world = World()
    leader, _ = completing(world, 1)
    assert world.sync(leader, {}, version=4, protocol_type=None, protocol_name=None).error_code == 0


def test_the_empty_group_id_is_invalid_but_a_missing_protocol_is_seen_first() -> None:
    world = World()
    world.group.group_id = ""
    assert world.sync("m", generation_id=1, version=4).error_code == ErrorCode.INVALID_GROUP_ID
    assert world.sync("m", generation_id=1, version=5).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_strangers_are_unknown_in_every_state() -> None:
    world = World()
    assert world.sync("stray", version=4).error_code == ErrorCode.UNKNOWN_MEMBER_ID  # no group
    assert not world.group.exists
    pending = world.join().member_id
    assert world.sync(pending, version=4).error_code == ErrorCode.UNKNOWN_MEMBER_ID  # Empty
    world.join(pending)
    assert world.sync("stray", version=4).error_code == ErrorCode.UNKNOWN_MEMBER_ID  # PreparingRebalance
    world.advance(3_000)
    assert world.sync("stray", version=4).error_code == ErrorCode.UNKNOWN_MEMBER_ID  # CompletingRebalance


def test_while_the_group_rebalances_a_member_is_told_to_rejoin() -> None:
    world = World()
    leader, follower = world.stable(2)
    world.join(leader)
    assert world.sync(follower).error_code == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_fenced_member_does_not_sync() -> None:
    world = World(initial_rebalance_delay_ms=0)
    old = world.join(group_instance_id="i").member_id
    world.sync(old, {})
    world.join(group_instance_id="i")
    assert world.sync(old, group_instance_id="i").error_code == ErrorCode.FENCED_INSTANCE_ID
    assert world.sync(old).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_leader_that_never_syncs_goes_and_the_followers_rebalance() -> None:
    world = World()
    _, (follower,) = completing(world, session_timeout_ms=1_000_000, rebalance_timeout_ms=20_000)
    began_ms = world.group.current_state_timestamp_ms
    parked = world.sync(follower)
    world.advance(began_ms + 19_999 - world.now_ms)
    assert parked in world.parked
    world.advance(1)
    assert world.answers[parked].error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert list(world.group.members) == [follower]
    assert world.group.leader_id == follower
    assert state(world) == "PreparingRebalance"
    assert [change.cause for change in world.results[-1].changes] == [Cause.NOT_SYNCED]
    assert world.join(follower).generation_id == 2


def test_a_follower_that_never_syncs_goes_from_the_stable_group() -> None:
    world = World()
    leader, (follower,) = completing(world, session_timeout_ms=1_000_000)
    world.sync(leader, {})
    assert state(world) == "Stable"
    world.advance(60_000)
    assert follower not in world.group.members
    assert world.heartbeat(leader) == ErrorCode.REBALANCE_IN_PROGRESS


def test_when_all_have_synced_nobody_is_waited_for() -> None:
    world = World()
    leader, (follower,) = completing(world, session_timeout_ms=1_000_000)
    world.sync(leader, {})
    assert TimerKey("g", "sync") in world.wheel
    world.sync(follower)
    assert TimerKey("g", "sync") not in world.wheel
    world.advance(200_000)
    assert state(world) == "Stable"


def test_a_session_that_ran_out_while_the_member_was_parked_begins_anew() -> None:
    world = World()
    leader, (follower,) = completing(world)
    world.sync(follower)
    for _ in range(5):
        world.advance(9_000)
        world.heartbeat(leader)
    assert follower in world.group.members
    world.sync(leader, {})
    for _ in range(2):
        world.advance(5_000)
        world.heartbeat(leader)
    assert follower not in world.group.members


def test_a_parked_follower_that_leaves_on_another_connection_is_never_answered() -> None:
    world = World()
    _, (follower,) = completing(world)
    parked = world.sync(follower)
    world.leave(follower)
    assert world.dropped == [parked]
    assert state(world) == "PreparingRebalance"
