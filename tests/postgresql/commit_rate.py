"""What a commit costs on PostgreSQL beside the directory with log.flush=always, in one run, in alternating rounds.

`python -m tests.postgresql.commit_rate [SECONDS]` starts a server with fsync=on, a daemon on it, one on a directory.
Each of 64 clients commits one offset at a time. It prints commits a second, the daemon's CPU time for each, and the
latencies. All of them, and the clients, share this machine.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from pathlib import Path

from kafka_wire.api.create_topics import CreatableTopic, CreateTopicsRequest
from tests.clients.raw import Line
from tests.clients.raw_member import COMMIT_VERSION, commit_errors, commit_request
from tests.daemon import HOST, Daemon
from tests.postgresql import server

CLIENTS = 64
ROUNDS = 3
TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


async def commits(daemon: Daemon, seconds: float) -> tuple[float, list[float], float]:
    """(commits a second, their latencies in seconds, the daemon's CPU seconds for each)."""
    latencies: list[float] = []
    lines = [await Line.connect(HOST, daemon.port, f"client-{number}") for number in range(CLIENTS)]
    ends_s = time.perf_counter() + seconds

    async def work(number: int) -> None:
        offset = int(time.time() * 1000)
        while (began_s := time.perf_counter()) < ends_s:
            offset += 1
            request = commit_request(f"group-{number}", {("topic", 0): offset})
            errors = commit_errors(await lines[number].ask(request, COMMIT_VERSION))
            assert not any(errors.values()), errors
            latencies.append(time.perf_counter() - began_s)

    cpu_s, began_s = cpu_seconds(daemon.pid), time.perf_counter()
    await asyncio.gather(*(work(number) for number in range(CLIENTS)))
    took_s = time.perf_counter() - began_s
    for line in lines:
        line.close()
    return len(latencies) / took_s, latencies, (cpu_seconds(daemon.pid) - cpu_s) / len(latencies)


async def measure(daemons: dict[str, Daemon], seconds: float) -> None:
    for daemon in daemons.values():
        line = await Line.connect(HOST, daemon.port, "set-up")
        await line.ask(CreateTopicsRequest([CreatableTopic("topic", 1, 1)]), 7)
        line.close()
        await commits(daemon, 1.0)
    found: dict[str, list[tuple[float, list[float], float]]] = {name: [] for name in daemons}
    for _ in range(ROUNDS):
        for name, daemon in daemons.items():
            found[name].append(await commits(daemon, seconds))
    for name, rounds in found.items():
        latencies = sorted(each for _, those, _ in rounds for each in those)
        rate = sorted(each for each, _, _ in rounds)[ROUNDS // 2]
        cpu_us = sorted(each for _, _, each in rounds)[ROUNDS // 2] * 1e6
        p50, p99 = (latencies[int(len(latencies) * share)] * 1000 for share in (0.5, 0.99))
        print(f"{name:>10}: {rate:7.0f} commits/s, {cpu_us:5.0f} µs CPU each, p50 {p50:.1f} ms, p99 {p99:.1f} ms")


def main() -> None:
    if why := server.missing():
        sys.exit(why)
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 4.0
    with tempfile.TemporaryDirectory() as directory, server.running() as database:
        stores = {"directory": "directory", "postgresql": database.make_database("rate")}
        daemons = {name: Daemon(Path(directory) / name, {"storage": store}) for name, store in stores.items()}
        try:
            for daemon in daemons.values():
                daemon.start()
            asyncio.run(measure(daemons, seconds))
        finally:
            for daemon in daemons.values():
                if daemon.process is not None:
                    daemon.stop()


if __name__ == "__main__":
    main()
