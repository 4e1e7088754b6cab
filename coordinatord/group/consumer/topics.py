"""What a group of the consumer protocol knows of topics, and the hashes that tell it of changes (KIP-1101).

A topic's hash covers its id, name, number of partitions and the racks of each partition; a group's hash covers the
hashes of the topics that it is subscribed to. The coordinator logs the group's hash with its epoch: another hash means
that the partitions have to be assigned anew. Both are those of Kafka (Utils.computeTopicHash and computeGroupHash of
its group coordinator), since either may load what the other has logged.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from xxhash import xxh3_64_intdigest

MAGIC: Final = b"\0"
_INT: Final = struct.Struct("<i").pack
_LONG: Final = struct.Struct("<Q").pack


class Topic(NamedTuple):
    """A topic as a group sees it. `hash` is `topic_hash` of all of it."""

    topic_id: bytes
    name: str
    partitions: int
    hash: int


class Topics(Protocol):
    """All topics. `version` rises with each change, `created_version` is its value when a topic was last created."""

    @property
    def version(self) -> int: ...

    @property
    def created_version(self) -> int: ...

    def find(self, name: str) -> Topic | None: ...

    def find_id(self, topic_id: bytes) -> Topic | None: ...

    def names(self) -> Iterable[str]: ...

    def num_partitions(self, topic_id: bytes) -> int:
        """-1: no such topic."""
        ...

    def racks(self, topic_id: bytes, partition: int) -> frozenset[str]: ...


def topic_hash(topic_id: bytes, name: str, racks: Sequence[Iterable[str]]) -> int:
    """The hash of a topic; `racks` has those of each partition."""
    out = bytearray(MAGIC)
    for half in (topic_id[:8], topic_id[8:]):
        out += half[::-1]  # an int64 of the id, little-endian
    out += _text(name) + _INT(len(racks))
    for partition, of_partition in enumerate(racks):
        out += _INT(partition)
        for rack in sorted(of_partition, key=_java_order):
            out += _INT(_units(rack)) + _text(rack)
    return _signed(xxh3_64_intdigest(bytes(out)))


def group_hash(hashes: Mapping[str, int]) -> int:
    """The hash of a group's topics, by name; 0 without topics."""
    if not hashes:
        return 0
    packed = b"".join(_LONG(hashes[name] & 0xFFFF_FFFF_FFFF_FFFF) for name in sorted(hashes, key=_java_order))
    return _signed(xxh3_64_intdigest(packed))


def _java_order(name: str) -> bytes:
    """Java compares strings by their UTF-16 units."""
    return name.encode("utf-16-be", "surrogatepass")


def _units(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def _text(text: str) -> bytes:
    """A string: its UTF-16 units, then their number."""
    units = text.encode("utf-16-le", "surrogatepass")
    return units + _INT(len(units) // 2)


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value
