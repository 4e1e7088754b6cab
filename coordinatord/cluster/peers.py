"""Requests from one worker to another, in Kafka's protocol over a Unix socket. On the other side they come to the
handlers that clients' requests come to.

One connection to each other worker, made when it is first needed and again when it is needed after it has broken.
Whatever has not been answered when it breaks, or within `TIMEOUT_S`, is answered with None: it may or may not have been
done, and who asked asks again. A worker that is being started again accepts connections before it reads from them (its
supervisor holds the socket), so a request waits there for a moment, as clients' do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import structlog

from kafka_wire import registry
from kafka_wire.errors import DecodeError
from kafka_wire.framing import FrameSplitter
from kafka_wire.headers import RequestHeader, write_request_header
from kafka_wire.registry import Codec

LISTENER = "WORKERS"
"""The name of the listener that other workers' requests come in by."""

TIMEOUT_S = 10.0
"""Longer than a start takes that has little to recover."""

MAX_PENDING = 10_000
"""Requests to one worker that are not answered. Clients' own limits keep it far below."""

MAX_RESPONSE_BYTES = 16 * 1024 * 1024

Answered = Callable[[Any], object]

log = structlog.get_logger("coordinatord.workers")


class Peers:
    """The other workers. `paths` has every worker's socket; our own is not used."""

    def __init__(self, paths: Sequence[str], loop: asyncio.AbstractEventLoop) -> None:
        self._peers = [_Peer(worker, path, loop) for worker, path in enumerate(paths)]

    def ask(self, worker: int, api_key: int, api_version: int, request: Any, answered: Answered) -> None:
        """Have a worker's handler do it; `answered(response)`, or None, later and never at once."""
        self._peers[worker].ask(registry.codec(api_key, api_version), request, answered)

    def close(self) -> None:
        """Nobody is asked any more; what is pending is answered with None."""
        for peer in self._peers:
            peer.close()


class _Peer(asyncio.Protocol):
    """The connection to one worker, if there is one, and what is pending on it."""

    def __init__(self, worker: int, path: str, loop: asyncio.AbstractEventLoop) -> None:
        self._worker = worker
        self._path = path
        self._loop = loop
        self._transport: Any = None
        self._connecting: asyncio.Task[Any] | None = None
        self._splitter = FrameSplitter(MAX_RESPONSE_BYTES)
        self._waiting = bytearray()
        self._pending: dict[int, tuple[Codec, Answered, asyncio.TimerHandle]] = {}
        self._last_id = 0
        self._closed = False

    def ask(self, codec: Codec, request: Any, answered: Answered) -> None:
        if self._closed or len(self._pending) >= MAX_PENDING:
            self._loop.call_soon(answered, None)
            return
        self._last_id = self._last_id + 1 & 0x7FFF_FFFF
        frame = bytearray(4)
        write_request_header(
            RequestHeader(codec.api_key, codec.api_version, self._last_id, None), codec.flexible, frame
        )
        codec.encode_request(request, frame)
        frame[:4] = (len(frame) - 4).to_bytes(4, "big")
        timer = self._loop.call_later(TIMEOUT_S, self._broken, f"no answer within {TIMEOUT_S:g} s")
        self._pending[self._last_id] = codec, answered, timer
        if self._transport is not None:
            self._transport.write(frame)
            return
        self._waiting += frame
        if self._connecting is None:
            self._connecting = self._loop.create_task(self._connect())

    async def _connect(self) -> None:
        try:
            await self._loop.create_unix_connection(lambda: self, self._path)
        except OSError as error:
            self._broken(str(error))
        finally:
            self._connecting = None

    def close(self) -> None:
        self._closed = True
        if self._connecting is not None:
            self._connecting.cancel()
        self._broken(None)

    def _broken(self, reason: str | None) -> None:
        """Begin anew with the next request; nobody waits for the old ones any more."""
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.abort()
        pending, self._pending = self._pending, {}
        self._waiting.clear()
        self._splitter = FrameSplitter(MAX_RESPONSE_BYTES)
        if pending and reason is not None:
            log.warning("another worker cannot be asked", other=self._worker, reason=reason, requests=len(pending))
        for _codec, answered, timer in pending.values():
            timer.cancel()
            answered(None)

    # What asyncio calls

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        transport.write(bytes(self._waiting))
        self._waiting.clear()

    def data_received(self, data: bytes) -> None:
        try:
            for buf, start, end in self._splitter.feed(data):
                self._response(buf, start, end)
        except DecodeError as error:
            self._broken(str(error))

    def connection_lost(self, exc: Exception | None) -> None:
        if self._transport is not None:
            self._broken("the connection was lost")

    def _response(self, buf: bytes, start: int, end: int) -> None:
        found = self._pending.pop(int.from_bytes(buf[start : start + 4], "big"), None)
        if found is None:
            return
        codec, answered, timer = found
        timer.cancel()
        # Workers run the same program: a header's tag buffer is empty.
        answered(codec.decode_response(buf, start + 4 + codec.response_header_flexible, end))
