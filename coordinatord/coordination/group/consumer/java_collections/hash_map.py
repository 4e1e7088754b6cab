"""The iteration order of Java's hash tables, reproduced operation by operation (java.util.HashMap of JDK 17).

A HashMap iterates by bucket, and within a bucket by insertion: `put` adds at the end, `computeIfAbsent` at the front.
It grows when it is three quarters full and never shrinks. A bucket that gets too long makes a small table grow and
turns into a tree in a large one (`tree_bin.py`). This happens in practice: partitions assigned in turn to 64
members, so 0, 64, 128 … for the first one, all fall into one bucket.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import count
from operator import eq
from typing import Any, Generic, NamedTuple, TypeVar

from coordinatord.coordination.group.consumer.java_collections.java_set import JavaSet
from coordinatord.coordination.group.consumer.java_collections.tree_bin import Tree
from kafka_wire.java import string_hash

K = TypeVar("K")

SMALLEST_TABLE = 16
"""Buckets of a HashMap without a requested capacity."""

_SMALLEST_TABLE_WITH_TREES = 64
_FEW = _SMALLEST_TABLE_WITH_TREES * 3 // 4
_SPREAD_FROM = 1 << 16
_LONGEST_CHAIN = 8
_SHORTEST_TREE = 7
_FIBONACCI = -7046029254386353131
SMALLEST_TIMELINE = 2
"""Initial slots of a TimelineHashMap."""

_IDS_KEPT = 16_384
"""Number of cached hashes of member ids and topics: computing one takes microseconds, and each assignment needs all."""

_ID_CHARACTERS = 255
"""Maximum length of ids whose hashes are cached: clients may choose longer ones. The cache takes 20 MB at most."""

_UUID_WORDS = struct.Struct(">IIII")
_UUID_LONGS = struct.Struct(">qq")


class Kind(NamedTuple, Generic[K]):
    """The functions of a table for one type of keys."""

    spread: Callable[[K], int]
    """hashCode with its upper half mixed into the lower one, as an unsigned int32."""
    order: Callable[[K], object]
    """A sort key for compareTo: within a tree, keys with equal hashes are in this order."""


def _spread(value: int) -> int:
    return (value ^ value >> 16) & 0xFFFFFFFF


def uuid_order(topic_id: bytes) -> tuple[int, int]:
    """Return the sort key of Uuid.compareTo: two signed longs."""
    high, low = _UUID_LONGS.unpack(topic_id)
    return high, low


def string_order(text: str) -> bytes:
    """Return the sort key of String.compareTo: UTF-16 units, not code points."""
    return text.encode("utf-16-be", "surrogatepass")


def _spread_uuid(topic_id: bytes) -> int:
    a, b, c, d = _UUID_WORDS.unpack(topic_id)
    return _spread(a ^ b ^ c ^ d)


_hash = lru_cache(_IDS_KEPT)(string_hash)


def _spread_string(text: str) -> int:
    return _spread((_hash(text) if len(text) <= _ID_CHARACTERS else string_hash(text)) & 0xFFFFFFFF)


def _spread_topic_partition(key: tuple[bytes, int]) -> int:
    a, b, c, d = _UUID_WORDS.unpack(key[0])
    return _spread((31 * (a ^ b ^ c ^ d) + key[1]) & 0xFFFFFFFF)


def _same(value: int) -> int:
    return value


INTEGERS: Kind[int] = Kind(_spread, _same)
"""Partitions, which are not negative."""
UUIDS: Kind[bytes] = Kind(_spread_uuid, uuid_order)
STRINGS: Kind[str] = Kind(_spread_string, string_order)
TOPIC_PARTITIONS: Kind[tuple[bytes, int]] = Kind(_spread_topic_partition, lambda key: (uuid_order(key[0]), key[1]))
"""The record TopicIdPartition. It has no compareTo: in a tree, Java compares equal hashes by objects' addresses."""


def table_size(capacity: int) -> int:
    """Return the buckets of `new HashMap<>(capacity)`."""
    return 1 << max(capacity - 1, 0).bit_length()


def roomy(keys: int) -> int:
    """Return the capacity that Kafka requests for an expected number of keys: `(int) (keys / 0.75f + 1)`."""
    return keys * 4 // 3 + 1


