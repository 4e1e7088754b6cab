"""A client for commands: one connection, one request at a time, and errors that are sentences.

Commands send requests in Kafka's protocol, to coordinatord or to any Kafka cluster. The version of a request is the
newest that both sides support.
"""

from __future__ import annotations

import socket
import struct
from typing import Any

from coordinatord.base.config.address import parse_listener
from coordinatord.base.config.setting_types import Unacceptable
from kafka_wire.api.api_versions import ApiVersionsRequest
from kafka_wire.codecs import encode_message
from kafka_wire.errors import DecodeError, ErrorCode
from kafka_wire.headers import RequestHeader, write_request_header
from kafka_wire.registry import codec, versions_of
from kafka_wire.schema import schema_of

TIMEOUT_S = 15.0
MAX_FRAME_BYTES = 128 << 20


class WireError(Exception):
    """Raised if no broker responds as it should; the message is a sentence."""


class Unreachable(WireError):
    """Raised if nothing listens at the address, or the address is invalid."""


class Wire:
    """A connection to `host:port`. Raises WireError if no broker responds."""

    def __init__(self, address: str, client_id: str) -> None:
        self.address = address
        self._client_id = client_id
        self._correlation_id = 0
        try:
            listener = parse_listener(address)
        except Unacceptable as error:
            raise Unreachable(f"--bootstrap {error}") from None
        try:
            self._socket = socket.create_connection((listener.host or "127.0.0.1", listener.port), TIMEOUT_S)
        except OSError as error:
            raise Unreachable(f"no broker answers at {address}: {str(error.strerror or error).lower()}.") from None
        self._offered: dict[int, tuple[int, int]] = {}
        # Every broker serves version 0, and responds to an unknown version in the format of version 0.
        answer = self._exchange(ApiVersionsRequest(), 0)
        if answer.error_code:
            raise WireError(f"{address} does not say which requests it serves: {ErrorCode(answer.error_code).name}.")
        self._offered = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}

    def ask(self, request: Any, newest: int = 32_767) -> Any:
        """Send `request` in the newest version that both sides support, at most `newest`, and return the response."""
        api_key = schema_of(type(request)).api_key or 0
        known = versions_of(api_key)
        lowest, highest = self._offered.get(api_key, (0, -1))
        version = min(highest, known.last, newest)
        if version < max(lowest, known.first):
            raise WireError(f"{self.address} does not serve {type(request).__name__.removesuffix('Request')} requests.")
        return self._exchange(request, version)

    def serves(self, request: type[Any]) -> bool:
        """Return whether the broker advertises a version of this request that this client supports."""
        api_key = schema_of(request).api_key or 0
        known = versions_of(api_key)
        lowest, highest = self._offered.get(api_key, (0, -1))
        return max(lowest, known.first) <= min(highest, known.last)

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _exchange(self, request: Any, version: int) -> Any:
        used = codec(schema_of(type(request)).api_key or 0, version)
        self._correlation_id += 1
        out = bytearray(4)
        header = RequestHeader(used.api_key, version, self._correlation_id, self._client_id)
        write_request_header(header, used.flexible, out)
        out += encode_message(request, version)
        out[:4] = (len(out) - 4).to_bytes(4, "big")
        try:
            self._socket.sendall(out)
            (size,) = struct.unpack(">i", self._receive(4))
            if not 4 <= size <= MAX_FRAME_BYTES:
                raise WireError(f"{self.address} does not speak Kafka's protocol.")
            frame = self._receive(size)
        except OSError as error:
            raise WireError(f"{self.address} does not answer: {error.strerror or error}.") from None
        try:
            return used.decode_response(frame, 4 + used.response_header_flexible, len(frame))
        except DecodeError as error:
            raise WireError(f"{self.address} sent a response that cannot be decoded: {error}") from None

    def _receive(self, size: int) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            part = self._socket.recv(size - len(parts))
            if not part:
                raise WireError(f"{self.address} closed the connection.")
            parts += part
        return bytes(parts)
