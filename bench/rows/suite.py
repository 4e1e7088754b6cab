"""The tests of a small service (bench/suite), run by pytest: what a developer waits for.

Each round is a pytest process of its own. Where the tests share a broker, the figure includes the broker's start, and
the figures beside it give the time without. Peak memory is the sum of the peaks of pytest and of the broker.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence

from bench.generator import HOST, WrongAnswer
from bench.registry import KAFKA, KFAKE, Arena, Column, Sample, at_most, ours, row
from bench.servers import Unavailable, unpinned
from bench.suite.conftest import ADDRESS
from tests.daemon import REPOSITORY

TESTS = 60
DEADLINE_S = 600.0
MIB = 1 << 20
MODULES = ("kafka", "confluent_kafka", "aiokafka")
THREAD = ours("ours-thread", "coordinatord, fixture in a thread, a Kafka for each test")
PROCESS = ours("ours-process", "coordinatord, fixture as a process, a Kafka for each test")
SHARED = ours(label="coordinatord, one process for all tests")


def play(arguments: Sequence[str], address: str | None) -> tuple[float, float, int]:
    """Run the tests in a pytest process; return its wall-clock and CPU seconds and its peak memory in bytes.

    CPU includes the processes that it has waited for. Raises WrongAnswer unless all tests have passed.
    """
    environment = {name: value for name, value in os.environ.items() if name != ADDRESS}
    if address is not None:
        environment[ADDRESS] = address
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "bench/suite", *arguments]
    with tempfile.TemporaryFile() as output, unpinned():
        began_s = time.monotonic()
        process = subprocess.Popen(
            ["timeout", str(DEADLINE_S), *command],
            cwd=REPOSITORY,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        wall_s = time.monotonic() - began_s
        output.seek(0)
        text = output.read().decode(errors="replace")
    if process.returncode or f"{TESTS} passed" not in text:
        failed = re.findall(r"^(?:FAILED|ERROR) .*", text, re.M)
        raise WrongAnswer(f"the tests ended with {process.returncode}: {'; '.join(failed[:3]) or text[-300:]}")
    return wall_s, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024


@row(
    "suite",
    f"{TESTS} tests of a small service with three clients, start included",
    "s",
    columns=[SHARED, THREAD, PROCESS, KAFKA, KFAKE],
    targets=[at_most(1 / 5, of="kafka"), at_most(1, of="kfake")],
    rounds=3,
    quick=False,
)
def suite(arena: Arena, column: Column, seconds: float) -> Sample:
    if missing := [name for name in MODULES if importlib.util.find_spec(name) is None]:
        raise Unavailable(f"the suite is left out: {', '.join(missing)} cannot be imported (the extra `clients`)")
    if column in (THREAD, PROCESS):
        wall_s, used_s, peak = play([f"--kafka={column.key.removeprefix('ours-')}"], None)
        return Sample(wall_s, also={"s after the start": wall_s, "CPU s": used_s, "peak MiB": peak / MIB})
    with arena.fresh(column) as server:
        wall_s, used_s, peak = play([], f"{HOST}:{server.port}")
        used_s, peak = used_s + server.cpu_s(), peak + server.peak_bytes()
        return Sample(
            server.start_s + wall_s, also={"s after the start": wall_s, "CPU s": used_s, "peak MiB": peak / MIB}
        )
