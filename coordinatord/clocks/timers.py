"""The timer wheel on the event loop: one loop timer for the earliest deadline of all.

Two kinds of keys are in the wheel: those of coordinators, which go to `on_expired`, and `Alarm`s, callbacks that
somebody wants at a time. A turn of the loop expires them for `SLICE_S` at most, so that a hundred thousand that are
due together do not keep the sockets waiting; what is left goes on in the next turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from time import perf_counter
from typing import Any

from coordinatord.clocks.timer_wheel import TimerWheel

TICK_MS = 1
"""How late a timer may be, and as much again by the clock behind it. Kafka's timer ticks every millisecond, too."""

SLICE_S = 0.003
"""For how long a turn expires timers. One may do next to nothing, or end a group, log that and tell of it: 100 µs."""

BATCH = 20
"""Timers between two looks at the clock."""


class Alarm:
    """A callback at a time, which can be cancelled."""

    __slots__ = ("_timers", "callback")

    def __init__(self, timers: Timers, callback: Callable[[], object]) -> None:
        self._timers = timers
        self.callback = callback

    def cancel(self) -> None:
        """Unset it; harmless when it has gone off."""
        self._timers.wheel.cancel(self)


class Timers:
    """Schedules on the wheel, wakes with the loop."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, now_ms: Callable[[], int], on_expired: Callable[[Any], object]
    ) -> None:
        self.wheel: TimerWheel[Any] = TimerWheel(TICK_MS, now_ms())
        self._loop = loop
        self._now_ms = now_ms
        self._on_expired = on_expired
        self._handle: asyncio.TimerHandle | asyncio.Handle | None = None
        self._wakes_at_ms = 1 << 62

    def schedule(self, key: Hashable, deadline_ms: int) -> None:
        """Set a group's timer, replacing an earlier one of this key."""
        self.wheel.schedule(key, deadline_ms)
        self._wake_at(deadline_ms)

    def cancel(self, key: Hashable) -> None:
        """Unset a group's timer."""
        self.wheel.cancel(key)

    def alarm(self, deadline_ms: int, callback: Callable[[], object]) -> Alarm:
        """Call back at `deadline_ms` or at most a tick later."""
        made = Alarm(self, callback)
        self.wheel.schedule(made, deadline_ms)
        self._wake_at(deadline_ms)
        return made

    def close(self) -> None:
        """No timer goes off any more."""
        self._unset()
        self._wakes_at_ms = -1

    def _unset(self) -> None:
        """The loop wakes for nothing."""
        if self._handle is not None:
            self._handle.cancel()
        self._handle = None

    def _forget(self) -> None:
        """It has woken. Not in `_wake` itself, which asks again what its callbacks have set: see `warn_unreachable`."""
        self._handle = None

    def _wake_at(self, deadline_ms: int) -> None:
        """Make sure that the loop wakes for `deadline_ms`."""
        if deadline_ms >= self._wakes_at_ms:
            return
        self._unset()
        self._wakes_at_ms = deadline_ms
        # A tick later than the deadline, since the wheel counts whole ticks.
        delay_s = max(0, deadline_ms - self._now_ms() + TICK_MS) / 1000
        self._handle = self._loop.call_later(delay_s, self._wake)

    def _wake(self) -> None:
        self._forget()
        self._wakes_at_ms = 1 << 62
        ends_s = perf_counter() + SLICE_S
        while True:
            now_ms = self._now_ms()
            for key in self.wheel.advance(now_ms, BATCH):
                if type(key) is Alarm:
                    key.callback()
                else:
                    self._on_expired(key)
            next_ms = self.wheel.next_deadline_ms()
            if next_ms is None:
                return
            if next_ms > now_ms:
                self._wake_at(next_ms)
                return
            if perf_counter() >= ends_s:
                break
        if self._wakes_at_ms < 0:
            return  # closed by a callback
        self._unset()  # a callback may have set a timer
        self._wakes_at_ms = next_ms
        self._handle = self._loop.call_soon(self._wake)
