"""What connections have under way at a time, bounded for all of them together.

A limit for each connection is none for a peer that opens thousands. So what may be large is counted for all of them,
and when the sum is too large, whoever has most has to give up. A peer that does not read, or does not finish what it
sends, loses its own connection so; one that has little is not affected.
"""

from __future__ import annotations

from typing import Protocol


class Holder(Protocol):
    """Has bytes under way: hashable by identity."""

    def give_up(self) -> object:
        """Let them go now: there are too many in all."""
        ...


class Shares:
    """The bytes of all holders: `most_bytes` at most, except those of a holder that is alone."""

    __slots__ = ("_held", "bytes", "most_bytes")

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self.bytes = 0
        self._held: dict[Holder, int] = {}

    def __len__(self) -> int:
        return len(self._held)

    @property
    def room(self) -> int:
        """How many bytes more there may be before somebody has to give up."""
        return max(0, self.most_bytes - self.bytes)

    def hold(self, holder: Holder, size: int) -> None:
        """`holder` has `size` bytes from now on; 0 for none. While the sum is too large, whoever has most gives up."""
        self.bytes += size - self._held.pop(holder, 0)
        if size:
            self._held[holder] = size
        while self.bytes > self.most_bytes and len(self._held) > 1:
            largest = max(self._held, key=self._held.__getitem__)
            self.bytes -= self._held.pop(largest)
            largest.give_up()
