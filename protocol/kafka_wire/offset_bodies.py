"""Hand-written encoders for offset response bodies: the same bytes as the generated encoders, several times as fast.

The response to a commit of four partitions is thirty bytes of zeros around the partition numbers of the request; the
response to a fetch of their offsets is the stored values. Creating seven objects for that and encoding them one by one
took as long as validating the commit or finding the offsets. Tests compare these functions with the declarations in all
versions.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Iterable, Sequence

from kafka_wire.api.offset_commit import OffsetCommitRequestTopic
from kafka_wire.lengths import ONE_BYTE, write_uvarint
from kafka_wire.records.offsets import OffsetCommitValue

MANY = 32
"""Number of partitions from which on several calls are needed; fewer partitions are packed by one call."""

NO_THROTTLE = b"\0\0\0\0"
_pack_length = struct.Struct(">h").pack
_pack_short = struct.Struct(">iqi4s").pack
"""A fetched partition: index, offset, leader epoch, and `_EMPTY`: compact length of empty metadata, no error, no tags.
"""
_pack_v5 = struct.Struct(">iqih").pack
"""Index, offset, leader epoch, length of the metadata; `_pack_v1` has no leader epoch."""
_pack_v1 = struct.Struct(">iqh").pack
_EMPTY = b"\1\0\0\0"
_pack_long = struct.Struct(">iqi").pack
_NO_ERROR = b"\0\0"
_NO_ERROR_NO_TAGS = b"\0\0\0"
_pack_count = struct.Struct(">i").pack

# A partition index, an int16 of no error and, in flexible versions, an empty tag buffer.
_PLAIN = [struct.Struct(">" + "ixx" * count).pack for count in range(MANY)]
_FLEXIBLE = [struct.Struct(">" + "ixxx" * count).pack for count in range(MANY)]

COMMIT_THROTTLE_FROM, COMMIT_FLEXIBLE_FROM, COMMIT_IDS_FROM = 3, 8, 10
FETCH_ERROR_FROM, FETCH_THROTTLE_FROM, FETCH_EPOCH_FROM, FETCH_FLEXIBLE_FROM, FETCH_GROUPS_FROM = 2, 3, 5, 6, 8

FoundTopic = tuple[str, Iterable[int], Collection[OffsetCommitValue | None]]
"""A topic of an OffsetFetch: its name, partition indexes, and the committed value of each, None without one."""


def all_committed(topics: Sequence[OffsetCommitRequestTopic], version: int) -> bytes:
    """Return the body of an OffsetCommitResponse without an error for any partition of the request's `topics`."""
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


def all_fetched(group_id: str, found: Sequence[FoundTopic], version: int) -> bytes:
    """Return the body of an OffsetFetchResponse v1 to v9 for one group, without an error."""
    if version < FETCH_FLEXIBLE_FROM:
        return _all_fetched_fixed(found, version)
    parts = [NO_THROTTLE]
    if version >= FETCH_GROUPS_FROM:
        group = group_id.encode()
        parts += (ONE_BYTE[2], _count(len(group)), group)
    parts.append(_count(len(found)))
    for topic, indexes, values in found:
        name = topic.encode()
        parts += (_count(len(name)), name, _count(len(values)))
        parts += [
            _pack_short(index, value.offset, value.leader_epoch, _EMPTY)
            if value is not None and not value.metadata
            else _fetched(index, value)
            for index, value in zip(indexes, values, strict=True)
        ]
        parts.append(b"\0")
    parts.append(_NO_ERROR_NO_TAGS)
    if version >= FETCH_GROUPS_FROM:
        parts.append(b"\0")
    return b"".join(parts)


def _fetched(index: int, value: OffsetCommitValue | None) -> bytes:
    """Encode a fetched partition that the fast path does not cover."""
    if value is None:
        return _pack_short(index, -1, -1, _EMPTY)
    text = value.metadata.encode()
    return _pack_long(index, value.offset, value.leader_epoch) + _count(len(text)) + text + _NO_ERROR_NO_TAGS


def _all_fetched_fixed(found: Sequence[FoundTopic], version: int) -> bytes:
    """Return the body of `all_fetched` for v1 to v5: lengths and counts have a fixed size."""
    parts = [NO_THROTTLE if version >= FETCH_THROTTLE_FROM else b"", _pack_count(len(found))]
    has_epoch = version >= FETCH_EPOCH_FROM
    for topic, indexes, values in found:
        name = topic.encode()
        parts += (_pack_length(len(name)), name, _pack_count(len(values)))
        for index, value in zip(indexes, values, strict=True):
            offset, epoch, text = -1, -1, b""
            if value is not None:
                offset, epoch, text = value.offset, value.leader_epoch, value.metadata.encode()
            packed = _pack_v5(index, offset, epoch, len(text)) if has_epoch else _pack_v1(index, offset, len(text))
            parts += (packed, text, _NO_ERROR)
    if version >= FETCH_ERROR_FROM:
        parts.append(_NO_ERROR)
    return b"".join(parts)


def _count(value: int) -> bytes:
    """Encode the length or count of a compact form: an unsigned varint of `value` plus one."""
    return ONE_BYTE[value + 1] if value < 0x7F else write_uvarint(value + 1)


def _packed(indexes: list[int], packers: list[Callable[..., bytes]]) -> bytes:
    if len(indexes) < MANY:
        return packers[len(indexes)](*indexes)
    one = packers[1]
    return b"".join([one(index) for index in indexes])
