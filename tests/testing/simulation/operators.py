"""Somebody with the tools of operations: asks every node for every group's offsets, and removes members from groups.

A node that does not coordinate a group must say so; what the one that does shows must be what was committed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from coordinatord.testing.member.send import Send
from kafka_wire.api.leave_group import LeaveGroupRequest, MemberIdentity
from kafka_wire.api.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from tests.testing.simulation.members import MemberWire
from tests.testing.simulation.nodes import Node

if TYPE_CHECKING:
    from tests.testing.simulation.world import World

GIVES_UP_MS = 30_000


class Operator:
    """Uses a connection for each question."""

    name = "operator"

    def __init__(self, world: World) -> None:
        self.world = world
        self._asked: dict[Send, tuple[int, MemberWire]] = {}

    def look_at_offsets(self) -> None:
        """Of all groups, at all nodes that there may be."""
        groups = []
        for group in self.world.groups.values():
            numbers = list(range(self.world.plan.topic_partitions))
            topics = [OffsetFetchRequestTopics(group.topic, bytes(16), numbers)]
            groups.append(OffsetFetchRequestGroup(group.group_id, topics=topics))
        for node in self.world.machine.workers:
            self._ask(node, OffsetFetchRequest(groups=groups, require_stable=True))

    def remove(self, group_id: str, member_id: str) -> None:
        """As kafka-consumer-groups' successor of removeMembersFromConsumerGroup does it."""
        node = self.world.leader_of(group_id)
        if node is not None:
            self.world.story.say(self.name, f"removes {member_id} from {group_id}")
            self._ask(node, LeaveGroupRequest(group_id, member_id, members=[MemberIdentity(member_id)]))

    def _ask(self, node: Node, request: Any) -> None:
        wire = MemberWire(self.world, self, node)
        send = Send(node.number, False, request, GIVES_UP_MS)
        self._asked[send] = (self.world.engine.now_ms, wire)
        wire.ask(send, request)
        self.world.engine.at(self.world.engine.now_ms + GIVES_UP_MS, self._give_up, send)

    def _give_up(self, send: Send) -> None:
        found = self._asked.get(send)
        if found is not None:
            found[1].close()

    def answered(self, send: Send, response: Any) -> None:
        sent_ms, wire = self._asked.pop(send)
        if response is not None:
            self.world.watch.answered(self, send, response, sent_ms, wire.cable.life)
            wire.close()

    def lost(self, wire: MemberWire) -> None:
        pass

    def soon(self, call: Callable[..., object], *args: Any) -> None:
        """Operators never stand still."""
        call(*args)
