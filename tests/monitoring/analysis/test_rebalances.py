"""What made a generation of the one before it: each cause, with what it leaves in the log."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from coordinatord.monitoring.analysis.generations import NO_COMMITS, Commits, Generation, Member
from coordinatord.monitoring.analysis.members import LEFT, WENT, lives
from coordinatord.monitoring.analysis.rebalances import (
    Rebalance,
    rebalances,
)
from kafka_wire.records.rebalance_ledger import Why
from tests.monitoring.pipeline.histories import Consumer, History

START_MS = 1_700_000_000_000


def member(name: str, *partitions: int, **fields: Any) -> Member:
    assigned = frozenset(("t", partition) for partition in partitions)
    first = Member(name, None, f"client-{name}", "/h", 45_000, 300_000, frozenset({"t"}), frozenset(), assigned)
    return replace(first, **fields)


def generation(number: int, second: float, *members: Member) -> Generation:
    at_ms = START_MS + round(second * 1000)
    leader = members[0].member_id if members else None
    protocol = "range" if members else None
    return Generation(number, at_ms, at_ms - 100, protocol, leader, {each.member_id: each for each in members})


def every(seconds: float, until: dict[int, float], first: float = 1) -> Commits:
    """Each partition is committed so often, until a second."""
    times = {}
    for partition, last in until.items():
        count = int((last - first) // seconds) + 1
        times["t", partition] = [START_MS + round(1000 * (first + seconds * each)) for each in range(count)]
    return Commits(times)


def one(before: Generation, after: Generation, commits: Commits = NO_COMMITS) -> Rebalance:
    return list(rebalances([before, after], commits))[-1]


BOTH = generation(1, 0, member("a", 0, 1), member("b", 2, 3))


def test_a_new_member() -> None:
    told = one(BOTH, generation(2, 60, member("a", 0), member("b", 2, 3), member("c", 1)))
    assert (told.trigger, told.added, told.removed, told.kept) == (Why.NEW_MEMBER, 1, 0, 2)
    assert (told.partitions_before, told.partitions_moved, told.partitions_revoked) == (4, 1, 0)
    assert told.stickiness == 0.75


def test_who_is_new_is_unknown_where_the_cleaner_took_the_generation_before() -> None:
    """Its members may have been there for years. Those of the first generation were not."""
    after = generation(2, 60, member("a", 0), member("b", 2, 3))
    [told] = rebalances([after], NO_COMMITS)
    assert (told.generation_before, told.members_before, told.partitions_moved) == (None, None, None)
    assert (told.added, told.removed, told.kept, told.members) == (None, None, None, 2)
    [first] = rebalances([BOTH], NO_COMMITS)
    assert (first.generation_before, first.added, first.removed, first.kept) == (None, 2, 0, 0)


@pytest.mark.parametrize(
    ("silent_since", "cause"),
    [pytest.param(58, Why.MEMBER_LEFT, id="a moment ago"), pytest.param(12, Why.SESSION_EXPIRED, id="a session ago")],
)
def test_one_that_left_and_one_that_was_given_up(silent_since: float, cause: str) -> None:
    commits = every(1, {0: 59, 1: 59, 2: silent_since, 3: silent_since})
    told = one(BOTH, generation(2, 60, member("a", 0, 1, 2, 3)), commits)
    assert told.trigger == cause
    assert told.trigger_client_id == "client-b"
    assert told.confidence is not None
    assert told.confidence > 0.7


@pytest.mark.parametrize(("session_ms", "poll_ms"), [(10_000, 12_000), (10_000, 15_000), (45_000, 50_000)])
def test_a_client_that_does_not_poll_leaves_as_one_that_was_given_up_expires(session_ms: int, poll_ms: int) -> None:
    """The log has no heartbeats: if both timeouts end within seconds of each other, nobody can tell them apart."""
    world = History(1)
    consumers = [Consumer(world, f"c{n}", session_ms=session_ms, rebalance_ms=poll_ms) for n in range(3)]
    for consumer in consumers:
        consumer.start()
    world.run(300)
    consumers[0].hang(poll_ms / 1000 + 60)
    world.run(poll_ms / 1000 + 30)
    truth = world.rebalances[-1]["trigger"]["kind"]
    told = list(rebalances(world.generations(), world.commits()))[-1]
    assert (truth, told.removed, told.added) == (Why.MEMBER_LEFT, 1, 0)
    assert told.confidence is not None
    assert told.trigger == Why.MEMBER_LEFT or told.confidence <= 0.5, told
    (life,) = [each for each in lives(world.generations(), world.commits()) if each.until_ms is not None]
    assert life.end in (LEFT, WENT)


def test_who_never_committed_is_told_with_little_confidence() -> None:
    told = one(BOTH, generation(2, 60, member("a", 0, 1, 2, 3)))
    assert told.trigger == Why.MEMBER_LEFT
    assert told.confidence == 0.5


def test_one_that_never_asked_what_it_was_assigned() -> None:
    told = one(BOTH, generation(2, 302, member("a", 0, 1, 2, 3)), every(1, {0: 300, 1: 300, 2: -5, 3: -5}, -60))
    assert told.trigger == Why.NOT_SYNCED


def test_other_topics() -> None:
    after = generation(2, 60, member("a", 0, 1), member("b", 2, 3, topics=frozenset({"t", "u"})))
    assert one(BOTH, after).trigger == Why.METADATA_CHANGED


@pytest.mark.parametrize(
    ("tells_generation", "cause"), [(False, Why.LEADER_REJOINED), (True, Why.METADATA_CHANGED)], ids=["older", "newer"]
)
def test_more_partitions(tells_generation: bool, cause: str) -> None:
    """The leader asks for them; of a newer client's request the coordinator sees that it is another one."""
    leader = member("a", 0, 1, 4, tells_generation=tells_generation)
    told = one(BOTH, generation(2, 60, leader, member("b", 2, 3)))
    assert (told.trigger, told.stickiness) == (cause, 1.0)


