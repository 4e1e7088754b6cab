"""Resources that the coordinators of a node share: clock, timers, metrics, and responses to parked requests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from coordinatord.base.observe.metrics import Metrics
from coordinatord.coordination.runtime.log import Gate
from coordinatord.coordination.runtime.parked_responses import ParkedReplies


class Alarm(Protocol):
    """A timer with a callback."""

    def cancel(self) -> object: ...


class Timers(Protocol):
    """Timers of two kinds: with a key, for expiry, and with a callback."""

    def schedule(self, key: Any, deadline_ms: int) -> None: ...

    def cancel(self, key: Any) -> None: ...

    def alarm(self, deadline_ms: int, callback: Callable[[], object]) -> Alarm: ...


class Runtime:
    """The shared resources of the coordinators. `gate` is the gate of their responses, around that of their logs."""

    __slots__ = ("gate", "metrics", "now_ms", "parked", "timers")

    def __init__(self, gate: Gate, timers: Timers, now_ms: Callable[[], int], metrics: Metrics) -> None:
        self.gate = gate
        self.timers = timers
        self.now_ms = now_ms
        self.metrics = metrics
        self.parked = ParkedReplies(gate, metrics)
