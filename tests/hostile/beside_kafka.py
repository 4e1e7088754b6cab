"""The same attacks on the daemon and on Apache Kafka, one after the other on this machine.

    python -m tests.hostile.beside_kafka [ATTACK...]

For each attack and each of the two, a table has the slowest of a neighbour's answers, the slowest without the attack,
and the most memory that the process took in addition to what it had before. The neighbour asks ApiVersions every few
milliseconds on a connection of its own, while the attack lasts. Each attack is made once: nothing is repeated, and no
answer is left out. Kafka's heap has a limit (`JVM` of tests/reference/broker.py), which limits its memory.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from kafka_wire.api.api_versions import ApiVersionsRequest
from tests.daemon import REPOSITORY, memory_bytes, running
from tests.hostile.attacks import ATTACKS, SETTINGS
from tests.hostile.turns import Peer
from tests.reference.broker import kafka_libs, start_broker

SECONDS = 5.0
"""How long an attack lasts, its preparations included."""
END_S = 60.0
QUIET_S = 1.0
BETWEEN_S = 0.002
MIB = 1 << 20

OURS: Mapping[str, str] = {"log.flush": "never", "max.partitions": "20000"}
"""Kafka's own default is to flush when the system does, too."""


class Subject(NamedTuple):
    """A server that is attacked."""

    port: int
    pid: int


class Measured(NamedTuple):
    """What an attack does to a server. `peak_bytes`: in addition to the memory before."""

    slowest_s: float
    quiet_s: float
    peak_bytes: int
    strokes: int


@contextmanager
def coordinatord(name: str, directory: Path) -> Iterator[Subject]:
    """A daemon."""
    with running(directory, {**OURS, **SETTINGS.get(name, {})}) as daemon:
        yield Subject(daemon.port, daemon.pid)


@contextmanager
def kafka(name: str, directory: Path) -> Iterator[Subject]:
    """A broker. It is killed at the end: with thousands of partitions it needs minutes to stop in order."""
    broker = start_broker(kafka_libs(), directory, SETTINGS.get(name, {}))
    try:
        yield Subject(broker.port, broker.process.pid)
    finally:
        broker.stop(kill=True)


class Neighbour:
    """Asks on a thread, and knows the slowest answer (s) since the last look."""

    def __init__(self, port: int) -> None:
        self._peer = Peer(port)
        self._began_s = time.monotonic()
        self._slowest_s = 0.0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def slowest_s(self) -> float:
        """The slowest answer, the one that is still awaited included."""
        slowest_s, self._slowest_s = max(self._slowest_s, time.monotonic() - self._began_s), 0.0
        return slowest_s

    def close(self) -> None:
        self._over.set()
        self._thread.join(END_S)
        self._peer.close()

    def _run(self) -> None:
        while not self._over.is_set():
            self._began_s = time.monotonic()
            self._peer.ask(ApiVersionsRequest(), 2)
            self._slowest_s = max(self._slowest_s, time.monotonic() - self._began_s)
            time.sleep(BETWEEN_S)
            self._began_s = time.monotonic()


def measure(name: str, subject: Subject) -> Measured:
    """Attack a server once."""
    neighbour = Neighbour(subject.port)
    try:
        time.sleep(QUIET_S)
        quiet_s, before = neighbour.slowest_s(), memory_bytes(subject.pid, "VmRSS")
        Path(f"/proc/{subject.pid}/clear_refs").write_text("5")
        strokes = attacked(name, subject.port)
        return Measured(neighbour.slowest_s(), quiet_s, memory_bytes(subject.pid, "VmHWM") - before, strokes)
    finally:
        neighbour.close()


def attacked(name: str, port: int) -> int:
    """Run an attack in a process of its own; returns its strokes. One that does not end in time is ended."""
    command = [sys.executable, "-m", "tests.hostile.attacks", name, str(port), str(SECONDS)]
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        try:
            output, _ = process.communicate(timeout=END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            return 0
    return int(output or 0)


HEAD = (
    "| attack | neighbour here | and without | on Kafka | and without | memory here | on Kafka | strokes |\n"
    "|---|---|---|---|---|---|---|---|"
)


def row(name: str, ours: Measured, theirs: Measured) -> str:
    """A line of the table."""
    times = [f"{each * 1000:.1f} ms" for found in (ours, theirs) for each in (found.slowest_s, found.quiet_s)]
    peaks = [f"{found.peak_bytes / MIB:.0f} MiB" for found in (ours, theirs)]
    return f"| {' | '.join([name, *times, *peaks, f'{ours.strokes}, {theirs.strokes}'])} |"


def compared(
    names: Sequence[str], directory: Path, tell: Callable[[str], object] = print
) -> dict[str, tuple[Measured, Measured]]:
    """Attack both servers, which are new ones for each attack, and print the table: {attack: (ours, Kafka's)}."""
    found = {}
    tell(HEAD)
    for name in names:
        both = []
        for kind in (coordinatord, kafka):
            with kind(name, directory / f"{name}-{kind.__name__}") as subject:
                both.append(measure(name, subject))
        found[name] = both[0], both[1]
        tell(row(name, *found[name]))
    return found


if __name__ == "__main__":
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    with tempfile.TemporaryDirectory() as made:
        compared(sys.argv[1:] or sorted(ATTACKS), Path(made))
