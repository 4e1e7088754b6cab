"""What leaves at the end of the event loop's turn: one callback for all connections.

A rebalance answers each member on a connection of its own; a callback for each would cost more than the answers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Line(Protocol):
    """What has answers to send."""

    def flush(self) -> None: ...


class TurnEnd:
    """Lines whose answers leave when the turn ends. `call_soon` is the event loop's."""

    def __init__(self, call_soon: Callable[..., object]) -> None:
        self._call_soon = call_soon
        self._unsent: list[Line] = []

    def flush_soon(self, line: Line) -> None:
        """Have the line's answers leave with those of all others."""
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
            raise broken  # when the others have got their answers
