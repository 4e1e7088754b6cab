"""Lives of members and what they add up to, in histories of which it is known what happened."""

from __future__ import annotations

from coordinatord.pipeline.analysis.members import (
    CRASH_LOOP,
    DEPLOY,
    EXPIRED,
    LEFT,
    REPLACED,
    STORM,
    ZOMBIE,
    Event,
    events,
    lives,
)
from tests.pipeline.histories import Consumer, History


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
