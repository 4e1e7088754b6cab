"""Sending of responses at the end of the event loop's turn, with one callback for all connections.

A rebalance responds to each member on its own connection; one callback per connection would cost more than the
responses.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Line(Protocol):
    """A connection's queue of responses."""

    def flush(self) -> None: ...


class WriteCoalescer:
    """The queues to flush at the end of the turn. `call_soon` is the event loop's."""

    def __init__(self, call_soon: Callable[..., object]) -> None:
        self._call_soon = call_soon
        self._unsent: list[Line] = []

    def flush_soon(self, line: Line) -> None:
        """Send the responses of `line` at the end of the turn, together with those of all other queues."""
        if not self._unsent:
            self._call_soon(self._flush)
        self._unsent.append(line)

    def _flush(self) -> None:
        unsent, self._unsent = self._unsent, []
        broken: Exception | None = None
        for line in unsent:
            try:
                line.flush()
            except Exception as error:
                broken = broken or error
        if broken is not None:
            raise broken  # after all other lines have been flushed
