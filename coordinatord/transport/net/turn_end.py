"""Sends answers at the end of the event loop's turn, with one callback for all connections.

A rebalance answers each member on its own connection; a callback for each would cost more than the answers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Line(Protocol):
    """A line with answers to send."""

    def flush(self) -> None: ...


class TurnEnd:
    """The lines to flush at the end of the turn. `call_soon` is the event loop's."""

    def __init__(self, call_soon: Callable[..., object]) -> None:
        self._call_soon = call_soon
        self._unsent: list[Line] = []

    def flush_soon(self, line: Line) -> None:
        """Send the line's answers at the end of the turn, with those of all other lines."""
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
