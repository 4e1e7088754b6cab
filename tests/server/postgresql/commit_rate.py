"""What commits and heartbeats cost on PostgreSQL beside the directory with log.flush=always, in one run, in turns.

`python -m tests.server.postgresql.commit_rate [SECONDS]` starts a server with fsync=on, a daemon on it, two and three
that lead a share each, and one on a directory. Each client commits one offset at a time to its group's coordinator, and
each node has 64 of them: more nodes are for more load, and the commits that a node stores together are as many. Beside
it two nodes have 64 clients together. It prints commits a second, the daemons' CPU time for each, that of the busiest
daemon, the latencies, and what a heartbeat costs. All of them, and the clients, share this machine: where each node has
a core of its own, the busiest one's time is the limit.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from coordinatord.transport.cluster.nodes import share_of
from coordinatord.transport.cluster.partitioner import partition_for
from kafka_wire.api.create_topics import CreatableTopic, CreateTopicsRequest
from kafka_wire.api.heartbeat import HeartbeatRequest
from tests.clients.raw import Line
from tests.clients.raw_member import COMMIT_VERSION, HEARTBEAT_VERSION, RawMember, commit_errors, commit_request
from tests.daemon import HOST, Daemon
from tests.server.postgresql import server

CLIENTS = 64
"""Of each node."""
PARTITIONS = 50
"""Of __consumer_offsets."""
LEADERS = (1, 2, 3)
SET_UP_TRIES = 30
ROUNDS = 3
BEATING, IN_FLIGHT, BEATING_ROUNDS = 32, 8, 5
"""Members that send heartbeats, how many at a time, and turns of both nodes."""
TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


class Found(NamedTuple):
    """Of one round. CPU seconds are for each commit: of all daemons together, and of the busiest one."""

    rate: float
    latencies: list[float]
    cpu_s: float
    busiest_cpu_s: float


def seat_of(daemon: Daemon) -> int:
    led = daemon.events("this node leads")
    return int(str(led[-1].get("seat", 0))) if led else 0


def names(daemons: int, clients: int) -> list[list[str]]:
    """Groups by seat, as many of each."""
    found: list[list[str]] = [[] for _ in range(daemons)]
    for number in itertools.count():
        name = f"group-{number}"
        own = found[share_of("__consumer_offsets", partition_for(name, PARTITIONS), daemons)]
        if len(own) < clients // daemons:
            own.append(name)
        if all(len(each) == clients // daemons for each in found):
            return found
    raise AssertionError("numbers do not end")


async def commits(daemons: list[Daemon], clients: int, seconds: float) -> Found:
    """`daemons` are in the order of their seats, and have the same number of `clients`."""
    latencies: list[float] = []
    places = [
        (name, await Line.connect(HOST, daemon.port, name))
        for daemon, own in zip(daemons, names(len(daemons), clients), strict=True)
        for name in own
    ]
    ends_s = time.perf_counter() + seconds

    async def work(group: str, line: Line) -> None:
        offset = int(time.time() * 1000)
        while (began_s := time.perf_counter()) < ends_s:
            offset += 1
            errors = commit_errors(await line.ask(commit_request(group, {("topic", 0): offset}), COMMIT_VERSION))
            assert not any(errors.values()), errors
            latencies.append(time.perf_counter() - began_s)

    before, began_s = [cpu_seconds(daemon.pid) for daemon in daemons], time.perf_counter()
    await asyncio.gather(*(work(*place) for place in places))
    took_s = time.perf_counter() - began_s
    for _group, line in places:
        line.close()
    cpu_s = [cpu_seconds(daemon.pid) - then for daemon, then in zip(daemons, before, strict=True)]
    count = len(latencies)
    return Found(count / took_s, latencies, sum(cpu_s) / count, max(cpu_s) / count)


async def heartbeats(daemon: Daemon, seconds: float) -> float:
    """CPU seconds for each, of members that have IN_FLIGHT of them under way on each connection."""
    lines = [await Line.connect(HOST, daemon.port, f"member-{number}") for number in range(BEATING)]
    members = [RawMember(line, f"beating-{number}", {"topic": 1}) for number, line in enumerate(lines)]
    await asyncio.gather(*(member.join() for member in members))
    count, ends_s, began_cpu_s = 0, time.perf_counter() + seconds, cpu_seconds(daemon.pid)

    async def work(member: RawMember) -> None:
        nonlocal count
        asked = HeartbeatRequest(member.group, member.generation, member.member_id)
        line = member.line
        assert line is not None
        while time.perf_counter() < ends_s:
            answers = await asyncio.gather(*(line.ask(asked, HEARTBEAT_VERSION) for _ in range(IN_FLIGHT)))
            assert not any(each.error_code for each in answers), answers
            count += len(answers)

    await asyncio.gather(*(work(member) for member in members))
    cpu_s = cpu_seconds(daemon.pid) - began_cpu_s
    for member in members:
        await member.leave()
    for line in lines:
        line.close()
    return cpu_s / count


async def set_up(daemons: list[Daemon]) -> None:
    line = await Line.connect(HOST, daemons[0].port, "set-up")
    await line.ask(CreateTopicsRequest([CreatableTopic("topic", 1, 1)]), 7)
    line.close()
    for _ in range(SET_UP_TRIES):  # until all nodes know it
        with contextlib.suppress(AssertionError):
            await commits(daemons, CLIENTS * len(daemons), 1.0)
            return
    raise TimeoutError("commits are refused")


class Figures(NamedTuple):
    """Of all rounds. Microseconds of CPU are medians; of all daemons together, and of the busiest one."""

    per_s: float
    cpu_us: float
    busiest_us: float
    p50_ms: float
    p99_ms: float


class Measured(NamedTuple):
    """Commits by contender; a heartbeat on PostgreSQL over one on the directory, in CPU time: the median of turns."""

    commits: dict[str, Figures]
    heartbeat: float
    heartbeat_us: float


DIRECTORY, ONE, TWO, THREE, SHARED = "directory", "1 leading", "2 leading", "3 leading", "2 leading, 64 clients"


async def measure(clusters: dict[int, list[Daemon]], seconds: float) -> Measured:
    """`clusters`: by the number of nodes that lead; 0 is the directory's."""
    for daemons in clusters.values():
        await set_up(daemons)
    contenders = {
        DIRECTORY: (clusters[0], CLIENTS),
        ONE: (clusters[1], CLIENTS),
        TWO: (clusters[2], 2 * CLIENTS),
        THREE: (clusters[3], 3 * CLIENTS),
        SHARED: (clusters[2], CLIENTS),
    }
    found: dict[str, list[Found]] = {name: [] for name in contenders}
    for _ in range(ROUNDS):
        for name, (daemons, clients) in contenders.items():
            found[name].append(await commits(daemons, clients, seconds))
    ratios, costs = [], []
    for _ in range(BEATING_ROUNDS):
        of_directory = await heartbeats(clusters[0][0], seconds)
        costs.append(await heartbeats(clusters[1][0], seconds))
        ratios.append(costs[-1] / of_directory)
    figures = {name: put_together(rounds) for name, rounds in found.items()}
    return Measured(figures, statistics.median(ratios), statistics.median(costs) * 1e6)


