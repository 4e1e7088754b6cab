"""One connection to a broker, without I/O.

    connection = ClientConnection("my-client")
    socket.sendall(connection.request_versions())
    for event in connection.receive_data(socket.recv(65536)):
        ...                                                    # VersionsReceived
    socket.sendall(connection.send(HeartbeatRequest("group", 1, "member")))
    for event in connection.receive_data(socket.recv(65536)):
        ...                                                    # ResponseReceived

A broker sends the responses of a connection in the order of the requests (Kafka's SocketServer processes one request
of a connection at a time), so the next frame always belongs to the oldest request in flight; its correlation id is
checked. After an error of `receive_data`, or when the connection is lost, the connection is of no more use: `in_flight`
has the requests without a response.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from kafka_wire.api.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kafka_wire.client.api_versions import LARGEST, ApiVersions
from kafka_wire.errors import DecodeError, ErrorCode
from kafka_wire.framing import FrameSplitter
from kafka_wire.headers import RequestHeader, write_request_header
from kafka_wire.registry import Codec, codec
from kafka_wire.schema import schema_of

MAX_RESPONSE_BYTES: Final = 128 << 20
"""Largest response in bytes; larger than any Fetch response with Kafka's default of 50 MiB."""
API_VERSIONS_VERSION: Final = 4
"""The version in which a client first requests the broker's versions (KIP-511). Every broker supports version 0."""

_correlation_id = struct.Struct(">i").unpack_from


@dataclass(frozen=True, slots=True)
class InFlightRequest:
    """A request that was sent and has no response yet. `token` is the caller's, and returned with the response."""

    correlation_id: int
    codec: Codec
    request: Any
    token: Any


@dataclass(frozen=True, slots=True)
class ResponseReceived:
    """The response to `sent`."""

    sent: InFlightRequest
    message: Any


@dataclass(frozen=True, slots=True)
class VersionsReceived:
    """The response to `request_versions`. Unless it has an error, `ClientConnection.api_versions` is set."""

    error_code: int


@dataclass(frozen=True, slots=True)
class VersionsUnsupported:
    """The broker does not support that version of ApiVersions: call `request_versions` with version 0."""


Event = ResponseReceived | VersionsReceived | VersionsUnsupported


def request_frame(used: Codec, request: Any, correlation_id: int, client_id: str | None) -> bytes:
    """Return a request with its header and its size."""
    out = bytearray(4)
    header = RequestHeader(used.api_key, used.api_version, correlation_id, client_id)
    write_request_header(header, used.flexible, out)
    used.encode_request(request, out)
    out[:4] = (len(out) - 4).to_bytes(4, "big")
    return bytes(out)


class ClientConnection:
    """State of one connection: the requests in flight, the beginning of a frame, the broker's versions."""

    def __init__(self, client_id: str | None, max_response_bytes: int = MAX_RESPONSE_BYTES) -> None:
        self.client_id = client_id
        self.api_versions: ApiVersions | None = None
        self.in_flight: deque[InFlightRequest] = deque()
        self._splitter = FrameSplitter(max_response_bytes)
        self._last_correlation_id = 0
        self._versions_token = object()

    def request_versions(
        self, version: int = API_VERSIONS_VERSION, software_name: str = "coordinatord", software_version: str = "1"
    ) -> bytes:
        """Return the bytes of a request for the broker's versions."""
        request = ApiVersionsRequest(software_name, software_version) if version >= 3 else ApiVersionsRequest()
        return self.send(request, version, self._versions_token)

    def send(self, request: Any, version: int | None = None, token: Any = None, *, newest: int = LARGEST) -> bytes:
        """Return the bytes of a request, which is in flight from now on.

        Without `version` it has the newest one, at most `newest`, that both sides support; `request_versions` must have
        been answered. Raises UnsupportedVersionError, and UnknownApiError for an undeclared version.
        """
        kind = type(request)
        if version is None:
            assert self.api_versions is not None, "the broker's versions are unknown yet"
            version = self.api_versions.latest_usable(kind, newest)
        used = codec(schema_of(kind).api_key or 0, version)
        self._last_correlation_id = self._last_correlation_id + 1 & 0x7FFF_FFFF
        frame = request_frame(used, request, self._last_correlation_id, self.client_id)
        self.in_flight.append(InFlightRequest(self._last_correlation_id, used, request, token))
        return frame

    def receive_data(self, data: bytes) -> Iterator[Event]:
        """Yield the events of the frames that `data` completes, each when it is decoded.

        Raises DecodeError for data that is not the response to the oldest request in flight, which stays in flight.
        """
        for buf, start, end in self._splitter.feed(data):
            yield self._received(buf, start, end)

    def _received(self, buf: bytes, start: int, end: int) -> Event:
        if end - start < 4 or not self.in_flight:
            raise DecodeError(f"a frame of {end - start} bytes that responds to no request")
        sent = self.in_flight[0]
        (correlation_id,) = _correlation_id(buf, start)
        if correlation_id != sent.correlation_id:
            raise DecodeError(f"a response with correlation id {correlation_id}, not {sent.correlation_id}")
        start += 4 + sent.codec.response_header_flexible  # brokers leave its tag buffer empty
        is_versions = sent.token is self._versions_token
        # A broker that does not support the version responds in version 0, which begins with the error.
        if is_versions and sent.codec.api_version and _int16(buf, start, end) == ErrorCode.UNSUPPORTED_VERSION:
            self.in_flight.popleft()
            return VersionsUnsupported()
        message = sent.codec.decode_response(buf, start, end)
        self.in_flight.popleft()  # only once it is known to be a response
        return self._learned(message) if is_versions else ResponseReceived(sent, message)

    def _learned(self, response: ApiVersionsResponse) -> VersionsReceived:
        if not response.error_code:
            self.api_versions = ApiVersions.of(response)
        return VersionsReceived(response.error_code)


def _int16(buf: bytes, start: int, end: int) -> int:
    return int.from_bytes(buf[start : min(start + 2, end)], "big", signed=True)