def test_static_members_come_back_without_a_rebalance() -> None:
    static = member("a-1", 0, 1, instance="a")
    again = replace(static, member_id="a-2")
    rows = list(rebalances([generation(1, 0, static), generation(1, 60, again)], NO_COMMITS))
    assert len(rows) == 1
    told = one(generation(1, 60, again), generation(2, 90, again, member("b", 2)))
    assert (told.trigger, told.partitions_moved) == (Why.NEW_MEMBER, 0)


def test_the_first_generation_that_is_known_has_no_cause() -> None:
    (told,) = rebalances([BOTH], NO_COMMITS)
    assert (told.trigger, told.confidence, told.generation_before) == (None, None, None)
    assert not list(rebalances([generation(0, 0)], NO_COMMITS)), "a group that is made has not rebalanced"


def test_generations_that_came_to_nothing_make_it_less_sure() -> None:
    after = generation(2, 60, *BOTH.members.values(), member("c"))
    assert one(BOTH, after).confidence == pytest.approx(0.97)
    told = one(BOTH, replace(after, number=4))
    assert (told.skipped_generations, told.confidence) == (2, pytest.approx(0.68))


def test_commits_that_came_late() -> None:
    """Two partitions are committed every second, and once not for eleven."""
    times = [START_MS + 1000 * second for second in [*range(1, 31), *range(41, 60)]]
    commits = Commits({("t", 0): times, ("t", 1): times})
    told = one(generation(1, 0, member("a", 0, 1)), generation(2, 40, member("a", 0, 1), member("b")), commits)
    assert told.missed_commit_ms == 2 * 10_000
    assert told.began_ms == START_MS + 30_000, "eager members commit when they rejoin"


def test_a_group_that_was_forgotten_begins_anew() -> None:
    rows = list(rebalances([BOTH, None, generation(1, 900, member("c", 0))], NO_COMMITS))
    assert [row.generation_before for row in rows] == [None, None]


def test_the_ledger_is_believed() -> None:
    record = {
        "generation_before": 1,
        "generation_after": 2,
        "outcome": "completed",
        "began_ms": START_MS + 40_000,
        "joined_ms": START_MS + 59_900,
        "ended_ms": START_MS + 60_000,
        "initial": False,
        "trigger": {"kind": Why.SESSION_EXPIRED, "text": "session of member b expired", "member_id": "b"},
        "rejoined": [],
    }
    superseded = record | {
        "outcome": "superseded",
        "generation_after": 1,
        "protocol": None,
        "leader": "a",
        "members_before": 2,
        "members_after": 2,
        "added": 0,
        "removed": 0,
    }
    after = generation(2, 60, member("a", 0, 1, 2, 3))
    first, told, other = rebalances([BOTH, after], NO_COMMITS, [superseded, record])
    assert first.how == "inferred"
    assert (told.trigger, told.how, told.confidence) == (Why.SESSION_EXPIRED, "observed", 1.0)
    assert told.began_ms == told.began_after_ms == told.began_before_ms == START_MS + 40_000
    assert (other.outcome, other.partitions_moved) == ("superseded", None)
    [alone, _] = rebalances([after], NO_COMMITS, [superseded, superseded | record])
    assert (alone.how, alone.added, alone.removed, alone.kept) == ("observed", 0, 0, 2), "the ledger knows"
    late = superseded | record | {"ended_ms": START_MS + 9_000_000}
    assert [row.how for row in rebalances([BOTH, after], NO_COMMITS, [late])] == ["inferred", "inferred", "observed"]