def put_together(rounds: list[Found]) -> Figures:
    latencies = sorted(each for round_ in rounds for each in round_.latencies)
    p50, p99 = (latencies[int(len(latencies) * share)] * 1000 for share in (0.5, 0.99))
    return Figures(
        statistics.median(each.rate for each in rounds),
        statistics.median(each.cpu_s for each in rounds) * 1e6,
        statistics.median(each.busiest_cpu_s for each in rounds) * 1e6,
        p50,
        p99,
    )


def started(directory: Path, name: str, store: str, leaders: int) -> list[Daemon]:
    """In the order of their seats."""
    made = []
    for number in range(leaders):
        settings = {"storage": store, "node.id": str(number), "group.initial.rebalance.delay.ms": "0"}
        if leaders > 1:
            settings["storage.leaders"] = str(leaders)
        made.append(Daemon(directory / f"{name}-{number}", settings))
        made[-1].start()
    return sorted(made, key=seat_of)


def run(seconds: float) -> Measured:
    """Start all, measure, and stop all."""
    with tempfile.TemporaryDirectory() as directory, server.running() as database:
        clusters: dict[int, list[Daemon]] = {}
        try:
            clusters[0] = started(Path(directory), "directory", "directory", 1)
            for leaders in LEADERS:
                url = database.make_database(f"rate_{leaders}")
                clusters[leaders] = started(Path(directory), f"{leaders}", url, leaders)
            return asyncio.run(measure(clusters, seconds))
        finally:
            for daemon in itertools.chain.from_iterable(clusters.values()):
                if daemon.process is not None:
                    daemon.stop()


def main() -> None:
    if why := server.missing():
        sys.exit(why)
    measured = run(float(sys.argv[1]) if len(sys.argv) > 1 else 4.0)
    for name, found in measured.commits.items():
        print(
            f"{name:>21}: {found.per_s:7.0f} commits/s, {found.cpu_us:5.0f} µs CPU each, {found.busiest_us:5.0f} µs of "
            f"the busiest node, p50 {found.p50_ms:.1f} ms, p99 {found.p99_ms:.1f} ms"
        )
    print(
        f"a heartbeat on PostgreSQL takes {measured.heartbeat_us:.1f} µs, {measured.heartbeat:.2f} of the directory's"
    )


if __name__ == "__main__":
    main()
