"""Hand-written encoders for offset response bodies: the same bytes as the generated encoders, several times as fast.

The response to a commit of four partitions is thirty bytes of zeros around the partition numbers of the request; the
response to a fetch of their offsets is the stored values. Creating seven objects for that and encoding them one by one
took as long as validating the commit or finding the offsets. Tests compare these functions with the declarations in
all versions.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence

from kafka_wire.api.offset_commit import OffsetCommitRequestTopic
from kafka_wire.api.offset_fetch import OffsetFetchRequestTopics
from kafka_wire.lengths import ONE_BYTE, write_uvarint
from kafka_wire.records.offsets import OffsetCommitValue

MANY = 32
"""Fewer partitions than this are packed by one call."""

NO_THROTTLE = b"\0\0\0\0"
_pack_length = struct.Struct(">h").pack
_pack_short = struct.Struct(">iqi4s").pack
"""A fetched partition: index, offset, leader epoch, and `_EMPTY`: compact length of empty metadata, no error, no tags.
"""
_EMPTY = b"\1\0\0\0"
_pack_long = struct.Struct(">iqi").pack
_NO_ERROR_NO_TAGS = b"\0\0\0"
_pack_count = struct.Struct(">i").pack

# A partition index, an int16 of no error and, in flexible versions, an empty tag buffer.
_PLAIN = [struct.Struct(">" + "ixx" * count).pack for count in range(MANY)]
_FLEXIBLE = [struct.Struct(">" + "ixxx" * count).pack for count in range(MANY)]

COMMIT_THROTTLE_FROM, COMMIT_FLEXIBLE_FROM, COMMIT_IDS_FROM = 3, 8, 10
FETCH_GROUPS_FROM = 8


def all_committed(topics: Sequence[OffsetCommitRequestTopic], version: int) -> bytes:
    """The OffsetCommitResponse without an error for any partition of the request's `topics`."""
    if version < COMMIT_FLEXIBLE_FROM:
        parts = [NO_THROTTLE if version >= COMMIT_THROTTLE_FROM else b"", _pack_count(len(topics))]
        for topic in topics:
            name = topic.name.encode()
            indexes = [partition.partition_index for partition in topic.partitions]
            parts += (_pack_length(len(name)), name, _pack_count(len(indexes)), _packed(indexes, _PLAIN))
        return b"".join(parts)
    parts = [NO_THROTTLE, _count(len(topics))]
    for topic in topics:
        indexes = [partition.partition_index for partition in topic.partitions]
        if version >= COMMIT_IDS_FROM:
            parts.append(topic.topic_id)
        else:
            name = topic.name.encode()
            parts += (_count(len(name)), name)
        parts += (_count(len(indexes)), _packed(indexes, _FLEXIBLE), b"\0")
    parts.append(b"\0")
    return b"".join(parts)


def all_fetched(
    group_id: str, topics: Sequence[OffsetFetchRequestTopics], found: Iterable[Sequence[OffsetCommitValue | None]]
) -> bytes:
    """The OffsetFetchResponse v8 or v9 for one group, without an error. `found`: per topic, the committed values of the
    requested partitions.
    """
    group = group_id.encode()
    parts = [NO_THROTTLE, ONE_BYTE[2], _count(len(group)), group, _count(len(topics))]
    for topic, values in zip(topics, found, strict=True):
        name = topic.name.encode()
        parts += (_count(len(name)), name, _count(len(values)))
        parts += [
            _pack_short(index, value.offset, value.leader_epoch, _EMPTY)
            if value is not None and not value.metadata
            else _fetched(index, value)
            for index, value in zip(topic.partition_indexes, values, strict=True)
        ]
        parts.append(b"\0")
    parts += (_NO_ERROR_NO_TAGS, b"\0")
    return b"".join(parts)


def _fetched(index: int, value: OffsetCommitValue | None) -> bytes:
    """A fetched partition that the fast path does not cover."""
    if value is None:
        return _pack_short(index, -1, -1, _EMPTY)
    text = value.metadata.encode()
    return _pack_long(index, value.offset, value.leader_epoch) + _count(len(text)) + text + _NO_ERROR_NO_TAGS


def _count(value: int) -> bytes:
    """The length or count of a compact form: an unsigned varint of `value` plus one."""
    return ONE_BYTE[value + 1] if value < 0x7F else write_uvarint(value + 1)


def _packed(indexes: list[int], packers: list[Callable[..., bytes]]) -> bytes:
    if len(indexes) < MANY:
        return packers[len(indexes)](*indexes)
    one = packers[1]
    return b"".join([one(index) for index in indexes])
