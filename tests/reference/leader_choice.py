"""Make our daemon choose the leaders that Kafka chose, where nothing but a hash decides.

When a group loses its leader, Kafka's next one is the first member in the order of a java.util.HashMap of random ids;
ours is the member that has been here longest. Both are right, and what follows depends on it, so a comparison has to
begin with the same choice. A leader that is there and has rejoined stays the leader: that is no choice.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

from coordinatord.coordination.group.classic import members, rebalance
from coordinatord.coordination.group.state import Group, Member


class LeaderChoice:
    """`wanted` maps a generation to the identity of its leader: what its metadata contains, or what its id begins with.

    `generation` makes the key: a group that was deleted begins to count anew.
    """

    def __init__(self) -> None:
        self.wanted: Mapping[str, str] = {}
        self.generation: Callable[[int], str] = str
        self.orphaned: set[str] = set()  # groups that have lost their leader since their last generation

    @contextmanager
    def installed(self) -> Iterator[LeaderChoice]:
        """Within this block every group of this process asks us."""
        remove, elect = members.remove_member, rebalance._elect_leader

        def remove_member(group: Group, member_id: str, *arguments: Any) -> None:
            is_leader = group.leader_id == member_id
            remove(group, member_id, *arguments)
            if is_leader:
                (self.orphaned.add if group.members else self.orphaned.discard)(group.group_id)

        def elect_leader(group: Group) -> bool:
            is_free = group.group_id in self.orphaned
            is_free = is_free or group.members[group.leader_id or ""].join_reply_to is None
            if not elect(group):
                return False
            self.orphaned.discard(group.group_id)
            if is_free:
                self._choose(group)
            return True

        with ExitStack() as stack:
            for module in list(sys.modules.values()):
                if getattr(module, "remove_member", None) is remove:
                    stack.enter_context(mock.patch.object(module, "remove_member", remove_member))
            stack.enter_context(mock.patch.object(rebalance, "_elect_leader", elect_leader))
            yield self

    def _choose(self, group: Group) -> None:
        wanted = self.wanted.get(self.generation(group.generation_id + 1))
        if wanted is None:
            return
        for member in group.members.values():
            if member.join_reply_to is not None and _is(member, wanted):
                group.leader_id = member.member_id
                return


def _is(member: Member, identity: str) -> bool:
    if identity.startswith("#"):
        return any(identity.encode() in metadata for _, metadata in member.protocols)
    return identity in (member.client_id, member.group_instance_id)
