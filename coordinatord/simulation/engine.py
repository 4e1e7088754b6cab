"""Virtual time: events in a heap, and links that carry messages with uneven latency. One seed decides everything.

`Engine.at` names a moment and what happens then; `run_until` lets time jump from one to the next. What falls due in the
same millisecond happens in the order in which it was asked for. Chance comes from `Engine.chance(name)`: a generator
for each purpose, so that asking for more of one thing does not change what happens to another.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from typing import Any

Call = Callable[..., object]

START_MS = 1_000_000
"""When virtual time begins. Not 0, so that a deadline which was never set is not taken for one."""

JITTER = 0.2
"""How much of a link's latency comes anew with each message: from none of this part to twice as much."""

SPREAD = 0.5
"""Sigma of the logarithm of links' latencies: of a hundred links the slowest takes three times as long as the usual."""


class Engine:
    """See the module. All times are milliseconds of the virtual clock."""

    __slots__ = ("_heap", "_order", "now_ms", "seed")

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed
        self.now_ms = START_MS
        self._heap: list[tuple[int, int, Call, tuple[Any, ...]]] = []
        self._order = 0

    def chance(self, name: str) -> random.Random:
        """The generator for one purpose."""
        return random.Random(f"{self.seed}/{name}")

    def at(self, when_ms: int, call: Call, *args: Any) -> None:
        """`call(*args)` at that time, or now if it has passed."""
        self._order += 1
        heapq.heappush(self._heap, (when_ms if when_ms > self.now_ms else self.now_ms, self._order, call, args))

    def run_until(self, end_ms: int) -> None:
        """Let happen what happens up to `end_ms`."""
        heap = self._heap
        pop = heapq.heappop
        while heap and heap[0][0] <= end_ms:
            self.now_ms, _order, call, args = pop(heap)
            call(*args)
        self.now_ms = end_ms


class Link:
    """One connection, both ways: messages keep their order, each takes the link's own latency and a little more.

    While `cut` nothing gets through, whichever way it was under way; the sender is not told.
    """

    __slots__ = ("_arrived_ms", "_engine", "_jitter_ms", "_least_ms", "_lossy", "_random", "cut", "lost")

    def __init__(self, engine: Engine, name: str, latency_ms: float, *, lossy: bool = True) -> None:
        """`latency_ms` is that of the usual link, one way; 0 makes all messages take a millisecond.

        A link that is not `lossy` is never cut, which makes it cheaper.
        """
        self._engine = engine
        self._lossy = lossy
        chance = engine.chance(f"link {name}")
        self._random = chance.random
        usual_ms = latency_ms * chance.lognormvariate(0, SPREAD)
        self._least_ms = usual_ms * (1 - JITTER) + 0.5  # to be cut to a whole number
        self._jitter_ms = usual_ms * JITTER * 2
        self._arrived_ms = [0, 0]  # the last message of each direction
        self.cut = False
        self.lost = 0

    def carry(self, direction: int, sent_ms: int, call: Call, *args: Any) -> None:
        """`call(*args)` where and when the message arrives that leaves at `sent_ms`; direction 0 is to the server."""
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
