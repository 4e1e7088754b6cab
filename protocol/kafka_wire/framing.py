"""Splitting of a byte stream into size-prefixed frames, with a maximum size.

The size of every request and response, an int32, precedes it. The network may cut the stream anywhere: one chunk may
hold many frames and the beginning of another.
"""

from __future__ import annotations

import struct
from io import BytesIO

from kafka_wire import errors

_size = struct.Struct(">i").unpack_from

Frames = list[tuple[bytes, int, int]]
"""Frames as (buffer, start, end) of their content, without the size prefix; not copied."""

REFUSED_BYTES = 16
"""Number of bytes of a rejected frame that are kept, for a guess at the peer's protocol."""


class FrameSplitter:
    """Splits a stream into frames: keeps the beginning of a frame until its end arrives. Memory: at most one frame of
    `max_frame_bytes`.
    """

    __slots__ = ("_held", "_wanted", "held_bytes", "max_frame_bytes", "refused")

    def __init__(self, max_frame_bytes: int) -> None:
        self.max_frame_bytes = max_frame_bytes
        self._held: BytesIO | None = None
        #: bytes held of an incomplete frame
        self.held_bytes = 0
        self._wanted = 0
        #: the first bytes of a rejected frame, including its size
        self.refused = b""

    @property
    def begun(self) -> bytes:
        """The first bytes of the incomplete frame, including its size; there may be few."""
        return b"" if self._held is None else bytes(self._held.getbuffer()[:REFUSED_BYTES])

    def feed(self, data: bytes) -> Frames:
        """Take the next chunk; return the complete frames. Raises `LengthError` for a size out of bounds."""
        held = self._held
        if held is not None:
            # A large frame arrives in many chunks. BytesIO copies each chunk once, and does not copy all of them again
            # for its value.
            held.write(data)
            self.held_bytes += len(data)
            if self.held_bytes < self._wanted:
                return []
            data = held.getvalue()
            self._held = None
            self.held_bytes = 0
        elif len(data) >= 4 and 4 + _size(data, 0)[0] == len(data) <= self.max_frame_bytes:
            return [(data, 4, len(data))]  # a chunk is nearly always exactly one frame, as the peer wrote it
        frames = []
        pos = 0
        end = len(data)
        wanted = 4
        limit = self.max_frame_bytes
        while end - pos >= 4:
            (size,) = _size(data, pos)
            if not 0 <= size <= limit:
                self.refused = data[pos : pos + REFUSED_BYTES]
                raise errors.LengthError(f"a frame of {size} bytes, the limit is {limit}")
            start = pos + 4
            stop = start + size
            if stop > end:
                wanted = 4 + size
                break
            frames.append((data, start, stop))
            pos = stop
        if pos < end:
            self._held = held = BytesIO()
            held.write(data[pos:] if pos else data)
            self.held_bytes = end - pos
            self._wanted = wanted
        return frames
