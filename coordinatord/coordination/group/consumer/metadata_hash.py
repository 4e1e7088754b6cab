"""The hash by which a group detects changes of its topics (KIP-1101), equal to Kafka's (Utils.computeTopicHash).

Kafka feeds values into a stream of hash4j's XXH3, 64 bits, seed 0. The stream consists of the bytes of the values:
numbers are little-endian; a string is its UTF-16 units, little-endian, and then their number as an int32.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

import xxhash

from coordinatord.coordination.group.consumer.assignors.spec import UUID
from coordinatord.coordination.group.consumer.java_collections.hash_map import string_order

NO_TOPICS = 0
"""The hash of a group that subscribes to no topic that exists."""

_MAGIC = b"\0"
_INT = struct.Struct("<i")
_LONG = struct.Struct("<q")


def topic_hash(topic_id: UUID, name: str, racks: Sequence[Sequence[str]]) -> int:
    """Return the hash of a topic as an int64.

    `racks`: for each partition the racks of its replicas, in any order. A rack counts as often as it has replicas; a
    broker without a rack does not count.
    """
    data = bytearray(_MAGIC)
    data += topic_id[7::-1]
    data += topic_id[:7:-1]
    _add_string(data, name)
    data += _INT.pack(len(racks))
    for partition, each in enumerate(racks):
        data += _INT.pack(partition)
        for rack in each if len(each) < 2 else sorted(each, key=string_order):
            data += _INT.pack(len(string_order(rack)) // 2)
            _add_string(data, rack)
    return _int64(data)


def group_hash(topic_hashes: Mapping[str, int]) -> int:
    """Return the hash of a group as an int64; `topic_hashes`: of the subscribed topics that exist, by name."""
    if not topic_hashes:
        return NO_TOPICS
    return _int64(b"".join(_LONG.pack(topic_hashes[name]) for name in sorted(topic_hashes, key=string_order)))


def _add_string(data: bytearray, text: str) -> None:
    units = text.encode("utf-16-le", "surrogatepass")
    data += units
    data += _INT.pack(len(units) // 2)


def _int64(data: bytes | bytearray) -> int:
    value: int = xxhash.xxh3_64_intdigest(data)
    return value - (1 << 64) if value >> 63 else value
