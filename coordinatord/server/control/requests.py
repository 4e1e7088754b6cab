"""Stands before the router: requests meet faults here, and the last requests of each client are remembered.

Every request comes by, also those that a shortcut would answer. While there are faults, requests are passed on one by
one, so that a shortcut cannot answer those behind the first.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from coordinatord.broker.log.errors import LogError
from coordinatord.coordination.runtime.error_answers import answer
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
from kafka_wire.registry import CODECS, Codec

LAST = 12
"""Requests of one client that are remembered."""

MAX_CLIENTS = 200
"""Clients whose requests are remembered."""

HEAD_BYTES = 10
WRITES = frozenset({ApiKey.PRODUCE, ApiKey.OFFSET_COMMIT, ApiKey.TXN_OFFSET_COMMIT})
"""Requests that change what tests wait for and that no step of a group may see."""

GROUP_KEY = 0
"""The key type of FindCoordinator for groups."""


@dataclass(slots=True, eq=False)
class Stopped:
    """A request that a fault has stopped: it has a place in its connection's line, and its bytes."""

    fault: Fault
    connection: Connection
    context: RequestContext
    frame: bytes


@dataclass(frozen=True, slots=True)
class Noted:
    """A request that came: when (epoch ms), from which client, and which fault it met."""

    at_ms: int
    api: int
    version: int
    fault: str


class Requests:
    """In the router's place (net.door.Serving)."""

    def __init__(self, node: Node, faults: Faults, changes: Changes) -> None:
        self.faults = faults
        self.last: dict[str, deque[Noted]] = {}
        self.counts: Counter[tuple[str, int]] = Counter()
        self.on_found: Callable[[list[str]], object] | None = None
        """Called with the groups of a FindCoordinator that was answered, while somebody wants to know."""
        self._node = node
        self._router: Serving = node.door.router
        self._changes = changes
        self._stopped: dict[int, list[Stopped]] = {}
        self._mute: dict[int, list[Connection]] = {}
        self._nowhere = Nowhere()

    # net.door.Serving

    def serve(self, connection: Any, frames: Frames, first: int, stop: int) -> int:
        """As the router's."""
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
        """As the router's."""
        self._router.slice(context, slices)

    def failed(self, connection: Any, codec: Codec) -> None:
        """As the router's."""
        self._router.failed(connection, codec)

    # Faults

    def begun(self, fault: Fault) -> None:
        """The fault is made. A blackhole also takes the answers that its client waits for."""
        if not fault.is_blackhole:
            return
        for connection in [each for each in self._node.connections.open if each.client_id == fault.client]:
            if connection.line.is_awaited:
                fault.hit()
            mute(connection)
            self._mute.setdefault(fault.number, []).append(connection)

    def release(self, fault: Fault, count: int | None = None) -> int:
        """Let stopped requests of a fault go on, the first ones first. Returns how many."""
        stopped = self._stopped.get(fault.number, [])
        going = stopped[:count]
        del stopped[:count]
        for each in going:
            self._go_on(each)
        return len(going)

    def ended(self, fault: Fault) -> None:
        """The fault is removed: what it has stopped goes on, and whom it left without an answer connects again."""
        self.release(fault)
        self._stopped.pop(fault.number, None)
        for connection in self._mute.pop(fault.number, []):
            connection.close()
        self._nowhere.forget_answered()

    def close(self) -> None:
        """The daemon stops: nobody waits any more."""
        self._nowhere.forget_answered(all_of_them=True)

    def _meet(self, connection: Connection, frame: bytes) -> Fault | None:
        """Let a request meet the fault that hits it, if one does."""
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
            return None  # the router says what is wrong with it
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
            response = answer(context.codec, decoded(), fault.error)
            if response is None:
                context.drop()
            else:
                line.answer(context, response)
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
        if stopped in waiting:  # else it was released before
            waiting.remove(stopped)
            self._go_on(stopped)

    def _go_on(self, stopped: Stopped) -> None:
        """A stopped request is served now, before those that have queued behind it."""
        stopped.fault.held -= 1
        connection, context = stopped.connection, stopped.context
        if not connection.closed and not context.done:
            connection.last_active_ms = self._node.now_ms()
            connection.line.finish(context)
            self._pass(connection, stopped.frame)
        self._changes.tell()

    def _pass(self, connection: Connection, frame: bytes) -> None:
        self._router.serve(connection, [(frame, 0, len(frame))], 0, 1)

    # What came

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
        """The writes of one turn are durable, but for those that wait for a later epoch."""
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
    """The groups that a request names."""
    if hasattr(request, "key_type"):
        return frozenset([request.key, *request.coordinator_keys]) if request.key_type == GROUP_KEY else frozenset()
    found: set[str] = set()
    if name := getattr(request, "group_id", ""):
        found.add(name)
    for attribute in ("groups", "groups_names", "group_ids"):
        for each in getattr(request, attribute, ()):
            found.add(each if isinstance(each, str) else each.group_id)
    return frozenset(found)
