"""A read of so many bytes that another thread makes it: the event loop would take milliseconds."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Final

from coordinatord.broker.log.disk import Disk
from coordinatord.broker.log.errors import LogDamaged

LARGE_READ_BYTES: Final = 2 * 1024 * 1024
"""The most bytes that the event loop reads at a time. To be given so much memory and to copy takes a millisecond."""


class LargeRead:
    """`size` bytes of a segment from `position` on. The segment may be removed or replaced before they are read: its
    file is open from the beginning until `close`.
    """

    __slots__ = ("_file", "_path", "_position", "_size")

    def __init__(self, disk: Disk, path: str, position: int, size: int) -> None:
        self._file = disk.open(path)
        self._path = path
        self._position = position
        self._size = size

    def read(self) -> bytes:
        """Return the bytes, on any thread. Raises LogDamaged if the file is shorter."""
        data = self._file.pread(self._size, self._position)
        if len(data) < self._size:
            raise LogDamaged(self._path, self._position + len(data), "the segment ends inside a batch")
        return data

    def steps(self) -> Generator[Callable[[], bytes] | None, Any, bytes]:
        """Return the bytes, read on another thread after a pause (net/cooperative_tasks.py)."""
        try:
            yield None
            data: bytes = yield self.read
            return data
        finally:
            self.close()

    def close(self) -> None:
        """Close the file."""
        self._file.close()
