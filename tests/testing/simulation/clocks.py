"""Time in the simulated world: clocks that drift, and an event loop for each node on the engine's virtual time.

The engine's time is nobody's: a node and a member each read a clock of their own, which runs a little fast or slow. A
node's loop is as much of asyncio's as the daemon uses: callbacks run turn by turn, sleeping tasks wake, sockets are
read, and while the process is paused (garbage collection, a stopped container) nothing of it runs; what it should have
done waits. Then it does first what a loop may do first: the timers, and what they make callable; sockets come last.

The daemon looks at the machine's own clock in a few places to see whether it has worked for long enough. Those looks
must not decide anything here, or a seed would mean another story on a slower machine: `machine_clock_hidden` puts
counters in their place, which make every slice end after a fixed number of looks.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import types
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import coordinatord.base.budget
import coordinatord.base.clocks.timers
import coordinatord.coordination.runtime.loading
import coordinatord.server.daemon.daemon
import coordinatord.transport.net.batching
from coordinatord.coordination.runtime.loading import Loading
from coordinatord.testing.simulation.engine import START_MS, Engine

SLICE_LOOKS = 4
"""A slice of loading, of timers or of expiry ends when the clock was looked at so often."""

BEHIND_LOOKS = 64
"""Timers wait no longer for those who are behind when it was looked at so often."""

TURNS_AT_A_TIME = 20_000
"""More turns of a loop in one millisecond than anything needs."""


class Clock:
    """Milliseconds as one process reads them: `rate` of them pass in one of the engine's."""

    __slots__ = ("_base_ms", "_engine", "rate")

    def __init__(self, engine: Engine, rate: float, ahead_ms: int) -> None:
        self._engine = engine
        self._base_ms = START_MS + ahead_ms
        self.rate = rate

    def __call__(self) -> int:
        return int(self._base_ms + (self._engine.now_ms - START_MS) * self.rate)

    def when(self, local_ms: int) -> int:
        """The engine's time at which this clock shows `local_ms`."""
        found = START_MS + math.ceil((local_ms - self._base_ms) / self.rate)
        while int(self._base_ms + (found - START_MS) * self.rate) < local_ms:
            found += 1
        return found


class Handle:
    """A callback that waits for its turn, or was cancelled."""

    __slots__ = ("args", "callback")

    def __init__(self, callback: Callable[..., object] | None, args: tuple[Any, ...]) -> None:
        self.callback = callback
        self.args = args

    def cancel(self) -> None:
        self.callback = None

    def cancelled(self) -> bool:
        return self.callback is None


