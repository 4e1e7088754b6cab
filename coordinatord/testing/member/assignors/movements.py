"""Movements of the general sticky assignment, recorded so that partitions do not move in circles."""

from __future__ import annotations

from coordinatord.coordination.group.consumer.java_collections.hash_map import HashTable
from coordinatord.testing.member.assignors.java_hash import PARTITIONS, TopicPartition

Pair = tuple[str, str]
"""(source, target): the member ids of a movement."""


class Movements:
    """All movements of one assignment: for each partition, from its first owner to its last."""

    def __init__(self) -> None:
        self._pairs: dict[TopicPartition, Pair] = {}
        self._by_topic: dict[str, dict[Pair, HashTable[TopicPartition]]] = {}

    def move(self, partition: TopicPartition, source: str, target: str) -> None:
        """Record a movement. A movement back to the first owner cancels the earlier one."""
        earlier = self._pairs.get(partition)
        if earlier is None:
            self._add(partition, (source, target))
            return
        self._remove(partition, earlier)
        assert earlier[1] == source
        if earlier[0] != target:
            self._add(partition, (earlier[0], target))

    def better(self, partition: TopicPartition, source: str, target: str) -> TopicPartition:
        """Return a partition of the same topic that moved from `target` to `source`, so that it can return; or
        `partition`.
        """
        of_topic = self._by_topic.get(partition[0])
        if of_topic is None:
            return partition
        earlier = self._pairs.get(partition)
        if earlier is not None:
            assert earlier[1] == source
            source = earlier[0]
        back = of_topic.get((target, source))
        return partition if back is None else next(iter(back))

    def _add(self, partition: TopicPartition, pair: Pair) -> None:
        self._pairs[partition] = pair
        self._by_topic.setdefault(partition[0], {}).setdefault(pair, HashTable(PARTITIONS)).put(partition)

    def _remove(self, partition: TopicPartition, pair: Pair) -> None:
        del self._pairs[partition]
        of_topic = self._by_topic[partition[0]]
        of_topic[pair].remove(partition)
        if not of_topic[pair]:
            del of_topic[pair]
        if not of_topic:
            del self._by_topic[partition[0]]
