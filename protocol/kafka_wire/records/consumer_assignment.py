"""Encoding of the consumer protocol: an int16 version, then the message in this version.

Follows Kafka's ConsumerProtocol. The bytes are the `metadata` of JoinGroup (`ConsumerProtocolSubscription`) and the
`assignment` of SyncGroup (`ConsumerProtocolAssignment`). A version above HIGHEST_VERSION is read as HIGHEST_VERSION;
the fields that a later version adds at the end are ignored.
"""

from __future__ import annotations

import struct
from typing import Any, Final

from kafka_wire.codecs import decoder, encoder
from kafka_wire.errors import DecodeError, TruncatedError
from kafka_wire.records.consumer import ConsumerProtocolAssignment

HIGHEST_VERSION: Final = 3
_VERSION: Final = struct.Struct(">h")


def version_of(data: bytes) -> int:
    """Return the version in which `data` is to be decoded. Raises `DecodeError` if there is none, or it is negative."""
    if len(data) < _VERSION.size:
        raise TruncatedError("a consumer protocol message without a version")
    version: int = _VERSION.unpack_from(data)[0]
    if version < 0:
        raise DecodeError(f"consumer protocol version {version}")
    return min(version, HIGHEST_VERSION)


def decode(kind: type[Any], data: bytes) -> Any:
    """Decode a message of the type `kind`. Raises `DecodeError` if `data` is not one."""
    return decoder(kind, version_of(data))(data, _VERSION.size, len(data))


def encode(message: Any, version: int = HIGHEST_VERSION) -> bytes:
    """Encode a message, with its version before it."""
    out = bytearray(_VERSION.pack(version))
    encoder(type(message), version)(message, out)
    return bytes(out)


def decode_assignment(data: bytes) -> list[tuple[str, int]]:
    """Decode an assignment as pairs of topic and partition.

    Raises `DecodeError` if `data` is not an assignment, or is empty because the leader omitted the member.
    """
    assignment = decode(ConsumerProtocolAssignment, data)
    return [(each.topic, number) for each in assignment.assigned_partitions for number in each.partitions]
