"""Worlds whose log is in a database: what was acknowledged is there, whoever leads next, and no offset goes back."""

from __future__ import annotations

import os
from collections import Counter

import pytest

from tests.testing.simulation.run import command, play
from tests.testing.simulation.stored import StoreWorld, crash_plan

pytestmark = pytest.mark.interpreted

QUICK_WORLDS = 20
WORLDS = 250
PARTS = 5
"""Of the many worlds, for as many processes as there are."""
MINUTES = 2
KINDS = {
    "dies before", "dies after", "dies with its statement under way", "is followed", "is lost before", "is lost after",
    "late and fenced", "late and committed", "looked into", "then death", "then follower", "then lost again",
}  # fmt: skip


def crashes(first: int, worlds: int) -> tuple[int, Counter[str]]:
    """Live through so many worlds of many crashes; how many there were, and of which kinds."""
    count, kinds = 0, Counter[str]()
    for seed in range(first, first + worlds):
        world = StoreWorld(seed, plan=crash_plan(seed, MINUTES), trace=False)
        try:
            world.run()
        except Exception as error:
            told = [*world.story.told(), f"seed {seed}: {error!r}"]
            raise AssertionError("\n".join(told)) from error
        count += world.machine.crashes
        kinds.update(world.machine.counts)
    print(f"{worlds} worlds, {count} processes ended by a crash or a follower: {dict(kinds)}")
    return count, kinds


def test_nothing_is_lost_in_many_crashes() -> None:
    count, kinds = crashes(0, QUICK_WORLDS)
    assert count > 150
    assert {kind for kind in KINDS if not kinds[kind]} == set()


def test_a_seed_is_one_story_with_a_database() -> None:
    told = []
    for _ in range(2):
        world = StoreWorld(11, plan=crash_plan(11, MINUTES))
        world.run()
        told.append(world.story.told())
    assert told[0] == told[1]
    assert len(told[0]) > 30


def test_everything_holds_with_a_database() -> None:
    """A whole world: several groups, mayhem, quiet hours, expiry, compaction."""
    world, error = play(3, quiet_hours=1, protocol="store")
    assert error is None, "\n".join([*world.story.told(), f"{error!r}", command(3, 1, "store")])
    assert world.counts.rebalances > 3
    assert world.counts.checks > 1_000


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("part", range(PARTS))
def test_nothing_is_lost_in_thousands_of_crashes(part: int) -> None:
    """The same seeds in every run; others with COORDINATORD_WORLDS_FIRST."""
    worlds = WORLDS // PARTS
    first = int(os.environ.get("COORDINATORD_WORLDS_FIRST", "1000")) + part * worlds
    count, _kinds = crashes(first, worlds)
    assert count > 6 * worlds
