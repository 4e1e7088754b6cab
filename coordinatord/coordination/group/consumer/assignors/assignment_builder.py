"""A member's assignment while an assignor changes it: AssignorHelpers.deepCopyAssignment and the changes after it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from coordinatord.coordination.group.consumer.assignors.spec import UUID
from coordinatord.coordination.group.consumer.java_collections.hash_map import (
    INTEGERS,
    SMALLEST_TABLE,
    UUIDS,
    HashTable,
    collected,
    copied,
    placed,
    roomy,
    table_size,
)
from coordinatord.coordination.group.consumer.java_collections.java_set import JavaSet

_MAY_BE_A_TREE = 9


def known(assigned: Mapping[UUID, frozenset[int]]) -> dict[UUID, frozenset[int]]:
    """Return a member's partitions, with topics in the order of Kafka's map of them, which was read from a record."""
    if len(assigned) < 2:
        return dict(assigned)
    return {topic: assigned[topic] for topic in placed(UUIDS, assigned)}


def held(partitions: frozenset[int]) -> JavaSet[int]:
    """Return a topic's partitions in the order of Kafka's set of them, which was read from a record."""
    size = table_size(max(roomy(len(partitions)), SMALLEST_TABLE))
    return JavaSet(placed(INTEGERS, partitions if isinstance(partitions, JavaSet) else sorted(partitions), size))


def _copied(partitions: frozenset[int]) -> HashTable[int]:
    """Return a copy of Kafka's set; only for trees it matters whether that set was a copy already."""
    return copied(INTEGERS, held(partitions) if len(partitions) >= _MAY_BE_A_TREE else partitions)


class Draft:
    """A member's assignment that is being changed."""

    __slots__ = ("_before", "_sets", "_topics")

    def __init__(self, before: Mapping[UUID, frozenset[int]]) -> None:
        """`before`: as `known` returns it. A topic's partitions are copied at their first change."""
        self._before = before
        self._topics = collected(UUIDS, before, len(before))
        self._sets: dict[UUID, HashTable[int]] = {}

    def add(self, topic: UUID, partitions: Sequence[int], capacity: int) -> None:
        """Add partitions in turn; `capacity`: that of Kafka's set if these are the topic's first partitions."""
        for _ in partitions[:2]:  # Kafka checks each one; the second check may grow the table, later ones do not
            self._topics.compute_if_absent(topic)
        held = self._sets.get(topic)
        if held is None:
            held = self._sets[topic] = self._copy(topic, capacity)
        held.put_all(partitions)

    def remove(self, topic: UUID, partitions: Iterable[int]) -> None:
        """Remove existing partitions, and the topic with its last one."""
        held = self._sets.get(topic)
        if held is None:
            held = self._sets[topic] = self._copy(topic, 0)
        held.remove_all(partitions)
        if not held:
            self.remove_topic(topic)

    def discard(self, topic: UUID, partition: int) -> None:
        """Remove an existing partition; the topic stays, even without partitions."""
        held = self._sets.get(topic)
        if held is None:
            held = self._sets[topic] = self._copy(topic, 0)
        held.remove(partition)

    def remove_topic(self, topic: UUID) -> None:
        """Remove an existing topic."""
        self._topics.remove(topic)
        self._sets.pop(topic, None)
        self._before = {each: partitions for each, partitions in self._before.items() if each != topic}

    def finished(self) -> dict[UUID, frozenset[int]]:
        """Return the assignment in Kafka's order."""
        return {
            topic: JavaSet(self._sets[topic] if topic in self._sets else _copied(self._before[topic]))
            for topic in self._topics
        }

    def _copy(self, topic: UUID, capacity: int) -> HashTable[int]:
        before = self._before.get(topic)
        return HashTable(INTEGERS, capacity) if before is None else _copied(before)
