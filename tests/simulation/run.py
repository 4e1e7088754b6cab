"""Simulated worlds, from the command line.

python -m tests.simulation.run --seed 17            one world: what became of it
python -m tests.simulation.run --seed 17 --trace    its story, line by line
python -m tests.simulation.run --worlds 100         new seeds; a violation names its own
"""

from __future__ import annotations

import argparse
import random
import sys
import time
import traceback

from tests.simulation.plan import HOUR_MS
from tests.simulation.world import Counts, World


def command(seed: int) -> str:
    return f"python -m tests.simulation.run --seed {seed}"


def play(seed: int, *, trace: bool = False) -> tuple[World, Exception | None]:
    """One world, and what went wrong in it."""
    world = World(seed, trace=trace)
    try:
        world.run()
    except Exception as error:
        return world, error
    return world, None


def told(counts: Counts, took_s: float) -> str:
    hours = counts.virtual_ms / HOUR_MS
    return (
        f"{hours:.1f} virtual hours ({counts.skipped_ms / HOUR_MS:.1f} of them heartbeats only) in {took_s:.1f} s, "
        f"{counts.rebalances} rebalances, {sum(counts.troubles.values())} troubles, {counts.checks} checks"
    )


def main() -> int:
    """The command; its exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.run", description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, help="play this world")
    parser.add_argument("--trace", action="store_true", help="tell all of its story")
    parser.add_argument("--worlds", type=int, default=20, help="how many worlds, with new seeds (default: 20)")
    arguments = parser.parse_args()
    seeds = (
        [arguments.seed]
        if arguments.seed is not None
        else random.SystemRandom().sample(range(1 << 31), arguments.worlds)
    )
    for seed in seeds:
        began_s = time.process_time()
        world, error = play(seed, trace=arguments.trace)
        if arguments.trace or error is not None:
            print("\n".join(world.story.told()))
        if error is not None:
            traceback.print_exception(error)
            print(f"\nseed {seed}: {error}\n{command(seed)}   (--trace tells the whole story)")
            return 1
        print(f"seed {seed}: {told(world.counts, time.process_time() - began_s)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
