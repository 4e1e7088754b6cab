"""Bare connections for load: our own encoders, many requests under way at a time, hardly any work per request."""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from typing import Any

from kafka_wire.framing import FrameSplitter
from kafka_wire.headers import RequestHeader, write_request_header
from kafka_wire.registry import Codec, codec
from kafka_wire.schema import schema_of

MAX_FRAME_BYTES = 64 << 20

_correlation_id = struct.Struct(">i").unpack_from


class Line(asyncio.Protocol):
    """One connection: `ask` sends at once and gives a future of the response. A lost connection fails them all."""

    def __init__(self, client_id: str) -> None:
        self.client_id = client_id
        self.closed = False
        self._transport: Any = None
        self._splitter = FrameSplitter(MAX_FRAME_BYTES)
        self._unanswered: deque[tuple[int, Codec, asyncio.Future[Any]]] = deque()
        self._correlation_id = 0
        self._loop = asyncio.get_running_loop()

    @classmethod
    async def connect(cls, host: str, port: int, client_id: str) -> Line:
        line = cls(client_id)
        await line._loop.create_connection(lambda: line, host, port)
        return line

    def ask(self, request: Any, version: int) -> asyncio.Future[Any]:
        """Send a request; the future is its response, decoded, or a ConnectionError."""
        answer: asyncio.Future[Any] = self._loop.create_future()
        if self.closed:
            answer.set_exception(ConnectionError("the connection is closed"))
            return answer
        used = codec(schema_of(type(request)).api_key or 0, version)
        self._correlation_id += 1
        out = bytearray(4)
        write_request_header(
            RequestHeader(used.api_key, version, self._correlation_id, self.client_id), used.flexible, out
        )
        used.encode_request(request, out)
        out[:4] = (len(out) - 4).to_bytes(4, "big")
        self._unanswered.append((self._correlation_id, used, answer))
        self._transport.write(out)
        return answer

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        for buf, start, end in self._splitter.feed(data):
            correlation_id, used, answer = self._unanswered.popleft()
            assert _correlation_id(buf, start)[0] == correlation_id, "an answer out of turn"
            start += 5 if used.response_header_flexible else 4  # its tag buffer is empty
            if not answer.done():
                answer.set_result(used.decode_response(buf, start, end))

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        for _, _, answer in self._unanswered:
            if not answer.done():
                answer.set_exception(ConnectionError("the connection was lost"))
                answer.exception()  # whoever does not wait for it any more need not be told
        self._unanswered.clear()
