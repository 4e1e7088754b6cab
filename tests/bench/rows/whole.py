"""What two workers carry, and what writing down each rebalance costs."""

from __future__ import annotations

import contextlib
import statistics
import time

from tests.bench import workers
from tests.bench.large_group import LargeGroup
from tests.bench.registry import Arena, Column, Sample, at_least, at_most, row
from tests.bench.servers import Server, unpinned

# Workers

TURNS = 30  # of one process and of two workers, in a round: what disturbs one and not the other evens out


@row(
    "workers",
    "heartbeats that two workers carry, over those of one",
    "×",
    targets=[at_least(1.8)],
    more_is_better=True,
)
def two_workers(arena: Arena, column: Column, seconds: float) -> Sample:
    """What two cores carry with a worker each, over what one core carries with one process: heartbeats per second of
    the servers' own CPU, of both workers while both are at work. workers.py says what becomes of the generators' CPU.
    On two cores they are in the two workers' way, and in the one's not, which the figures by the clock show.
    """
    with unpinned():  # each of the processes has a core of its own
        run = workers.measure(TURNS, seconds / TURNS, dict(column.settings))
    costs, rates = run["server_cpu_us"], run["heartbeats_per_s"]
    servers, generators = run["server_busy"], run["generator_busy"]
    return Sample(
        run["without_the_generators"],
        also={
            "µs of one": costs["one"],
            "of two": costs["two"],
            "per s by the clock, one": rates["one"],
            "two": rates["two"],
            "two over one": run["by_the_clock"],
            "of a core, one": servers["one"],
            "its generator": generators["one"],
            "each of two": servers["two"],
            "each generator": generators["two"],
        },
    )


# The ledger

MEMBERS = 50
PAIRS = 5  # of servers, in a round
IDLE_S = 0.004  # in which what a rebalance has left to write is written


@row(
    "ledger",
    f"rebalance of {MEMBERS} members, CPU, over one that nobody writes down",
    "×",
    targets=[at_most(1.03)],
    quick=False,
)
def ledger(arena: Arena, column: Column, seconds: float) -> Sample:
    """Rebalances with and without rebalance.ledger.enable in turn, one by one; the median of what pairs of servers say.
    Two processes of the same program differ by some hundredths in where their memory lies: fifteen pairs without the
    ledger in either had 0.89 to 1.13, and 1.00 in the middle. So there are several, each started for this row alone.
    """
    pairs = [_of_a_pair(arena, column, 2 * seconds / PAIRS) for _ in range(PAIRS)]
    with_ms, without_ms = (statistics.median(each) for each in zip(*pairs, strict=True))
    ratios = [one / other for one, other in pairs]
    also = {"ms with": with_ms, "ms without": without_ms, "least of the pairs": min(ratios), "most": max(ratios)}
    return Sample(statistics.median(ratios), also=also)


def _of_a_pair(arena: Arena, column: Column, seconds: float) -> tuple[float, float]:
    """Milliseconds of CPU of a rebalance that is written down, and of one that is not: medians."""
    with contextlib.ExitStack() as running:
        servers = [
            running.enter_context(arena.fresh(column, {"rebalance.ledger.enable": enable}))
            for enable in ("true", "false")
        ]
        groups = [running.enter_context(contextlib.closing(LargeGroup(server, MEMBERS))) for server in servers]
        used_ms: tuple[list[float], list[float]] = ([], [])
        turns = list(zip(servers, groups, used_ms, strict=True))
        for server, group, _ in turns:
            server.settle()
            for _ in range(20):
                _one(server, group)
        until_s = time.perf_counter() + seconds
        while time.perf_counter() < until_s:
            for server, group, used in turns:
                used.append(_one(server, group) * 1000)
            turns.reverse()
    return statistics.median(used_ms[0]), statistics.median(used_ms[1])


def _one(server: Server, group: LargeGroup) -> float:
    """Seconds of CPU of a rebalance and of what follows from it."""
    before_s = server.cpu_s()
    group.rebalance()
    time.sleep(IDLE_S)
    return server.cpu_s() - before_s
