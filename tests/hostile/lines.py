"""A daemon in this process whose event loop is measured in executed lines of Python instead of time.

The lines of a callback are as many on every machine, however slow or busy. What runs in C is not seen: one call of re2,
zlib or `sorted`, a comparison of long strings, the release of many objects. turns.py measures those, in CPU time.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

from coordinatord.base import budget
from coordinatord.transport.net import batching, cooperative_tasks
from tests.hostile.turns import Measured

LINE_S = 60e-9
"""CPU time of a line, on average (seconds)."""
CLOCK_LINE_S = 8 * LINE_S
"""What the line clock takes for a line (seconds). It is fast: slices are short, and a small request has many."""
SLICED_BY_TIME = (budget, cooperative_tasks, batching)
"""The modules that look at `perf_counter` to end a slice of work on the event loop."""

CALLBACK = asyncio.Handle._run.__code__
"""What calls each callback of the event loop."""
SLICE = cooperative_tasks.TaskScheduler._turn.__code__
"""The callback that goes on with a request that is answered in slices."""


class LineCounter:
    """Counts what `sys.settrace` reports of one thread: lines, calls, returns, and jumps backwards within a line, which
    each element of a comprehension makes.
    """

    def __init__(self) -> None:
        self.count = 0
        self._began = {CALLBACK: 0, SLICE: 0}
        self._longest = {CALLBACK: 0, SLICE: 0}

    def begin(self) -> None:
        """Count in this thread from now on, in frames that are entered later."""
        sys.settrace(self._entered)

    def clock_s(self) -> float:
        """A clock that only executed lines move (seconds)."""
        return self.count * CLOCK_LINE_S

    def taken(self) -> dict[CodeType, int]:
        """The largest count of one callback, and of one slice, since the last call."""
        longest, self._longest = self._longest, {CALLBACK: 0, SLICE: 0}
        return longest

    def _entered(self, frame: FrameType, _event: str, _arg: object) -> Any:
        self.count += 1
        if frame.f_code in self._began:
            self._began[frame.f_code] = self.count
            return self._in_measured
        return self._in_frame

    def _in_frame(self, _frame: FrameType, _event: str, _arg: object) -> Any:
        self.count += 1
        return self._in_frame

    def _in_measured(self, frame: FrameType, event: str, _arg: object) -> Any:
        self.count += 1
        if event == "return":
            code = frame.f_code
            self._longest[code] = max(self._longest[code], self.count - self._began[code])
        return self._in_measured


class Counted(Measured):
    """The daemon, on its own thread."""

    def __init__(self, directory: Path, lines: LineCounter, **settings: Any) -> None:
        super().__init__(directory, **settings)
        self._lines = lines

    def begin(self) -> None:
        """Count the lines of its event loop from now on."""
        self._loop.call_soon_threadsafe(self._lines.begin)

    def longest_lines(self) -> dict[CodeType, int]:
        """Lines of the longest `CALLBACK` and `SLICE` since the last call: those that began before it have ended."""
        self.longest_s()
        return self._lines.taken()


@contextlib.contextmanager
def counted(directory: Path, **settings: Any) -> Iterator[Counted]:
    """A daemon for the duration of the block, whose slices end by the line clock."""
    lines = LineCounter()
    with pytest.MonkeyPatch.context() as patch:
        for module in SLICED_BY_TIME:
            patch.setattr(module, "perf_counter", lines.clock_s)
        made = Counted(directory, lines, **settings)
        made.start()
        try:
            yield made
        finally:
            made.stop()
