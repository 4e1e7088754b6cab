"""Encoding and decoding of records of `__consumer_offsets`: a typed key and a versioned value, each with an int16
before it.

The key's int16 is the record type (Kafka's `CoordinatorRecordType`), the value's int16 is its version. A null value is
a tombstone. Versions written are those of Kafka 4.4's `GroupCoordinatorRecordHelpers`: GroupMetadata v3 and
OffsetCommit v4, or v1 if an OffsetCommit request v2-v4 set a retention time, which no other version can hold; v0 for
the records of consumer groups (KIP-848) and share groups (KIP-932).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from typing import Any

from kafka_wire import errors
from kafka_wire.codecs import decoder, encoder
from kafka_wire.records.consumer_group import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from kafka_wire.records.offsets import GroupMetadataKey, GroupMetadataValue, OffsetCommitKey, OffsetCommitValue
from kafka_wire.records.share_group import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMemberValue,
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataValue,
)
from kafka_wire.records.varint import VARINT
from kafka_wire.schema import ZERO_UUID, schema_of

OFFSET_COMMIT_VALUE_VERSION = 4
OFFSET_COMMIT_VALUE_VERSION_WITH_EXPIRY = 1
GROUP_METADATA_VALUE_VERSION = 3
CONSUMER_GROUP_VALUE_VERSION = 0

CONSUMER_GROUP_KEYS: dict[type[Any], type[Any]] = {
    ConsumerGroupMetadataKey: ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey: ConsumerGroupPartitionMetadataValue,
    ConsumerGroupMemberMetadataKey: ConsumerGroupMemberMetadataValue,
    ConsumerGroupTargetAssignmentMetadataKey: ConsumerGroupTargetAssignmentMetadataValue,
    ConsumerGroupTargetAssignmentMemberKey: ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupCurrentMemberAssignmentKey: ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupRegularExpressionKey: ConsumerGroupRegularExpressionValue,
}
"""The keys of consumer groups (KIP-848) and their values."""

SHARE_GROUP_KEYS: dict[type[Any], type[Any]] = {
    ShareGroupMemberMetadataKey: ShareGroupMemberMetadataValue,
    ShareGroupMetadataKey: ShareGroupMetadataValue,
    ShareGroupTargetAssignmentMetadataKey: ShareGroupTargetAssignmentMetadataValue,
    ShareGroupTargetAssignmentMemberKey: ShareGroupTargetAssignmentMemberValue,
    ShareGroupCurrentMemberAssignmentKey: ShareGroupCurrentMemberAssignmentValue,
    ShareGroupStatePartitionMetadataKey: ShareGroupStatePartitionMetadataValue,
}
"""The keys of share groups (KIP-932) and their values."""

_MODERN_KEYS = {**CONSUMER_GROUP_KEYS, **SHARE_GROUP_KEYS}
_MODERN_VALUES = frozenset(_MODERN_KEYS.values())

RECORD_TYPE_OF: dict[type[Any], int] = {key: schema_of(key).api_key or 0 for key in _MODERN_KEYS}
"""Record type (the int16 before the key) of each of these classes."""

KEY_TYPES: dict[int, type[Any]] = {
    0: OffsetCommitKey,  # LegacyOffsetCommit, written before Kafka 0.9.0.1: the same layout
    1: OffsetCommitKey,
    2: GroupMetadataKey,
    **{record_type: key for key, record_type in RECORD_TYPE_OF.items()},
}
"""Record type (the int16 before a key) -> key class. More types exist (streams): UnknownRecordError."""

VALUE_TYPES: dict[type[Any], type[Any]] = {
    OffsetCommitKey: OffsetCommitValue,
    GroupMetadataKey: GroupMetadataValue,
    **_MODERN_KEYS,
}


class UnknownRecordError(errors.DecodeError):
    """Raised for a key of a type that this module does not read. Callers skip the record but keep it, and never drop
    it.
    """

    def __init__(self, record_type: int) -> None:
        super().__init__(f"record type {record_type}")
        self.record_type = record_type


_pack_partition = struct.Struct(">i").pack
_pack_length = struct.Struct(">h").pack
_pack_timestamp = struct.Struct(">q").pack
_pack_short_value = struct.Struct(">iBhqib").pack
"""A key's partition, the length of the value (a varint of one byte), and an OffsetCommitValue v4 up to its metadata:
version, offset, leader_epoch, and the length of an empty string plus one.
"""
_SHORT_VALUE_BYTES = 15
_KEY_FIXED_BYTES = 10
"""Size of an OffsetCommitKey without its strings: type, two lengths, partition."""
NO_TIMESTAMP = -1

_key_encoders: dict[type[Any], Callable[[Any, bytearray], None]] = {}
_value_encoders: dict[type[Any], Callable[[Any, bytearray], None]] = {}

_encode_offset_commit_key = encoder(OffsetCommitKey, 0)
_encode_group_metadata = encoder(GroupMetadataValue, GROUP_METADATA_VALUE_VERSION)


def encode_key(key: Any) -> bytes:
    """Return the bytes of a key."""
    if type(key) is GroupMetadataKey:
        group = key.group.encode()
        return b"\0\2" + _pack_length(len(group)) + group
    if type(key) is OffsetCommitKey:
        out = bytearray(b"\0\1")
        _encode_offset_commit_key(key, out)
        return bytes(out)
    encode = _key_encoders.get(type(key)) or _key_encoder(type(key))
    out = bytearray((0, RECORD_TYPE_OF[type(key)]))
    encode(key, out)
    return bytes(out)


def _key_encoder(cls: type[Any]) -> Callable[[Any, bytearray], None]:
    """Return the encoder for a consumer or share group's keys of a class; it is looked up when the first key is
    written, since few daemons write any.
    """
    if cls not in _MODERN_KEYS:
        raise errors.EncodeError(f"{cls.__name__} is not a key of __consumer_offsets")
    found = _key_encoders[cls] = encoder(cls, 0)
    return found


def group_of(key: Any) -> str:
    """Return the id of the group that a key belongs to."""
    found: str = key.group if type(key) is OffsetCommitKey or type(key) is GroupMetadataKey else key.group_id
    return found


def encode_value(value: Any) -> bytes:
    """Return the bytes of a value, in the version that Kafka 4.4 would write."""
    if type(value) is GroupMetadataValue:
        out = bytearray((0, GROUP_METADATA_VALUE_VERSION))
        _encode_group_metadata(value, out)
        return bytes(out)
    if type(value) is OffsetCommitValue:
        expires = value.expire_timestamp >= 0
        version = OFFSET_COMMIT_VALUE_VERSION_WITH_EXPIRY if expires else OFFSET_COMMIT_VALUE_VERSION
    else:
        encode = _value_encoders.get(type(value)) or _value_encoder(type(value))
        out = bytearray((0, CONSUMER_GROUP_VALUE_VERSION))
        encode(value, out)
        return bytes(out)
    out = bytearray((0, version))
    encoder(type(value), version)(value, out)
    return bytes(out)


def _value_encoder(cls: type[Any]) -> Callable[[Any, bytearray], None]:
    """Return the encoder for values of a class, looked up as in `_key_encoder`."""
    if cls not in _MODERN_VALUES:
        raise errors.EncodeError(f"{cls.__name__} is not a value of __consumer_offsets")
    found = _value_encoders[cls] = encoder(cls, CONSUMER_GROUP_VALUE_VERSION)
    return found


def encode_offsets(group: str, topic: str, values: Iterable[tuple[int, OffsetCommitValue]]) -> list[bytes]:
    """Return record bodies of the offsets of one topic's partitions: the `record_body` of `encode_key` and
    `encode_value`.

    Every commit calls this function. It encodes the parts that all records share once, and creates no separate keys or
    values.
    """
    group_bytes, topic_bytes = group.encode(), topic.encode()
    size = _KEY_FIXED_BYTES + len(group_bytes) + len(topic_bytes)
    prefix = b"".join(
        (
            VARINT[size],
            b"\0\1",
            _pack_length(len(group_bytes)),
            group_bytes,
            _pack_length(len(topic_bytes)),
            topic_bytes,
        )
    )
    timestamp = NO_TIMESTAMP
    topic_id = rest = b""
    size = 0
    bodies: list[bytes] = []
    for partition, value in values:
        if value.metadata or value.expire_timestamp >= 0:
            encoded = encode_value(value)
            bodies.append(b"".join((prefix, _pack_partition(partition), VARINT[len(encoded)], encoded, b"\0")))
            continue
        if value.commit_timestamp != timestamp or value.topic_id is not topic_id:
            timestamp, topic_id = value.commit_timestamp, value.topic_id
            rest = _pack_timestamp(timestamp) + (b"\0" if topic_id == ZERO_UUID else b"\1\0\x10" + topic_id)
            size = 2 * (_SHORT_VALUE_BYTES + len(rest))  # zigzag
            rest += b"\0"  # no headers
        short = _pack_short_value(partition, size, OFFSET_COMMIT_VALUE_VERSION, value.offset, value.leader_epoch, 1)
        bodies.append(prefix + short + rest)
    return bodies


def _int16(data: bytes, what: str) -> int:
    if len(data) < 2:
        raise errors.TruncatedError(f"a {what} of {len(data)} bytes")
    return int.from_bytes(data[:2], "big", signed=True)


_decode_offset_commit_key = decoder(OffsetCommitKey, 0)


def decode_key(data: bytes) -> Any:
    """Decode a key. Raises `UnknownRecordError` for a type that is not read, `DecodeError` for damage."""
    if data[:2] == b"\0\1":
        return _decode_offset_commit_key(data, 2, len(data))
    record_type = _int16(data, "key")
    cls = KEY_TYPES.get(record_type)
    if cls is None:
        raise UnknownRecordError(record_type)
    return decoder(cls, 0)(data, 2, len(data))


def decode_value(key: Any, data: bytes) -> Any:
    """Decode the value that belongs to `key`. Raises `DecodeError` for damage or an unknown version."""
    version = _int16(data, "value")
    cls = VALUE_TYPES[type(key)]
    return decoder(cls, version)(data, 2, len(data))
