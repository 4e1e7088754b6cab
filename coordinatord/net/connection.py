"""A client's connection: bytes in, requests in order, responses in the same order, and no more than it can carry.

Order. Kafka processes one request of a connection at a time. We do the same for requests that wait for other members
(join, sync, fetch): while one is parked, what follows waits undecoded. A response that waits only for the log does not
hold up the requests behind it, since whatever they do comes after it in the log as well; their responses queue behind.
What was parked stays so until then (parked.py).

Back-pressure is by not reading: while a request is parked and more than `MAX_WAITING_BYTES` have come after it, and
while the peer leaves more than `MAX_UNSENT_BYTES` of its responses unread (asyncio's `pause_writing`), and while
`MAX_HELD` or `MAX_HELD_BYTES` of them wait for the log. So a connection's memory is bounded by one frame of the maximum
size, what one read brings, the held responses, and the unsent bytes, plus one response for each of the two.

Records of a fetch are not copied: `answer_in_parts` hands the transport the buffer that they were read into, at once.
So what the peer does not take of one fetch is known before the next one is read.

Turns. A read may bring thousands of requests: after `TURN_REQUESTS` of them it is the other connections' turn.
"""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING, Any

from coordinatord.net.request import RequestContext
from kafka_wire.errors import DecodeError
from kafka_wire.framing import FrameSplitter
from kafka_wire.parts import Parts

if TYPE_CHECKING:
    from coordinatord.net.router import Router
    from coordinatord.shortcuts.seats import Seat

MAX_WAITING_BYTES = 64 * 1024
"""Bytes that may wait behind a parked request before the connection is no longer read. A client that waits for its
join has nothing to say; 64 KiB is one read of the event loop."""

TURN_REQUESTS = 64
"""Requests of one connection in one turn of the event loop: then others get theirs. A read brings thousands of small
ones, and 64 clients that sent as much as they could made turns of seconds, with all their requests in memory."""

MAX_HELD = 256
"""Answers of one connection that wait for the log before its next request is looked at: a disk may take its time."""

MAX_HELD_BYTES = 64 * 1024
"""The same in bytes: a fetch behind a commit may be answered with megabytes, and one read brings many of them."""

MAX_UNSENT_BYTES = 64 * 1024
"""Bytes of responses that a peer may leave unread, beyond what its socket takes, before its next request is looked at.
Kafka sends one response at a time. A fetch of several megabytes is one response; but a thousand small ones cost the
event loop's transport ten times their size: with 1 MiB, 64 clients that never read were given 1.2 GiB."""

_frame_head = struct.Struct(">ii").pack
"""A response frame's first eight bytes: its size, which is what follows, and its correlation id."""
_pack_size = struct.Struct(">i").pack_into


class _Held:
    """Responses in line that leave together: when the log's `epoch` is durable.

    They lie one after the other in `data`. `parts` says where each ends, whose it is, and what is sent instead if the
    log fails: None for one that does not depend on it and is only behind others that do.
    """

    __slots__ = ("began_s", "data", "epoch", "parts")

    def __init__(self, epoch: int, began_s: float) -> None:
        self.epoch = epoch
        self.began_s = began_s
        self.data = bytearray()
        self.parts: list[tuple[int, RequestContext, Callable[[], Any] | None]] = []

    def add(self, context: RequestContext, response: Any, failure: Callable[[], Any] | None) -> bool:
        """Whether it has become more than may wait."""
        encode_response(context, response, self.data)
        size = len(self.data)
        self.parts.append((size, context, failure))
        return size > MAX_HELD_BYTES

    def failed(self) -> bytearray:
        """What leaves when the log has failed."""
        out = bytearray()
        start = 0
        for stop, context, failure in self.parts:
            if failure is None:
                out += self.data[start:stop]
            else:
                encode_response(context, failure(), out)
            start = stop
        return out


