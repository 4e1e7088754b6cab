"""Good standing: given for a heartbeat that was answered well, taken back by all that could change the next answer.

Every other test of groups looks at it, too: after each step World holds each standing against what a look would have
said, in the histories of test_stateful.py most of all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from coordinatord.group import events
from coordinatord.group.standing import MAX_HEARTBEAT_BYTES, stand
from kafka_wire.errors import ErrorCode
from tests.group.test_static_members import static_pair
from tests.group.world import World

REBALANCE, UNKNOWN = ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.UNKNOWN_MEMBER_ID


def standing(world: World) -> set[str]:
    return {member.member_id for member in world.standings.values()}


def in_good_standing() -> tuple[World, str, str]:
    """Two members of a group, the leader first; five seconds ago both have heartbeated, and the leader now."""
    world = World()
    leader, follower = world.stable(2)
    for member_id in (leader, follower):
        assert world.heartbeat(member_id) == ErrorCode.NONE
    world.advance(5_000)
    assert world.heartbeat(leader) == ErrorCode.NONE
    assert standing(world) == {leader, follower}
    return world, leader, follower


def test_a_heartbeat_in_good_standing_moves_the_deadline_and_that_is_when_the_member_expires() -> None:
    world, _, follower = in_good_standing()
    world.advance(4_999)
    world.group.members[follower].beats(world.now_ms)
    world.advance(9_999)
    assert set(world.group.members) == {follower}
    world.advance(1)
    assert world.group.members == {}


Way = Callable[[World, str, str], object]

REBALANCES: dict[str, Way] = {
    "somebody joins": lambda world, leader, follower: world.enter(client_id="new"),
    "somebody leaves": lambda world, leader, follower: world.leave(follower),
    "somebody's session ends": lambda world, leader, follower: world.advance(5_000),
    "the leader rejoins": lambda world, leader, follower: world.join(leader),
    "somebody has changed": lambda world, leader, follower: world.join(follower, protocols={"range": b"other"}),
}


@pytest.mark.parametrize("way", REBALANCES.values(), ids=REBALANCES)
def test_a_rebalance_takes_it_back_from_everybody_until_the_next_generation_is_stable(way: Way) -> None:
    world, leader, follower = in_good_standing()
    way(world, leader, follower)
    assert standing(world) == set()
    assert world.heartbeat(leader) == REBALANCE
    assert standing(world) == set(), "not for an error"
    for member_id in [member.member_id for member in world.group.members.values() if member.join_reply_to is None]:
        world.join(member_id)
    assert world.group.state.value == "CompletingRebalance"
    assert world.heartbeat(leader) == ErrorCode.NONE
    assert standing(world) == set(), "who waits to sync may have no timer"
    world.sync(leader, {})
    assert world.heartbeat(leader) == ErrorCode.NONE
    assert standing(world) == {leader}
    assert world.heartbeat(leader, 1) == ErrorCode.ILLEGAL_GENERATION


ENDS: dict[str, tuple[Way, int]] = {
    "it leaves": (lambda world, leader, follower: world.leave(follower), UNKNOWN),
    "its session ends": (lambda world, leader, follower: world.advance(5_000), UNKNOWN),
    "the group is not served here any more": (
        lambda world, leader, follower: world.tell(events.Unload()),
        UNKNOWN,  # of a group that is made anew
    ),
}


@pytest.mark.parametrize(("way", "error"), ENDS.values(), ids=ENDS)
def test_it_ends_with_the_member(way: Way, error: int) -> None:
    world, leader, follower = in_good_standing()
    member = world.group.members[follower]
    way(world, leader, follower)
    assert (member.standings, member.heartbeat) == (None, b"")
    assert member not in world.standings.values()
    assert world.heartbeat(follower, 1) == error


def test_a_static_member_that_is_replaced_without_a_rebalance_loses_it_and_nobody_else_does() -> None:
    world = World()
    leader, follower = static_pair(world)
    assert world.heartbeat(leader, group_instance_id="lead") == ErrorCode.NONE
    assert world.heartbeat(follower, group_instance_id="follow") == ErrorCode.NONE
    world.join(group_instance_id="follow")
    assert world.group.state.value == "Stable"
    assert standing(world) == {leader}
    assert world.heartbeat(follower, group_instance_id="follow") == ErrorCode.FENCED_INSTANCE_ID


def test_commits_leave_it_alone() -> None:
    world, leader, follower = in_good_standing()
    world.commit(leader, 1)
    world.commit_transactional(7, member_id=follower, generation_id=1)
    world.end_transaction(7, committed=True)
    assert standing(world) == {leader, follower}


def test_there_is_one_for_each_member_whatever_it_sends() -> None:
    world, leader, follower = in_good_standing()
    for number in range(10):
        stand(world.group, leader, b"as client %d" % number, world.standings)
    assert {key: member.member_id for key, member in world.standings.items() if key.startswith(b"as")} == {
        b"as client 9": leader
    }
    assert len(world.standings) == 2
    other_version: dict[bytes, Any] = {}
    stand(world.group, leader, b"as client 9", other_version)
    assert (standing(world), list(other_version)) == ({follower}, [b"as client 9"])


def test_long_heartbeats_are_looked_at_each_time() -> None:
    world, leader, _ = in_good_standing()
    before = dict(world.standings)
    stand(world.group, leader, bytes(MAX_HEARTBEAT_BYTES + 1), world.standings)
    assert world.standings == before
    stand(world.group, leader, bytes(MAX_HEARTBEAT_BYTES), world.standings)
    assert world.standings.pop(bytes(MAX_HEARTBEAT_BYTES)) is world.group.members[leader]
