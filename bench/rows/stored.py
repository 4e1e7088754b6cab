"""What commits cost when the log is in PostgreSQL."""

from __future__ import annotations

from bench.registry import Arena, Column, Sample, at_least, at_most, row
from bench.servers import Unavailable, unpinned
from tests.server.postgresql import commit_rate, server
from tests.server.postgresql.commit_rate import DIRECTORY, ONE, SHARED, THREE, TWO

MORE_NODES = "two leading nodes over one"
HEARTBEAT = "heartbeat over the directory's"


@row(
    "postgresql",
    "commits per CPU second on PostgreSQL, over those of the directory",
    "×",
    targets=[at_least(1 / 3), at_least(1.8, what=MORE_NODES), at_most(1.05, what=HEARTBEAT)],
    rounds=1,  # which has rounds of its own
    quick=False,
    more_is_better=True,
)
def postgresql(arena: Arena, column: Column, seconds: float) -> Sample:
    """The daemon's own CPU time, with fsync=on there and log.flush=always here. Of several nodes it is the busiest
    one's, as each has cores of its own, and each has the same number of clients
    (tests/server/postgresql/commit_rate.py).
    """
    if why := server.missing():
        raise Unavailable(why)
    with unpinned():  # a server, seven daemons and their clients share what there is
        measured = commit_rate.run(seconds)
    found = measured.commits
    also = {
        MORE_NODES: found[ONE].busiest_us / found[TWO].busiest_us,
        "three": found[ONE].busiest_us / found[THREE].busiest_us,
        "two that share one's clients": found[ONE].busiest_us / found[SHARED].busiest_us,
        HEARTBEAT: measured.heartbeat,
    }
    for name in (DIRECTORY, ONE, TWO, THREE):
        also |= {
            f"µs, {name}": found[name].cpu_us,
            f"per s, {name}": found[name].per_s,
            f"p50 ms, {name}": found[name].p50_ms,
            f"p99 ms, {name}": found[name].p99_ms,
        }
    return Sample(found[DIRECTORY].cpu_us / found[ONE].cpu_us, also=also)
