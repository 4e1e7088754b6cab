"""One record as a row: the generated decoders of `kafka_wire` decode keys and values to plain Python values.

Used for all kinds but offset commits, and as the oracle for those.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any, NamedTuple

from coordinatord.monitoring.offsets_log.decode.row_types import (
    KIND_OF_TYPE,
    NONE_IS_MINUS_ONE,
    NONE_IS_ZERO,
    column_name,
)
from kafka_wire.codecs import decoder
from kafka_wire.errors import DecodeError, TruncatedError
from kafka_wire.records.consumer import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from kafka_wire.records.record_types import RECORD_TYPES
from kafka_wire.schema import ZERO_UUID, Field, Type, schema_of

#: The protocol type whose subscriptions and assignments are the consumer protocol's.
CONSUMER = "consumer"

Row = dict[str, Any]


class Damage(NamedTuple):
    """The unreadable part of a record of which the rest became a row: `level` "member"."""

    reason: str
    data: bytes


class Refused(Exception):
    """A record that becomes no row; the text is the reason. `record_type` is None if not even the type is readable."""

    def __init__(self, reason: str, record_type: int | None = None) -> None:
        super().__init__(reason)
        self.record_type = record_type


def topic_id_text(topic_id: bytes) -> str | None:
    """Return a uuid in Kafka's text form; None for the zero uuid."""
    return None if topic_id == ZERO_UUID else base64.urlsafe_b64encode(topic_id).decode().rstrip("=")


def record_type_of(key: bytes | None) -> int:
    """Return the first int16 of a key. Raises Refused if the key is missing or its type not declared."""
    if key is None:
        raise Refused("the record has no key")
    if len(key) < 2:
        raise Refused(f"a key of {len(key)} bytes")
    record_type = int.from_bytes(key[:2], "big", signed=True)
    if record_type not in RECORD_TYPES:
        raise Refused(f"record type {record_type} is not known", record_type)
    return record_type


def decode_key(record_type: int, key: bytes) -> Row:
    """Return the columns of a key. Raises Refused."""
    cls = RECORD_TYPES[record_type][0]
    try:
        return _reader(cls)(decoder(cls, 0)(key, 2, len(key)))
    except DecodeError as error:
        raise Refused(f"key: {error}", record_type) from None


def decode_value(record_type: int, value: bytes) -> tuple[Row, list[Damage]]:
    """Return the columns of a value, including `value_version`, and its unreadable parts. Raises Refused."""
    cls = RECORD_TYPES[record_type][1]
    damage: list[Damage] = []
    try:
        if len(value) < 2:
            raise TruncatedError(f"it has {len(value)} bytes")
        version = int.from_bytes(value[:2], "big", signed=True)
        message = decoder(cls, version)(value, 2, len(value))
    except DecodeError as error:
        raise Refused(f"value: {error}", record_type) from None
    row = _reader(cls)(message)
    if KIND_OF_TYPE[record_type] == "group_generations":
        consumer = message.protocol_type == CONSUMER
        for member in row["members"]:
            _take_apart(member, "subscription", ConsumerProtocolSubscription, consumer, damage)
            _take_apart(member, "assignment", ConsumerProtocolAssignment, consumer, damage)
    row["value_version"] = version
    return row, damage


def _take_apart(member: Row, name: str, cls: type[Any], consumer: bool, damage: list[Damage]) -> None:
    """Replace a member's blob by its decoded fields, or keep it raw if it is damaged or of another protocol type. A
    member without partitions has an empty assignment.
    """
    data: bytes = member[name]
    member[name], member[f"{name}_bytes"] = None, data
    if not consumer or not data:
        return
    try:
        if len(data) < 2:
            raise TruncatedError(f"it has {len(data)} bytes")
        version = int.from_bytes(data[:2], "big", signed=True)
        decoded = _reader(cls)(decoder(cls, version)(data, 2, len(data)))
    except DecodeError as error:
        damage.append(Damage(f"{name} of member {member['member_id']}: {error}", data))
        return
    member[name], member[f"{name}_bytes"] = {"version": version, **decoded}, None


# --- from a message to a dict of columns ------------------------------------------------------------------------------


_readers: dict[type[Any], Callable[[Any], Row]] = {}


def _reader(cls: type[Any]) -> Callable[[Any], Row]:
    """Return a function from a message of `cls` to its columns."""
    if cls not in _readers:
        _readers[cls] = _make_reader(cls)
    return _readers[cls]


def _make_reader(cls: type[Any]) -> Callable[[Any], Row]:
    fields = [(column_name(f), f.name, _converter(f)) for f in schema_of(cls).fields]

    def read(message: Any) -> Row:
        row = {}
        for column, name, convert in fields:
            value = getattr(message, name)
            row[column] = value if convert is None else convert(value)
        return row

    return read


def _converter(field: Field) -> Callable[[Any], Any] | None:
    if field.name in NONE_IS_MINUS_ONE:
        return lambda value: None if value == -1 else value
    if field.name in NONE_IS_ZERO:
        return lambda value: None if value == 0 else value
    return _type_converter(field.type)


def _type_converter(type_: Type) -> Callable[[Any], Any] | None:
    """Return a function from a value to the value in its Arrow column; None if no conversion is needed."""
    if type_.kind == "uuid":
        return topic_id_text
    if type_.element is not None:
        inner = _type_converter(type_.element)
        if inner is None:
            return None
        return lambda values: None if values is None else [inner(value) for value in values]
    if type_.struct is not None:
        cls = type_.struct
        return lambda value: None if value is None else _reader(cls)(value)
    return None
