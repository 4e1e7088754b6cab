"""Common code of both assignors: the sizes of topics, the order of
members, and the limit of work between two yields.
"""

from __future__ import annotations

from collections.abc import Generator

from coordinatord.coordination.group.consumer.assignors.java_hash_map import SMALLEST_TABLE, STRINGS, HashTable
from coordinatord.coordination.group.consumer.assignors.spec import UUID, GroupSpec, TopicsImage

_SLICE = 4_000
"""Units of work, each about a microsecond, between two yields."""


class Work:
    """Counter of the work done since the last yield."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = _SLICE

    def done(self, units: int = 1) -> bool:
        """Add units of work: partitions, or steps that take about as long. Return True if the caller must yield now."""
        self._left -= units
        if self._left > 0:
            return False
        self._left = _SLICE
        return True


def topic_sizes(spec: GroupSpec, topics: TopicsImage) -> dict[UUID, int]:
    """Return the subscribed topics with their numbers of partitions; -1: no such topic."""
    subscriptions = [member.topic_ids for member in spec.members.values()]
    read = set[UUID]().union(*(subscriptions[:1] if spec.homogeneous else subscriptions))
    return {topic: topics.num_partitions(topic) for topic in read}


def member_order(spec: GroupSpec, work: Work) -> Generator[None, None, list[str]]:
    """Return the member ids in the iteration order of the HashMap that TargetAssignmentBuilder makes."""
    capacity = SMALLEST_TABLE
    while spec.peak > capacity * 3 // 4:
        capacity *= 2
    table = HashTable(STRINGS, capacity)
    for member_id in spec.members:
        table.put(member_id)
        if work.done(2 + len(member_id) // 16):
            yield
    return list(table)
