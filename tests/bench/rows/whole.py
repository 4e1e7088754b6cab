"""What two workers carry, and what writing down each rebalance costs."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from protocol.api.find_coordinator import FindCoordinatorRequest
from tests.bench import groups
from tests.bench.generator import Flow, Line, WrongAnswer, drive
from tests.bench.large_group import LargeGroup
from tests.bench.registry import Arena, Column, Sample, at_least, at_most, row
from tests.bench.rows.steady import check_heartbeat, heartbeat_flows, heartbeats
from tests.bench.servers import Ours, Server, cores, cpu_s, pin, unpinned

# Workers

WORKERS = 2


@dataclass(slots=True)
class Worker:
    pid: int
    flows: Sequence[Flow]


def workers(server: Ours) -> list[Worker]:
    """Each with half of the connections, and with the groups that it coordinates."""
    groups.make_topic(server)
    names = [f"group-{number:06}" for number in range(groups.GROUPS)]
    line = server.line()

    found = line.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=names)).coordinators
    line.close()
    made = []
    for number in range(WORKERS):
        port = server.port + number
        mine = [each.key for each in found if each.port == port]
        if len(mine) < groups.GROUPS // WORKERS // 2:
            raise WrongAnswer(f"worker {number} coordinates {len(mine)} of {groups.GROUPS} groups")
        connections = [Line(port) for _ in range(groups.CONNECTIONS // WORKERS)]
        groups.wait_until_loaded(connections, mine)
        hands = groups.dealt(groups.one_member_groups(connections, mine), len(connections))
        flows = [Flow(each, heartbeats(hand), check_heartbeat) for each, hand in zip(connections, hands, strict=True)]
        made.append(Worker(server.daemon.worker_pid(number), flows))
    return made


def capacity(served: int, used_s: float) -> float:
    """Requests that a core to itself would carry in a second."""
    return served / used_s


@row(
    "workers",
    "heartbeats that two workers carry, over those of one",
    "×",
    targets=[at_least(1.8)],
    more_is_better=True,
)
def two_workers(arena: Arena, column: Column, seconds: float) -> Sample:
    """On two cores the generator is in the workers' way: each one's requests are counted per second of its own CPU,
    while both are at work, which is what they would carry with a core each.
    """
    one = arena.server(column)
    two = arena.server(replace(column, settings=(*column.settings, ("workers", str(WORKERS)))))
    assert isinstance(two, Ours)
    if "heartbeat flows" not in one.fixtures:
        one.fixtures["heartbeat flows"] = heartbeat_flows(one)
    if "workers" not in two.fixtures:
        two.fixtures["workers"] = workers(two)
        everywhere = sorted(set().union(*cores()))
        for number, worker in enumerate(two.fixtures["workers"]):  # type: ignore[arg-type,var-annotated]
            pin(worker.pid, {everywhere[number % len(everywhere)]})
    flows: Sequence[Flow] = one.fixtures["heartbeat flows"]  # type: ignore[assignment]
    before_s = one.cpu_s()
    with unpinned():  # as below: the generator sleeps, and has to be woken, in both
        alone = drive(flows, seconds, 8)
    of_one = capacity(alone.requests, one.cpu_s() - before_s)

    both: list[Worker] = two.fixtures["workers"]  # type: ignore[assignment]
    befores_s = [cpu_s(worker.pid) for worker in both]
    answered = [sum(flow.answered for flow in worker.flows) for worker in both]
    with unpinned():
        together = drive([flow for worker in both for flow in worker.flows], seconds, 8)
    of_both = [
        capacity(sum(flow.answered for flow in worker.flows) - already, cpu_s(worker.pid) - before)
        for worker, already, before in zip(both, answered, befores_s, strict=True)
    ]
    return Sample(
        sum(of_both) / of_one,
        also={
            "µs of one": 1e6 / of_one,
            **{f"µs of worker {number}": 1e6 / each for number, each in enumerate(of_both)},
            "per s by the clock, one": alone.requests / alone.wall_s,
            "two": together.requests / together.wall_s,
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
        arena.server(replace(column, settings=(*column.settings, ("rebalance.ledger.enable", enable))))
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
