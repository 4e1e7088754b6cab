"""Simulated worlds, from the command line.

python -m tests.testing.simulation.run --seed 17            one world: what became of it
python -m tests.testing.simulation.run --seed 17 --trace    its story, line by line
python -m tests.testing.simulation.run --worlds 100         new seeds; a violation names its own
python -m tests.testing.simulation.run --protocol consumer  the same of consumer groups, and of groups in migration
"""

from __future__ import annotations

import argparse
import itertools
import random
import sys
import time
import traceback
from collections.abc import Iterator
from dataclasses import replace

from tests.testing.simulation.consumer_worlds import ConsumerWorld
from tests.testing.simulation.faulty import FaultyWorld
from tests.testing.simulation.plan import HOUR_MS, Plan
from tests.testing.simulation.share_worlds import ShareWorld
from tests.testing.simulation.stored import StoreWorld
from tests.testing.simulation.world import Counts, World

SHORT_QUIET_HOURS = 3
"""Where there is little time: enough for the shortest retention of offsets."""


WORLDS: dict[str, type[World]] = {
    "classic": World,
    "consumer": ConsumerWorld,
    "faulty": FaultyWorld,
    "store": StoreWorld,
    "share": ShareWorld,
}


def command(seed: int, quiet_hours: int | None = None, protocol: str = "classic") -> str:
    """What plays a world again."""
    shorter = "" if quiet_hours is None else f" --quiet-hours {quiet_hours}"
    other = "" if protocol == "classic" else f" --protocol {protocol}"
    return f"python -m tests.testing.simulation.run{other} --seed {seed}{shorter}"


def play(
    seed: int, *, trace: bool = False, quiet_hours: int | None = None, protocol: str = "classic"
) -> tuple[World, Exception | None]:
    """One world, and what went wrong in it. `quiet_hours`: at most so many between two times of mayhem."""
    plan = Plan.of(seed)
    if quiet_hours is not None:
        plan = replace(plan, quiet_ms=min(plan.quiet_ms, quiet_hours * HOUR_MS))
    world = WORLDS[protocol](seed, plan=plan, trace=trace)
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


def _seeds(arguments: argparse.Namespace) -> Iterator[int]:
    """Which worlds to play, from the command line."""
    if arguments.first_seed is not None:
        end_s = time.process_time() + arguments.seconds
        yield from itertools.takewhile(lambda _: time.process_time() < end_s, itertools.count(arguments.first_seed))
    elif arguments.seed is not None:
        yield arguments.seed
    else:
        yield from random.SystemRandom().sample(range(1 << 31), arguments.worlds)


def main() -> int:
    """The command; its exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.testing.simulation.run", description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, help="play this world")
    parser.add_argument("--trace", action="store_true", help="tell all of its story")
    parser.add_argument("--quiet-hours", type=int, help="at most so many between two times of mayhem")
    parser.add_argument("--first-seed", type=int, help="play worlds from this one on")
    parser.add_argument("--seconds", type=float, default=60.0, help="with --first-seed: begin none later (default: 60)")
    parser.add_argument("--violates", default="", help="go on after an error that does not contain this")
    parser.add_argument("--worlds", type=int, default=20, help="how many worlds, with new seeds (default: 20)")
    parser.add_argument("--protocol", choices=list(WORLDS), default="classic", help="of the groups (default: classic)")
    arguments = parser.parse_args()
    for seed in _seeds(arguments):
        began_s = time.process_time()
        world, error = play(seed, trace=arguments.trace, quiet_hours=arguments.quiet_hours, protocol=arguments.protocol)
        if error is not None and arguments.violates not in str(error):
            continue
        if arguments.trace or error is not None:
            print("\n".join(world.story.told()))
        if error is not None:
            traceback.print_exception(error)
            again = command(seed, arguments.quiet_hours, arguments.protocol)
            print(f"\nseed {seed}: {error}\n{again}   (--trace tells the whole story)")
            return 1
        print(f"seed {seed}: {told(world.counts, time.process_time() - began_s)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
