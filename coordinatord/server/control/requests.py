"""A replacement of the router that applies faults to requests and keeps the last requests of each client.

All requests pass through it, also those that a shortcut would serve. While there are faults, it passes requests on one
by one, so that a shortcut cannot serve those behind the first.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from coordinatord.broker.log.errors import LogError
from coordinatord.server.control.change_notifier import Changes
from coordinatord.server.control.faults import Fault, Faults, Kind
from coordinatord.server.control.node import Node
from coordinatord.server.control.null_transport import Nowhere, mute
from coordinatord.transport.net.connection import Connection
from coordinatord.transport.net.cooperative_tasks import CooperativeTask
from coordinatord.transport.net.request import RequestContext
from coordinatord.transport.net.server_context import Serving
from kafka_wire.api_key import ApiKey
from kafka_wire.errors import DecodeError
from kafka_wire.framing import Frames
from kafka_wire.headers import read_request_header
from kafka_wire.registry import CODECS, Codec, error_response

LAST = 12
"""Number of requests kept per client."""

MAX_CLIENTS = 200
"""Number of clients whose requests are kept."""

HEAD_BYTES = 10
WRITES = frozenset({ApiKey.PRODUCE, ApiKey.OFFSET_COMMIT, ApiKey.TXN_OFFSET_COMMIT})
"""APIs that write records that tests wait for, even if no step of a group reports a change."""

GROUP_KEY = 0
"""The key type of FindCoordinator for groups."""


@dataclass(slots=True, eq=False)
class Stopped:
    """A request that a fault has stopped: its place in the order of its connection's responses, and its bytes."""

    fault: Fault
    connection: Connection
    context: RequestContext
    frame: bytes


@dataclass(frozen=True, slots=True)
class Noted:
    """A received request: its time (epoch ms), API and version, and the fault that hit it."""

    at_ms: int
    api: int
    version: int
    fault: str


