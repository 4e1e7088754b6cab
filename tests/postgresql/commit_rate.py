"""What a commit costs on PostgreSQL beside the directory with log.flush=always, in one run, in alternating rounds.

`python -m tests.postgresql.commit_rate [SECONDS]` starts a server with fsync=on, a daemon on it, two and three that
lead a share each, and one on a directory. Each of 64 clients commits one offset at a time to its group's coordinator.
It prints commits a second, the daemons' CPU time for each, that of the busiest daemon, and the latencies. All of them,
and the clients, share this machine: where each node has a core of its own, the busiest one's time is the limit.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from coordinatord.cluster.nodes import share_of
from coordinatord.cluster.placement import partition_for
from kafka_wire.api.create_topics import CreatableTopic, CreateTopicsRequest
from tests.clients.raw import Line
from tests.clients.raw_member import COMMIT_VERSION, commit_errors, commit_request
from tests.daemon import HOST, Daemon
from tests.postgresql import server

CLIENTS = 64
PARTITIONS = 50
"""Of __consumer_offsets."""
LEADERS = (1, 2, 3)
SET_UP_TRIES = 30
ROUNDS = 3
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


async def commits(daemons: list[Daemon], seconds: float) -> Found:
    """`daemons` are in the order of their seats."""
    latencies: list[float] = []
    where = [
        daemons[share_of("__consumer_offsets", partition_for(f"group-{number}", PARTITIONS), len(daemons))]
        for number in range(CLIENTS)
    ]
    lines = [await Line.connect(HOST, daemon.port, f"client-{number}") for number, daemon in enumerate(where)]
    ends_s = time.perf_counter() + seconds

    async def work(number: int) -> None:
        offset = int(time.time() * 1000)
        while (began_s := time.perf_counter()) < ends_s:
            offset += 1
            request = commit_request(f"group-{number}", {("topic", 0): offset})
            errors = commit_errors(await lines[number].ask(request, COMMIT_VERSION))
            assert not any(errors.values()), errors
            latencies.append(time.perf_counter() - began_s)

    before, began_s = [cpu_seconds(daemon.pid) for daemon in daemons], time.perf_counter()
    await asyncio.gather(*(work(number) for number in range(CLIENTS)))
    took_s = time.perf_counter() - began_s
    for line in lines:
        line.close()
    cpu_s = [cpu_seconds(daemon.pid) - then for daemon, then in zip(daemons, before, strict=True)]
    count = len(latencies)
    return Found(count / took_s, latencies, sum(cpu_s) / count, max(cpu_s) / count)


async def set_up(daemons: list[Daemon]) -> None:
    line = await Line.connect(HOST, daemons[0].port, "set-up")
    await line.ask(CreateTopicsRequest([CreatableTopic("topic", 1, 1)]), 7)
    line.close()
    for _ in range(SET_UP_TRIES):  # until all nodes know it
        with contextlib.suppress(AssertionError):
            await commits(daemons, 1.0)
            return
    raise TimeoutError("commits are refused")


async def measure(contenders: dict[str, list[Daemon]], seconds: float) -> None:
    for daemons in contenders.values():
        await set_up(daemons)
    found: dict[str, list[Found]] = {name: [] for name in contenders}
    for _ in range(ROUNDS):
        for name, daemons in contenders.items():
            found[name].append(await commits(daemons, seconds))
    for name, rounds in found.items():
        latencies = sorted(each for round_ in rounds for each in round_.latencies)
        rate = sorted(each.rate for each in rounds)[ROUNDS // 2]
        cpu_us = sorted(each.cpu_s for each in rounds)[ROUNDS // 2] * 1e6
        busiest_us = sorted(each.busiest_cpu_s for each in rounds)[ROUNDS // 2] * 1e6
        p50, p99 = (latencies[int(len(latencies) * share)] * 1000 for share in (0.5, 0.99))
        print(
            f"{name:>10}: {rate:7.0f} commits/s, {cpu_us:5.0f} µs CPU each, {busiest_us:5.0f} µs of the busiest node, "
            f"p50 {p50:.1f} ms, p99 {p99:.1f} ms"
        )


def started(directory: Path, name: str, store: str, leaders: int) -> list[Daemon]:
    """In the order of their seats."""
    made = []
    for number in range(leaders):
        settings = {"storage": store, "node.id": str(number)}
        if leaders > 1:
            settings["storage.leaders"] = str(leaders)
        made.append(Daemon(directory / f"{name}-{number}", settings))
        made[-1].start()
    return sorted(made, key=seat_of)


def main() -> None:
    if why := server.missing():
        sys.exit(why)
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 4.0
    with tempfile.TemporaryDirectory() as directory, server.running() as database:
        contenders: dict[str, list[Daemon]] = {}
        try:
            contenders["directory"] = started(Path(directory), "directory", "directory", 1)
            for leaders in LEADERS:
                name = f"{leaders} leading"
                contenders[name] = started(
                    Path(directory), f"{leaders}", database.make_database(f"rate_{leaders}"), leaders
                )
            asyncio.run(measure(contenders, seconds))
        finally:
            for daemon in itertools.chain.from_iterable(contenders.values()):
                if daemon.process is not None:
                    daemon.stop()


if __name__ == "__main__":
    main()
