"""The timer wheel on the event loop: one loop timer for the earliest deadline of all.

Two kinds of keys are in the wheel: keys of coordinators, which `on_expired` receives, and `Alarm`s, which are callbacks
at a time. A turn of the loop expires timers for one `Budget`, so that a hundred thousand timers with one deadline do
not delay the sockets; the remaining timers expire in the next turns.

Timers expire in rounds. A round covers the timers that are due when the round begins, and it begins with reading: none
of its timers expires before the loop has read everything that was in the sockets when the round began. A member whose
session is about to expire may have sent a heartbeat, a join, or the end of its transaction in time, but the loop has
not read it if the loop was busy for seconds or the process was stopped: after such a pause, the loop may run its timers
first (uvloop does; asyncio's own loop reads first). The lateness of a timer does not show how long the loop has not
read, so each round waits for some turns of the loop, which take microseconds if there is nothing to do. A round waits
once, and spends at most `BEHIND_S` on clients with a backlog of requests: dead members expire in the first round after
their deadline, no matter how often and how long the process is stopped meanwhile, and whatever other clients send.

`wait_alarm` is for requests that only wait and whose end removes no member, such as a fetch without records: a client
sends two of them per second. A long wait has its alarm in a wheel of its own, for two reasons. No reading precedes such
an alarm: the turns for reading were two fifths of all turns of the loop with sixty consumers. And the loop need not
wake for each of these alarms: in an idle process, waking up costs more than ending the wait, since other processes have
used the processor's caches meanwhile. So such an alarm may be `LATE_MS` late, and the alarms that are due go off when
the next one is set.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Hashable
from time import thread_time
from typing import Any

from coordinatord.base.budget import Budget
from coordinatord.base.clocks.timer_wheel import TimerWheel

TICK_MS = 1
"""Maximum lateness of a timer; the clock behind it may add as much again. Kafka's timer also ticks every
millisecond.
"""

BATCH = 20
"""Timers between two reads of the clock. One timer may do next to nothing, or end a group, write that to the log
and log a line: 100 µs.
"""

READING_TURNS = 4
"""Number of turns until the loop has read everything that was in the sockets before, including sockets that were not
accepted yet, and has checked all requests among it, unless `is_behind` returns True. uvloop needs three turns,
asyncio's own loop four: it makes a connection in several steps.
"""

LATE_MS = 16
"""Maximum lateness of the end of a long wait."""

LONG_MS = 400
"""Minimum duration of a long wait. fetch.max.wait.ms is 500 by default in most clients, and 5,000 in some."""

BEHIND_S = 0.05
"""Maximum time in seconds that the loop works for clients with a backlog before timers expire, not counting time when
the process stands still: ten thousand heartbeats. A client that sends more than the loop can serve always has a
backlog, and timers that are due must not wait for it.
"""

ASLEEP = 1 << 62
"""Value of `_wakes_at_ms` if there is no deadline."""

AWAKE = -1
"""Value of `_wakes_at_ms` during a round, and right before one: at its end the round looks up the next deadline, so
that timers set meanwhile need no wake-up of their own.
"""


class Alarm:
    """A callback at a time, which can be cancelled."""

    __slots__ = ("_timers", "callback")

    def __init__(self, timers: Timers, callback: Callable[[], object]) -> None:
        self._timers = timers
        self.callback = callback

    def cancel(self) -> None:
        """Cancel the alarm; no effect after the callback was called."""
        self._timers.wheel.cancel(self)


class Timers:
    """Timers on the wheel, and the loop timer that wakes for them.

    A callback may set timers, or close all of them. So no function reads an attribute again after it has called a
    callback: mypy and mypyc assume until the end of the function that an earlier condition on the attribute still
    holds.
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
        """`is_behind` returns whether there may be unserved requests although their sockets were read. If alarms may be
        `late_ms` late, a round expires timers without reading first.
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
        self._due_ms = 0  # a round covers timers that are due by then
        self._turns = 0  # turns that the round has waited for since `is_behind` last returned True
        self._behind_until_s = 0.0

    @property
    def count(self) -> int:
        """The number of timers that are set."""
        waits = self._waits
        return len(self.wheel) + (0 if waits is None else len(waits.wheel))

    def schedule(self, key: Hashable, deadline_ms: int) -> None:
        """Set the timer of a key, replacing an earlier timer of this key."""
        self.wheel.schedule(key, deadline_ms)
        if deadline_ms < self._wakes_at_ms:
            self._wake_at(deadline_ms)

    def cancel(self, key: Hashable) -> None:
        """Cancel the timer of a key."""
        self.wheel.cancel(key)

    def alarm(self, deadline_ms: int, callback: Callable[[], object]) -> Alarm:
        """Call `callback` at `deadline_ms` or soon after."""
        made = Alarm(self, callback)
        self.wheel.schedule(made, deadline_ms)
        if deadline_ms < self._wakes_at_ms:
            self._wake_at(deadline_ms)
        return made

    def wait_alarm(self, deadline_ms: int, callback: Callable[[], object]) -> Alarm:
        """Call `callback` at `deadline_ms`; if the wait is long, up to `LATE_MS` later. For requests that only wait."""
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
        """Expire in the loop's next turn the timers that are due: the loop is awake."""
        self._wakes_at_ms = AWAKE
        if self._handle is not None:
            self._handle.cancel()
        self._loop.call_soon(self._look)

    def close(self) -> None:
        """Stop: no timer expires any more."""
        self._is_closed = True
        self._wakes_at_ms = AWAKE
        if self._handle is not None:
            self._handle.cancel()
        if self._waits is not None:
            self._waits.close()

    def jumped(self) -> None:
        """Expire soon the timers that are due after the clock has jumped ahead, since the loop's own clock has not."""
        if self._waits is not None:
            self._waits.jumped()
        if self._is_closed or self._wakes_at_ms == AWAKE:
            return
        if self._handle is not None:
            self._handle.cancel()
        self._look()

    @property
    def is_due(self) -> bool:
        """True if timers are expiring, or are about to."""
        if self._waits is not None and self._waits.is_due:
            return True
        next_ms = self.wheel.next_deadline_ms()
        return self._wakes_at_ms == AWAKE or (next_ms is not None and next_ms <= self._now_ms())

    def _wake_at(self, deadline_ms: int) -> None:
        """Wake the loop for `deadline_ms`, which is earlier than the deadline that it would wake for."""
        if self._handle is not None:
            self._handle.cancel()
        self._wakes_at_ms = deadline_ms
        # A tick later than the deadline, since the wheel counts whole ticks.
        delay_s = max(0, deadline_ms - self._now_ms() + TICK_MS + self._late_ms) / 1000
        self._handle = self._loop.call_later(delay_s, self._look)

    def _look(self) -> None:
        """Sleep until the next deadline, or begin a round if the deadline has passed."""
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
        """Count a turn of the loop in which it reads. After enough turns, expire the timers that are due."""
        self._turns += 1
        if self._is_behind() and thread_time() < self._behind_until_s:
            self._turns = 0
        if self._turns < READING_TURNS:
            self._loop.call_soon(self._read)
        else:
            self._expire()

    def _expire(self) -> None:
        """Expire timers that are due, for a slice of this turn, and the remaining ones in the turns that follow."""
        budget = Budget()
        try:
            while self._expire_some():
                if budget.is_spent():
                    # The collector counts allocations minus deallocations, and sessions that end free as many objects
                    # as they make: without this call it would collect all objects of a hundred thousand sessions at
                    # once, 20 ms later.
                    gc.collect(1)
                    self._loop.call_soon(self._expire)
                    return
        except BaseException:
            self._loop.call_soon(self._look)  # a callback that fails does not affect other timers
            raise
        self._look()

    def _expire_some(self) -> bool:
        """Expire a batch of timers that are due; returns whether there are more."""
        return all(self._expire_one() for _ in range(BATCH))

    def _expire_one(self) -> bool:
        """Expire one timer that is due, if there is any; returns whether there are more.

        The wheel returns timers one by one: a timer that a callback cancels does not expire, and if one callback fails
        the other timers remain.
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
