"""Large buffers: an encoder output that does not copy them, and copies that are made in pieces.

A Fetch response is a hundred bytes of fields around megabytes of records, which go from the file's buffer to the socket
unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

MIN_KEPT_BYTES = 16 * 1024
"""Minimum size of a buffer that is not copied: copying a smaller one costs less than one more part for the socket."""


class Parts(bytearray):
    """An encoder's output: the appended bytes, except buffers given to `keep`, which are stored with their
    positions.
    """

    __slots__ = ("kept",)

    def __init__(self) -> None:
        super().__init__()
        #: (position in the output, buffer)
        self.kept: list[tuple[int, bytes | memoryview]] = []

    def keep(self, data: bytes | memoryview) -> None:
        """Append `data` by reference; it must not change afterwards. Encoders call it for records."""
        if len(data) < MIN_KEPT_BYTES:
            self += data
        else:
            self.kept.append((len(self), data))

    @property
    def size(self) -> int:
        """Total bytes of all parts."""
        return len(self) + sum(len(data) for _, data in self.kept)

    def in_order(self) -> list[bytes | memoryview]:
        """Return all parts in order."""
        view = memoryview(self)
        parts: list[bytes | memoryview] = []
        start = 0
        for at, data in self.kept:
            parts += (view[start:at], data)
            start = at
        return [*parts, view[start:]] if start < len(self) else parts


class Noted(bytearray):
    """An encoder's output that has the positions of the arrays which are declared as `batched`: so a server can encode
    the elements of one response in several parts, and put the bytes around them only once.
    """

    __slots__ = ("arrays",)

    def __init__(self) -> None:
        super().__init__()
        #: of each array in the order of their ends: number of elements; positions of the count, of the first element,
        #: and behind the last
        self.arrays: list[tuple[int, int, int, int]] = []


PIECE_BYTES = 1 << 20
"""Number of bytes that are copied at a time."""


def joined(parts: Sequence[bytes | bytearray | memoryview]) -> bytearray:
    """Return a copy of the parts, one after the other. Copying 60 MB at once would block all other threads for 50 to
    150 ms, mostly for the allocation of memory: between two pieces they can run. This module is not compiled, so that
    threads can switch there.
    """
    if sum(map(len, parts)) <= PIECE_BYTES:
        return bytearray().join(parts)
    out = bytearray()
    for piece in in_pieces(parts):
        out += piece
    return out


def in_pieces(parts: Sequence[bytes | bytearray | memoryview]) -> Iterator[memoryview]:
    """Yield the parts in pieces of at most PIECE_BYTES, which are not copied."""
    for part in parts:
        view = memoryview(part)
        for start in range(0, len(view), PIECE_BYTES):
            yield view[start : start + PIECE_BYTES]
