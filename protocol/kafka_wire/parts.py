"""An output of encoders in which large buffers are not copied: a Fetch response is a hundred bytes of fields around
megabytes of records, which go from the file's buffer to the socket as they are.
"""

from __future__ import annotations

MIN_KEPT_BYTES = 16 * 1024
"""What is smaller is copied: cheaper than one part more for the socket."""


class Parts(bytearray):
    """What is appended, but for what was given to `keep`, which has its place between."""

    __slots__ = ("kept",)

    def __init__(self) -> None:
        super().__init__()
        #: (where it belongs, the buffer)
        self.kept: list[tuple[int, bytes | memoryview]] = []

    def keep(self, data: bytes | memoryview) -> None:
        """Append `data`, which must not change from now on. Encoders call it for records."""
        if len(data) < MIN_KEPT_BYTES:
            self += data
        else:
            self.kept.append((len(self), data))

    @property
    def size(self) -> int:
        """Bytes of all parts."""
        return len(self) + sum(len(data) for _, data in self.kept)

    def in_order(self) -> list[bytes | memoryview]:
        """All parts, one after the other."""
        view = memoryview(self)
        parts: list[bytes | memoryview] = []
        start = 0
        for at, data in self.kept:
            parts += (view[start:at], data)
            start = at
        return [*parts, view[start:]] if start < len(self) else parts
