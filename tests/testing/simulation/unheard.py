"""Requests that lie unread in a node's sockets: no member is expelled that has sent in time what would have kept it.

A member stays in its group if its heartbeat comes before its session ends, its JoinGroup before the rebalance timeout,
or its SyncGroup before the time for syncs is over. In time means: the request has reached the node's machine, read or
unread. A request behind one that is still unanswered does not count: Kafka would not read it either.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from coordinatord.coordination.group.result import JOIN, SESSION, TimerKey
from coordinatord.coordination.group.state import Group
from kafka_wire.api.heartbeat import HeartbeatRequest
from kafka_wire.api.join_group import JoinGroupRequest
from kafka_wire.api.sync_group import SyncGroupRequest

if TYPE_CHECKING:
    from coordinatord.testing.member.send import Send
    from tests.testing.simulation.invariants import Watch
    from tests.testing.simulation.network import Cable
    from tests.testing.simulation.nodes import Node, SimulatedDaemon


class _Line:
    """The requests of a connection that were not served when last checked, and how many of them were read."""

    def __init__(self) -> None:
        self.requests: deque[tuple[int, Send]] = deque()
        self.read = 0


class Unheard:
    """Unserved requests by connection, in order of arrival, with the arrival time by the node's clock."""

    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        self.lines: dict[Cable, _Line] = {}

    def arrived(self, cable: Cable, send: Send) -> None:
        node: Any = cable.server
        if node.daemon is not None and cable.life == node.life:
            self.lines.setdefault(cable, _Line()).requests.append((node.clock(), send))

    def delivered(self, cable: Cable) -> None:
        line = self.lines.get(cable)
        if line is not None:
            line.read += 1
            self._drop_heard(cable, line)

    def over(self, cable: Cable) -> None:
        if not cable.server_open:
            self.lines.pop(cable, None)

    @staticmethod
    def _drop_heard(cable: Cable, line: _Line) -> None:
        while line.read > cable.connection.waiting_count:
            line.read -= 1
            line.requests.popleft()

    def said(self, node: Node, of: Group, until_ms: int) -> dict[str, set[type]]:
        """By member id: the types of servable requests that members of a group sent before `until_ms`."""
        found: dict[str, set[type]] = {}
        for cable, line in self.lines.items():
            if cable.life != node.life or not cable.server_open or cable.connection.line.stops:
                continue
            self._drop_heard(cable, line)
            for came_ms, send in line.requests:
                request: Any = send.request
                kind = type(request)
                if kind is not JoinGroupRequest and getattr(request, "generation_id", -1) != of.generation_id:
                    continue
                if came_ms < until_ms and getattr(request, "group_id", None) == of.group_id:
                    found.setdefault(getattr(request, "member_id", ""), set()).add(kind)
        return found


def watch_unheard(watch: Watch, node: Node, daemon: SimulatedDaemon) -> None:
    """A process has started: check each member that its timers expel."""
    coordinator = daemon.coordinator
    original = coordinator.timed_out

    def timed_out(key: TimerKey) -> None:
        actor = coordinator.actors.get(key.group_id)
        if actor is None:
            return
        group = actor.group
        before = set(group.members)
        member = group.members.get(key.member_id)
        if key.kind == SESSION:
            deadline_ms, kept_by = 0 if member is None else member.session_deadline_ms, HeartbeatRequest
        elif key.kind == JOIN:
            deadline_ms, kept_by = group.join_deadline_ms, JoinGroupRequest
        else:
            deadline_ms, kept_by = group.sync_deadline_ms, SyncGroupRequest
        said = watch.unheard.said(node, group, deadline_ms)
        original(key)
        watch.checks += 1
        for member_id in before - set(group.members):
            if kept_by in said.get(member_id, ()):
                watch.fail(
                    f"{group.group_id}: {member_id} is expelled, and its {kept_by.__name__} lies in a socket since "
                    f"before its time was over"
                )

    coordinator.timed_out = timed_out  # type: ignore[method-assign]
