"""A mapping bounded by the bytes of its entries, for tables whose keys peers choose.

A bound on the number of entries does not bound memory: a protocol string of 32,767 bytes takes 131 KB if one of its
characters is outside the Basic Multilingual Plane.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from sys import getsizeof
from typing import Final, Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

ENTRY_BYTES: Final = 220
"""Memory of an entry in an OrderedDict, at most (measured): it doubles its tables when two thirds are in use."""


def text_bytes(text: str) -> int:
    """Return the maximum size of a string in bytes. The result is always the same, unlike that of sys.getsizeof, which
    grows when a string is encoded.
    """
    return 50 + len(text) if text.isascii() else 80 + 4 * len(text)


def size_of(key: tuple[object, ...]) -> int:
    """Return the size of a tuple and its strings, which count in full although other objects may share them."""
    return getsizeof(key) + sum([text_bytes(each) for each in key if isinstance(each, str)])


class BoundedMapping(Generic[K, V]):
    """A mapping of at most `most_bytes`. A new entry evicts the entries that were added or touched longest ago.

    `bytes_of(key, value)` returns the bytes of an entry, always the same for the same entry. An entry larger than the
    whole mapping is not kept.
    """

    __slots__ = ("_bytes_of", "_entries", "bytes", "get", "most_bytes")

    def __init__(self, most_bytes: int, bytes_of: Callable[[K, V], int]) -> None:
        self.most_bytes = most_bytes
        self._bytes_of = bytes_of
        self._entries: OrderedDict[K, V] = OrderedDict()
        #: bytes of all entries
        self.bytes = 0
        #: as dict.get; does not count as a touch
        self.get = self._entries.get

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: object) -> bool:
        return key in self._entries

    def __iter__(self) -> Iterator[K]:
        return iter(self._entries)

    def put(self, key: K, value: V) -> None:
        """Add or replace an entry, which becomes the newest."""
        self.discard(key)
        size = self._size(key, value)
        if size > self.most_bytes:
            return
        while self.bytes + size > self.most_bytes:
            self.discard(next(iter(self._entries)))
        self._entries[key] = value
        self.bytes += size

    def touch(self, key: K) -> V | None:
        """Return the value and make its entry the newest; None if there is no entry."""
        if key not in self._entries:
            return None
        self._entries.move_to_end(key)
        return self._entries[key]

    def discard(self, key: K) -> None:
        """Remove an entry if it is there."""
        if key in self._entries:
            self.bytes -= self._size(key, self._entries.pop(key))

    def clear(self) -> None:
        """Remove all entries."""
        self._entries.clear()
        self.bytes = 0

    def _size(self, key: K, value: V) -> int:
        return self._bytes_of(key, value) + ENTRY_BYTES
