"""The daemon's single clock: epoch milliseconds that never jump and never go back.

Deadlines and timestamps use the same clock, so that a step needs only one time. Deadlines must not move when the
machine's clock is set, or every member would expire at once; timestamps should follow the wall clock. So the clock runs
on the monotonic clock and is slewed towards the wall clock by at most `MAX_SLEW` of the elapsed time.
"""

from __future__ import annotations

import time

MAX_SLEW = 0.05
"""A wall clock step of a minute is absorbed in twenty minutes; meanwhile a session of 45 s is off by about 2 s."""


class Clock:
    """The clock. Call the instance for the time; call `follow_wall` about every second."""

    __slots__ = ("_ahead_s", "_followed_s", "_now_ms", "_offset_s")

    def __init__(self) -> None:
        self._followed_s = time.monotonic()
        self._offset_s = time.time() - self._followed_s
        self._ahead_s = 0.0
        self._now_ms = 0

    def __call__(self) -> int:
        """Return the time in ms. The same object is returned within a millisecond, since members and connections keep
        the time of their last request.
        """
        now_ms = int((time.monotonic() + self._offset_s) * 1000)
        last_ms = self._now_ms  # read once: other threads call, too
        if last_ms == now_ms:
            return last_ms
        self._now_ms = now_ms
        return now_ms

    def follow_wall(self) -> float:
        """Slew towards the wall clock; returns the remaining difference in seconds."""
        now_s = time.monotonic()
        room_s = MAX_SLEW * (now_s - self._followed_s)
        self._followed_s = now_s
        off_s = time.time() + self._ahead_s - (now_s + self._offset_s)
        # Never back by more than the elapsed time, so that the clock stands still at worst.
        self._offset_s += max(-room_s, min(room_s, off_s))
        return off_s

    def jump(self, seconds: float) -> None:
        """Move ahead of the wall clock, permanently: for tests. `Timers.jumped` must be called afterwards."""
        assert seconds >= 0, "the clock never goes back"
        self._offset_s += seconds
        self._ahead_s += seconds
