"""Our daemon in the test's own process, on a clock that stands still until nobody has anything to do.

The daemon is the real one, put together as `serve` does it; connections come to it without sockets. Whatever waits for
a deadline waits for no real time: when the event loop would sleep, its clock jumps to the next deadline instead. The
log's worker runs its jobs at once, on the loop's own thread, so a run is the same every time.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from coordinatord.base.config.load import Entry, load
from coordinatord.base.observe.health import HealthState
from coordinatord.server.daemon.daemon import Daemon
from coordinatord.testing.conform.raw_client import RawClient
from coordinatord.transport.net.connection import Connection

T = TypeVar("T")

HOST = "127.0.0.1"
START_MS = 1_750_000_000_000
"""The virtual clock begins here, some time in 2025."""
DEADLOCK_S = 60


class _JumpingSelector(selectors.DefaultSelector):
    """Instead of sleeping until a deadline it moves the clock there."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0

    def select(self, timeout: float | None = None) -> Any:
        if timeout is None:
            # Nothing is scheduled: only a socket or another thread can go on, and none should have to.
            events = super().select(DEADLOCK_S)
            assert events, "the story waits for something that never comes"
            return events
        events = super().select(0)
        if not events and timeout > 0:
            self.now_s += timeout
        return events


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop in which hours pass in no time."""

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now_s


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in virtual time."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(main)


class InlineWorker:
    """Writes on the loop's thread."""

    def submit(self, job: Callable[[], None]) -> None:
        job()

    def stop(self) -> None: ...


class _Transport:
    """What the daemon's connection writes to: frames for the client's end."""

    def __init__(self) -> None:
        self.received = bytearray()
        self.changed = asyncio.Event()
        self.closed = False

    def get_extra_info(self, name: str) -> Any:
        return (HOST, 51234) if name == "peername" else None

    def set_write_buffer_limits(self, high: int) -> None: ...

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def write(self, data: bytes | bytearray) -> None:
        self.received += data
        self.changed.set()

    def writelines(self, parts: Iterable[bytes | bytearray | memoryview]) -> None:
        self.write(b"".join(parts))

    def close(self) -> None:
        self.closed = True
        self.changed.set()


class MemoryLink:
    """The client's end of a connection that has no socket."""

    def __init__(self, daemon: Daemon) -> None:
        self.loop = daemon.loop
        self.transport = _Transport()
        self.connection = Connection(daemon.door, "PLAINTEXT")
        self.connection.connection_made(self.transport)
        self._lost = False

    def write(self, data: bytes) -> None:
        self.loop.call_soon(self.connection.data_received, data)

    async def read_frame(self) -> bytes | None:
        transport = self.transport
        while True:
            transport.changed.clear()
            size = 4 + int.from_bytes(transport.received[:4], "big")
            if len(transport.received) >= max(size, 5):
                frame = bytes(transport.received[4:size])
                del transport.received[:size]
                return frame
            if transport.closed:
                self.close()
                return None
            await transport.changed.wait()

    def close(self) -> None:
        if not self._lost:
            self._lost = True
            self.loop.call_soon(self.connection.connection_lost, None)


class InProcess:
    """A running daemon and how to connect to it."""

    def __init__(self, daemon: Daemon) -> None:
        self.daemon = daemon
        self.port = daemon.bound[0][2]

    async def connect(self, client_id: str) -> RawClient:
        return RawClient(MemoryLink(self.daemon), client_id)


@asynccontextmanager
async def running_in_process(directory: Path, settings: Mapping[str, str]) -> AsyncIterator[InProcess]:
    """A daemon with these settings, loaded and ready; to be used within `run`."""
    loop = asyncio.get_running_loop()
    own = {"listeners": f"PLAINTEXT://{HOST}:0", "log.dirs": str(directory), "log.flush": "never"}
    entries = [Entry(name, value, "story") for name, value in {**own, **settings}.items()]
    daemon = Daemon(
        load(flags=entries).settings,
        loop,
        now_ms=lambda: START_MS + int(loop.time() * 1000),
        log_worker=InlineWorker(),
    )
    await daemon.start()
    while daemon.health.state is HealthState.LOADING:  # noqa: ASYNC110  # nothing else says when it is done
        await asyncio.sleep(0)
    try:
        yield InProcess(daemon)
    finally:
        code = await daemon.stop()
        assert code == 0, "the daemon did not stop in order"
