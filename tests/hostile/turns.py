"""A daemon in this process, on an event loop that measures the CPU time of each of its turns.

A turn is everything that the loop's thread does between two waits: a neighbour's request waits as long. Measured as
CPU time of that thread, so that other programs do not disturb.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import selectors
import socket
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from coordinatord.base.config import Settings
from coordinatord.base.config.address import parse_listeners
from coordinatord.base.observe.health import HealthState
from coordinatord.base.observe.logger import silent
from coordinatord.server.daemon.daemon import Daemon
from kafka_wire.api.create_topics import CreatableTopic, CreateTopicsRequest
from kafka_wire.client import codec_of
from tests.support.shell import request_frame, response_of

HOST = "127.0.0.1"
REFERENCE_S = 0.007
"""CPU time of `_reference` on the machine whose figures the tests have."""
PATIENCE_S = 60.0


def _reference() -> float:
    """CPU time of some ordinary work in Python."""
    began_s = time.thread_time()
    found = {f"name-{number}": (number, [number, str(number)]) for number in range(20_000)}
    assert sum(len(name) + each[0] for name, each in found.items())
    return time.thread_time() - began_s


def slowness() -> float:
    """How many times as much CPU time as usual things take here and now, at least 1: on a slower processor, or when
    other programs have the other half of the core and its caches.
    """
    return max(1.0, sorted(_reference() for _ in range(5))[2] / REFERENCE_S)


class MeasuringSelector(selectors.DefaultSelector):  # type: ignore[valid-type,misc]
    """Knows the longest time between two waits, in seconds of CPU time."""

    began_s = 0.0
    longest_s = 0.0

    def select(self, timeout: float | None = None) -> Any:
        if self.began_s:
            self.longest_s = max(self.longest_s, time.thread_time() - self.began_s)
        found = super().select(timeout)
        self.began_s = time.thread_time()
        return found


class Peer:
    """A client with a blocking socket."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection((HOST, port), timeout=PATIENCE_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, message: Any, version: int) -> int:
        frame = request_frame(message, version, 1)
        self.socket.sendall(frame)
        return len(frame)

    def receive(self) -> bytes:
        """The next answer, without its size; empty if the connection was closed."""
        head = self._read(4)
        return self._read(struct.unpack(">i", head)[0]) if head else b""

    def ask(self, message: Any, version: int) -> Any:
        self.send(message, version)
        data = self.receive()
        assert data, "the connection was closed"
        return response_of(codec_of(message, version), data)[1]

    def close(self) -> None:
        self.socket.close()

    def _read(self, size: int) -> bytes:
        data = bytearray(size)
        view, at = memoryview(data), 0
        while at < size:
            try:
                got = self.socket.recv_into(view[at:])
            except ConnectionError:
                got = 0
            if not got:
                return b""
            at += got
        return bytes(data)


def create_topics(peer: Peer, *names: str, partitions: int = 1) -> None:
    """Create topics of so many partitions each; an error is left to what is done with them."""
    peer.ask(CreateTopicsRequest([CreatableTopic(name, partitions, 1) for name in names], timeout_ms=10_000), 5)


class Measured:
    """The daemon, on its own thread."""

    def __init__(self, directory: Path, **settings: Any) -> None:
        self.settings = dataclasses.replace(
            Settings(),
            **{
                "log_dirs": str(directory / "data"),
                "listeners": parse_listeners(f"{HOST}:0"),
                "log_flush": "never",
                "group_initial_rebalance_delay_ms": 0,
                **settings,
            },
        )
        self.port = 0
        self.daemon: Daemon | None = None
        self.selector = MeasuringSelector()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._loop = asyncio.SelectorEventLoop(self.selector)

    def start(self) -> None:
        self._thread.start()
        assert self._ready.wait(PATIENCE_S), "no start"

    def stop(self) -> None:
        assert self.daemon is not None
        self._loop.call_soon_threadsafe(self.daemon.request_stop, "the test is over")
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive(), "no end"

    def longest_s(self) -> float:
        """The longest turn since the last call: those that began before it have ended."""
        for _ in range(3):
            turned = threading.Event()
            self._loop.call_soon_threadsafe(turned.set)
            assert turned.wait(PATIENCE_S), "the loop is stuck"
        longest, self.selector.longest_s = self.selector.longest_s, 0.0
        return longest

    def busy_s(self, seconds: float) -> float:
        """CPU time that the loop's thread takes in so many seconds."""
        assert self._thread.ident is not None
        clock = time.pthread_getcpuclockid(self._thread.ident)
        began_s = time.clock_gettime(clock)
        time.sleep(seconds)
        return time.clock_gettime(clock) - began_s

    def peer(self) -> Peer:
        return Peer(self.port)

    def _run(self) -> None:
        with silent():
            self._loop.run_until_complete(self._serve())
        self._loop.close()

    async def _serve(self) -> None:
        daemon = self.daemon = Daemon(self.settings, self._loop)
        await daemon.start()
        while daemon.health.state is not HealthState.READY:  # noqa: ASYNC110  # nobody tells of it
            await asyncio.sleep(0.001)
        self.port = daemon.bound[0][2]
        self._ready.set()
        await daemon.wait()
        await daemon.stop()


@contextlib.contextmanager
def measured(directory: Path, **settings: Any) -> Iterator[Measured]:
    """A measured daemon for the duration of the block."""
    made = Measured(directory, **settings)
    made.start()
    try:
        yield made
    finally:
        made.stop()
