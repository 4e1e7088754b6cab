"""A member's assignment while an assignor changes it: AssignorHelpers.deepCopyAssignment and what follows."""

from __future__ import annotations

from collections.abc import Mapping

from coordinatord.group.consumer.assignors.spec import UUID, JavaSet, MemberSpec
from coordinatord.group.consumer.assignors.tables import INTEGERS, UUIDS, HashTable, collected, copied

_MAY_BE_A_TREE = 9


def known(member: MemberSpec) -> dict[UUID, frozenset[int]]:
    """What a member has, with topics in the order of Kafka's map of it, which was read from a record."""
    assigned = member.assigned
    if len(assigned) < 2:
        return dict(assigned)
    return {topic: assigned[topic] for topic in collected(UUIDS, assigned)}


def held(partitions: frozenset[int]) -> JavaSet[int]:
    """A topic's partitions in the order of Kafka's set of them, which was read from a record."""
    return JavaSet(copied(INTEGERS, partitions))


def _copied(partitions: frozenset[int]) -> HashTable[int]:
    """A copy of Kafka's set; only trees depend on whether that set was a copy already."""
    return copied(INTEGERS, held(partitions) if len(partitions) >= _MAY_BE_A_TREE else partitions)


class Draft:
    """A member's assignment that is being changed."""

    __slots__ = ("_before", "_sets", "_topics")

    def __init__(self, before: Mapping[UUID, frozenset[int]]) -> None:
        """`before`: as `known` says it. A topic's partitions are copied when they change first."""
        self._before = before
        self._topics = collected(UUIDS, before, len(before))
        self._sets: dict[UUID, HashTable[int]] = {}

    def add(self, topic: UUID, partition: int, capacity: int) -> None:
        """Add a partition; `capacity`: for which Kafka makes the set if this is the topic's first one."""
        self._topics.compute_if_absent(topic)
        partitions = self._sets.get(topic)
        if partitions is None:
            partitions = self._sets[topic] = self._copy(topic, capacity)
        partitions.put(partition)

    def remove(self, topic: UUID, partition: int) -> None:
        """Remove a partition that is there, and the topic with its last one."""
        partitions = self._sets.get(topic)
        if partitions is None:
            partitions = self._sets[topic] = self._copy(topic, 0)
        partitions.remove(partition)
        if not partitions:
            self.remove_topic(topic)

    def remove_topic(self, topic: UUID) -> None:
        """Remove a topic that is there."""
        self._topics.remove(topic)
        self._sets.pop(topic, None)
        self._before = {each: partitions for each, partitions in self._before.items() if each != topic}

    def finished(self) -> dict[UUID, frozenset[int]]:
        """The assignment in Kafka's order."""
        return {
            topic: JavaSet(self._sets[topic] if topic in self._sets else _copied(self._before[topic]))
            for topic in self._topics
        }

    def _copy(self, topic: UUID, capacity: int) -> HashTable[int]:
        before = self._before.get(topic)
        return HashTable(INTEGERS, capacity) if before is None else _copied(before)
