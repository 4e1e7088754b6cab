"""An innocent group beside each attack: nobody is expelled, and its heartbeats are answered nearly as soon as ever.

The attack is a process of its own, the daemon another. The innocents' p99 is at most `GOOD_S`, or five times that of
asking a process that does nothing but work for 4 ms and look who has asked, which is what a slice is: on a busy machine
it waits for its turns as the daemon does. Where the system gives out memory slowly, `GOOD_S` is longer by as much: a
bomb takes more than a hundred megabytes. What the daemon has at most meanwhile is `PEAK` more than before, so that no
peer's bytes are without a limit.

Other hostile acts have tests where what withstands them is tested: descriptors (tests/test_descriptors.py), slow peers
of the admin port (tests/base/observe/test_admin.py), full disks, kills and removed files (tests/crash,
tests/test_removed_directory.py), bytes that are no request (tests/test_bad_input.py), damaged logs (tests/broker/log).
"""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kafka_wire.api.heartbeat import HeartbeatRequest
from kafka_wire.api.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafka_wire.api.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kafka_wire.errors import ErrorCode
from tests.daemon import REPOSITORY, Daemon, running
from tests.hostile.attacks import ATTACKS, SETTINGS
from tests.hostile.turns import Peer

SECONDS = 2.5
"""How long an attack lasts, its preparations included."""
QUIET_S = 1.0
GOOD_S = 0.100
"""A thirtieth of the time between a member's heartbeats."""
USUAL_BYTES, USUAL_S = 256 << 20, 0.1
"""So much memory is given out in so long on a usual machine. Some take three times as long."""
FACTOR = 5
ATTEMPTS = 3
BETWEEN_S = 0.005
SESSION_MS = 30_000
MIB = 1 << 20

PEAK = 256 * MIB
"""What the daemon may have more at a time, during any attack, than before it."""
HELD = 192 * MIB
"""What it may have more at the end: the largest limit of SECURITY.md (128 MiB), and what the allocator keeps."""


class Innocent:
    """A group of one member with one connection, on a thread that measures its heartbeats."""

    def __init__(self, port: int) -> None:
        self.peer = Peer(port)
        join = JoinGroupRequest(
            "innocent", SESSION_MS, SESSION_MS, "", None, "consumer", [JoinGroupRequestProtocol("range", b"")]
        )
        joined = self.peer.ask(join, 3)
        self.request = HeartbeatRequest("innocent", joined.generation_id, joined.member_id)
        assignments = [SyncGroupRequestAssignment(joined.member_id, b"")]
        sync = SyncGroupRequest("innocent", joined.generation_id, joined.member_id, assignments=assignments)
        assert self.peer.ask(sync, 3).error_code == ErrorCode.NONE

    def times_s(self, until: threading.Event) -> list[float]:
        """Its heartbeats' times until then, in order of size. All of them must be good."""
        return times_s(self.heartbeat, until)

    def heartbeat(self) -> None:
        assert self.peer.ask(self.request, 4).error_code == ErrorCode.NONE, "expelled"

    def close(self) -> None:
        self.peer.close()


@pytest.fixture
def daemon(tmp_path: Path, name: str) -> Iterator[Daemon]:
    settings = {
        **SETTINGS.get(name, {}),
        "group.initial.rebalance.delay.ms": "0",
        "log.flush": "never",
        "max.partitions": "20000",
    }
    with running(tmp_path, settings) as daemon:
        yield daemon


def times_s(ask: Callable[[], object], until: threading.Event) -> list[float]:
    """The times that asking takes, in order of size."""
    took_s = []
    while not until.is_set():
        began_s = time.monotonic()
        ask()
        took_s.append(time.monotonic() - began_s)
        time.sleep(BETWEEN_S)
    return sorted(took_s)


def p99_s(times_s: list[float]) -> float:
    """Their slow end."""
    return times_s[int(len(times_s) * 0.99)]


SLICES = """
import select, socket, sys, time
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
peer = server.accept()[0]
while True:
    end_s = time.perf_counter() + 0.004
    while time.perf_counter() < end_s:
        sum(range(100))
    if select.select([peer], [], [], 0)[0]:
        data = peer.recv(1)
        if not data:
            break
        peer.sendall(data)
"""
"""A process that works in slices all the time, and answers between them."""


def sliced_s() -> float:
    """The p99 of asking it, beside a program that keeps a core busy, as an attack does."""
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    process = subprocess.Popen([sys.executable, "-c", SLICES], stdout=subprocess.PIPE, text=True)
    enough = threading.Event()
    try:
        assert process.stdout is not None
        with socket.create_connection(("127.0.0.1", int(process.stdout.readline())), timeout=60) as peer:
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Timer(QUIET_S, enough.set).start()
            return p99_s(times_s(lambda: (peer.sendall(b"x"), peer.recv(1)), enough))
    finally:
        for each in (busy, process):
            each.kill()
            each.communicate()


def slowness() -> float:
    """How many times as long as on a usual machine it takes to be given memory; 1 where it is fast."""
    began_s = time.thread_time()
    assert not any(bytearray(USUAL_BYTES)[:1])
    return max(1.0, (time.thread_time() - began_s) / USUAL_S)


def disturbed_s(innocent: Innocent, name: str, port: int) -> tuple[list[float], int]:
    """Its times during the attack, and the attack's strokes."""
    command = [sys.executable, "-m", "tests.hostile.attacks", name, str(port), str(SECONDS)]
    process = subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True)
    over = threading.Event()
    waiting = threading.Thread(target=lambda: (process.wait(60), over.set()))
    waiting.start()
    try:
        found_s = innocent.times_s(over)
    finally:
        process.kill()
        output, _ = process.communicate()
    return found_s, int(output or 0)


@pytest.mark.hostile
@pytest.mark.timeout(180)
@pytest.mark.parametrize("name", sorted(ATTACKS))
def test_an_innocent_group_beside(name: str, daemon: Daemon) -> None:
    before = daemon.resident_bytes()
    daemon.reset_peak()
    innocent = Innocent(daemon.port)
    told = []
    for _ in range(ATTEMPTS):
        before_s = sliced_s()
        found, strokes = disturbed_s(innocent, name, daemon.port)
        found_s = p99_s(found)
        assert strokes, "the attack did nothing"
        usual_s = max(before_s, sliced_s())
        slowest = f"slowest {found[-1] * 1000:.1f} ms"
        told.append(
            f"p99 {found_s * 1000:.1f} ms, {slowest} beside {strokes} strokes, {usual_s * 1000:.1f} ms of slices alone"
        )
        if found_s <= max(FACTOR * usual_s, GOOD_S * slowness()):
            break
    else:
        pytest.fail("\n".join(told))
    held = daemon.resident_bytes() - before
    peak = daemon.peak_bytes() - before
    print(f"{name}: {told[-1]}, {held / MIB:.0f} MiB held, {peak / MIB:.0f} MiB at the peak")
    assert peak <= PEAK, f"{peak / MIB:.0f} MiB"
    assert held <= HELD, f"{held / MIB:.0f} MiB"
    innocent.close()
    assert not daemon.events("a handler failed")
