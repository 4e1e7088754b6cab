"""Cooperative rebalances never revoke what needn't move (KIP-429).

A member of a cooperative group keeps working on what it has, and gives up a partition for one of three reasons: it does
not subscribe to the topic any more; the new assignment gives it to somebody else; or the assignment keeps it back for
somebody who gets it in the next one. The last one is for the sake of balance only: all subscribe to the same topics
here, so whoever gives up something keeps at least the share that everybody gets. And what was kept back goes to
somebody else, if the same members assign once more.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from coordinatord.testing.member.assignors.java_hash import TopicPartition

REMEMBERED = 200
"""Assignments of a group: the last ones. A member may take one long after it was made, if it stood still meanwhile."""


@dataclass(frozen=True, slots=True)
class Shares:
    """What a leader has sent: who gets what."""

    generation_id: int
    by_member: Mapping[str, frozenset[TopicPartition]]

    def owner(self, partition: TopicPartition) -> str | None:
        return next((member_id for member_id, its in self.by_member.items() if partition in its), None)


class Sharing:
    """The assignments of one group, and what was kept back for others."""

    def __init__(self, partitions: int) -> None:
        self.partitions = partitions
        self.assignments: list[Shares] = []
        self.kept_back: dict[TopicPartition, tuple[str, Shares]] = {}

    def assigned(self, shares: Shares) -> str | None:
        """A leader sends this; what is wrong with it, if anything."""
        self.assignments = [*self.assignments[1 - REMEMBERED :], shares]
        wrong = None
        for partition, (member_id, before) in self.kept_back.items():
            if (
                shares.owner(partition) == member_id
                and shares.generation_id == before.generation_id + 1
                and shares.by_member.keys() == before.by_member.keys()
            ):
                wrong = f"{member_id} has given up {_named(partition)} for nobody: it gets it back"
        self.kept_back.clear()
        return wrong

    def lost(self) -> None:
        """A member has lost what it had, and says so when it joins: leaders do not know any more who had what."""
        self.kept_back.clear()

    def revoked(
        self, member_id: str, generation_id: int, partitions: Collection[TopicPartition], subscription: Collection[str]
    ) -> str | None:
        """A member gives these up; what is wrong with that, if anything."""
        its = [each for each in self.assignments if each.generation_id == generation_id and member_id in each.by_member]
        reasons = [self._why_not(member_id, each, partitions, subscription) for each in its]
        if not its:
            return f"{member_id} gives up {_told(partitions)} without an assignment"
        return None if None in reasons else reasons[-1]

    def _why_not(
        self, member_id: str, shares: Shares, partitions: Collection[TopicPartition], subscription: Collection[str]
    ) -> str | None:
        kept = len(shares.by_member[member_id])
        least = self.partitions // len(shares.by_member)
        for partition in partitions:
            if partition[0] not in subscription:
                continue
            owner = shares.owner(partition)
            if owner == member_id:
                return f"{member_id} gives up {_named(partition)}, which stays its own"
            if owner is None and kept < least:
                return (
                    f"{member_id} has to give up {_named(partition)}, is left with {kept}, and {least} are everybody's"
                )
            if owner is None:
                self.kept_back[partition] = member_id, shares
        return None


def _named(partition: TopicPartition) -> str:
    return f"{partition[0]}-{partition[1]}"


def _told(partitions: Collection[TopicPartition]) -> str:
    return ", ".join(map(_named, sorted(partitions)))
