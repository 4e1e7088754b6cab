"""Requests from one worker to another, in Kafka's protocol over a Unix socket. The receiving worker dispatches them to
the same handlers as clients' requests. Nodes of several machines send each other requests at the addresses that clients
use.

There is one connection to each other worker, opened at first use and reopened at the next use after it breaks. If the
connection breaks, or after `TIMEOUT_S`, the callback of a pending request receives None: the request may or may not
have been executed, and the caller retries. While a worker restarts, its socket accepts connections before the worker
reads from them (the supervisor holds the socket), so a request waits for a moment, as clients' requests do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from coordinatord.base.observe.logger import get_logger
from coordinatord.transport.cluster.partition_slots import SeatedNodes
from kafka_wire.client import codec_of, request_frame, response_of
from kafka_wire.errors import DecodeError
from kafka_wire.framing import FrameSplitter
from kafka_wire.registry import Codec

LISTENER = "workers"
"""The listener name of requests from other workers. The sending worker has checked the client on whose behalf it sends
the request. Names of configured listeners are in upper case (config.address): none of them equals this name, so no
client can bypass ACLs and quotas through it.
"""

TIMEOUT_S = 10.0
"""Timeout of a request in seconds, longer than a start with little to recover."""

MAX_PENDING = 10_000
"""Maximum number of pending requests to one worker. Clients' own limits keep the number far below."""

MAX_RESPONSE_BYTES = 16 * 1024 * 1024

Answered = Callable[[Any], object]

log = get_logger("coordinatord.server.workers")


class Peers:
    """Connections to the other workers. `paths` has every worker's socket; the socket of this worker is not used."""

    def __init__(self, paths: Sequence[str], loop: asyncio.AbstractEventLoop) -> None:
        self._peers = [_Peer(worker, path, loop) for worker, path in enumerate(paths)]

    def ask(self, worker: int, api_version: int, request: Any, answered: Answered) -> None:
        """Send a request to a worker; `answered` is called with the response or None, always asynchronously."""
        self._peers[worker].ask(request, api_version, answered)

    def close(self) -> None:
        """Stop sending; callbacks of pending requests receive None."""
        for peer in self._peers:
            peer.close()


class SeatPeers:
    """Connections to the nodes that hold the other seats, at their addresses for clients of `listener`."""

    def __init__(self, nodes: SeatedNodes, listener: str, loop: asyncio.AbstractEventLoop) -> None:
        self.may_ask: Callable[[], bool] = lambda: True
        """A function that returns whether this node still leads: a node that is not must not send its coordinators'
        decisions to others.
        """
        self._loop = loop
        self._peers = [_RemotePeer(seat, nodes, listener, loop) for seat in range(nodes.workers)]

    def ask(self, worker: int, api_version: int, request: Any, answered: Answered) -> None:
        """Send a request to the node that holds the seat `worker`; `answered` is called with the response or None,
        always asynchronously.
        """
        if not self.may_ask():
            self._loop.call_soon(answered, None)
            return
        self._peers[worker].ask(request, api_version, answered)

    def close(self) -> None:
        """Stop sending; callbacks of pending requests receive None."""
        for peer in self._peers:
            peer.close()


class _Peer(asyncio.Protocol):
    """The connection to one worker, if open, and its pending requests."""

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

    def ask(self, request: Any, api_version: int, answered: Answered) -> None:
        if self._closed or len(self._pending) >= MAX_PENDING:
            self._loop.call_soon(answered, None)
            return
        self._last_id = self._last_id + 1 & 0x7FFF_FFFF
        frame = request_frame(request, api_version, self._last_id, None)
        timer = self._loop.call_later(TIMEOUT_S, self._broken, f"no answer within {TIMEOUT_S:g} s")
        self._pending[self._last_id] = codec_of(request, api_version), answered, timer
        if self._transport is not None:
            self._transport.write(frame)
            return
        self._waiting += frame
        if self._connecting is None:
            self._connecting = self._loop.create_task(self._connect())

    async def _connect(self) -> None:
        try:
            await self._dial()
        except OSError as error:
            self._broken(str(error))
        finally:
            if self._connecting is asyncio.current_task():  # not when another connection attempt has replaced this one
                self._connecting = None

    async def _dial(self) -> None:
        await self._loop.create_unix_connection(lambda: self, self._path)

    def close(self) -> None:
        self._closed = True
        if self._connecting is not None:
            self._connecting.cancel()
        self._broken(None)

    def _broken(self, reason: str | None) -> None:
        """Drop the connection and call the callbacks of pending requests with None; the next request reconnects."""
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.abort()
        pending, self._pending = self._pending, {}
        self._waiting.clear()
        self._splitter = FrameSplitter(MAX_RESPONSE_BYTES)
        if pending and reason is not None:
            log.warning("another worker does not answer", other=self._worker, reason=reason, requests=len(pending))
        for _codec, answered, timer in pending.values():
            timer.cancel()
            answered(None)

    # Called by asyncio

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
        answered(response_of(codec, buf, start, end))


class _RemotePeer(_Peer):
    """The connection to the node that holds a seat. When another node takes the seat, the connection is replaced."""

    def __init__(self, seat: int, nodes: SeatedNodes, listener: str, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(seat, "", loop)
        self._nodes = nodes
        self._listener = listener
        self._address: tuple[str, int] | None = None

    def ask(self, request: Any, api_version: int, answered: Answered) -> None:
        address = self._nodes.address(self._worker, self._listener)
        if address != self._address:
            if self._connecting is not None:
                self._connecting.cancel()
                self._connecting = None
            self._broken("another node leads there")
            self._address = address
        if address is None:
            self._loop.call_soon(answered, None)
            return
        super().ask(request, api_version, answered)

    async def _dial(self) -> None:
        assert self._address is not None, "a peer without an address is not dialled"
        await self._loop.create_connection(lambda: self, *self._address)
