"""The responses of one connection, in the order of its requests.

A response that waits for the log is held; every later response queues behind it. Responses that wait for nothing gather
in a buffer and are sent in one write: at the end of the connection's turn or, if the connection is not serving, at the
end of the event loop's turn (write_coalescer.py).

`stops` has the reasons why the connection must not serve its next request; 0 if there is none. `PARKED`: a request
waits for other members or for records. Kafka processes one request of a connection at a time; coordinatord does so if
the request waits for anything but the log. `LOG`: too many responses are held, or responses to requests with too many
bytes. `PEER`: the peer does not read. `SENDING`: a response is sent piece by piece, as the peer reads. `CLOSED`: the
connection is closed. `THROTTLED`: the client is over its quota. So a connection's memory is bounded by one frame of the
maximum size, one read, the held responses and the bytes of their requests, and the unsent bytes, plus one response or
request for each of the last three. A request without a response (acks=0) is held like the others, with a response of no
bytes.

Records of a fetch are not copied: `answer_in_parts` passes the buffer into which they were read to the transport, a
piece of it at a time if it is large. So the next fetch is read only when the number of unsent bytes of the last one is
known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any, Final, Protocol

from coordinatord.base.bounds.fair_shares import Shares
from coordinatord.base.observe.metrics import Metrics
from coordinatord.transport.net.received import Received
from coordinatord.transport.net.responses import AnswerTooLarge, encode_head, encode_in_parts, encode_response
from coordinatord.transport.net.write_coalescer import WriteCoalescer
from kafka_wire.message_parts import PIECE_BYTES, in_pieces
from kafka_wire.registry import Codec

PARKED: Final = 1
LOG: Final = 2
PEER: Final = 4
CLOSED: Final = 8
SENDING: Final = 16
THROTTLED: Final = 32
"""Reasons not to serve the next request: bits of `ResponseQueue.stops`."""

MAX_HELD: Final = 256
"""Limit of a connection's held responses before its next request is served: a disk may be slow."""

MAX_HELD_BYTES: Final = 64 * 1024
"""Limit of bytes of a connection's held responses: a fetch behind a commit may have a response of megabytes, and one
read may bring many fetches.
"""

MAX_LOGGED_BYTES: Final = 4 * 1024 * 1024
"""Limit of bytes of a connection's requests that wait for the log before its next request is served: four batches of a
producer with Kafka's settings. Their records occupy about as much memory in the log. Kafka serves one request at a
time.
"""

MAX_UNSENT_BYTES: Final = 64 * 1024
"""Limit of bytes of responses that a peer may leave unread, beyond those in its socket's buffer, before its next
request is served. Kafka sends one response at a time. A fetch of several megabytes is one response; but a thousand
small ones cost the event loop's transport ten times their size: with 1 MiB, 64 clients that never read took 1.2 GiB.
"""


WhenDurable = Callable[[int, Callable[[], object], Callable[[], object], bool], object]
"""(epoch, durable, failed, is_patient): calls `durable` once the flush epoch `epoch` is durable, at once if it already
is, or `failed` if the log fails first or, unless the response `is_patient`, takes longer than the store permits.
"""


class Intake(Protocol):
    """The other half of a connection: the requests received."""

    @property
    def waiting_count(self) -> int: ...

    @property
    def is_behind(self) -> bool: ...

    def has_room(self) -> None: ...

    def close(self) -> None: ...

    def failed(self, codec: Codec) -> None: ...

    def too_large(self, context: Received, reason: str) -> Callable[[], Any] | None: ...

    def unread_too_long(self) -> None: ...