class HashTable(Generic[K]):
    """The keys of a HashMap, or a HashSet."""

    __slots__ = ("_buckets", "_count", "_full", "_kind", "_spread")

    def __init__(self, kind: Kind[K], capacity: int = SMALLEST_TABLE) -> None:
        size = table_size(capacity)
        self._kind = kind
        self._spread = kind.spread
        self._buckets: list[list[K] | Tree[K] | None] = [None] * size
        self._full = size * 3 // 4
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[K]:
        for bucket in self._buckets:
            if bucket is not None:
                yield from bucket

    def put(self, key: K) -> None:
        """`put` or `add`."""
        at = self._spread(key) & len(self._buckets) - 1
        bucket = self._buckets[at]
        if bucket is None:
            self._buckets[at] = [key]
        elif key in bucket:
            return
        elif isinstance(bucket, Tree):
            bucket.insert(key)
        else:
            bucket.append(key)
            if len(bucket) > _LONGEST_CHAIN:
                self._shorten(at, bucket)
        self._count += 1
        if self._count > self._full:
            self._grow()

    def put_all(self, keys: Iterable[K]) -> None:
        """`put` for each of these in turn."""
        spread, buckets, mask, room = self._spread, self._buckets, len(self._buckets) - 1, self._full - self._count
        rest = iter(keys)
        for key in rest:  # like `put`, for the case that only a short bucket changes
            at = spread(key) & mask
            bucket = buckets[at]
            if bucket is None and room > 0:
                buckets[at] = [key]
                room -= 1
                continue
            self._count = self._full - room
            self.put(key)
            buckets, mask, room = self._buckets, len(self._buckets) - 1, self._full - self._count
        self._count = self._full - room

    def remove_all(self, keys: Iterable[K]) -> None:
        """`remove` for each of these in turn."""
        spread, buckets, mask = self._spread, self._buckets, len(self._buckets) - 1
        for key in keys:
            at = spread(key) & mask
            bucket = buckets[at]
            if bucket is not None and len(bucket) == 1:
                buckets[at] = None
                self._count -= 1
            else:
                self.remove(key)

    def compute_if_absent(self, key: K) -> None:
        """`computeIfAbsent`, which unlike `put` grows before the look-up, and adds at the front of a chain."""
        if self._count > self._full:
            self._grow()
        at = self._spread(key) & len(self._buckets) - 1
        bucket = self._buckets[at]
        if bucket is None:
            self._buckets[at] = [key]
        elif key in bucket:
            return
        elif isinstance(bucket, Tree):
            bucket.insert(key)
        else:
            bucket.insert(0, key)
            if len(bucket) >= _LONGEST_CHAIN:
                self._shorten(at, bucket)
        self._count += 1

    def remove(self, key: K) -> None:
        """`remove`, of an existing key. The table keeps its size."""
        at = self._spread(key) & len(self._buckets) - 1
        bucket = self._buckets[at]
        assert bucket is not None
        if isinstance(bucket, Tree):
            if not bucket.remove(key):
                self._buckets[at] = list(bucket)
        else:
            bucket.remove(key)
            if not bucket:
                self._buckets[at] = None
        self._count -= 1

    def _shorten(self, at: int, chain: list[K]) -> None:
        if len(self._buckets) < _SMALLEST_TABLE_WITH_TREES:
            self._grow()
        else:
            self._buckets[at] = Tree(self._kind.spread, self._kind.order, chain)

    def _grow(self) -> None:
        before = self._buckets
        size = len(before)
        self._buckets = [None] * (size * 2)
        self._full = size * 2 * 3 // 4
        for at, bucket in enumerate(before):
            if bucket is None:
                continue
            if len(bucket) == 1 and not isinstance(bucket, Tree):
                self._buckets[at + (self._spread(bucket[0]) & size)] = bucket
                continue
            low = [key for key in bucket if not self._spread(key) & size]
            high = [key for key in bucket if self._spread(key) & size]
            for half, there in ((low, at), (high, at + size)):
                if not isinstance(bucket, Tree) or len(half) < _SHORTEST_TREE:
                    self._buckets[there] = half or None
                elif len(half) == len(bucket):
                    self._buckets[there] = bucket
                else:
                    self._buckets[there] = Tree(self._kind.spread, self._kind.order, half)


