"""The daemon's one clock: milliseconds of the epoch that never jump and never go back.

Deadlines and timestamps come from the same number, so that a step needs one. Deadlines must not move when somebody sets
the machine's clock, or every member would expire at once; timestamps should be those of the wall. So the clock runs on
the monotonic one and is led towards the wall's time by at most `MAX_SLEW` of the time that has passed.
"""

from __future__ import annotations

import time

MAX_SLEW = 0.05
"""A wall clock that was off by a minute is followed within twenty; a session of 45 s is 2 s longer or shorter then."""


class Clock:
    """Call it for the time; call `follow_wall` about every second."""

    __slots__ = ("_followed_s", "_offset_s")

    def __init__(self) -> None:
        self._followed_s = time.monotonic()
        self._offset_s = time.time() - self._followed_s

    def __call__(self) -> int:
        return int((time.monotonic() + self._offset_s) * 1000)

    def follow_wall(self) -> float:
        """Take a step towards the wall clock; returns how far off this one still is, in seconds."""
        now_s = time.monotonic()
        room_s = MAX_SLEW * (now_s - self._followed_s)
        self._followed_s = now_s
        off_s = time.time() - (now_s + self._offset_s)
        # Never back by more than the time that has passed, so the clock stands still at most.
        self._offset_s += max(-room_s, min(room_s, off_s))
        return off_s
