"""Lives of members and what they add up to, in histories of which it is known what happened."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from coordinatord.monitoring.analysis.generations import NO_COMMITS, Commits, Generation, Member
from coordinatord.monitoring.analysis.members import (
    CRASH_LOOP,
    DEPLOY,
    EXPIRED,
    LEFT,
    REPLACED,
    STORM,
    ZOMBIE,
    Event,
    Life,
    events,
    lives,
)
from tests.monitoring.pipeline.histories import Consumer, History


def group_of(count: int, *, static: bool = False, session_ms: int = 10_000) -> tuple[History, list[Consumer]]:
    """Members that have been together for ten minutes."""
    world = History(1)
    consumers = [
        Consumer(world, f"c{number}", instance=f"i{number}" if static else None, session_ms=session_ms)
        for number in range(count)
    ]
    for consumer in consumers:
        consumer.start()
    world.run(600)
    return world, consumers


def found_in(world: History) -> dict[str, Event]:
    log, commits = world.generations(), world.commits()
    found = list(events(lives(log, commits), log, commits))
    assert len({event.kind for event in found}) == len(found)
    return {event.kind: event for event in found}


def test_how_members_went() -> None:
    world, (left, crashed, stays) = group_of(3)
    left.stop()
    world.run(100)
    crashed.crash()
    world.run(100)
    told = {life.client_id: life for life in lives(world.generations(), world.commits())}
    assert {client: life.end for client, life in told.items()} == {"c0": LEFT, "c1": EXPIRED, "c2": None}
    assert (told["c0"].lived_ms or 0) // 1000 in range(590, 605)
    assert (told["c2"].lived_ms, told["c2"].partitions) == (None, 10)
    assert told["c2"].last_commit_ms is not None
    assert told["c2"].last_commit_ms > world.now_ms - 6_000
    assert stays.is_in
    assert not found_in(world)


def test_the_last_commits_of_members_that_ended() -> None:
    """A member's commits are those of its partitions while it had them."""
    world, (left, crashed, _stays) = group_of(3)
    left.stop()
    left_ms = world.now_ms
    world.run(100)
    crashed.crash()
    crashed_ms = world.now_ms
    world.run(100)
    told = {life.client_id: life.last_commit_ms for life in lives(world.generations(), world.commits())}
    assert told["c0"] == left_ms, "it commits when it closes"
    assert crashed_ms - 5_000 <= (told["c1"] or 0) <= crashed_ms
    log = world.generations()
    gone = lives([*log, None], world.commits())
    assert {life.client_id: life.last_commit_ms for life in gone} == told, "the group was deleted"


def test_a_static_member_that_restarts_is_replaced() -> None:
    world, (one, _other) = group_of(2, static=True)
    one.crash()
    one.start()
    world.run(60)
    told = lives(world.generations(), world.commits())
    assert [(life.instance, life.end) for life in told if life.instance == "i0"] == [("i0", REPLACED), ("i0", None)]


def test_a_crash_loop() -> None:
    world, (looping, *_others) = group_of(4)
    for _ in range(5):
        looping.crash()
        world.run(4)
        looping.start()
        world.run(60)
    found = found_in(world)
    assert CRASH_LOOP in found
    assert (found[CRASH_LOOP].client_id, found[CRASH_LOOP].count) == ("c0", 4), "the first life was a long one"
    assert DEPLOY not in found
    assert STORM in found


def test_a_deployment() -> None:
    world, consumers = group_of(5)
    began_ms = world.now_ms
    for consumer in consumers:
        consumer.stop()
        world.run(5)
        consumer.start()
        world.run(40)
    world.run(300)
    found = found_in(world)
    assert found.keys() == {DEPLOY, STORM}
    assert found[DEPLOY].count == 5
    assert began_ms <= found[DEPLOY].began_ms <= found[DEPLOY].ended_ms <= began_ms + 240_000
    assert found[STORM].count == 10


def test_a_zombie() -> None:
    """Its heartbeats go on, or its session is long: the group keeps its partitions for it, and nobody reads them."""
    world, (dead, *_others) = group_of(3, static=True, session_ms=1_800_000)
    dead.crash()
    world.run(200)
    assert ZOMBIE not in found_in(world), "three minutes are no time"
    world.run(400)
    found = found_in(world)
    assert found.keys() == {ZOMBIE}
    assert found[ZOMBIE].client_id == "c0"
    assert found[ZOMBIE].ended_ms - found[ZOMBIE].began_ms >= 590_000


