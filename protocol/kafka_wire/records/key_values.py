"""A batch's records as plain tuples, decoded as fast as Python can: for replay and cleaning."""

from __future__ import annotations

from kafka_wire.errors import LengthError, TrailingBytesError, TruncatedError
from kafka_wire.records import varint
from kafka_wire.records.batch import (
    LOG_APPEND_TIME,
    BatchHeader,
    Buffer,
    check_count,
    record_bytes,
)
from kafka_wire.records.compression import MAX_DECOMPRESSED_BYTES

#: (offset, timestamp, key, value)
OffsetKeyValue = tuple[int, int, bytes | None, bytes | None]

MAX_LENGTH = (1 << 31) - 1
"""The maximum length of a record and of its fields: Kafka's lengths are Java ints. A longer record is never valid."""


def key_values(
    data: Buffer, pos: int, header: BatchHeader, max_bytes: int = MAX_DECOMPRESSED_BYTES
) -> list[OffsetKeyValue]:
    """Return (offset, timestamp, key, value) of every record in the batch at `pos`; headers are checked and skipped.

    The loop is inlined because replay runs it for every batch ever committed: a varint of one byte, or of two bytes
    where records commonly have such varints, costs no call. Lengths are zigzag, odd for negative, and -1 is null. A
    field may run past the record's end: the comparison with `stop` detects it.
    """
    section = record_bytes(data, pos, header, max_bytes)
    end = len(section)
    check_count(header, end)
    append_time = bool(header.attributes & LOG_APPEND_TIME)
    out: list[OffsetKeyValue] = []
    try:
        at = _read_all(
            section,
            header.record_count,
            header.base_offset,
            header.max_timestamp if append_time else header.base_timestamp,
            append_time,
            out,
        )
    except IndexError:
        raise TruncatedError("a record reaches beyond the end of its batch") from None
    if at != end:
        raise TrailingBytesError(f"{end - at} bytes follow the last of {header.record_count} records")
    return out


def _read_all(
    section: bytes, count: int, base_offset: int, base_timestamp: int, append_time: bool, out: list[OffsetKeyValue]
) -> int:
    """Append all records to `out`: see `key_values`. Returns the position after the last record."""
    at = 0
    for _ in range(count):
        size = section[at]
        at += 1
        if size > 127:
            high = section[at]
            if high > 127:
                size, at = read_length(section, at - 1)
            else:
                size = size & 127 | high << 7
                at += 1
        if size & 1:
            raise LengthError("a record's length is negative")
        stop = at + (size >> 1)
        at += 1  # attributes: unused in magic 2
        timestamp = base_timestamp
        delta = section[at]
        at += 1
        if delta:
            delta, at = varint.decode(section, at - 1)
            if not append_time:
                timestamp += delta
        offset_delta = section[at] >> 1
        at += 1
        if section[at - 1] & 0x81:
            offset_delta, at = varint.decode(section, at - 1)
        size = section[at]
        at += 1
        if size > 127:
            size, at = read_length(section, at - 1)
        if size & 1:
            key = None
            if size != 1:
                raise LengthError("a key's length is negative")
        else:
            key = section[at : at + (size >> 1)]
            at += size >> 1
        size = section[at]
        at += 1
        if size > 127:
            size, at = read_length(section, at - 1)
        if size & 1:
            value = None
            if size != 1:
                raise LengthError("a value's length is negative")
        else:
            value = section[at : at + (size >> 1)]
            at += size >> 1
        if section[at]:
            at = skip_record_headers(section, at, stop)
        else:
            at += 1
        if at != stop:
            raise LengthError("a record's length and its fields disagree")
        out.append((base_offset + offset_delta, timestamp, key, value))
    return at


def read_length(section: Buffer, at: int) -> tuple[int, int]:
    """Return (zigzag length, position after it) of a length of more than one byte."""
    high = section[at + 1]
    if high < 128:
        return section[at] & 127 | high << 7, at + 2
    length, at = varint.decode(section, at)
    if not -MAX_LENGTH <= length <= MAX_LENGTH:
        raise LengthError(f"a length of {length} bytes, the limit is {MAX_LENGTH}")
    return (length << 1) ^ (length >> 63), at


def skip_record_headers(data: Buffer, pos: int, stop: int) -> int:
    """Return the position after a record's headers, which begin at `pos`. Their keys may be any bytes, as in Kafka."""
    count, pos = varint.decode(data, pos)
    if not 0 <= count <= (stop - pos) // 2:
        raise LengthError(f"{count} headers cannot be in {stop - pos} bytes")
    for field in range(2 * count):
        size, pos = varint.decode(data, pos)
        if size == -1:
            if not field & 1:
                raise LengthError("a header's key is null")
        elif size < 0 or size > stop - pos:
            raise LengthError(f"a field of {size} bytes in a record that has {stop - pos} left")
        else:
            pos += size
    return pos
