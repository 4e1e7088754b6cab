"""The timer wheel on the event loop: one loop timer for the earliest deadline of all.

Two kinds of keys are in the wheel: those of coordinators, which go to `on_expired`, and `Alarm`s, callbacks that
somebody wants at a time. A turn of the loop expires them for `SLICE_S` at most, so that a hundred thousand that are
due together do not keep the sockets waiting; what is left goes on in the next turn.

Timers go off in rounds, and a round begins with reading. It is about what is due when it begins, and nothing of that
goes off before the loop has read what lay in the sockets at that moment: whoever is about to be expelled may have said
in time that he is alive, or that he joins, or ends his transaction. He has not been heard if the loop had work for
seconds, or the process was stopped: what a loop does first after that may be its timers (uvloop's does; asyncio's own
reads first). How late a timer is does not tell how long nobody has read, so each round waits for some turns of the
loop, which take microseconds where there is nothing to do. It does so once, and for those who are behind it does
`BEHIND_S` of work at most: the dead go in the first round after their deadline, however often and for however long the
process is stopped meanwhile, and whatever others send.

`wait_alarm` is for those who only wait and whom nobody expels: a fetch without records, of which a client has two a
second. Where the wait is long, the alarm is in a wheel of its own, for two reasons. Nobody reads first for it: the
turns for that were two fifths of all that the loop made for sixty consumers. And the loop need not wake for each: an
idle process pays more for being woken than for ending the wait, since meanwhile others have had the processor's caches.
So such an alarm may be `LATE_MS` late, and those that are due go off when the next one is set.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Hashable
from time import perf_counter, thread_time
from typing import Any

from coordinatord.base.clocks.timer_wheel import TimerWheel

TICK_MS = 1
"""How late a timer may be, and as much again by the clock behind it. Kafka's timer ticks every millisecond, too."""

SLICE_S = 0.003
"""For how long a turn expires timers. One may do next to nothing, or end a group, log that and tell of it: 100 µs."""

BATCH = 20
"""Timers between two looks at the clock."""

READING_TURNS = 4
"""Turns until everything has been read that lay in the sockets before, also in those that were not accepted yet, and
all requests of it were looked at, unless somebody says that he is behind. uvloop needs three, asyncio's own loop four:
it makes a connection in several steps."""

LATE_MS = 16
"""How much later than its deadline a long wait may end."""

LONG_MS = 400
"""A wait is long from here on. fetch.max.wait.ms is 500 by default in most clients, and 5,000 in some."""

BEHIND_S = 0.05
"""How long the loop may work, not counting when it stands still, for those who are behind: on ten thousand heartbeats.
Who sends more than is looked at is always behind, and what is due must not wait for that."""

ASLEEP = 1 << 62
"""`_wakes_at_ms` where there is nothing to wake for."""

