"""A hand-written decoder of OffsetCommitValue: same results as the generated decoders, several times as fast on common
values.

A start decodes every committed offset. A value is a handful of fixed-size fields around one string, so one `struct`
call reads most of them. Unusual values (an unknown version, a long string, unknown tags, a length that does not fit) go
to the generated decoder, which decodes or rejects them. Tests compare the two decoders.
"""

from __future__ import annotations

import struct
from typing import Final

from kafka_wire.codecs import constructor
from kafka_wire.records.keys import decode_value
from kafka_wire.records.offsets import OffsetCommitKey, OffsetCommitValue
from kafka_wire.schema import ZERO_UUID

# version, offset, leader epoch, metadata length, commit timestamp, tags, topic id
_V4_WITH_ID: Final = struct.Struct(">hqiBq3s16s").unpack
_ONE_ID: Final = b"\1\0\x10"
"""One tagged field: count, tag number, size."""
_V4: Final = struct.Struct(">hqiBqB")
_V3: Final = struct.Struct(">hqihq")
_V4_HEAD: Final = struct.Struct(">hqiB")
_V4_TAIL: Final = struct.Struct(">qB")
_V4_TAIL_WITH_ID: Final = struct.Struct(">q3s16s")
_ANY_KEY: Final = OffsetCommitKey("", "", 0)
_value: Final = constructor(OffsetCommitValue)


def decode_offset_value(data: bytes, topic_ids: dict[bytes, bytes]) -> OffsetCommitValue:
    """Decode the value of an offset record; raises `DecodeError` as `decode_value` does. `topic_ids` interns the ids: a
    million offsets of ten topics need not hold a million ids.
    """
    size = len(data)
    if size == 42:
        version, offset, epoch, length, timestamp, tags, topic_id = _V4_WITH_ID(data)
        if version == 4 and length == 1 and tags == _ONE_ID:
            return _value(offset, epoch, "", timestamp, -1, topic_ids.setdefault(topic_id, topic_id))
    elif size == 24:
        if data[1] == 4:
            version, offset, epoch, length, timestamp, tags = _V4.unpack(data)
            if version == 4 and length == 1 and tags == 0:
                return _value(offset, epoch, "", timestamp, -1, ZERO_UUID)
        else:
            version, offset, epoch, length, timestamp = _V3.unpack(data)
            if version == 3 and length == 0:
                return _value(offset, epoch, "", timestamp, -1, ZERO_UUID)
    if size > 24 and data[1] == 4:
        found = _with_metadata(data, size, topic_ids)
        if found is not None:
            return found
    other: OffsetCommitValue = decode_value(_ANY_KEY, data)
    return other


def _with_metadata(data: bytes, size: int, topic_ids: dict[bytes, bytes]) -> OffsetCommitValue | None:
    """Decode a v4 value with up to 126 bytes of metadata; None for any other value."""
    version, offset, epoch, length = _V4_HEAD.unpack_from(data)
    stop = 14 + length
    if version != 4 or not 1 <= length <= 127:
        return None
    try:
        if size - stop == 27:
            timestamp, tags, topic_id = _V4_TAIL_WITH_ID.unpack_from(data, stop)
            if tags == _ONE_ID:
                topic_id = topic_ids.setdefault(topic_id, topic_id)
                return _value(offset, epoch, data[15:stop].decode(), timestamp, -1, topic_id)
        elif size - stop == 9:
            timestamp, tags = _V4_TAIL.unpack_from(data, stop)
            if tags == 0:
                return _value(offset, epoch, data[15:stop].decode(), timestamp, -1, ZERO_UUID)
    except UnicodeDecodeError:
        return None
    return None
