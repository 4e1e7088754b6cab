"""Client for frames only: our encoders and decoders on a connection, without retries.

    client = await RawClient.connect("127.0.0.1", port, client_id="A")
    response = await client.ask(HeartbeatRequest("group", 1, "member"), version=4)

`send` and `receive` are the two halves of `ask`, for requests whose responses arrive later. A broker's bytes are
decoded and encoded again, and must be the same bytes: no part of a response gets lost before a comparison.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from kafka_wire.client import codec_of, request_frame
from kafka_wire.codecs import encode_message
from kafka_wire.errors import DecodeError
from kafka_wire.registry import Codec

MAX_FRAME_BYTES = 64 << 20


class BadAnswer(AssertionError):
    """A broker's bytes are not a valid response to the request; the message contains them."""


def _nothing(_is_request: bool, _frame: bytes, _codec: Codec) -> None:
    """Ignore a frame."""


class Link(Protocol):
    """A connection's bytes, over TCP or in memory."""

    def write(self, data: bytes) -> None: ...

    async def read_frame(self) -> bytes | None:
        """Return the next frame without its size; None if the broker has closed the connection."""

    def close(self) -> None: ...


class TcpLink:
    """A TCP connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def connect(cls, host: str, port: int) -> TcpLink:
        return cls(*await asyncio.open_connection(host, port))

    def write(self, data: bytes) -> None:
        if not self.writer.is_closing():  # else the next read returns None
            self.writer.write(data)

    async def read_frame(self) -> bytes | None:
        try:
            (size,) = struct.unpack(">i", await self.reader.readexactly(4))
            if not 0 <= size <= MAX_FRAME_BYTES:
                raise BadAnswer(f"a frame of {size} bytes")
            return await self.reader.readexactly(size)
        except (asyncio.IncompleteReadError, ConnectionError):
            return None

    def close(self) -> None:
        with contextlib.suppress(ConnectionError):
            self.writer.close()


@dataclass(frozen=True, slots=True)
class Answer:
    """A response and the request that it belongs to."""

    codec: Codec
    request: Any
    message: Any


class RawClient:
    """One connection. Responses arrive in the order of the requests, as Kafka sends them."""

    def __init__(self, link: Link, client_id: str | None = "raw") -> None:
        self.link = link
        self.client_id = client_id
        #: called with each frame: whether it was sent, its bytes without the size, and the codec of its message
        self.on_frame: Callable[[bool, bytes, Codec], None] = _nothing
        self.unanswered: deque[tuple[int, Codec, Any]] = deque()
        self._next_correlation_id = 1

    @classmethod
    async def connect(cls, host: str, port: int, client_id: str | None = "raw") -> RawClient:
        return cls(await TcpLink.connect(host, port), client_id)

    def send(self, request: Any, version: int) -> None:
        """Send a request, and add it to the requests without a response."""
        used, correlation_id = codec_of(request, version), self._next_correlation_id
        self._next_correlation_id += 1
        frame = request_frame(request, version, correlation_id, self.client_id)
        self.on_frame(True, frame[4:], used)
        self.link.write(frame)
        self.unanswered.append((correlation_id, used, request))

    async def receive(self) -> Answer | None:
        """Return the next response; None if the broker closed the connection instead. Raises BadAnswer for an invalid
        response.
        """
        frame = await self.link.read_frame()
        if frame is None:
            return None
        if not self.unanswered:
            raise BadAnswer(f"an answer to nothing: {frame.hex()}")
        correlation_id, used, request = self.unanswered.popleft()
        self.on_frame(False, frame, used)
        return Answer(used, request, read_response(used, correlation_id, frame))

    async def ask(self, request: Any, version: int) -> Any:
        """Send a request and return the message of its response. Raises ConnectionError if the broker closes the
        connection instead, BadAnswer for an invalid response.
        """
        assert not self.unanswered, "an earlier answer has not been received"
        self.send(request, version)
        answer = await self.receive()
        if answer is None:
            raise ConnectionError("the broker closed the connection")
        return answer.message

    def close(self) -> None:
        self.link.close()


def read_response(used: Codec, correlation_id: int, frame: bytes) -> Any:
    """Decode a response frame, whose correlation id must be that of the request and whose bytes must be those that we
    would write for its content. Raises BadAnswer.
    """
    header = struct.pack(">i", correlation_id) + b"\0" * used.response_header_flexible
    answer = f"{used.name} v{used.api_version}: {frame.hex()}"
    if frame[: len(header)] != header:
        raise BadAnswer(f"{answer} does not begin {header.hex()}")
    try:
        message = used.decode_response(frame, len(header), len(frame))
    except DecodeError as error:
        raise BadAnswer(f"{answer} cannot be decoded: {error}") from error
    written = encode_message(message, used.api_version)
    if written != frame[len(header) :]:
        raise BadAnswer(f"{answer} is written as {written.hex()}")
    return message
