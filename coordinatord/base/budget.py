"""Budgets of long work, which is done in slices: between two slices other work runs.

Whatever runs on the event loop has the same budget, so that no request delays another one by more than a slice of each
kind of work that is in progress. The shell measures time (`Budget`). The pure core reads no clock: it counts (`Work`).
"""

from __future__ import annotations

from time import perf_counter

SLICE_S = 0.004
"""Maximum duration of a slice on the event loop in seconds."""

BACKGROUND_SLICE_S = 0.020
"""Maximum duration in seconds on the background thread, before a job of another request may run there."""

SLICE_WORK = 4_000
"""Units of work in a slice of the pure core: each is about a microsecond of interpreted code."""

SLICE_ITEMS = 250
"""Records, partitions, names … of some microseconds each that a loop handles before it looks whether other work must
run.
"""

SLICE_COSTLY_ITEMS = 50
"""The counterpart for items of up to a tenth of a millisecond: partitions whose log is read or written, groups."""


class Budget:
    """The time that is left of a slice, which begins now."""

    __slots__ = ("_ends_s",)

    def __init__(self, seconds: float | None = None) -> None:
        self._ends_s = perf_counter() + (SLICE_S if seconds is None else seconds)

    def is_spent(self) -> bool:
        """Return whether other work must run now."""
        return perf_counter() >= self._ends_s


class Work:
    """The units of work that are left of a slice."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = SLICE_WORK

    def done(self, units: int = 1) -> bool:
        """Subtract units of work. Return True if other work must run now; then the next slice begins."""
        self._left -= units
        if self._left > 0:
            return False
        self._left = SLICE_WORK
        return True
