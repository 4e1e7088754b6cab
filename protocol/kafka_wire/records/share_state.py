"""Keys and values in `__share_group_state` (KIP-932): the record types 0 and 1 of Kafka's share coordinator.

Key and value each start with an int16, as in `__consumer_offsets`: the key's type and the value's version. A snapshot's
key with a null value is a tombstone.
"""

from __future__ import annotations

from typing import NamedTuple

from kafka_wire.codecs import decoder, encoder
from kafka_wire.errors import DecodeError, TruncatedError
from kafka_wire.schema import array, int8, int16, int32, int64, message, string, uuid


@message(versions="0", api_key=0)
class ShareSnapshotKey:
    group_id: str = string("0")
    topic_id: bytes = uuid("0")
    partition: int = int32("0")


@message()
class StateBatch:
    first_offset: int = int64("0+")
    last_offset: int = int64("0+")
    delivery_state: int = int8("0+")
    delivery_count: int = int16("0+")


@message(versions="0", flexible="0+", api_key=0)
class ShareSnapshotValue:
    snapshot_epoch: int = int32("0+")
    state_epoch: int = int32("0+")
    leader_epoch: int = int32("0+")
    start_offset: int = int64("0+")
    delivery_complete_count: int = int32("0+", default=-1, tagged="0+", tag=0)
    create_timestamp: int = int64("0+")
    write_timestamp: int = int64("0+")
    state_batches: list[StateBatch] = array(StateBatch, "0+")


@message(versions="0", api_key=1)
class ShareUpdateKey:
    group_id: str = string("0")
    topic_id: bytes = uuid("0")
    partition: int = int32("0")


@message(versions="0", flexible="0+", api_key=1)
class ShareUpdateValue:
    snapshot_epoch: int = int32("0+")
    leader_epoch: int = int32("0+")
    start_offset: int = int64("0+")
    delivery_complete_count: int = int32("0+", default=-1, tagged="0+", tag=0)
    state_batches: list[StateBatch] = array(StateBatch, "0+")


SNAPSHOT_TYPE = 0
UPDATE_TYPE = 1
VALUE_VERSION = 0


class ShareStateKey(NamedTuple):
    """A record's key: the type of the record, and its share partition."""

    record_type: int
    group_id: str
    topic_id: bytes
    partition: int


class UnknownShareRecordError(DecodeError):
    """Raised for a record whose key has another type. Callers skip the record but keep it in the log."""


def encode_key(key: ShareStateKey) -> bytes:
    """Return the bytes of a key."""
    out = bytearray((0, key.record_type))
    encoder(ShareSnapshotKey, 0)(ShareSnapshotKey(key.group_id, key.topic_id, key.partition), out)
    return bytes(out)


def encode_value(value: ShareSnapshotValue | ShareUpdateValue) -> bytes:
    """Return the bytes of a value."""
    out = bytearray((0, VALUE_VERSION))
    encoder(type(value), VALUE_VERSION)(value, out)
    return bytes(out)


def decode_key(data: bytes) -> ShareStateKey:
    """Decode a key. Raises `UnknownShareRecordError` for other types, `DecodeError` for damage."""
    if len(data) < 2:
        raise TruncatedError(f"a key of {len(data)} bytes")
    record_type = int.from_bytes(data[:2], "big", signed=True)
    if record_type not in (SNAPSHOT_TYPE, UPDATE_TYPE):
        raise UnknownShareRecordError(f"record type {record_type}")
    key: ShareSnapshotKey = decoder(ShareSnapshotKey, 0)(data, 2, len(data))  # both keys have the same fields
    return ShareStateKey(record_type, key.group_id, key.topic_id, key.partition)


def decode_value(record_type: int, data: bytes) -> ShareSnapshotValue | ShareUpdateValue:
    """Decode the value of a record of this type. Raises `DecodeError` for damage or an unknown version."""
    if len(data) < 2:
        raise TruncatedError(f"a value of {len(data)} bytes")
    version = int.from_bytes(data[:2], "big", signed=True)
    kind: type[ShareSnapshotValue | ShareUpdateValue]
    kind = ShareSnapshotValue if record_type == SNAPSHOT_TYPE else ShareUpdateValue
    return decoder(kind, version)(data, 2, len(data))
