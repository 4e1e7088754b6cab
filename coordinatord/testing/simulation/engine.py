"""Virtual time: a heap of events, and links that carry messages with varying latency. One seed determines everything.

`Engine.at` schedules an event; `run_until` advances time from one event to the next. Events of the same millisecond run
in the order in which they were scheduled. Randomness comes from `Engine.chance(name)`: one generator per purpose, so
that more draws for one purpose do not change another.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from typing import Any

Call = Callable[..., object]

START_MS = 1_000_000
"""Start of virtual time in milliseconds. Not 0, so that an unset deadline of 0 is not taken for a time."""

JITTER = 0.2
"""Part of a link's latency that varies per message, between 0 and twice this part."""

SPREAD = 0.5
"""Sigma of the log-normal link latencies: the slowest of a hundred links takes three times as long as the median."""


class Engine:
    """Event loop on virtual time; see the module's docstring. All times are milliseconds of the virtual clock."""

    __slots__ = ("_heap", "_order", "now_ms", "seed")

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed
        self.now_ms = START_MS
        self._heap: list[tuple[int, int, Call, tuple[Any, ...]]] = []
        self._order = 0

    def chance(self, name: str) -> random.Random:
        """Return the random generator for one purpose."""
        return random.Random(f"{self.seed}/{name}")

    def at(self, when_ms: int, call: Call, *args: Any) -> None:
        """Schedule `call(*args)` for that time, or for now if it has passed."""
        self._order += 1
        heapq.heappush(self._heap, (when_ms if when_ms > self.now_ms else self.now_ms, self._order, call, args))

    def run_until(self, end_ms: int) -> None:
        """Run all events up to `end_ms`."""
        heap = self._heap
        pop = heapq.heappop
        while heap and heap[0][0] <= end_ms:
            self.now_ms, _order, call, args = pop(heap)
            call(*args)
        self.now_ms = end_ms


class Link:
    """One bidirectional connection: messages keep their order; each takes the link's own latency plus jitter.

    A message that would arrive while the link is `cut` is lost, in either direction; the sender gets no error.
    """

    __slots__ = ("_arrived_ms", "_engine", "_jitter_ms", "_least_ms", "_lossy", "_random", "cut", "lost")

    def __init__(self, engine: Engine, name: str, latency_ms: float, *, lossy: bool = True) -> None:
        """Create a link. `latency_ms` is the median link's one-way latency; with 0 every message takes a millisecond.

        A link that is not `lossy` is never cut, which makes it cheaper.
        """
        self._engine = engine
        self._lossy = lossy
        chance = engine.chance(f"link {name}")
        self._random = chance.random
        usual_ms = latency_ms * chance.lognormvariate(0, SPREAD)
        self._least_ms = usual_ms * (1 - JITTER) + 0.5  # truncated to a whole number later
        self._jitter_ms = usual_ms * JITTER * 2
        self._arrived_ms = [0, 0]  # arrival time of the last message in each direction
        self.cut = False
        self.lost = 0

    def carry(self, direction: int, sent_ms: int, call: Call, *args: Any) -> None:
        """Run `call(*args)` when a message sent at `sent_ms` arrives; direction 0 is to the server."""
        when_ms = sent_ms + (int(self._least_ms + self._jitter_ms * self._random()) or 1)
        arrived_ms = self._arrived_ms
        if when_ms < arrived_ms[direction]:
            when_ms = arrived_ms[direction]
        arrived_ms[direction] = when_ms
        if self._lossy:
            self._engine.at(when_ms, self._arrive, call, args)
        else:
            self._engine.at(when_ms, call, *args)

    def _arrive(self, call: Call, args: tuple[Any, ...]) -> None:
        if self.cut:
            self.lost += 1
        else:
            call(*args)
