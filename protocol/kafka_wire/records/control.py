"""Control records: markers that a transaction coordinator writes among the records (ControlRecordType,
EndTransactionMarker).

Key: int16 version, int16 type. Value of an end marker: int16 version, int32 coordinator epoch.
"""

from __future__ import annotations

import struct
from enum import IntEnum

from kafka_wire.errors import TruncatedError

_KEY = struct.Struct(">hh")
_END_MARKER = struct.Struct(">hi")


class ControlType(IntEnum):
    """A control record's type. KRaft's own log has more types; readers skip unknown ones."""

    ABORT = 0
    COMMIT = 1
    UNKNOWN = -1


def encode_key(control_type: ControlType) -> bytes:
    return _KEY.pack(0, control_type)


def encode_end_marker(coordinator_epoch: int) -> bytes:
    return _END_MARKER.pack(0, coordinator_epoch)


def decode_key(key: bytes | None) -> ControlType:
    """Return the type in a control record's key; UNKNOWN for types of Kafka's metadata log and for future types."""
    if key is None or len(key) < _KEY.size:
        raise TruncatedError("a control record's key is shorter than four bytes")
    version, number = _KEY.unpack_from(key)
    if version < 0 or number not in (ControlType.ABORT, ControlType.COMMIT):
        return ControlType.UNKNOWN
    return ControlType(number)


def decode_end_marker(value: bytes | None) -> int:
    """Return the coordinator epoch in an abort or commit marker."""
    if value is None or len(value) < _END_MARKER.size:
        raise TruncatedError("an end-of-transaction marker is shorter than six bytes")
    epoch: int = _END_MARKER.unpack_from(value)[1]
    return epoch


def read_end_marker(key: bytes | None, value: bytes | None) -> tuple[ControlType, int] | None:
    """Return type and coordinator epoch of an end marker; None for a control record that does not end a transaction."""
    control_type = decode_key(key)
    return None if control_type is ControlType.UNKNOWN else (control_type, decode_end_marker(value))
