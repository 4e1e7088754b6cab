"""Changes that a broker makes to a producer's batch: its timestamps and its compression."""

from __future__ import annotations

import struct

from kafka_wire.records.batch import (
    ATTRIBUTES_AT,
    CODEC_MASK,
    HEADER_BYTES,
    LENGTH_OVERHEAD,
    LOG_APPEND_TIME,
    Buffer,
    read_header,
    record_section,
    write_crc,
)
from kafka_wire.records.compression import MAX_DECOMPRESSED_BYTES, Compression

_MAX_TIMESTAMP_AT = 35

_PREFIX = struct.Struct(">qi")
_ATTRIBUTES = struct.Struct(">h")
_TIMESTAMP = struct.Struct(">q")


def set_log_append_time(batch: bytearray, timestamp_ms: int) -> None:
    """Give every record of the batch this time: message.timestamp.type=LogAppendTime."""
    (attributes,) = _ATTRIBUTES.unpack_from(batch, ATTRIBUTES_AT)
    _ATTRIBUTES.pack_into(batch, ATTRIBUTES_AT, attributes | LOG_APPEND_TIME)
    _TIMESTAMP.pack_into(batch, _MAX_TIMESTAMP_AT, timestamp_ms)
    write_crc(batch)


def set_create_time(batch: bytearray, max_timestamp_ms: int) -> None:
    """Set the batch's max timestamp to the greatest of the records' own times: message.timestamp.type=CreateTime."""
    (attributes,) = _ATTRIBUTES.unpack_from(batch, ATTRIBUTES_AT)
    _ATTRIBUTES.pack_into(batch, ATTRIBUTES_AT, attributes & ~LOG_APPEND_TIME)
    _TIMESTAMP.pack_into(batch, _MAX_TIMESTAMP_AT, max_timestamp_ms)
    write_crc(batch)


def recompress(batch: Buffer, compression: Compression) -> bytearray:
    """Return the batch compressed with another codec (a topic's compression.type)."""
    from kafka_wire.records.compressors import compress

    header = read_header(batch)
    section = record_section(batch, 0, header, MAX_DECOMPRESSED_BYTES)
    out = bytearray(batch[:HEADER_BYTES]) + compress(compression, section)
    _PREFIX.pack_into(out, 0, header.base_offset, len(out) - LENGTH_OVERHEAD)
    _ATTRIBUTES.pack_into(out, ATTRIBUTES_AT, header.attributes & ~CODEC_MASK | compression)
    write_crc(out)
    return out