AWAKE = -1
"""`_wakes_at_ms` in a round, and right before one: it looks for the next deadline when it ends, whatever is set
meanwhile."""


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
    """Schedules on the wheel, wakes with the loop.

    A callback may set timers, or close them all. So no function asks an attribute again after it has called one: what
    a condition has said of it before, mypy and mypyc take for granted until the function ends.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        now_ms: Callable[[], int],
        on_expired: Callable[[Any], object],
        is_behind: Callable[[], bool],
        *,
        late_ms: int = 0,
    ) -> None:
        """`is_behind`: whether there may be requests that were not looked at, though their sockets were read. Where
        alarms may be `late_ms` late, a round begins with what is due and does not read first.
        """
        self.wheel: TimerWheel[Any] = TimerWheel(TICK_MS, now_ms())
        self._loop = loop
        self._now_ms = now_ms
        self._on_expired = on_expired
        self._is_behind = is_behind
        self._late_ms = late_ms
        #: the alarms of long waits
        self._waits: Timers | None = None
        self._handle: asyncio.TimerHandle | None = None
        self._wakes_at_ms = ASLEEP
        self._is_closed = False
        self._due_ms = 0  # a round is about what is due by then
        self._turns = 0  # that it has waited for since somebody was behind
        self._behind_until_s = 0.0

    @property
    def count(self) -> int:
        """How many timers are set."""
        waits = self._waits
        return len(self.wheel) + (0 if waits is None else len(waits.wheel))

    def schedule(self, key: Hashable, deadline_ms: int) -> None:
        """Set a group's timer, replacing an earlier one of this key."""
        self.wheel.schedule(key, deadline_ms)
        if deadline_ms < self._wakes_at_ms:
            self._wake_at(deadline_ms)

    def cancel(self, key: Hashable) -> None:
        """Unset a group's timer."""
        self.wheel.cancel(key)

    def alarm(self, deadline_ms: int, callback: Callable[[], object]) -> Alarm:
        """Call back at `deadline_ms` or soon after."""
        made = Alarm(self, callback)
        self.wheel.schedule(made, deadline_ms)
        if deadline_ms < self._wakes_at_ms:
            self._wake_at(deadline_ms)
        return made

    def wait_alarm(self, deadline_ms: int, callback: Callable[[], object]) -> Alarm:
        """The same for somebody who only waits, and may have to for `LATE_MS` longer if the wait is long."""
        now_ms = self._now_ms()
        if deadline_ms - now_ms < LONG_MS or self._is_closed:
            return self.alarm(deadline_ms, callback)
        waits = self._waits
        if waits is None:
            waits = self._waits = Timers(self._loop, self._now_ms, self._on_expired, self._is_behind, late_ms=LATE_MS)
        made = waits.alarm(deadline_ms, callback)
        if AWAKE < waits._wakes_at_ms <= now_ms:
            waits._look_soon()
        return made

    def _look_soon(self) -> None:
        """The loop is awake: let go off in its next turn what is due."""
        self._wakes_at_ms = AWAKE
        if self._handle is not None:
            self._handle.cancel()
        self._loop.call_soon(self._look)

    def close(self) -> None:
        """No timer goes off any more."""
        self._is_closed = True
        self._wakes_at_ms = AWAKE
        if self._handle is not None:
            self._handle.cancel()
        if self._waits is not None:
            self._waits.close()

    def jumped(self) -> None:
        """The clock has jumped ahead, which the loop's own clock has not: what is due by now goes off soon."""
        if self._waits is not None:
            self._waits.jumped()
        if self._is_closed or self._wakes_at_ms == AWAKE:
            return
        if self._handle is not None:
            self._handle.cancel()
        self._look()

    @property
    def is_due(self) -> bool:
        """Whether something is going off, or is about to."""
        if self._waits is not None and self._waits.is_due:
            return True
        next_ms = self.wheel.next_deadline_ms()
        return self._wakes_at_ms == AWAKE or (next_ms is not None and next_ms <= self._now_ms())

    def _wake_at(self, deadline_ms: int) -> None:
        """Wake the loop for `deadline_ms`, which is earlier than what it would wake for."""
        if self._handle is not None:
            self._handle.cancel()
        self._wakes_at_ms = deadline_ms
        # A tick later than the deadline, since the wheel counts whole ticks.
        delay_s = max(0, deadline_ms - self._now_ms() + TICK_MS + self._late_ms) / 1000
        self._handle = self._loop.call_later(delay_s, self._look)

    def _look(self) -> None:
        """Sleep until the next deadline, or begin a round if that has passed."""
        if self._is_closed:
            return
        self._wakes_at_ms = ASLEEP
        next_ms = self.wheel.next_deadline_ms()
        if next_ms is None:
            return
        now_ms = self._now_ms()
        if next_ms > now_ms:
            self._wake_at(next_ms)
            return
        self._wakes_at_ms = AWAKE
        self._due_ms = now_ms
        if self._late_ms:
            self._expire()
            return
        self._turns = 0
        self._behind_until_s = thread_time() + BEHIND_S
        self._loop.call_soon(self._read)

    def _read(self) -> None:
        """A turn of the loop in which it reads. When there have been enough of them, let go off what is due."""
        self._turns += 1
        if self._is_behind() and thread_time() < self._behind_until_s:
            self._turns = 0
        if self._turns < READING_TURNS:
            self._loop.call_soon(self._read)
        else:
            self._expire()

    def _expire(self) -> None:
        """Let go off what is due, for a slice of this turn, and what is left in the turns that follow."""
        ends_s = perf_counter() + SLICE_S
        try:
            while self._expire_some():
                if perf_counter() >= ends_s:
                    # The collector counts objects that are made less those that are dropped, and sessions that end
                    # drop as many: it would find all of a hundred thousand's in one go, 20 ms later.
                    gc.collect(1)
                    self._loop.call_soon(self._expire)
                    return
        except BaseException:
            self._loop.call_soon(self._look)  # one that fails takes no others with it
            raise
        self._look()

    def _expire_some(self) -> bool:
        """A batch of what is due; whether there is more of it."""
        return all(self._expire_one() for _ in range(BATCH))

    def _expire_one(self) -> bool:
        """One that is due, if there is any; whether there is more.

        The wheel gives them one by one: what a callback cancels does not go off, and if one fails the others stay.
        """
        if self._is_closed:
            return False
        for key in self.wheel.advance(self._due_ms, 1):
            if type(key) is Alarm:
                key.callback()
            else:
                self._on_expired(key)
        next_ms = self.wheel.next_deadline_ms()
        return next_ms is not None and next_ms <= self._due_ms
