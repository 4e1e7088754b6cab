"""What two workers carry, and what writing down each rebalance costs."""

from __future__ import annotations

import dataclasses
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
IDLE_S = 0.004  # in which what a rebalance has left to write is written


@row(
    "ledger",
    f"rebalance of {MEMBERS} members, CPU, over one that nobody writes down",
    "×",
    targets=[at_most(1.03)],
)
def ledger(arena: Arena, column: Column, seconds: float) -> Sample:
    """Rebalances with and without rebalance.ledger.enable in turn, one by one; medians. The servers are the same in all
    else: started for this row alone, so that neither has what other rows have left.
    """
    servers = [
        arena.server(dataclasses.replace(column, settings=(*column.settings, ("rebalance.ledger.enable", enable))))
        for enable in ("true", "false")
    ]
    key = f"large group of {MEMBERS}"
    used_ms: tuple[list[float], list[float]] = ([], [])
    for server in servers:
        if key not in server.fixtures:
            server.fixtures[key] = LargeGroup(server, MEMBERS)
            for _ in range(20):
                _one(server, key)
    turns = list(zip(servers, used_ms, strict=True))
    until_s = time.perf_counter() + 2 * seconds
    while time.perf_counter() < until_s:
        for server, used in turns:
            used.append(_one(server, key) * 1000)
        turns.reverse()
    with_ms, without_ms = map(statistics.median, used_ms)
    return Sample(with_ms / without_ms, also={"ms with": with_ms, "ms without": without_ms})


def _one(server: Server, key: str) -> float:
    """Seconds of CPU of a rebalance and of what follows from it."""
    group: LargeGroup = server.fixtures[key]  # type: ignore[assignment]
    before_s = server.cpu_s()
    group.rebalance()
    time.sleep(IDLE_S)
    return server.cpu_s() - before_s