class NodeLoop(asyncio.AbstractEventLoop):
    """See the module. `end` stops it for good, in the middle of whatever it did."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        self.engine = engine
        self.clock = clock
        self.ended = False
        self.paused_until_ms = 0
        self.turn_ms = 0  # how long a turn takes
        self._timers: deque[Handle] = deque()
        self._ready: deque[Handle] = deque()
        self._sockets: deque[Handle] = deque()
        self._phases = (self._timers, self._ready, self._sockets)
        self._turn_is_due = False
        self._turns_at_ms = self._turns = 0

    def call_soon(self, callback: Callable[..., object], *args: Any, context: Any = None) -> Handle:  # type: ignore[override]
        return self._add(self._ready, Handle(callback, args))

    def when_it_reads(self, callback: Callable[..., object], *args: Any) -> Handle:
        """Something has come to a socket, or lies there still."""
        return self._add(self._sockets, Handle(callback, args))

    def _add(self, to: deque[Handle], handle: Handle) -> Handle:
        to.append(handle)
        if not self._turn_is_due:
            self._turn_is_due = True
            self.engine.at(self.engine.now_ms, self._turn)
        return handle

    call_soon_threadsafe = call_soon  # type: ignore[assignment]

    def call_later(self, delay: float, callback: Callable[..., object], *args: Any, context: Any = None) -> Handle:  # type: ignore[override]
        handle = Handle(callback, args)
        after_ms = math.ceil(delay * 1000 / self.clock.rate)
        self.engine.at(self.engine.now_ms + max(after_ms, 1), self._fire, handle)
        return handle

    def call_at(self, when: float, callback: Callable[..., object], *args: Any, context: Any = None) -> Handle:  # type: ignore[override]
        return self.call_later(when - self.time(), callback, *args)

    def _fire(self, handle: Handle) -> None:
        if handle.callback is not None and not self.ended:
            self._add(self._timers, handle)

    def _turn(self) -> None:
        if self.ended:
            return
        if self.engine.now_ms < self.paused_until_ms:
            self.engine.at(self.paused_until_ms, self._turn)
            return
        if self.engine.now_ms != self._turns_at_ms:
            self._turns_at_ms, self._turns = self.engine.now_ms, 0
        self._turns += 1
        assert self._turns < TURNS_AT_A_TIME, "the loop turns and turns, and time stands still"
        asyncio._set_running_loop(self)
        try:
            for phase in self._phases:
                for _ in range(len(phase)):
                    handle = phase.popleft()
                    if handle.callback is not None:
                        handle.callback(*handle.args)
                        if self.ended:
                            return
        finally:
            asyncio._set_running_loop(None)
        self._turn_is_due = any(self._phases)
        if self._turn_is_due:
            self.engine.at(self.engine.now_ms + self.turn_ms, self._turn)

    def pause(self, for_ms: int) -> None:
        self.paused_until_ms = max(self.paused_until_ms, self.engine.now_ms + for_ms)

    def at_full_speed(self) -> None:
        self.turn_ms = 0

    def end(self) -> None:
        self.ended = True
        for phase in self._phases:
            phase.clear()

    def time(self) -> float:
        return self.clock() / 1000

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(self, work: Coroutine[Any, Any, Any], **_options: Any) -> asyncio.Task[Any]:  # type: ignore[override]
        return asyncio.Task(work, loop=self)

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return not self.ended

    def is_closed(self) -> bool:
        return self.ended

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """What asyncio finds wrong. Tasks of a process that was killed are no matter."""
        if not self.ended:
            raise AssertionError(f"the loop's exception handler was called: {context}")


class _Looks:
    """A clock that moves by a look at it, in seconds."""

    def __init__(self, step_s: float) -> None:
        self._now_s = 0.0
        self._step_s = step_s

    def __call__(self) -> float:
        self._now_s += self._step_s
        return self._now_s


@contextlib.contextmanager
def machine_clock_hidden(load_ms: Callable[[], int]) -> Iterator[None]:
    """The places where the daemon measures its own work count looks instead; the collector is left alone. Before each
    partition is loaded, `load_ms` pass.
    """
    load = Loading._load

    async def load_slowly(self: Loading, share: Any, partition: int) -> None:
        if (for_ms := load_ms()) > 0:
            await asyncio.sleep(for_ms / 1000)
        await load(self, share, partition)

    def nothing(*_args: object) -> None:
        return

    slice_s = coordinatord.base.budget.SLICE_S / SLICE_LOOKS
    replaced: list[tuple[Any, str, Any]] = [
        (Loading, "_load", load_slowly),
        (coordinatord.base.budget, "perf_counter", _Looks(slice_s)),
        (coordinatord.transport.net.batching, "perf_counter", _Looks(coordinatord.transport.net.batching.PART_S / 4)),
        (
            coordinatord.base.clocks.timers,
            "thread_time",
            _Looks(coordinatord.base.clocks.timers.BEHIND_S / BEHIND_LOOKS),
        ),
        (coordinatord.coordination.runtime.loading, "time", types.SimpleNamespace(monotonic=_Looks(slice_s))),
        (
            coordinatord.server.daemon.daemon,
            "time",
            types.SimpleNamespace(monotonic=_Looks(slice_s), perf_counter=lambda: 0.0),
        ),
        (
            coordinatord.coordination.runtime.loading,
            "gc",
            types.SimpleNamespace(
                collect=nothing, freeze=nothing, enable=nothing, disable=nothing, set_threshold=nothing
            ),
        ),
    ]
    before = [(module, name, getattr(module, name)) for module, name, _ in replaced]
    for module, name, value in replaced:
        setattr(module, name, value)
    try:
        yield
    finally:
        for module, name, value in before:
            setattr(module, name, value)