MINUTE_MS = 60_000
BEGAN_MS = 1_000 * MINUTE_MS


def life(client: str, since_ms: int, lived_ms: int | None, **more: Any) -> Life:
    until_ms = None if lived_ms is None else since_ms + lived_ms
    made = Life(f"{client}-{since_ms}", None, client, "/h", since_ms, until_ms, None, 1, 1, None, 45_000)
    return replace(made, **more)


def kinds(found: Sequence[Life], log: Sequence[Generation | None] = (), commits: Commits = NO_COMMITS) -> list[str]:
    return [event.kind for event in events(found, log, commits)]


@pytest.mark.parametrize(
    ("count", "lived_ms", "gap_ms", "is_loop"),
    [
        (3, 5 * MINUTE_MS, 10 * MINUTE_MS, True),
        (2, 5 * MINUTE_MS, 10 * MINUTE_MS, False),
        (3, 5 * MINUTE_MS + 1, 10 * MINUTE_MS, False),
        (3, 5 * MINUTE_MS, 10 * MINUTE_MS + 1, False),
    ],
)
def test_limits_of_a_crash_loop(count: int, lived_ms: int, gap_ms: int, is_loop: bool) -> None:
    """Three lives of at most five minutes each, at most ten minutes apart."""
    found = [life("c", BEGAN_MS + number * (lived_ms + gap_ms), lived_ms) for number in range(count)]
    assert kinds(found) == [CRASH_LOOP] * is_loop


def generation(number: int, at_ms: int, size: int = 4) -> Generation:
    members = {
        f"m{each}": Member(f"m{each}", None, f"c{each}", "/h", 45_000, 60_000, frozenset(), frozenset(), frozenset())
        for each in range(size)
    }
    return Generation(number, at_ms, None, "range", "m0", members)


@pytest.mark.parametrize(
    ("count", "away_ms", "apart_ms", "is_one"),
    [
        (2, 10 * MINUTE_MS, 10 * MINUTE_MS, True),
        (1, 10 * MINUTE_MS, 10 * MINUTE_MS, False),
        (2, 10 * MINUTE_MS + 1, 10 * MINUTE_MS, False),
        (2, 10 * MINUTE_MS, 10 * MINUTE_MS + 1, False),
    ],
)
def test_limits_of_a_deployment(count: int, away_ms: int, apart_ms: int, is_one: bool) -> None:
    """Half of four members leave, each within ten minutes of the return of the one before, and return within ten."""
    long_ms = 60 * MINUTE_MS
    found: list[Life] = []
    for number in range(count):
        left_ms = BEGAN_MS + number * (away_ms + apart_ms)
        found += [
            life(f"c{number}", left_ms - long_ms, long_ms),
            life(f"c{number}", left_ms + away_ms, None),
        ]
    assert kinds(found, [generation(1, BEGAN_MS - long_ms)]) == [DEPLOY] * is_one


@pytest.mark.parametrize(
    ("count", "within_ms", "is_storm"),
    [(5, 10 * MINUTE_MS, True), (4, 10 * MINUTE_MS, False), (5, 10 * MINUTE_MS + 1, False)],
)
def test_limits_of_a_storm(count: int, within_ms: int, is_storm: bool) -> None:
    """Five rebalances within ten minutes."""
    times = [BEGAN_MS + within_ms * number // (count - 1) for number in range(count)]
    log = [generation(number, at_ms) for number, at_ms in enumerate(times)]
    assert kinds([], log) == [STORM] * is_storm


@pytest.mark.parametrize(("silent_ms", "is_zombie"), [(5 * MINUTE_MS, True), (5 * MINUTE_MS - 1, False)])
def test_limits_of_a_zombie(silent_ms: int, is_zombie: bool) -> None:
    """A static member has not committed for five minutes when another commits."""
    commits = Commits({("t", 1): [BEGAN_MS + silent_ms]})
    static = life("c", BEGAN_MS - MINUTE_MS, None, instance="i", last_commit_ms=BEGAN_MS)
    assert kinds([static], commits=commits) == [ZOMBIE] * is_zombie
