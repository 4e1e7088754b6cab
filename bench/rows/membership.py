"""Joining: groups of one member made from nothing, and rebalances of large groups.

Groups are logged. Kafka does not flush its log and kfake has none, so that ours is compared with log.flush=never; what
it takes with log.flush=always, its default, is shown beside it.
"""

from __future__ import annotations

import statistics
import time

from bench import groups
from bench.generator import Line
from bench.large_group import BareGroup, LargeGroup
from bench.registry import KAFKA, KFAKE, LIMIT, OURS_FLUSHED, OURS_NEVER, Arena, Column, Sample, at_most, row
from bench.servers import Server

GROUPS_PER_S = 400  # made in a round: 600 in one of 1.5 s
WARM_GROUPS = {"kafka": 3_000}  # what its compiler needs to see
WARM_GROUPS_ELSE = 100


@row(
    "groups-created",
    "one-member group made: find, join twice, sync",
    "µs",
    columns=[OURS_NEVER, OURS_FLUSHED, KAFKA, KFAKE],
    targets=[at_most(1 / 8, of="kafka")],
)
def groups_created(arena: Arena, column: Column, seconds: float) -> Sample:
    """Server CPU per group. Two joins, since the first one without an id is answered with one (KIP-394)."""
    server = arena.server(column)
    connections = groups.lines(server)
    if "groups created" not in server.fixtures:
        server.fixtures["groups created"] = 0
        groups.make_topic(server)
        groups.wait_until_loaded(connections, [f"made-{number}" for number in range(groups.GROUPS)])
        _make(server, connections, WARM_GROUPS.get(server.kind, WARM_GROUPS_ELSE))
    count = round(GROUPS_PER_S * seconds)
    before_s, began_s = server.cpu_s(), time.perf_counter()
    _make(server, connections, count)
    took_s, used_s = time.perf_counter() - began_s, server.cpu_s() - before_s
    for line in connections:
        line.close()
    return Sample(used_s / count * 1e6, per_s=count / took_s)


def _make(server: Server, connections: list[Line], count: int) -> None:
    first: int = server.fixtures["groups created"]  # type: ignore[assignment]
    server.fixtures["groups created"] = first + count
    groups.one_member_groups(connections, [f"made-{number:08}" for number in range(first, first + count)])


WARM_S = {"kafka": 6.0}
WARM_ELSE_S = 0.3
MEMBERS = 500


@row(
    "rebalance-500",
    f"rebalance of {MEMBERS} members, first join to last sync",
    "ms",
    columns=[OURS_NEVER, OURS_FLUSHED, LIMIT, KAFKA, KFAKE],
    targets=[at_most(1, of="kfake")],
)
def rebalance(arena: Arena, column: Column, seconds: float) -> Sample:
    """Median of as many rebalances as a round has room for, at least three."""
    server = arena.server(column)
    if "large group" not in server.fixtures:
        made = BareGroup(server, MEMBERS) if server.kind == "limit" else LargeGroup(server, MEMBERS)
        server.fixtures["large group"] = made
        _rebalances(server, WARM_S.get(server.kind, WARM_ELSE_S))
    before_s = server.cpu_s()
    took_s = _rebalances(server, seconds)
    used_s = (server.cpu_s() - before_s) / len(took_s)
    return Sample(
        statistics.median(took_s) * 1000,
        [(each, 1) for each in took_s],
        also={"ms of CPU each": used_s * 1000, "rebalances": float(len(took_s))},
    )


def _rebalances(server: Server, seconds: float) -> list[float]:
    group: LargeGroup | BareGroup = server.fixtures["large group"]  # type: ignore[assignment]
    until_s = time.perf_counter() + seconds
    took_s: list[float] = []
    while len(took_s) < 3 or time.perf_counter() < until_s:
        took_s.append(group.rebalance())
    return took_s
