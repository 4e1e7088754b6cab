"""Heartbeats that the daemon does not look at (coordinatord/group/standing.py): looked at here, each time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coordinatord.group.state import Member
from coordinatord.group.states import STABLE
from kafka_wire import registry
from kafka_wire.headers import read_request_header

if TYPE_CHECKING:
    from tests.simulation.invariants import Watch
    from tests.simulation.nodes import Node, SimulatedDaemon

HEARTBEAT = 12


class Watched(dict[bytes, Member]):
    """The standings of one version."""

    def __init__(self, watch: Watch, node: Node, daemon: SimulatedDaemon, version: int) -> None:
        super().__init__()
        self.watch, self.node, self.daemon, self.version = watch, node, daemon, version
        self.codec = registry.codec(HEARTBEAT, version)

    def get(self, heartbeat: bytes, default: Any = None) -> Any:
        member = super().get(heartbeat, default)
        if member is not None:
            self.watch.checks += 1
            wrong = self._wrong(heartbeat, member)
            if wrong:
                self.watch.fail(f"{self.node.name} does not look at a heartbeat of {member.member_id}: {wrong}")
        return member

    def _wrong(self, heartbeat: bytes, member: Member) -> str:
        frame = bytes([0, HEARTBEAT, 0, self.version, 0, 0, 0, 0]) + heartbeat
        _, pos = read_request_header(frame, 0, len(frame), self.codec.flexible)
        request = self.codec.decode_request(frame, pos, len(frame))
        actor = self.daemon.coordinator.actors.get(request.group_id)
        if actor is None or actor.group.members.get(request.member_id) is not member:
            return "it is no member"
        group = actor.group
        if request.group_instance_id not in (None, member.group_instance_id):
            return "it is fenced"
        if group.state is not STABLE or request.generation_id != group.generation_id:
            return f"{group.group_id} is {group.state.shown} in generation {group.generation_id}"
        if actor.membership_epoch > self.daemon.writer.flushed_epoch:
            return f"what {group.group_id} has logged is not durable"
        return ""


def watch_standings(watch: Watch, node: Node, daemon: SimulatedDaemon) -> None:
    """A process has started; nobody has asked for anything."""
    versions = registry.versions_of(HEARTBEAT)
    for version in range(versions.first, versions.last + 1):
        route = daemon.router.routes[HEARTBEAT << 16 | version]
        route.standings = Watched(watch, node, daemon, version)


def look_for_left_behind(watch: Watch, node: Node, daemon: SimulatedDaemon) -> None:
    """Who is in good standing is a member of some group."""
    members = {id(each) for actor in daemon.coordinator.actors.values() for each in actor.group.members.values()}
    for key, route in daemon.router.routes.items():
        if key >> 16 == HEARTBEAT:
            for member in route.standings.values():
                if id(member) not in members:
                    watch.fail(f"{node.name} keeps the heartbeat of {member.member_id}, which is gone")
