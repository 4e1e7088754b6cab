"""A client's connection: receives bytes, serves requests in order, and bounds what it takes in.

Order. Requests are served in the order received. A request that waits for other members (join, sync) or for records
(fetch) is parked, and later requests wait undecoded. A response that waits only for the log does not delay later
requests, since their records follow in the log; their responses queue behind it (response_queue.py).

Back-pressure. The connection stops reading while more than `MAX_WAITING_BYTES` wait behind a parked request or a full
response queue, while the peer leaves responses unread (asyncio's `pause_writing`), and while the client is throttled.

Turns. One read may bring thousands of requests: after `TURN_REQUESTS` or `TURN_BYTES` of them, or when a slice has
passed, other connections get their turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from coordinatord.base.budget import SLICE_S
from coordinatord.transport.net.limits import (
    COUNTED_BYTES,
    MAX_INCOMPLETE_BYTES,
    MAX_LIST_BYTES,
    MAX_UNREAD_BYTES,
    limit_of,
)
from coordinatord.transport.net.received import NO_BODY, Received
from coordinatord.transport.net.response_queue import CLOSED, PEER, THROTTLED, ResponseQueue
from coordinatord.transport.net.server_context import ServerContext
from coordinatord.transport.net.wrong_protocol import stranger
from coordinatord.transport.security.principal import ANONYMOUS
from kafka_wire.errors import DecodeError, ErrorCode
from kafka_wire.framing import Frames, FrameSplitter
from kafka_wire.registry import Codec

MAX_WAITING_BYTES: Final = 64 * 1024
"""Maximum bytes that may wait behind a parked request before reading stops. A client that waits for its JoinGroup
response sends nothing; 64 KiB is one read of the event loop.
"""

TURN_REQUESTS: Final = 64
"""Maximum number of requests that one connection serves per turn of the event loop. One read brings thousands of small
requests. Without the limit, 64 clients that sent as fast as they could caused turns of seconds, with all their requests
in memory.
"""

TURN_BYTES: Final = 32 * 1024
"""Maximum bytes of requests that one connection serves per turn, but at least one request: lists of names take some 8
ms (limits.LARGE_BYTES).
"""

TURN_ANSWER_BYTES: Final = 16 * 1024
"""Maximum bytes of responses that one connection produces per turn: small requests may have large responses."""


class Connection(asyncio.Protocol):
    """The asyncio protocol of one client. The router and the handlers interpret its requests."""

    __slots__ = ("_alarm", "_frames", "_is_counted", "_is_paused", "_resume_due", "_splitter", "_transport",
                 "_waiting_bytes", "client_host", "client_id", "client_id_bytes", "closed_for", "door", "identity",
                 "last_active_ms", "line", "listener", "on_lost", "peer", "principal", "session")  # fmt: skip

    def __init__(self, door: ServerContext, listener: str) -> None:
        self.door = door
        self.listener = listener
        self.line = ResponseQueue(self, door.hold, door.turn_end, door.metrics, door.unread)
        self.closed_for = "peer"
        self.client_id: str | None = None
        self.client_id_bytes: bytes = b""
        self.last_active_ms = 0
        self.peer = ""
        self.client_host = ""
        #: the principal that the client has authenticated as
        self.principal = ANONYMOUS
        #: one object per pair of principal and address; None without an authorizer, and until the first check of a
        #: request
        self.identity: Any = None
        #: the state of a SASL listener for this client (sasl_gate.py)
        self.session: Any = None
        #: called when the connection ends: it ends the member's share session
        self.on_lost: Callable[[], object] | None = None
        self._splitter = FrameSplitter(door.max_frame_bytes)
        self._transport: Any = None
        #: received requests that are not served yet, and the bytes of the requests that must wait
        self._frames: Frames = []
        self._waiting_bytes = 0
        self._is_paused = False
        #: true if an incomplete request is counted among those of all connections
        self._is_counted = False
        self._resume_due = False
        #: the timer that ends the time for which the client is throttled
        self._alarm: Any = None

    # Called by asyncio

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        peer = transport.get_extra_info("peername") or ("unknown", 0)
        self.peer = f"{peer[0]}:{peer[1]}"
        self.client_host = f"/{peer[0]}"
        self.line.opened(transport)
        door = self.door
        door.connections.connected(self)
        if door.admit is not None:
            door.admit(self, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self.line.lost()
        self._frames.clear()
        self.door.incomplete.hold(self, 0)
        # only here: before, the transport may keep data that the peer does not read
        self.door.unread.hold(self.line, 0)
        if self._alarm is not None:
            self._alarm.cancel()
        self.door.connections.disconnected(self)
        on_lost, self.on_lost = self.on_lost, None
        if on_lost is not None:
            on_lost()

    def data_received(self, data: bytes) -> None:
        line, door = self.line, self.door
        if line.stops & CLOSED:
            return
        self.last_active_ms = door.now_ms()
        door.metrics.bytes_received += len(data)
        try:
            frames = self._splitter.feed(data)
        except DecodeError as error:
            self._refuse_frame(str(error))
            return
        held_bytes = self._splitter.held_bytes
        if (held_bytes > COUNTED_BYTES or self._is_counted) and not self._may_hold(held_bytes):
            return
        if self._frames or line.stops:
            self._wait(frames, len(data))
        elif frames:
            self._frames = frames
            self._serve()

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self.line.paused()
        self._throttle()

    def resume_writing(self) -> None:
        self.line.resumed()
        self._resume_soon()

    # Called by other modules

    def pass_through(self, door: ServerContext) -> None:
        """Serve later requests with the context `door`: after authentication, a client may send more APIs."""
        self.door = door
        self._splitter.max_frame_bytes = door.max_frame_bytes

    def mute(self, alarm: Any) -> None:
        """Stop serving and reading until `unmute`, which `alarm` is to call."""
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm = alarm
        self.line.stops |= THROTTLED
        self._throttle()

    def unmute(self) -> None:
        """Resume serving and reading when the throttle time is over."""
        self._alarm = None
        self.line.stops &= ~THROTTLED
        self.has_room()

    @property
    def closed(self) -> bool:
        """True if no more responses can be sent."""
        return self.line.is_closed

    @property
    def waiting_count(self) -> int:
        """Number of requests received and not yet served."""
        return len(self._frames)

    @property
    def is_behind(self) -> bool:
        """True if requests wait to be served, or reading is paused."""
        return bool(self._frames) or self._is_paused

    def has_room(self) -> None:
        """Resume if requests wait or reading is paused: the reason of the wait may have ended."""
        if self._frames or self._is_paused:
            self._resume_soon()

    def refuse(self, kind: str, reason: str, **what: Any) -> None:
        """Close the connection because of what the peer sent. Writes one log line; other connections are unaffected."""
        if not self.line.is_closed:
            self.door.connections.refused(self, kind, reason, **what)
            self.closed_for = "malformed"
            self.close()

    def failed(self, codec: Codec) -> None:
        """Handle an internal exception that prevents the response to a request of this API."""
        self.door.router.failed(self, codec)

    def too_large(self, context: Received, reason: str) -> Callable[[], Any] | None:
        """Return a function that makes the response that replaces one that is too large; None if there is no such
        response, and the connection is closed. Writes one log line, with the reason.
        """
        refusal, codec = self.door.refusal, context.codec
        if refusal is None or context.where is NO_BODY:
            self.refuse("oversized", reason, api=codec.name, version=codec.api_version)
            return None
        self.door.connections.oversized(self, reason, codec)
        body, context.where = context.where, NO_BODY  # if the error is too large, too, the connection is closed
        return lambda: refusal(codec.decode_request(*body), codec.api_version, ErrorCode.UNKNOWN_SERVER_ERROR)

    def unread_too_long(self) -> None:
        """Close the connection of a peer that does not read: see ResponseQueue.give_up. Written data is dropped:
        closing alone would wait until the peer has read it.
        """
        self.refuse("unread", f"answers of all clients have more than {MAX_UNREAD_BYTES} bytes, and this one's most")
        self._transport.abort()

    def give_up(self) -> None:
        """Close the connection: its incomplete request is the largest of all (bounds.shares.Holder)."""
        reason = f"incomplete requests of all clients have more than {MAX_INCOMPLETE_BYTES} bytes, and this one most"
        self._splitter = FrameSplitter(self.door.max_frame_bytes)
        self.refuse("incomplete", reason)

    def close(self) -> None:
        """Send the encoded responses and close."""
        self.line.flush()
        self.line.lost()
        self._frames.clear()
        if self._transport is not None:
            self._transport.close()

    def _refuse_frame(self, reason: str) -> None:
        """Close the connection after a frame of an impossible size: the peer may be no Kafka client."""
        who = stranger(self._splitter.refused)
        if who is None:
            self.refuse("oversized", reason)
        else:
            self.refuse(who.kind, who.reason, listener=self.listener, advice=who.advice)

    def _may_hold(self, held_bytes: int) -> bool:
        """Count the bytes of an incomplete request that have arrived. Returns whether the connection stays open."""
        if held_bytes > MAX_LIST_BYTES and not self._may_be_large():
            return False
        self._is_counted = held_bytes > COUNTED_BYTES
        self.door.incomplete.hold(self, held_bytes if self._is_counted else 0)
        return not self.line.is_closed

    def _may_be_large(self) -> bool:
        """Return whether the API of the incomplete frame may have requests of its size; otherwise close the connection
        before the frame is buffered.
        """
        begun = self._splitter.begun
        limit = limit_of(int.from_bytes(begun[4:6], "big"))
        if self._splitter.held_bytes > limit:
            self.refuse("oversized", f"a request of this kind may have {limit} bytes", api_key=begun[4:6].hex())
            return False
        return True

    # Turns and back-pressure

    def _serve(self) -> None:
        """Serve up to `TURN_REQUESTS` received requests in one turn. Their responses are sent together."""
        frames, line, serve, clock = self._frames, self.line, self.door.router.serve, self.door.clock
        began_s = clock()
        stop = len(frames) if len(frames) == 1 else _turn_of(frames)
        served = 0
        line.is_serving = True
        while served < stop and not line.stops and len(line.out) < TURN_ANSWER_BYTES:
            served += serve(self, frames, served, stop)
            if served < stop and clock() - began_s >= SLICE_S:
                break
        line.is_serving = False
        if line.out:
            line.flush()
        took_s = clock() - began_s
        longest = self.door.metrics.longest_turn
        if took_s > longest.seconds:
            longest.seconds = took_s
        self._frames = left = frames[served:]
        if not left:
            self._waiting_bytes = 0
            return
        if self._waiting_bytes > 0:
            self._waiting_bytes -= _size_of(frames[:served])
        else:
            self._waiting_bytes = _size_of(left)
        self._throttle()
        if not line.stops:
            self._resume_soon()

    def _wait(self, frames: Frames, size: int) -> None:
        """Queue requests that arrived after others; `size` is their bytes."""
        parked = self.line.parked
        if parked is not None and parked.done:
            self.close()  # see ResponseQueue.abandon
            return
        self._frames.extend(frames)
        self._waiting_bytes += size
        self._throttle()

    def _throttle(self) -> None:
        if not self._is_paused and (self.line.stops & (PEER | THROTTLED) or self._waiting_bytes > MAX_WAITING_BYTES):
            self._is_paused = True
            self._transport.pause_reading()

    def _resume_soon(self) -> None:
        if not self._resume_due:
            self._resume_due = True
            self.door.connections.resuming += 1
            self.door.call_soon(self._resume)

    def _resume(self) -> None:
        """Continue after a wait for a parked request, the peer, the log, or other connections."""
        self._resume_due = False
        self.door.connections.resuming -= 1
        if self.line.stops:
            return
        self.last_active_ms = self.door.now_ms()  # idle time starts when waiting requests are served, as in Kafka
        if self._frames:
            self._serve()
        if not self._frames:
            self._waiting_bytes = 0
            if self._is_paused and not self.line.stops:
                self._is_paused = False
                self._transport.resume_reading()


def _turn_of(frames: Frames) -> int:
    """Return how many of these requests one turn serves."""
    stop = min(len(frames), TURN_REQUESTS)
    size = 0
    for count in range(stop):
        _, start, end = frames[count]
        size += end - start
        if size > TURN_BYTES:
            return max(1, count)
    return stop


def _size_of(frames: Frames) -> int:
    return sum([end - start for _, start, end in frames])