class HeldAnswers:
    """Responses that are sent together, once their flush epoch (`epoch`) is durable.

    `data` holds their frames one after the other. `parts` has for each its end, its request, and the function that
    makes the replacement if the log fails: None if the response only queues behind others and does not depend on the
    log. `is_patient`: no time limit of the store applies to them, nor to the responses behind them.
    """

    __slots__ = ("began_s", "data", "epoch", "is_patient", "parts", "request_bytes")

    def __init__(self, epoch: int, began_s: float, is_patient: bool) -> None:
        self.epoch = epoch
        self.is_patient = is_patient
        self.began_s = began_s
        self.request_bytes = 0
        self.data = bytearray()
        self.parts: list[tuple[int, Received, Callable[[], Any] | None]] = []

    def failed(self, metrics: Metrics) -> bytearray:
        """Return the bytes to send if the log has failed."""
        out = bytearray()
        start = 0
        for stop, context, failure in self.parts:
            if failure is None:
                out += self.data[start:stop]
            else:
                encode_response(context, failure(), out, metrics)
            start = stop
        return out


class ResponseQueue:
    """The queue of one connection. The module's docstring explains it."""

    __slots__ = (
        "_gate", "_held_count", "_intake", "_is_due", "_logged_bytes", "_metrics", "_parked_s", "_transport",
        "_turn_end", "_unread", "_unsent_bytes", "held", "is_serving", "out", "parked", "stops", "unsent",
    )  # fmt: skip

    def __init__(
        self, intake: Intake, gate: WhenDurable, turn_end: WriteCoalescer, metrics: Metrics, unread: Shares
    ) -> None:
        self._intake = intake
        self._gate = gate
        self._turn_end = turn_end
        self._metrics = metrics
        self._unread = unread
        self._transport: Any = None
        self._held_count = 0
        self._logged_bytes = 0
        self._parked_s = 0.0
        self._is_due = False
        #: encoded responses that wait for nothing
        self.out = bytearray()
        # Lists: an empty deque takes 760 bytes, of each connection. A queue holds the responses of a few flushes.
        self.held: list[HeldAnswers] = []
        #: pieces of the response that is being sent, the next one last
        self.unsent: list[bytes | bytearray | memoryview] = []
        self._unsent_bytes = 0
        self.parked: Received | None = None
        #: the connection is serving requests: their responses are sent at the end of its turn
        self.is_serving = False
        self.stops = 0

    def opened(self, transport: Any) -> None:
        """Start to send answers to this transport."""
        self._transport = transport
        transport.set_write_buffer_limits(high=MAX_UNSENT_BYTES)

    def lost(self) -> None:
        """Drop all responses: the connection is lost."""
        self.stops |= CLOSED
        self.parked = None
        self.held.clear()
        self.unsent.clear()
        self._unsent_bytes = 0
        self._held_count = 0
        self._logged_bytes = 0

    @property
    def is_closed(self) -> bool:
        """Return whether the connection is closed: no more responses are sent."""
        return bool(self.stops & CLOSED)

    @property
    def held_count(self) -> int:
        """Return the number of responses that wait for the log, or behind one that does. Other threads may call
        this.
        """
        return self._held_count

    @property
    def is_awaited(self) -> bool:
        """Return whether the client waits for a response, so it is not idle."""
        return (self.parked is not None and not self.parked.done) or bool(self.held)

    @property
    def has_unsent(self) -> bool:
        """Return whether responses wait for the log, or for the peer to read."""
        return bool(
            self.held or self.out or self.unsent or (not self.is_closed and self._transport.get_write_buffer_size())
        )

    @property
    def room(self) -> int:
        """Return the limit of bytes of records in a response while other responses are unread. Records fill at most
        half of the budget of all connections, so that no other response has to be dropped for them.
        """
        unread = self._unread
        left = unread.most_bytes - unread.most_bytes // 2 - unread.bytes
        return left if left > 0 else 0

    # Responses

    def park(self, context: Received) -> None:
        """Serve no further request until the response to `context` is sent."""
        context.keep()
        self.parked = context
        self._parked_s = perf_counter()
        self.stops |= PARKED

    def answer(self, context: Received, response: Any) -> None:
        """Send a response, after those queued before it."""
        if not self._settle(context):
            return
        if self.held:
            self._hold(self.held[-1], context, response, None)
            return
        try:
            encode_response(context, response, self.out, self._metrics)
        except AnswerTooLarge as error:
            self._replace(context, error, self.out)
        if len(self.out) > MAX_UNSENT_BYTES:
            self.flush()  # updates `stops` if the peer does not read, before more responses are encoded
        elif not self.is_serving:
            self._flush_soon()

    def answer_parked(self, context: Received, response: Any, now_s: float) -> None:
        """Send the response to one of many requests that all end now, at `now_s`: with its own write if it is parked
        and the connection has nothing else to send. If it cannot be sent, the connection fails; the other requests
        are not affected.
        """
        try:
            if self.parked is not context or self.stops != PARKED or self.held or self.out or self._intake.is_behind:
                self.answer(context, response)
                return
            context.done = True
            self.parked = None
            self.stops = 0
            metrics = self._metrics
            metrics.request_seconds[context.codec.api_key].observe(now_s - self._parked_s)
            out = bytearray()
            try:
                encode_response(context, response, out, metrics)
            except AnswerTooLarge as error:
                self._replace(context, error, out)
            metrics.bytes_sent += len(out)
            self._transport.write(out)
        except Exception:
            self._intake.failed(context.codec)

    def answer_in_parts(self, context: Received, response: Any) -> None:
        """Send a response with records that are too large to be copied, after those queued before it."""
        if self.held:  # rarely happens with fetches: queue a copy
            self.answer(context, response)
        elif self._settle(context):
            parts = encode_in_parts(context, response, self._metrics)
            self.flush()
            self._metrics.bytes_sent += parts.size
            if parts.size <= PIECE_BYTES:
                self._transport.writelines(parts.in_order())
            else:
                self._send_as_read(list(in_pieces(parts.in_order())), parts.size)

    def answer_encoded(self, context: Received, pieces: list[bytes], size: int) -> None:
        """Send a body of `size` bytes that is encoded in pieces: one by one, as the peer reads."""
        if self.held:
            self.answer(context, b"".join(pieces))
        elif self._settle(context):
            head = bytearray()
            encode_head(context, size, head)
            self.flush()
            self._metrics.bytes_sent += len(head) + size
            self._send_as_read([head, *pieces], len(head) + size)

    def _send_as_read(self, pieces: Sequence[bytes | bytearray | memoryview], size: int) -> None:
        self.unsent = [*reversed(pieces), *self.unsent]
        self._unsent_bytes += size
        self.stops |= SENDING
        self.send_more()

    def send_more(self) -> None:
        """Send pieces of a response until the peer has to read."""
        unsent = self.unsent
        while unsent and not self.stops & (PEER | CLOSED):
            piece = unsent.pop()
            self._unsent_bytes -= len(piece)
            self._transport.write(piece)
        if not unsent and self.stops & SENDING:
            self.stops &= ~SENDING
            self._intake.has_room()

    def paused(self) -> None:
        """Count the unsent bytes among those of all connections: the peer does not read."""
        self.stops |= PEER
        self._unread.hold(self, self._transport.get_write_buffer_size() + self._unsent_bytes)

    def resumed(self) -> None:
        """Serve further requests: the peer has read nearly all that was written."""
        self.stops &= ~PEER
        self.send_more()
        if not self.stops & PEER:
            self._unread.hold(self, 0)

    def give_up(self) -> None:
        """Drop the responses: of all responses that peers do not read, this connection's are the largest
        (bounds.shares.Holder).
        """
        self._intake.unread_too_long()

    def answer_at(
        self,
        context: Received,
        epoch: int,
        response: Any,
        failure: Callable[[], Any] | None,
        is_patient: bool = False,
    ) -> None:
        """Send a response once the flush epoch `epoch` is durable, or the result of `failure` if the log fails, or is
        too slow for a response that is not patient.
        """
        if not self._settle(context):
            return
        line = self.held
        # A response queued behind one of a later flush epoch waits as long, and behind a patient one without a limit.
        # So flush epochs increase along the queue, and one call releases all responses of one flush epoch.
        if line:
            last = line[-1]
            if last.epoch >= epoch and (last.is_patient or not is_patient):
                self._hold(last, context, response, failure)
                return
            epoch, is_patient = max(epoch, last.epoch), is_patient or last.is_patient
        held = HeldAnswers(epoch, perf_counter(), is_patient)
        self._hold(held, context, response, failure)
        line.append(held)
        self._gate(epoch, self._durable, self._failed, is_patient)  # calls back at once if the log has failed already

    def finish_at(self, context: Received, epoch: int) -> None:
        """End a request that gets no response, and count it as waiting until the flush epoch `epoch` is durable."""
        self.answer_at(context, epoch, None, None)

    def finish(self, context: Received) -> None:
        """End a request that gets no response."""
        self._settle(context)

    def abandon(self, context: Received) -> None:
        """End a parked request that never gets a response, though its client waits. Later requests cannot get a
        response either: the client would take the next response for the awaited one. Kafka leaves such a connection
        mute until the client gives up; coordinatord closes it as soon as the client sends another request.
        """
        self._settle(context)
        if self._intake.waiting_count:
            self._intake.close()
        elif not self.is_closed:
            self.parked = context
            self.stops |= PARKED

    # Sending

    def flush(self) -> None:
        """Write all encoded responses to the transport at once."""
        self._is_due = False
        if self.out and not self.stops & CLOSED:
            out, self.out = self.out, bytearray()
            self._metrics.bytes_sent += len(out)
            self._transport.write(out)

    def _flush_soon(self) -> None:
        if not (self.is_serving or self._is_due or self.stops & CLOSED):
            self._is_due = True
            self._turn_end.flush_soon(self)

    def _hold(self, held: HeldAnswers, context: Received, response: Any, failure: Any) -> None:
        """Queue a response. `response` is None if the request gets none."""
        if response is not None:
            try:
                encode_response(context, response, held.data, self._metrics)
            except AnswerTooLarge as error:
                self._replace(context, error, held.data)
        held.parts.append((len(held.data), context, failure))
        _, start, end = context.where
        held.request_bytes += end - start
        self._logged_bytes += end - start
        self._held_count += 1
        if self._held_count >= MAX_HELD or self._logged_bytes > MAX_LOGGED_BYTES or len(held.data) > MAX_HELD_BYTES:
            self.stops |= LOG

    def _replace(self, context: Received, error: AnswerTooLarge, out: bytearray) -> None:
        """Append the response that replaces one that is too large, if there is one."""
        make = self._intake.too_large(context, str(error))
        if make is not None:
            encode_response(context, make(), out, self._metrics)

    def _settle(self, context: Received) -> bool:
        """Mark a request as ended. Returns False if the connection is closed."""
        assert not context.done, "a request is answered once"
        context.done = True
        if self.parked is context:
            self.parked = None
            self.stops &= ~PARKED
            self._metrics.request_seconds[context.codec.api_key].observe(perf_counter() - self._parked_s)
            self._intake.has_room()
        return not self.stops & CLOSED

    def _durable(self) -> None:
        """Send the first held responses, which are durable. The log becomes durable in the queue's order."""
        if not self.held:
            return  # the connection was lost meanwhile
        held = self._first_in_line()
        metrics = self._metrics
        metrics.event_purgatory_seconds.observe(perf_counter() - held.began_s, len(held.parts))
        if self.out or self.is_serving or self.stops & CLOSED:
            self.out += held.data
            self._flush_soon()
        elif held.data:  # one write: these responses need no buffer
            metrics.bytes_sent += len(held.data)
            self._transport.write(held.data)
        self._intake.has_room()

    def _failed(self) -> None:
        """Send the failures of the first held responses: the log has failed."""
        if self.held:
            self.out += self._first_in_line().failed(self._metrics)
            self._flush_soon()
            self._intake.has_room()

    def _first_in_line(self) -> HeldAnswers:
        held = self.held.pop(0)
        self._held_count -= len(held.parts)
        self._logged_bytes -= held.request_bytes
        if self.stops & LOG:
            is_full = self._held_count >= MAX_HELD or self._logged_bytes > MAX_LOGGED_BYTES
            if not is_full and not any(len(other.data) > MAX_HELD_BYTES for other in self.held):
                self.stops &= ~LOG
        return held
