"""A limit for the data in transit of all connections together.

A limit for each connection does not limit a peer that opens thousands. So data that may be large is counted for all
connections together, and when the sum is too large, the holder with the most bytes must release them. A peer that does
not read, or does not finish what it sends, thus loses its own connection; a peer with few bytes is not affected.
"""

from __future__ import annotations

from typing import Protocol


class Holder(Protocol):
    """An object that holds data in transit: hashable by identity."""

    def give_up(self) -> object:
        """Release the data now: all holders together have too much."""
        ...


class Shares:
    """The bytes of all holders: `most_bytes` at most, except if a single holder has more."""

    __slots__ = ("_held", "bytes", "most_bytes")

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self.bytes = 0
        self._held: dict[Holder, int] = {}

    def __len__(self) -> int:
        return len(self._held)

    @property
    def room(self) -> int:
        """The number of bytes that can be added before a holder must release its data."""
        return max(0, self.most_bytes - self.bytes)

    def hold(self, holder: Holder, size: int) -> None:
        """Set the size of what `holder` holds, in bytes; 0 for nothing. While the sum is too large, the largest holder
        has to give up.
        """
        self.bytes += size - self._held.pop(holder, 0)
        if size:
            self._held[holder] = size
        while self.bytes > self.most_bytes and len(self._held) > 1:
            largest = max(self._held, key=self._held.__getitem__)
            self.bytes -= self._held.pop(largest)
            largest.give_up()
