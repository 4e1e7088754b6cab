"""A request as it came: its codec, its number, where it lies, and whether it has been answered."""

from __future__ import annotations

from typing import Any

from kafka_wire.registry import Codec

Body = tuple[bytes, int, int]
"""Where a request lies, without its header: (buffer, start, end)."""

NO_BODY: Body = (b"", 0, 0)

MAX_SHARED_BYTES = 8 * 1024
"""A request that waits may hold on to a buffer of this size, in which there is more than itself. Connections limit how
many wait (answers.MAX_HELD).
"""


class Received:
    """What `request.RequestContext` fills in. `api_version` is that of the request and its response. `done`: a response
    has been given, or none is due.
    """

    __slots__ = ("_body", "api_version", "codec", "correlation_id", "done")

    codec: Codec
    api_version: int
    correlation_id: int
    done: bool
    _body: Body

    @property
    def request(self) -> Any:
        """The request as it came, decoded once more."""
        return self.codec.decode_request(*self._body)

    @property
    def where(self) -> Body:
        """Where the request lies, without its header; until it waits for the log."""
        return self._body

    @property
    def body(self) -> bytes:
        """The request as bytes, without its header."""
        buf, start, end = self._body
        return buf[start:end]

    def keep(self) -> Body:
        """Where the request lies from now on, if it has to wait: without the rest of what one read has brought."""
        buf, start, end = self._body
        if len(buf) > MAX_SHARED_BYTES and (end - start) * 2 < len(buf):
            self._body = buf[start:end], 0, end - start
        return self._body
