"""Heartbeats and session timers: who is alive until when, and at what cost."""

from __future__ import annotations

import gc
import sys
import tracemalloc

import pytest

from coordinatord.coordination.group import events
from coordinatord.coordination.group.classic.step import HEARTBEAT_ILLEGAL_GENERATION, HEARTBEAT_REFUSALS, step
from coordinatord.coordination.group.result import Result, Schedule, TimerKey
from coordinatord.coordination.group.state import HEARTBEAT_OK, HEARTBEAT_RESULTS, NEVER
from coordinatord.coordination.group.states import Cause
from kafka_wire.api.heartbeat import HeartbeatRequest
from kafka_wire.errors import ErrorCode
from tests.coordination.group.world import World

UNKNOWN = ErrorCode.UNKNOWN_MEMBER_ID


def test_a_group_that_is_not_there_knows_nobody_and_stays_so() -> None:
    world = World()
    assert world.heartbeat("m", 1) == UNKNOWN
    assert not world.group.exists


def test_the_empty_group_id_is_invalid() -> None:
    world = World()
    world.group.group_id = ""
    assert world.heartbeat("m", 1) == ErrorCode.INVALID_GROUP_ID


def test_answers_by_state() -> None:
    world = World()
    member_id = world.join().member_id
    assert world.heartbeat(member_id, 0) == UNKNOWN  # Empty, and the id has not been used
    world.join(member_id)
    assert world.heartbeat(member_id, -1) == ErrorCode.ILLEGAL_GENERATION  # all it knows
    assert world.heartbeat(member_id, 0) == ErrorCode.REBALANCE_IN_PROGRESS
    world.advance(3_000)
    assert world.heartbeat(member_id, 1) == ErrorCode.NONE  # CompletingRebalance
    world.sync(member_id, {})
    assert world.heartbeat(member_id, 1) == ErrorCode.NONE  # Stable
    assert world.heartbeat(member_id, 0) == world.heartbeat(member_id, 2) == ErrorCode.ILLEGAL_GENERATION
    assert world.heartbeat("stray", 1) == UNKNOWN
    dead = world.group
    world.tell(events.Unload())
    assert step(dead, HeartbeatRequest("g", 1, member_id), world.now_ms).reply.error_code == 15


def test_a_static_member_is_checked_by_instance_id_first() -> None:
    world = World(initial_rebalance_delay_ms=0)
    old = world.join(group_instance_id="i").member_id
    world.sync(old, {})
    assert world.heartbeat(old, group_instance_id="i") == ErrorCode.NONE
    assert world.heartbeat(old, 99, group_instance_id="i") == ErrorCode.ILLEGAL_GENERATION
    assert world.heartbeat(old, group_instance_id="other") == UNKNOWN
    new = world.join(group_instance_id="i").member_id
    assert world.heartbeat(old, 99, group_instance_id="i") == ErrorCode.FENCED_INSTANCE_ID
    assert world.heartbeat(new, group_instance_id="i") == ErrorCode.NONE


def test_a_member_expires_its_session_timeout_after_its_last_heartbeat() -> None:
    world = World()
    (member_id,) = world.stable()
    world.advance(9_999)
    assert world.heartbeat(member_id) == ErrorCode.NONE
    world.advance(9_999)
    assert member_id in world.group.members
    world.advance(1)
    assert member_id not in world.group.members
    assert world.group.state.value == "Empty"
    changes = [change for result in world.results for change in result.changes]
    assert changes[-1].cause == Cause.SESSION_EXPIRED


@pytest.mark.parametrize("tick_ms", [10, 100])
def test_never_early_and_at_most_a_tick_late(tick_ms: int) -> None:
    world = World(tick_ms=tick_ms, now_ms=1_000_003)
    (member_id,) = world.stable()
    deadline_ms = world.group.members[member_id].session_deadline_ms
    world.advance(deadline_ms - world.now_ms - 1)
    assert member_id in world.group.members
    world.advance(tick_ms)
    assert member_id not in world.group.members


def test_a_commit_is_a_sign_of_life_too() -> None:
    world = World()
    (member_id,) = world.stable()
    for _ in range(5):
        world.advance(9_000)
        world.commit(member_id, 1)
    assert member_id in world.group.members


def test_a_heartbeat_sets_no_timer_and_returns_a_constant() -> None:
    world = World()
    (member_id,) = world.stable()
    request = HeartbeatRequest("g", 1, member_id)
    assert step(world.group, request, world.now_ms + 5) is HEARTBEAT_OK
    assert step(world.group, HeartbeatRequest("g", 9, member_id), world.now_ms) is HEARTBEAT_ILLEGAL_GENERATION
    assert step(world.group, HeartbeatRequest("g", 1, "stray"), world.now_ms) is HEARTBEAT_REFUSALS[UNKNOWN]


def test_a_heartbeat_allocates_nothing() -> None:
    world = World(check=False)
    (member_id,) = world.stable()
    group, request, now_ms = world.group, HeartbeatRequest("g", 1, member_id), world.now_ms
    step(group, request, now_ms)
    before = sys.getallocatedblocks()
    for _ in range(1_000):
        step(group, request, now_ms)
    assert sys.getallocatedblocks() - before < 20


