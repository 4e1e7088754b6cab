"""Iteration order of Java's hash tables, on which some assignments depend.

Kafka's sticky assignors iterate over a HashMap of members, where the first may keep one partition more; its range
assignor iterates over a HashMap of topics. The order depends on the keys alone: by bucket, and by insertion within a
bucket (not implemented: Java turns buckets of more than eight keys into trees).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import TypeVar

K = TypeVar("K")

TopicPartition = tuple[str, int]

_SMALLEST_TABLE = 16
_MASK = 0xFFFFFFFF


@lru_cache(maxsize=65_536)
def string_hash(text: str) -> int:
    """Return String.hashCode, as an unsigned int: over UTF-16 units."""
    value = 0
    if text.isascii():
        for unit in text.encode():
            value = (31 * value + unit) & _MASK
        return value
    units = text.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(units), 2):
        value = (31 * value + (units[at] << 8 | units[at + 1])) & _MASK
    return value


def partition_hash(partition: TopicPartition) -> int:
    """Return TopicPartition.hashCode, as an unsigned int."""
    return (31 * (31 + partition[1]) + string_hash(partition[0])) & _MASK


def table_size(count: int, table: int = _SMALLEST_TABLE) -> int:
    """Return the number of buckets of a table that grew from `table` buckets to `count` keys: it is at most three
    quarters full.
    """
    while count > table * 3 // 4:
        table *= 2
    return table


def bucket(hash_code: int, table: int) -> int:
    """Return the bucket of a key, which depends on both halves of its hash."""
    return (hash_code ^ (hash_code >> 16)) & (table - 1)


def hash_order(keys: Iterable[K], hash_of: Callable[[K], int]) -> list[K]:
    """Return distinct keys in the iteration order of a HashMap or HashSet into which they were put in this order."""
    distinct = list(dict.fromkeys(keys))
    table = table_size(len(distinct))
    return sorted(distinct, key=lambda key: bucket(hash_of(key), table))


def string_order(keys: Iterable[str]) -> list[str]:
    """Return the `hash_order` of strings."""
    return hash_order(keys, string_hash)


def grouped_order(keys: Iterable[str]) -> list[str]:
    """Return distinct strings in the iteration order of a HashMap after computeIfAbsent for each of these.

    Unlike put, computeIfAbsent adds a key at the front of its bucket, and checks whether to grow before the lookup of
    the key.
    """
    seen: dict[str, None] = {}
    table = _SMALLEST_TABLE
    for key in keys:
        table = table_size(len(seen), table)
        seen[key] = None
    latest_first = list(reversed(seen))
    return sorted(latest_first, key=lambda key: bucket(string_hash(key), table))


def utf16(text: str) -> bytes:
    """Return the sort key of String.compareTo: by UTF-16 units, not by code points."""
    return text.encode("utf-16-be", "surrogatepass")


class PartitionSet:
    """A HashSet of partitions from which only the first is read. Its table grows and never shrinks."""

    __slots__ = ("_partitions", "_table")

    def __init__(self) -> None:
        self._partitions: dict[TopicPartition, None] = {}
        self._table = _SMALLEST_TABLE

    def __len__(self) -> int:
        return len(self._partitions)

    def add(self, partition: TopicPartition) -> None:
        """Add a partition."""
        self._partitions[partition] = None
        self._table = table_size(len(self._partitions), self._table)

    def remove(self, partition: TopicPartition) -> None:
        """Remove a partition, which must be present."""
        del self._partitions[partition]

    def first(self) -> TopicPartition:
        """Return the first element of Java's iterator; the set must not be empty."""
        return min(self._partitions, key=lambda each: bucket(partition_hash(each), self._table))
