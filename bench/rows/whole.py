"""What two workers carry."""

from __future__ import annotations

from bench import workers
from bench.registry import Arena, Column, Sample, at_least, row
from bench.servers import unpinned

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
