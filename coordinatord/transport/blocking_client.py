"""A blocking connection to a broker, with one request at a time: for commands, and for a test's own requests."""

from __future__ import annotations

import socket
from typing import Any

from kafka_wire.client import ClientConnection

_CHUNK_BYTES = 256 << 10


class BlockingConnection:
    """A connection to `address`; `timeout_s` limits the connect and each wait for bytes, in seconds.

    The methods raise OSError if the connection fails or times out, and DecodeError for an invalid response. After an
    error the connection is of no more use.
    """

    def __init__(self, address: tuple[str, int], client_id: str, timeout_s: float) -> None:
        self.socket = socket.create_connection(address, timeout_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connection = ClientConnection(client_id)

    def ask(self, request: Any, version: int) -> Any:
        """Send a request, and return its response."""
        self.socket.sendall(self._connection.send(request, version))
        while True:
            received = self.socket.recv(_CHUNK_BYTES)
            if not received:
                raise ConnectionError("the connection was closed")
            for _, response in self._connection.receive_data(received):
                return response

    def close(self) -> None:
        self.socket.close()
