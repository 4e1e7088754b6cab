"""What holds whatever happens: one seed one story, no two owners in a generation, no time lost or counted twice."""

from __future__ import annotations

import random

import pytest

from coordinatord.testing.simulation.report import report, text
from coordinatord.testing.simulation.scenario import build
from coordinatord.testing.simulation.world import World

ROUGH: dict[str, object] = {
    "members": 8,
    "partitions": 30,
    "session": "10s",
    "crashes": "6/h",
    "pauses": "6/h:15s",
    "slow": "2/h:40s",
    "max-poll": "30s",
    "deploy": "rolling:1m",
    "duration": "20m",
}


def run(**options: object) -> World:
    world = World(build(ROUGH | options))
    world.run()
    return world


def test_one_seed_one_story() -> None:
    stories = []
    for _ in range(2):
        told: list[tuple[int | None, str]] = []
        world = World(build(ROUGH), lambda at_ms, text, told=told: told.append((at_ms, text)))
        world.run()
        stories.append((told, report(world)))
    assert stories[0] == stories[1]
    assert len(stories[0][0]) > 100
    assert report(run(seed=1)) != stories[0][1]


@pytest.mark.parametrize("seed", range(6))
def test_time_is_conserved_and_nobody_owns_what_another_does(seed: int) -> None:
    """Each seed has its own deployment: assignor, static or not, how long work takes."""
    chance = random.Random(seed)
    world = run(
        seed=seed,
        static=seed % 2 == 0,
        assignor=("range", "roundrobin", "sticky", "cooperative-sticky", "range+cooperative-sticky")[seed % 5],
        processing=f"{chance.choice([0, 50, 900])}ms",
        latency=f"{chance.choice([0, 2, 60])}ms",
    )
    ownership = world.ownership
    assert ownership.conflicts == []
    assert world.expelled_alive, "the story is rough enough"
    all_ms = world.scenario.duration * world.scenario.partitions
    # Processes' own time, less that in which there were two, and the gaps, make up the whole.
    assert ownership.held_ms - ownership.doubled_ms + sum(ownership.unowned_ms.values()) == all_ms
    assert sum(ownership.unowned_by.values()) == sum(ownership.unowned_ms.values())
    it = report(world)
    assert it.generations == len({r["generation_after"] for r in world.records} - {world.formed_generation})
    assert sum(it.rebalances_by_trigger.values()) == it.rebalances
    assert "partition-seconds" in text(it)


def test_in_the_end_a_group_that_is_left_alone_is_whole() -> None:
    """Crashes in the first minutes, then quiet."""
    events = [
        f"{at}s:{kind}" for at, kind in enumerate(["crash:0", "restart:1", "pause:2:20s", "crash:3", "slow:4:35s"])
    ]
    world = World(build({**ROUGH, "crashes": 0, "pauses": 0, "slow": 0, "deploy": "none", "events": events}))
    world.run()
    assert world.is_formed()
    assert all(len(holders) == 1 for holders in world.ownership.holders.values())
