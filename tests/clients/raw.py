"""Bare connections for load: our own encoders, many requests under way at a time, hardly any work per request."""

from __future__ import annotations

import asyncio
from typing import Any

from kafka_wire.client import ClientConnection


class Line(asyncio.Protocol):
    """One connection: `ask` sends at once and gives a future of the response. A lost connection fails them all."""

    def __init__(self, client_id: str) -> None:
        self.client_id = client_id
        self.closed = False
        self._transport: Any = None
        self._connection = ClientConnection(client_id)
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
        self._transport.write(self._connection.send(request, version, answer))
        return answer

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        for sent, response in self._connection.receive_data(data):
            if not sent.token.done():
                sent.token.set_result(response)

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        for sent in self._connection.in_flight:
            if not sent.token.done():
                sent.token.set_exception(ConnectionError("the connection was lost"))
                sent.token.exception()  # whoever does not wait for it any more need not be told
        self._connection.in_flight.clear()