def test_the_shared_results_are_never_written_to() -> None:
    world = World()
    world.stable(2)
    world.advance(100_000)
    for result in [*HEARTBEAT_RESULTS.values(), *HEARTBEAT_REFUSALS.values(), HEARTBEAT_ILLEGAL_GENERATION]:
        assert result == Result(reply=result.reply)


def test_a_timer_that_fires_early_is_set_again_to_the_deadline() -> None:
    world = World()
    (member_id,) = world.stable()
    world.advance(4_000)
    world.heartbeat(member_id)
    key = TimerKey("g", "session", member_id)
    result = step(world.group, events.TimedOut(key), world.now_ms)
    assert result.timers == [Schedule(key, world.now_ms + 10_000)]
    assert result.changes == []


def test_the_timer_of_an_earlier_deadline_ends_no_session_however_late_it_is() -> None:
    """The shell has listened up to the deadline that the timer was set for. Whether the member was heard of before the
    one that its last heartbeat has moved it to, is known when that timer has gone off.
    """
    world = World()
    (member_id,) = world.stable()
    world.advance(4_000)
    world.heartbeat(member_id)
    key = TimerKey("g", "session", member_id)
    moved_ms = world.now_ms + 10_000
    late_ms = moved_ms + 5_000
    assert step(world.group, events.TimedOut(key), late_ms) == Result(timers=[Schedule(key, moved_ms)])
    result = step(world.group, events.TimedOut(key), late_ms)
    assert [change.cause for change in result.changes] == [Cause.SESSION_EXPIRED]


def test_a_heartbeat_brings_the_timer_forward_when_the_session_has_become_shorter() -> None:
    """A newcomer's timer is five minutes away; if it heartbeats while it is parked, its session counts."""
    world = World()
    world.stable()
    member_id, parked = world.enter(client_id="new", session_timeout_ms=6_000, rebalance_timeout_ms=200_000)
    assert world.heartbeat(member_id, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    world.advance(6_000)
    assert world.answers[parked].error_code == UNKNOWN


def test_a_heartbeat_of_a_parked_member_whose_timer_has_gone_sets_it_again() -> None:
    world = World()
    ids = world.stable(2, rebalance_timeout_ms=500_000)
    leader, follower = ids
    world.join(leader, rebalance_timeout_ms=500_000)
    for _ in range(4):
        world.advance(4_000)
        world.heartbeat(follower)
    assert world.group.members[leader].timer_ms == NEVER
    world.heartbeat(leader)
    assert world.group.members[leader].timer_ms == world.now_ms + 10_000


def test_timers_for_what_is_gone_do_nothing() -> None:
    world = World()
    (member_id,) = world.stable()
    for key in (TimerKey("g", "session", "gone"), TimerKey("g", "join"), TimerKey("g", "sync")):
        assert step(world.group, events.TimedOut(key), world.now_ms) == Result()
    assert member_id in world.group.members


def test_a_group_timer_that_fires_early_is_set_again() -> None:
    world = World()
    world.enter()
    key = TimerKey("g", "join")
    assert step(world.group, events.TimedOut(key), world.now_ms + 2_999).timers == [Schedule(key, 1_003_000)]


def idle_members(count: int) -> tuple[World, dict[bytes, object]]:
    """A Stable group, and its heartbeats as server/fastpath/heartbeats.py keeps them."""
    world = World(check=False, tick_ms=100)
    names = {"range": b"", "roundrobin": b"", "cooperative-sticky": b""}
    for number in range(count):
        protocols = {name: bytes([number % 256]) * 60 for name in names}
        world.join(version=3, client_id=f"consumer-{number}", protocols=protocols)
    while world.group.state.value == "PreparingRebalance":
        world.advance(1_000)
    ids = list(world.group.members)
    leader = world.group.leader_id or ""
    for member_id in ids:
        world.sync(member_id, {m: m.encode() * 5 for m in ids} if member_id == leader else None)
    known: dict[bytes, object] = {}
    for member_id in ids:
        known[bytes(64) + member_id.encode()] = (world.group.members[member_id], world.group, world.group.version)
    world.log.clear()
    world.results.clear()
    world.answers.clear()
    world.rebalances.clear()
    world.ledger = world.new_ledger()  # what it keeps is bounded, whatever the number of members
    return world, known


def test_an_idle_member_costs_less_than_two_kibibytes() -> None:
    """All in: the member, its ids and metadata, its place in the group's tables, its timer, what is logged of it, and
    its heartbeat, by which it is known while nothing changes.
    """
    count = 500
    idle_members(count)  # what is imported and computed once is no member's
    tracemalloc.start()
    try:
        world, known = idle_members(count)
        gc.collect()  # empties CPython's lists of freed objects too, whose length depends on what ran before
        used = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert len(world.group.members) == len(known) == count
    assert used / count < 2_048, f"{used / count:.0f} bytes"