def encode_response(context: RequestContext, response: Any, out: bytearray) -> None:
    """Append a whole response frame: size, header, body. A response that is bytes is its body, without an error."""
    codec = context.codec
    if type(response) is bytes:
        if codec.response_header_flexible:
            out += _frame_head(5 + len(response), context.correlation_id) + b"\0" + response
        else:
            out += _frame_head(4 + len(response), context.correlation_id) + response
        return
    start = len(out)
    error_code = getattr(response, "error_code", 0)
    if error_code:
        context.connection.router.metrics.error(codec.api_key, error_code)
    out += _frame_head(0, context.correlation_id)
    if codec.response_header_flexible:
        out.append(0)
    try:
        codec.encode_response(response, out)
    except Exception:
        del out[start:]  # what is before it is whole, and leaves
        raise
    _pack_size(out, start, len(out) - start - 4)


def encode_in_parts(context: RequestContext, response: Any) -> Parts:
    """The same frame with its records left where they are."""
    out = Parts()
    encode_response(context, response, out)
    _pack_size(out, 0, out.size - 4)
    return out


class Connection(asyncio.Protocol):
    """The asyncio protocol of one client. All the rules are in `Router` and behind it."""

    __slots__ = (
        "_dirty",
        "_dispatching",
        "_line_is_full",
        "_out",
        "_parked",
        "_parked_s",
        "_paused_by_peer",
        "_paused_reading",
        "_resume_due",
        "_splitter",
        "_transport",
        "_waiting",
        "_waiting_bytes",
        "client_host",
        "client_id",
        "client_id_bytes",
        "closed",
        "closed_for",
        "held",
        "last_active_ms",
        "listener",
        "peer",
        "router",
        "seat",
    )

    def __init__(self, router: Router, listener: str) -> None:
        self.router = router
        self.listener = listener
        self.closed_for = "peer"
        self.client_id: str | None = None
        self.client_id_bytes: bytes = b""
        self.closed = False
        self.last_active_ms = 0
        self.peer = ""
        self.client_host = ""
        #: the member that rejoins on this connection (handlers/seats.py)
        self.seat: Seat | None = None
        self._splitter = FrameSplitter(router.max_frame_bytes)
        self._transport: Any = None
        self._out = bytearray()
        self.held: deque[_Held] = deque()
        self._parked: RequestContext | None = None
        self._parked_s = 0.0
        self._waiting: deque[tuple[bytes, int, int]] = deque()
        self._waiting_bytes = 0
        self._dispatching = False
        self._line_is_full = False
        self._dirty = False
        self._paused_by_peer = False
        self._paused_reading = False
        self._resume_due = False

    # What asyncio calls

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        peer = transport.get_extra_info("peername") or ("unknown", 0)
        self.peer = f"{peer[0]}:{peer[1]}"
        self.client_host = f"/{peer[0]}"
        transport.set_write_buffer_limits(high=MAX_UNSENT_BYTES)
        self.router.connected(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        self._parked = None
        self.seat = None
        self._waiting.clear()
        self.held.clear()
        self.router.disconnected(self)

    def data_received(self, data: bytes) -> None:
        was_closed = self.closed  # of the attribute mypy would believe for good that it is not
        if was_closed:
            return
        self.last_active_ms = self.router.now_ms()
        self.router.metrics.bytes_received += len(data)
        try:
            frames = self._splitter.feed(data)
        except DecodeError as error:
            self.refuse("oversized", str(error))
            return
        if self._waiting or self._is_blocked:
            if self._parked is not None and self._parked.done:
                self.close()  # see abandon
                return
            self._waiting.extend(frames)
            self._waiting_bytes += len(data)
            self._throttle()
            return
        if len(frames) > TURN_REQUESTS:
            self._wait(frames[TURN_REQUESTS:])
            del frames[TURN_REQUESTS:]
        self._dispatching = True
        if frames and not self.held:
            del frames[: self.router.again(self, frames)]
        dispatch = self.router.dispatch
        for index, (buf, start, end) in enumerate(frames):
            dispatch(self, buf, start, end)
            if self.closed:
                break
            if self._parked is not None or self._paused_by_peer or self._line_is_full:
                if index + 1 < len(frames):
                    self._waiting.extendleft(reversed(frames[index + 1 :]))
                    self._waiting_bytes += sum(stop - begin for _, begin, stop in frames[index + 1 :])
                break
        self._dispatching = False
        if self._out:
            self.flush()

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self._paused_by_peer = True
        self._throttle()

    def resume_writing(self) -> None:
        self._paused_by_peer = False
        self._resume_soon()

    # What the router and the contexts call

    @property
    def waiting_count(self) -> int:
        """Requests received and not yet looked at."""
        return len(self._waiting)

    @property
    def held_count(self) -> int:
        """Answers that wait for the log, or behind one that does."""
        return sum(len(held.parts) for held in list(self.held))

    @property
    def is_parked(self) -> bool:
        """A request waits for something to happen."""
        return self._parked is not None

    @property
    def is_waiting(self) -> bool:
        """The client waits for an answer of ours: its silence is our doing."""
        return (self._parked is not None and not self._parked.done) or bool(self.held)

    @property
    def has_unsent(self) -> bool:
        """Answers are held for the log, or wait for the peer to read them."""
        return bool(self.held or self._out or (not self.closed and self._transport.get_write_buffer_size()))

    def park(self, context: RequestContext) -> None:
        """Hold back what comes after `context` until it is answered."""
        context.keep()
        self._parked = context
        self._parked_s = perf_counter()

    def answer(self, context: RequestContext, response: Any) -> None:
        """Send a response, after those that are before it in line."""
        if not self._settle(context):
            return
        if self.held:
            if self.held[-1].add(context, response, None):
                self._line_is_full = True
            return
        encode_response(context, response, self._out)
        if len(self._out) > MAX_UNSENT_BYTES:
            self.flush()  # whether the peer takes it is known before more is made
        elif not self._dispatching:
            self._flush_soon()

    def answer_parked(self, context: RequestContext, response: Any, now_s: float) -> None:
        """`answer`, for one of many requests that were parked and are answered at `now_s`: in a write of its own, since
        nothing else of this connection is on its way.
        """
        if (
            self._parked is not context
            or self._waiting
            or self._paused_reading
            or self.held
            or self._out
            or self.closed
        ):
            self.answer(context, response)
            return
        context.done = True
        self._parked = None
        metrics = self.router.metrics
        metrics.request_seconds[context.codec.api_key].observe(now_s - self._parked_s)
        out = bytearray()
        encode_response(context, response, out)
        metrics.bytes_sent += len(out)
        self._transport.write(out)

    def answer_in_parts(self, context: RequestContext, response: Any) -> None:
        """`answer`, for a response with records that are too large to be copied."""
        if self.held:  # a rare neighbour of fetches: wait in line with a copy
            self.answer(context, response)
        elif self._settle(context):
            parts = encode_in_parts(context, response)
            self.flush()
            self.router.sent(parts.size)
            self._transport.writelines(parts.in_order())

    def answer_at_once(self, answers: bytes | bytearray) -> None:
        """Send prebuilt responses of requests that are being dispatched, and that nothing is in line before."""
        self._out += answers

    def answer_at(self, context: RequestContext, epoch: int, response: Any, failure: Callable[[], Any]) -> None:
        """Send a response once the log's `epoch` is durable, or what `failure` makes if the log fails."""
        if not self._settle(context):
            return
        line = self.held
        # Behind an answer that waits for more, this one waits as long. So epochs rise along the line, and all that
        # wait for one epoch are released by one call.
        if line and line[-1].epoch >= epoch:
            if line[-1].add(context, response, failure):
                self._line_is_full = True
            return
        held = _Held(epoch, perf_counter())
        if held.add(context, response, failure):
            self._line_is_full = True
        line.append(held)
        self.router.hold(epoch, self._durable, self._failed)  # at once, where the log has failed already

    def finish(self, context: RequestContext) -> None:
        """Let go of a request that gets no response."""
        self._settle(context)

    def abandon(self, context: RequestContext) -> None:
        """Let go of a parked request that is never answered, though its client waits. Whatever came behind it cannot be
        answered either: clients take the next answer for the one that they wait for. Kafka leaves such a connection
        mute until the client gives up; we hang up as soon as it has something else to say.
        """
        self._settle(context)
        if self._waiting:
            self.close()
        elif not self.closed:
            self._parked = context

    def refuse(self, kind: str, reason: str, **what: Any) -> None:
        """Close the connection because of what the peer sent: one log line, and nobody else notices."""
        if not self.closed:
            self.router.refused(self, kind, reason, **what)
            self.closed_for = "malformed"
            self.close()

    def close(self) -> None:
        """Send what is ready and close."""
        if self._out:
            self.flush()
        self.closed = True
        self._waiting.clear()
        if self._transport is not None:
            self._transport.close()

    def flush(self) -> None:
        """Hand all encoded responses to the transport, in one write."""
        self._dirty = False
        if self._out and not self.closed:
            out, self._out = self._out, bytearray()
            self.router.metrics.bytes_sent += len(out)
            self._transport.write(out)

    # Order and back-pressure

    def _settle(self, context: RequestContext) -> bool:
        """Mark a request as ended. False when there is nobody to answer."""
        assert not context.done, "a request is answered once"
        context.done = True
        if self._parked is context:
            self._parked = None
            self.router.metrics.request_seconds[context.codec.api_key].observe(perf_counter() - self._parked_s)
            if self._waiting or self._paused_reading:
                self._resume_soon()
        return not self.closed

    def _durable(self) -> None:
        """The log has flushed what the first in line waits for; all of the line are told, in their order."""
        if not self.held:
            return  # the connection was lost meanwhile
        held = self._first_in_line()
        metrics = self.router.metrics
        metrics.event_purgatory_seconds.observe(perf_counter() - held.began_s, len(held.parts))
        if self._out or self._dispatching or self.closed:
            self._out += held.data
            self._flush_soon()
        else:  # nothing goes with it: what is released is what all that asked in a turn have waited for
            metrics.bytes_sent += len(held.data)
            self._transport.write(held.data)
        if self._waiting or self._paused_reading:
            self._resume_soon()

    def _failed(self) -> None:
        """The log has failed before."""
        if self.held:
            self._out += self._first_in_line().failed()
            self._flush_soon()
            if self._waiting or self._paused_reading:
                self._resume_soon()

    def _first_in_line(self) -> _Held:
        held = self.held.popleft()
        if self._line_is_full:
            self._line_is_full = any(len(other.data) > MAX_HELD_BYTES for other in self.held)
        return held

    def _flush_soon(self) -> None:
        """What is answered outside of `data_received` goes out at the end of the event loop's turn."""
        if not (self._dispatching or self._dirty or self.closed):
            self._dirty = True
            self.router.flush_soon(self)

    @property
    def _is_blocked(self) -> bool:
        """The next request has to wait: for an answer before it, for the peer to read, or for the log."""
        if self._parked is not None or self._paused_by_peer or self._line_is_full:
            return True
        return bool(self.held) and self.held_count >= MAX_HELD

    def _wait(self, frames: list[tuple[bytes, int, int]]) -> None:
        """Leave requests for the next turn."""
        self._waiting.extend(frames)
        self._waiting_bytes += sum(end - start for _, start, end in frames)
        self._throttle()
        self._resume_soon()

    def _throttle(self) -> None:
        if not self._paused_reading and (self._paused_by_peer or self._waiting_bytes > MAX_WAITING_BYTES):
            self._paused_reading = True
            self._transport.pause_reading()

    def _resume_soon(self) -> None:
        if not self._resume_due:
            self._resume_due = True
            self.router.call_soon(self._resume)

    def _resume(self) -> None:
        """Go on with what has waited: behind a parked request, a peer that did not read, the log, or other clients."""
        self._resume_due = False
        must_wait = self.closed or self._is_blocked
        if must_wait:
            return
        self.last_active_ms = self.router.now_ms()  # requests that have waited count from now on, as in Kafka
        waiting = self._waiting
        self._dispatching = True
        left = TURN_REQUESTS
        while (
            waiting
            and left
            and self._parked is None
            and not (self._paused_by_peer or self._line_is_full or self.closed)
        ):
            buf, start, end = waiting.popleft()
            self._waiting_bytes -= end - start
            self.router.dispatch(self, buf, start, end)
            left -= 1
        self._dispatching = False
        if self._out:
            self.flush()
        if self.closed:
            return
        if waiting:
            if not self._is_blocked:
                self._resume_soon()
            return
        self._waiting_bytes = 0
        if self._paused_reading and not self._is_blocked:
            self._paused_reading = False
            self._transport.resume_reading()
