"""Worlds whose seeds have once found something, or are unlike each other; and one that must be the same every time."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.simulation.run import command, play

FOUND = {
    64: "a leader that is expelled while it waits for metadata never joins again",
    99: "the same, with several nodes",
}
"""Seeds of bugs that are mended."""

OTHERS = (3, 7, 10, 20)
"""One and several nodes, each way to flush, static members, cooperative ones, drifting clocks."""


@pytest.mark.parametrize("seed", [*FOUND, *OTHERS])
def test_everything_holds(seed: int) -> None:
    world, error = play(seed)
    assert error is None, "\n".join([*world.story.told(), f"{error!r}", command(seed)])
    assert world.counts.rebalances > 3
    assert world.counts.checks > 1_000


def test_a_seed_is_one_story() -> None:
    """Whatever order Python's sets have, and however fast the machine is."""
    told = [
        subprocess.run(
            [sys.executable, "-m", "tests.simulation.run", "--seed", "7", "--trace"],
            env={**os.environ, "PYTHONHASHSEED": str(number)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.splitlines()
        for number in (1, 2)
    ]
    assert len(told[0]) > 1_000
    assert told[0][:-1] == told[1][:-1]  # the last line tells how long it took