class Requests:
    """The replacement of the router (net.door.Serving)."""

    def __init__(self, node: Node, faults: Faults, changes: Changes) -> None:
        self.faults = faults
        self.last: dict[str, deque[Noted]] = {}
        self.counts: Counter[tuple[str, int]] = Counter()
        self.on_found: Callable[[list[str]], object] | None = None
        """Called with the groups that a served FindCoordinator names; None while no move awaits one."""
        self._node = node
        self._router: Serving = node.door.router
        self._changes = changes
        self._stopped: dict[int, list[Stopped]] = {}
        self._mute: dict[int, list[Connection]] = {}
        self._nowhere = Nowhere()

    # net.door.Serving

    def serve(self, connection: Any, frames: Frames, first: int, stop: int) -> int:
        """Serve requests as the router does, after the faults."""
        if self.faults.active:
            buf, start, end = frames[first]
            if end - start >= HEAD_BYTES and self.faults.may_hit(int.from_bytes(buf[start : start + 2], "big")):
                fault = self._meet(connection, buf[start:end])
                if fault is not None:
                    self._note(connection, buf, start, end, fault.kind.value)
                    return 1
            stop = first + 1
        served = self._router.serve(connection, frames, first, stop)
        for buf, start, end in frames[first : first + served]:
            self._note(connection, buf, start, end, "")
        return served

    def slice(self, context: Any, slices: CooperativeTask) -> None:
        """Call the router's method."""
        self._router.slice(context, slices)

    def failed(self, connection: Any, codec: Codec) -> None:
        """Call the router's method."""
        self._router.failed(connection, codec)

    # Faults

    def begun(self, fault: Fault) -> None:
        """Apply a new fault. A blackhole also drops the responses that its client already waits for."""
        if not fault.is_blackhole:
            return
        for connection in [each for each in self._node.connections.open if each.client_id == fault.client]:
            if connection.line.is_awaited:
                fault.hit()
            mute(connection)
            self._mute.setdefault(fault.number, []).append(connection)

    def release(self, fault: Fault, count: int | None = None) -> int:
        """Let stopped requests of a fault continue, the first ones first. Return their number."""
        stopped = self._stopped.get(fault.number, [])
        going = stopped[:count]
        del stopped[:count]
        for each in going:
            self._go_on(each)
        return len(going)

    def ended(self, fault: Fault) -> None:
        """Undo a removed fault: its stopped requests continue, and connections without a response are closed, so that
        their clients connect again.
        """
        self.release(fault)
        self._stopped.pop(fault.number, None)
        for connection in self._mute.pop(fault.number, []):
            connection.close()
        self._nowhere.forget_answered()

    def close(self) -> None:
        """Close all connections that discard their responses, because the daemon stops."""
        self._nowhere.forget_answered(all_of_them=True)

    def _meet(self, connection: Connection, frame: bytes) -> Fault | None:
        """Apply the fault that hits a request, and return it; None if none does."""
        try:
            codec = CODECS[int.from_bytes(frame[:4], "big")]
            header, body = read_request_header(frame, 0, len(frame), codec.flexible)
            request: list[Any] = []

            def decoded() -> Any:
                if not request:
                    request.append(codec.decode_request(frame, body, len(frame)))
                return request[0]

            fault = self.faults.meet(codec.api_key, header.client_id, lambda: groups_of(decoded()))
            if fault is None:
                return None
            connection.client_id = header.client_id
            context = RequestContext(connection, codec, header.correlation_id, (frame, body, len(frame)))
            self._strike(fault, connection, context, frame, decoded)
        except (DecodeError, IndexError):
            return None  # the router reports what is wrong with it
        self._changes.tell()
        return fault

    def _strike(
        self,
        fault: Fault,
        connection: Connection,
        context: RequestContext,
        frame: bytes,
        decoded: Callable[[], Any],
    ) -> None:
        line, kind = connection.line, fault.kind
        if kind is Kind.FAIL:
            request = decoded()
            if context.codec.api_key == ApiKey.PRODUCE and request.acks == 0:
                context.drop()
            else:
                line.answer(context, error_response(request, context.api_version, fault.error))
            return
        if kind is Kind.DUPLICATE or fault.after:
            self._pass(self._nowhere.like(connection), frame)
        if kind is Kind.DUPLICATE:
            self._pass(connection, frame)
        elif kind is Kind.DISCONNECT:
            connection.close()
        elif kind is Kind.DROP:
            line.park(context)
            self._mute.setdefault(fault.number, []).append(connection)
        else:
            line.park(context)
            fault.held += 1
            stopped = Stopped(fault, connection, context, frame)
            self._stopped.setdefault(fault.number, []).append(stopped)
            if kind is Kind.DELAY:
                self._node.loop.call_later(fault.delay_ms / 1000, self._time_is_up, stopped)

    def _time_is_up(self, stopped: Stopped) -> None:
        waiting = self._stopped.get(stopped.fault.number, [])
        if stopped in waiting:  # otherwise it was released before
            waiting.remove(stopped)
            self._go_on(stopped)

    def _go_on(self, stopped: Stopped) -> None:
        """Serve a stopped request now, before the requests that have queued behind it."""
        stopped.fault.held -= 1
        connection, context = stopped.connection, stopped.context
        if not connection.closed and not context.done:
            connection.last_active_ms = self._node.now_ms()
            connection.line.finish(context)
            self._pass(connection, stopped.frame)
        self._changes.tell()

    def _pass(self, connection: Connection, frame: bytes) -> None:
        self._router.serve(connection, [(frame, 0, len(frame))], 0, 1)

    # Received requests

    def _note(self, connection: Connection, buf: bytes, start: int, end: int, fault: str) -> None:
        if end - start < HEAD_BYTES:
            return
        api = int.from_bytes(buf[start : start + 2], "big")
        size = int.from_bytes(buf[start + 8 : start + HEAD_BYTES], "big", signed=True)
        client = buf[start + HEAD_BYTES : start + HEAD_BYTES + max(size, 0)].decode("utf-8", "replace")
        last = self.last.pop(client, None)
        if last is None:
            last = deque(maxlen=LAST)
            if len(self.last) >= MAX_CLIENTS:
                gone = next(iter(self.last))
                del self.last[gone]
                for known in [each for each in self.counts if each[0] == gone]:
                    del self.counts[known]
        self.last[client] = last
        version = int.from_bytes(buf[start + 2 : start + 4], "big")
        last.append(Noted(self._node.now_ms(), api, version, fault))
        self.counts[client, api] += 1
        if api in WRITES:
            with suppress(LogError):
                self._node.writer.hold(self._node.writer.epoch, self._written)
        elif api == ApiKey.FIND_COORDINATOR and self.on_found is not None:
            self._found(buf[start:end], self.on_found)

    def _written(self) -> None:
        """Report a change: the writes of one turn are durable. Writes of a later epoch are reported when that is
        durable.
        """
        self._changes.tell()
        writer = self._node.writer
        if writer.is_writing:
            writer.hold(writer.last_epoch, self._changes.tell)

    @staticmethod
    def _found(frame: bytes, told: Callable[[list[str]], object]) -> None:
        with suppress(DecodeError, IndexError):
            codec = CODECS[int.from_bytes(frame[:4], "big")]
            _header, body = read_request_header(frame, 0, len(frame), codec.flexible)
            told(sorted(groups_of(codec.decode_request(frame, body, len(frame)))))


def groups_of(request: Any) -> frozenset[str]:
    """Return the groups that a request names."""
    if hasattr(request, "key_type"):
        return frozenset([request.key, *request.coordinator_keys]) if request.key_type == GROUP_KEY else frozenset()
    found: set[str] = set()
    if name := getattr(request, "group_id", ""):
        found.add(name)
    for attribute in ("groups", "groups_names", "group_ids"):
        for each in getattr(request, attribute, ()):
            found.add(each if isinstance(each, str) else each.group_id)
    return frozenset(found)
