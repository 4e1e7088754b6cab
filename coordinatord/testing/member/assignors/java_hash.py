"""Iteration order of Java's hash tables, on which some assignments depend.

Kafka's sticky assignors iterate over a HashMap of members, where the first may keep one partition more; its range
assignor iterates over a HashMap of topics. The tables are those of the coordinator's assignors.
"""

from __future__ import annotations

from collections.abc import Iterable

from coordinatord.coordination.group.consumer.java_collections.hash_map import STRINGS, HashTable, Kind
from coordinatord.coordination.group.consumer.java_collections.hash_map import string_order as utf16
from kafka_wire.java import string_hash

TopicPartition = tuple[str, int]


def _spread(partition: TopicPartition) -> int:
    value = (31 * (31 + partition[1]) + string_hash(partition[0])) & 0xFFFFFFFF
    return value ^ value >> 16


PARTITIONS: Kind[TopicPartition] = Kind(_spread, lambda partition: (utf16(partition[0]), partition[1]))
"""TopicPartition. It has no compareTo: in a tree, Java compares equal hashes by objects' addresses."""


def string_order(keys: Iterable[str]) -> list[str]:
    """Return distinct strings in the iteration order of a HashMap or HashSet into which they were put in this order."""
    table = HashTable(STRINGS)
    table.put_all(keys)
    return list(table)


def grouped_order(keys: Iterable[str]) -> list[str]:
    """Return distinct strings in the iteration order of a HashMap after computeIfAbsent for each of these."""
    table = HashTable(STRINGS)
    for key in keys:
        table.compute_if_absent(key)
    return list(table)
