"""Heartbeats that the daemon answers from their bytes (coordinatord/server/fastpath): decoded here, each time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coordinatord.coordination.group.states import STABLE
from coordinatord.transport.net.routes import Route, Shortcut
from kafka_wire import registry
from kafka_wire.api_key import ApiKey
from kafka_wire.framing import Frames
from kafka_wire.headers import read_request_header

if TYPE_CHECKING:
    from tests.testing.simulation.invariants import Watch
    from tests.testing.simulation.nodes import Node, SimulatedDaemon


class Watched:
    """The shortcut of one version, and what it may answer."""

    def __init__(self, inner: Shortcut, watch: Watch, node: Node, daemon: SimulatedDaemon, route: Route) -> None:
        self.inner, self.watch, self.node, self.daemon, self.codec = inner, watch, node, daemon, route.codec

    def answer(self, connection: Any, frames: Frames, first: int, stop: int) -> int:
        count = self.inner.answer(connection, frames, first, stop)
        for frame in frames[first : first + count]:
            self.watch.checks += 1
            wrong = self._wrong(*frame)
            if wrong:
                self.watch.fail(f"{self.node.name} does not decode a heartbeat of {connection.client_id}: {wrong}")
        return count

    def learn(self, context: Any, request: Any, buf: bytes, start: int, end: int) -> None:
        self.inner.learn(context, request, buf, start, end)

    def _wrong(self, buf: bytes, start: int, end: int) -> str:
        _, pos = read_request_header(buf, start, end, self.codec.flexible)
        request = self.codec.decode_request(buf, pos, end)
        actor = self.daemon.coordinator.actors.get(request.group_id)
        member = None if actor is None else actor.group.members.get(request.member_id)
        if actor is None or member is None:
            return "it is no member"
        group = actor.group
        if request.group_instance_id not in (None, member.group_instance_id):
            return "it is fenced"
        if group.state is not STABLE or request.generation_id != group.generation_id:
            return f"{group.group_id} is {group.state.shown} in generation {group.generation_id}"
        if actor.membership_epoch > self.daemon.writer.flushed_epoch:
            return f"what {group.group_id} has logged is not durable"
        if member.session_deadline_ms != self.daemon.now_ms() + member.session_timeout_ms:
            return "its deadline has not moved"
        return ""


def watch_heartbeats(watch: Watch, node: Node, daemon: SimulatedDaemon) -> None:
    """A process has started; nobody has asked for anything."""
    router: Any = daemon.door.router if daemon.control is None else daemon.control.requests._router
    versions = registry.versions_of(ApiKey.HEARTBEAT)
    for version in range(versions.first, versions.last + 1):
        route = router.routes[(ApiKey.HEARTBEAT << 16 | version).to_bytes(4, "big")]
        assert route.shortcut is not None
        route.shortcut = Watched(route.shortcut, watch, node, daemon, route)
