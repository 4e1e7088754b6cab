"""A blocking connection to a broker, with one request at a time: for commands, and for a test's own requests."""

from __future__ import annotations

import socket
from types import TracebackType
from typing import Any

from kafka_wire.client.api_versions import LARGEST, ApiVersions
from kafka_wire.client.connection import (
    ClientConnection,
    Event,
    ResponseReceived,
    VersionsReceived,
)

_CHUNK_BYTES = 256 << 10


class BlockingConnection:
    """A connection to `address`. `timeout_s` limits the connect and each wait for bytes, in seconds.

    All methods raise OSError if the connection fails or times out, and DecodeError for invalid responses. After an
    error the connection is of no more use.
    """

    def __init__(self, address: tuple[str, int], client_id: str, timeout_s: float) -> None:
        self._socket = socket.create_connection(address, timeout_s)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connection = ClientConnection(client_id)

    @property
    def api_versions(self) -> ApiVersions:
        """The broker's versions: `negotiate` has requested them."""
        assert self._connection.api_versions is not None, "the broker's versions are unknown yet"
        return self._connection.api_versions

    def negotiate(self) -> int:
        """Request the broker's versions. Return the error code of the response."""
        # Every broker supports version 0.
        event = self._exchange(self._connection.request_versions(version=0))
        assert isinstance(event, VersionsReceived)
        return event.error_code

    def ask(self, request: Any, version: int | None = None, *, newest: int = LARGEST) -> Any:
        """Send a request, and return the message of its response. Without `version` it has the newest one, at most
        `newest`, that both sides support. Raises UnsupportedVersionError.
        """
        event = self._exchange(self._connection.send(request, version, newest=newest))
        assert isinstance(event, ResponseReceived)
        return event.message

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def __enter__(self) -> BlockingConnection:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _exchange(self, data: bytes) -> Event:
        self._socket.sendall(data)
        while True:
            received = self._socket.recv(_CHUNK_BYTES)
            if not received:
                raise ConnectionError("the connection was closed")
            for event in self._connection.receive_data(received):
                return event
