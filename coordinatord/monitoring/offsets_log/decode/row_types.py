"""Kinds of rows, and the columns of each as an Arrow schema, made from the declarations of the records.

A kind is a table. There is one per record type of `__consumer_offsets`, with Kafka's name of the record
(`consumer_group_member_metadata`), and four named after their content: `offset_commits`, `group_generations`,
`transaction_markers`, `quarantine`. Every table begins with its row's place in the log. README.md has all columns.

Times are int64 milliseconds since 1970 and end in `_ms`; Kafka's stand-ins for "none" (an epoch or time of -1, an
all-zero topic id) are null; topic ids are Kafka's text (22 characters of URL-safe base64).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from kafka_wire.records.consumer import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from kafka_wire.records.offsets import GroupMetadataKey, MemberMetadata, OffsetCommitKey
from kafka_wire.records.record_types import RECORD_TYPES
from kafka_wire.schema import Field, Type, schema_of

OFFSET_COMMITS = "offset_commits"
GROUP_GENERATIONS = "group_generations"
TRANSACTION_MARKERS = "transaction_markers"
QUARANTINE = "quarantine"

_TOLD = {"OffsetCommit": OFFSET_COMMITS, "GroupMetadata": GROUP_GENERATIONS}

#: Fields whose name lacks the unit, or equals the name of a column of the log.
RENAMED = {
    "group": "group_id",
    "offset": "committed_offset",
    "commit_timestamp": "commit_timestamp_ms",
    "expire_timestamp": "expire_timestamp_ms",
    "current_state_timestamp": "current_state_timestamp_ms",
    "assignment_timestamp": "assignment_timestamp_ms",
    "rebalance_timeout": "rebalance_timeout_ms",
    "session_timeout": "session_timeout_ms",
    "timestamp": "resolved_timestamp_ms",
    "version": "metadata_version",
}

#: Fields in which -1 means none.
NONE_IS_MINUS_ONE = {
    "leader_epoch",
    "expire_timestamp",
    "current_state_timestamp",
    "rebalance_timeout",
    "rebalance_timeout_ms",
    "validated_topology_epoch",
}
#: Fields in which 0 means none.
NONE_IS_ZERO = {"assignment_timestamp"}

#: The place of a row: first in every table.
PLACE = (
    pa.field("log_partition", pa.int32()),
    pa.field("log_offset", pa.int64()),
    pa.field("timestamp_ms", pa.int64()),
)
#: The columns of a record besides its key and value.
RECORD = (
    pa.field("transactional", pa.bool_(), nullable=False),
    pa.field("producer_id", pa.int64()),
    pa.field("producer_epoch", pa.int16()),
    pa.field("record_bytes", pa.int32(), nullable=False),
    pa.field("tombstone", pa.bool_(), nullable=False),
    pa.field("value_version", pa.int16()),
)

_SCALARS = {
    "bool": pa.bool_(),
    "int8": pa.int8(),
    "int16": pa.int16(),
    "uint16": pa.int32(),  # Spark has no unsigned types
    "int32": pa.int32(),
    "int64": pa.int64(),
    "string": pa.string(),
    "uuid": pa.string(),
    "bytes": pa.binary(),
}


@dataclass(frozen=True, slots=True)
class Kind:
    """A table. The records of `record_types` become its rows; none for markers and the quarantine."""

    name: str
    record_types: tuple[int, ...]
    schema: pa.Schema


def column_name(field: Field) -> str:
    return RENAMED.get(field.name, field.name)


def column_type(type_: Type) -> pa.DataType:
    """Return the Arrow type of a declared type."""
    if type_.element is not None:
        return pa.list_(pa.field("element", column_type(type_.element)))  # Spark's name
    if type_.struct is MemberMetadata:
        return _member_type()
    if type_.struct is not None:
        return struct_type(type_.struct)
    return _SCALARS[type_.kind]


def struct_type(cls: type[Any]) -> pa.StructType:
    return pa.struct([pa.field(column_name(f), column_type(f.type)) for f in schema_of(cls).fields])


def _member_type() -> pa.StructType:
    """Return the type of a member of a classic group: its two blobs decoded by the consumer protocol, or raw if that is
    not possible.
    """
    fields: list[pa.Field] = []
    for field in schema_of(MemberMetadata).fields:
        if field.name in _BLOBS:
            inner = [pa.field("version", pa.int16()), *struct_type(_BLOBS[field.name])]
            fields += [pa.field(field.name, pa.struct(inner)), pa.field(f"{field.name}_bytes", pa.binary())]
        else:
            fields.append(pa.field(column_name(field), column_type(field.type)))
    return pa.struct(fields)


_BLOBS: dict[str, type[Any]] = {"subscription": ConsumerProtocolSubscription, "assignment": ConsumerProtocolAssignment}


def kind_name(key_class: type[Any]) -> str:
    """Return the name of the kind: ConsumerGroupMetadataKey -> consumer_group_metadata."""
    name = key_class.__name__.removesuffix("Key")
    return _TOLD.get(name) or re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


def _kinds() -> dict[str, Kind]:
    found: dict[str, Kind] = {}
    for key_class, value_class in dict.fromkeys(RECORD_TYPES.values()):
        name = kind_name(key_class)
        keys = [pa.field(column_name(f), column_type(f.type), nullable=False) for f in schema_of(key_class).fields]
        values = [pa.field(column_name(f), column_type(f.type)) for f in schema_of(value_class).fields]
        types = tuple(number for number, pair in RECORD_TYPES.items() if pair[0] is key_class)
        found[name] = Kind(name, types, pa.schema([*PLACE, *RECORD, *keys, *values]))
    markers = [
        pa.field("producer_id", pa.int64(), nullable=False),
        pa.field("producer_epoch", pa.int16(), nullable=False),
        pa.field("marker", pa.string(), nullable=False),
        pa.field("coordinator_epoch", pa.int32()),
    ]
    quarantine = [
        pa.field("level", pa.string(), nullable=False),
        pa.field("reason", pa.string(), nullable=False),
        pa.field("record_type", pa.int16()),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("bytes", pa.binary()),
        pa.field("byte_count", pa.int64(), nullable=False),
        pa.field("source", pa.string()),
        pa.field("position", pa.int64()),
    ]
    found[TRANSACTION_MARKERS] = Kind(TRANSACTION_MARKERS, (), pa.schema([*PLACE, *markers]))
    found[QUARANTINE] = Kind(QUARANTINE, (), pa.schema([*PLACE, *quarantine]))
    return found


KINDS: dict[str, Kind] = _kinds()
KIND_OF_TYPE: dict[int, str] = {number: kind.name for kind in KINDS.values() for number in kind.record_types}

assert KINDS[OFFSET_COMMITS].record_types == (0, 1)
assert kind_name(OffsetCommitKey) == OFFSET_COMMITS
assert kind_name(GroupMetadataKey) == GROUP_GENERATIONS
