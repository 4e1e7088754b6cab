"""Stories whose figures can be worked out by hand. Without latency each message takes a millisecond, a flush none."""

from __future__ import annotations

from typing import Any

import pytest

from coordinatord.testing.simulation.node import TICK_MS
from coordinatord.testing.simulation.report import report
from coordinatord.testing.simulation.scenario import build
from coordinatord.testing.simulation.world import World

EXACT: dict[str, object] = {"latency": 0, "flush": 0, "processing": 0, "duration": "5m"}


def run(**options: Any) -> World:
    world = World(build(EXACT | {name.replace("_", "-"): value for name, value in options.items()}))
    world.run()
    return world


def test_a_quiet_group_costs_nothing() -> None:
    it = report(run(members=5, partitions=50))
    assert (it.rebalances, it.generations, it.unowned_ms, it.moved, it.duplicates) == (0, 0, 0, 0, 0)


def test_the_partitions_of_a_member_that_dies_are_free_for_the_session_and_a_rebalance() -> None:
    """Cooperative: nobody else is disturbed. The member dies between two heartbeats, and does not come back."""
    world = run(
        members=3, partitions=6, assignor="cooperative-sticky", session="10s", heartbeat="3s", events=["1m:crash:1"],
        restart="10m",
    )  # fmt: skip
    it = report(world)
    assert it.rebalances_by_trigger == {"session expired": 1}
    assert it.unowned_by_cause.keys() == {"crash"}
    # Its last heartbeat was up to 3 s before, the others hear of it with their next one, and what it had goes to them
    # in one round, since nobody has to give anything up.
    record = world.records[0]
    waited_ms = record["began_ms"] - world.formed_ms - 60_000
    assert 10_000 - 3_000 <= waited_ms <= 10_000 + TICK_MS
    rebalance_ms = record["ended_ms"] - record["began_ms"]
    assert rebalance_ms <= 3_000 + 10
    assert it.longest_gap_ms - waited_ms - rebalance_ms in range(5), "and the answers' way back"
    assert sorted(world.ownership.unowned_ms.values())[:4] == [0, 0, 0, 0]
    assert it.moved == 2


def test_a_dead_member_stops_all_when_somebody_else_rejoins_before_it_expires() -> None:
    """Eager: the newcomer's rebalance waits for the dead one, which the coordinator still takes for alive."""
    world = run(members=3, partitions=6, assignor="range", session="30s", events=["1m:crash:1"], restart="5s")
    it = report(world)
    assert it.rebalances_by_trigger == {"new member": 1}
    # The newcomer asks 5 s and three messages after the crash: that is when the rebalance begins.
    waited_ms = world.records[0]["ended_ms"] - world.formed_ms - 60_000
    assert 30_000 - 3_000 <= waited_ms <= 30_000 + TICK_MS + 10
    assert it.unowned_by_cause["crash"] == pytest.approx(2 * waited_ms, abs=20)
    assert it.unowned_by_cause["rebalance"] >= 4 * (waited_ms - 5_000 - 3_000 - 50)


def test_static_members_come_back_to_what_they_had() -> None:
    it = report(
        run(members=4, partitions=8, static=True, restart="7s", deploy="rolling:20s", assignor="cooperative-sticky")
    )
    assert (it.rebalances, it.moved, it.duplicates) == (0, 0, 0)
    assert it.happened == {"restart": 4}
    # Down for 7 s; find the coordinator and the metadata, join, sync: a few messages.
    assert it.unowned_p50_ms - 7_000 in range(20)
    assert it.unowned_ms == sum([it.unowned_p50_ms] * 8)


def test_static_members_that_stay_away_for_longer_than_the_session_are_expelled() -> None:
    it = report(run(members=2, partitions=2, static=True, session="10s", restart="30s", events=["1m:restart:1"]))
    assert it.rebalances_by_trigger == {"session expired": 1, "new member": 1}


def test_a_pause_within_the_session_costs_the_pause() -> None:
    it = report(run(members=3, partitions=3, session="20s", events=["1m:pause:1:15s"]))
    assert (it.rebalances, it.expelled_alive, it.moved, it.owned_twice_ms) == (0, 0, 0, 0)
    assert it.unowned_by_cause == {"pause": 15_000}


def test_a_pause_beyond_the_session_has_it_expelled_alive_and_its_work_done_twice() -> None:
    it = report(
        run(
            members=3,
            partitions=3,
            session="10s",
            events=["64s:pause:1:30s"],
            assignor="cooperative-sticky",
            records=10,
        )
    )
    assert it.expelled_alive == 1
    assert it.rebalances_by_trigger["session expired"] == 1
    assert 0 < it.owned_twice_ms < 3_000, "until its next heartbeat tells it"
    assert 40 <= it.duplicates < 50, "the last commit was 4 s before the pause; and what it did before it knew"


def test_a_batch_beyond_the_poll_interval_costs_the_membership() -> None:
    it = report(run(members=3, partitions=3, **{"max-poll": "20s"}, events=["1m:slow:1:40s"]))
    assert it.rebalances_by_trigger == {"member left": 1, "new member": 1}
    assert it.expelled_alive == 0, "it left by itself (KIP-62)"


@pytest.mark.parametrize("at", ["60s", "63s", "67s", "69s"])
def test_the_poll_interval_runs_from_the_last_poll(at: str) -> None:
    """The application polls all the time, though not every one of those polls is simulated."""
    world = run(members=3, partitions=3, session="1m", **{"max-poll": "20s"}, events=[f"{at}:slow:1:40s"])
    left_ms = world.records[0]["began_ms"] - world.formed_ms - int(at[:-1]) * 1000
    assert left_ms - 20_000 in range(5)
    within = run(members=3, partitions=3, session="1m", **{"max-poll": "20s"}, events=[f"{at}:pause:1:19s"])
    assert within.records == []


def test_a_crash_risks_what_was_done_since_the_last_commit() -> None:
    """1,000 records a second; a commit every 5 s from the moment of the assignment, the crash 7 s after it."""
    world = World(build(EXACT | {"members": 1, "partitions": 1, "records": 1000, "events": ["30s:crash:0"]}))
    world.run()
    it = report(world)
    since_ms = it.duplicates  # a record a millisecond
    assert 0 <= since_ms <= 5_000
    shifted = report(run(members=1, partitions=1, records=1000, events=["31s:crash:0"]))
    assert shifted.duplicates == (since_ms + 1_000) % 5_000


def test_eager_members_give_up_everything_and_cooperative_ones_what_moves() -> None:
    eager, cooperative = (
        report(run(members=4, partitions=16, events=["1m:stop:3"], assignor=name))
        for name in ("range", "cooperative-sticky")
    )
    assert eager.rebalances == cooperative.rebalances == 1
    assert eager.unowned_by_cause["rebalance"] > 0
    assert cooperative.unowned_by_cause.keys() == {"stop"}
    assert cooperative.moved == 4 < eager.moved


def test_whoever_is_stopped_in_a_rebalance_has_been_stopped_all_the_same() -> None:
    """A newcomer's rebalance waits for a dead member when another one is stopped."""
    it = report(
        run(
            members=4,
            partitions=8,
            assignor="cooperative-sticky",
            session="30s",
            restart="5s",
            events=["1m:crash:1", "75s:stop:2"],
        )
    )
    assert it.unowned_by_cause.keys() == {"crash", "stop"}
    assert it.expelled_alive == 0
