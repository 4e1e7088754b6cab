"""A client's side of a connection to a broker, without I/O.

    connection = ClientConnection("my-client")
    socket.sendall(connection.send(HeartbeatRequest("group", 1, "member"), version=4))
    for sent, response in connection.receive_data(socket.recv(65536)):
        ...

A broker sends the responses of a connection in the order of the requests (Kafka's SocketServer processes one request
of a connection at a time), so a frame belongs to the oldest request in flight; its correlation id is checked.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from kafka_wire.api.api_versions import ApiVersionsResponse
from kafka_wire.api_key import ApiKey
from kafka_wire.errors import DecodeError, ErrorCode
from kafka_wire.framing import FrameSplitter
from kafka_wire.headers import RequestHeader, write_request_header
from kafka_wire.registry import LARGEST, Codec, codec, versions_of
from kafka_wire.schema import schema_of

MAX_RESPONSE_BYTES: Final = 128 << 20
"""Largest response in bytes; larger than any Fetch response with Kafka's default of 50 MiB."""

_UNSUPPORTED = ErrorCode.UNSUPPORTED_VERSION.to_bytes(2, "big")


def codec_of(request: Any, version: int) -> Codec:
    """Return the codec of a request's API. Raises UnknownApiError for an undeclared version."""
    return codec(schema_of(type(request)).api_key or 0, version)


def request_frame(request: Any, version: int, correlation_id: int, client_id: str | None) -> bytes:
    """Return a request with its header and its size."""
    used = codec_of(request, version)
    out = bytearray(4)
    write_request_header(RequestHeader(used.api_key, version, correlation_id, client_id), used.flexible, out)
    used.encode_request(request, out)
    out[:4] = (len(out) - 4).to_bytes(4, "big")
    return bytes(out)


class ApiVersions:
    """The lowest and the highest version that a broker supports, by API key: Kafka's NodeApiVersions."""

    def __init__(self, supported: Mapping[int, tuple[int, int]]) -> None:
        self.supported = supported

    @classmethod
    def of(cls, response: ApiVersionsResponse) -> ApiVersions:
        return cls({each.api_key: (each.min_version, each.max_version) for each in response.api_keys})

    def latest_usable(self, request: type[Any], newest: int = LARGEST) -> int | None:
        """Return the newest version of a request, at most `newest`, that both sides support; None if there is none."""
        api_key = schema_of(request).api_key or 0
        ours = versions_of(api_key)
        lowest, highest = self.supported.get(api_key, (0, -1))
        version = min(highest, ours.last, newest)
        return version if version >= max(lowest, ours.first) else None


@dataclass(frozen=True, slots=True)
class InFlightRequest:
    """A request that was sent and has no response yet. `token` is the caller's."""

    correlation_id: int
    codec: Codec
    token: Any


class ClientConnection:
    """State of one connection: the requests in flight, the oldest first, and the beginning of a frame."""

    def __init__(self, client_id: str | None, max_response_bytes: int = MAX_RESPONSE_BYTES) -> None:
        self.client_id = client_id
        self.in_flight: deque[InFlightRequest] = deque()
        self._splitter = FrameSplitter(max_response_bytes)
        self._correlation_id = 0

    def send(self, request: Any, version: int, token: Any = None) -> bytes:
        """Return the frame of a request, which is in flight from now on. Raises UnknownApiError."""
        self._correlation_id = self._correlation_id + 1 & 0x7FFF_FFFF
        frame = request_frame(request, version, self._correlation_id, self.client_id)
        self.in_flight.append(InFlightRequest(self._correlation_id, codec_of(request, version), token))
        return frame

    def receive_data(self, data: bytes) -> Iterator[tuple[InFlightRequest, Any]]:
        """Yield the responses that `data` completes, each with its request, when it is decoded.

        Raises DecodeError for anything but the response to the oldest request in flight, which stays in flight.
        """
        for buf, start, end in self._splitter.feed(data):
            if end - start < 4 or not self.in_flight:
                raise DecodeError(f"a frame of {end - start} bytes that responds to no request")
            sent = self.in_flight[0]
            if int.from_bytes(buf[start : start + 4], "big") != sent.correlation_id:
                raise DecodeError(f"a response to another request than {sent.correlation_id}")
            response = response_of(sent.codec, buf, start, end)
            self.in_flight.popleft()  # only once it is known to be a response
            yield sent, response


def response_of(used: Codec, buf: bytes, start: int, end: int) -> Any:
    """Decode a response frame. A broker that does not support a version of ApiVersions responds in version 0.
    Raises DecodeError.
    """
    if used.api_key == ApiKey.API_VERSIONS and buf[start + 4 : start + 6] == _UNSUPPORTED:
        used = codec(used.api_key, 0)
    return used.decode_response(buf, start + 4 + used.response_header_flexible, end)  # its tag buffer is empty