def collected(kind: Kind[K], keys: Iterable[K], capacity: int = SMALLEST_TABLE) -> HashTable[K]:
    """Return a HashMap of this capacity into which the keys were put."""
    table = HashTable(kind, capacity)
    table.put_all(keys)
    return table


def placed(kind: Kind[K], keys: Collection[K], size: int = SMALLEST_TABLE) -> list[K]:
    """Return distinct keys in the iteration order of a HashMap of initially
    `size` buckets, into which they were put in turn.

    Equivalent to `collected`, in a tenth of the time: as long as no bucket is a tree, a table is its keys in the order
    of their buckets, and in a bucket of their insertion. A table that grows splits buckets and keeps that order.
    """
    number = len(keys)
    if number <= 1:
        return list(keys)
    if kind is INTEGERS and (number <= _LONGEST_CHAIN or number * 4 <= size * 3):
        partitions: Any = keys
        highest = max(partitions)
        if highest < min(size, _SPREAD_FROM) and number * 4 <= size * 3:
            return sorted(partitions)
        if highest < _SPREAD_FROM and number <= _LONGEST_CHAIN:  # a partition's bucket is its lower bits
            return sorted(partitions, key=(grown(size, number) - 1).__and__)
    before, size = size, grown(size, number)
    if number > _FEW and before != size and not _is_run(kind, keys):
        return list(collected(kind, keys, before))  # a bucket may have been a tree while the table grew
    spread, mask = kind.spread, size - 1
    in_order = {key: spread(key) & mask for key in keys}
    if number > _LONGEST_CHAIN:
        buckets = sorted(in_order.values())
        if any(map(eq, buckets, buckets[_LONGEST_CHAIN:])):
            return list(collected(kind, keys, before))
    return sorted(keys, key=in_order.__getitem__)


def _is_run(kind: Kind[K], keys: Collection[K]) -> bool:
    """Return whether the keys are consecutive partitions, of which no two are ever in the same bucket."""
    if kind is not INTEGERS:
        return False
    first: Any = next(iter(keys))
    return first + len(keys) <= _SPREAD_FROM and all(map(eq, keys, count(first)))


def grown(size: int, keys: int) -> int:
    """Return the buckets of a HashMap that had `size`, after it contained this number of keys."""
    while keys > size * 3 // 4:
        size *= 2
    return size


def copied(kind: Kind[K], keys: frozenset[K], known: int = 0) -> HashTable[K]:
    """Return `new HashSet<>(keys)`; `known`: the value of `keys.size()`, if it exceeds the number of keys.

    JDK 19 and later choose a smaller table if the keys are 12, 24, 48 … in number.
    """
    return collected(kind, ordered(keys), max(roomy(max(len(keys), known)), SMALLEST_TABLE))


def ordered(keys: frozenset[K]) -> Iterable[K]:
    """Return a JavaSet in its order, another set in ascending order: Python's own order differs between runs."""
    return keys if isinstance(keys, JavaSet) else sorted(keys)  # type: ignore[type-var]


def name_set(names: Sequence[str]) -> JavaSet[str]:
    """Return topic names of a request or a record, in the order of Kafka's set of them: `new HashSet<>(names)`."""
    return JavaSet(collected(STRINGS, names, max(roomy(len(names)), SMALLEST_TABLE)))


def union(names: JavaSet[str], matched: JavaSet[str]) -> JavaSet[str]:
    """Return the topics that a member names and the matches of its expression, in the order of Kafka's UnionSet."""
    large, small = (names, matched) if len(names) > len(matched) else (matched, names)
    return JavaSet([*large, *(each for each in small if each not in large)])


def timeline_table(keys: int, table: int = SMALLEST_TIMELINE) -> int:
    """Return the slots of a TimelineHashMap with so many keys in `table` slots after one `put`, of a new key or not."""
    return table * 2 if (keys + 1) * 0.75 > table else table


def timeline_order(keys: Iterable[str], table: int) -> list[str]:
    """Return the keys of a TimelineHashMap with `table` slots in its iteration order; `keys` in order of insertion.

    The order is by slot, and within a slot the last key first (BaseHashTable.findSlot,
    SnapshottableHashTable.CurrentIterator).
    """
    shift = 64 - (table.bit_length() - 1)
    latest_first = list(keys)[::-1]
    return sorted(latest_first, key=lambda key: (_hash(key) * _FIBONACCI & 0xFFFFFFFFFFFFFFFF) >> shift)
