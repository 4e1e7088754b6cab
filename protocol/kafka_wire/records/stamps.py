"""Offsets, timestamps and absent keys of a batch's records, for validation and for lookups by time.

Keys, values and headers are checked and skipped, never copied: a record of a hundred megabytes costs as much as a small
one. So another thread can read a large batch without holding the interpreter's lock for long.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kafka_wire.errors import LengthError, TrailingBytesError, TruncatedError
from kafka_wire.records import varint
from kafka_wire.records.batch import LOG_APPEND_TIME, BatchHeader, Buffer, check_count
from kafka_wire.records.key_values import read_length, skip_record_headers

Stamp = tuple[int, int, bool]
"""(offset, timestamp in ms, whether the key is null)."""

LARGEST_RECORD: Final = 2**31 - 9
"""Kafka's largest record, and its default of max.decompressed.message.bytes: the largest array of Java."""


def stamps(section: Buffer, header: BatchHeader, largest: int = LARGEST_RECORD) -> Iterator[Stamp]:
    """Yield the stamp of each record of a batch, whose records, decompressed, are `section`; decoded lazily. Raises
    DecodeError where `key_values` does, and for a record of more than `largest` bytes.
    """
    end = len(section)
    check_count(header, end)
    append_time = bool(header.attributes & LOG_APPEND_TIME)
    base_timestamp = header.max_timestamp if append_time else header.base_timestamp
    base_offset = header.base_offset
    at = 0
    try:
        for _ in range(header.record_count):
            size = section[at]
            at += 1
            if size > 127:
                size, at = read_length(section, at - 1)
            if size & 1:
                raise LengthError("a record's length is negative")
            size >>= 1
            if size > largest:
                raise LengthError(
                    f"Invalid record size: {size} exceeds the configured maximum record size of {largest}."
                )
            stop = at + size
            at += 1  # attributes: unused in magic 2
            timestamp = base_timestamp
            if section[at]:
                delta, at = varint.decode(section, at)
                if not append_time:
                    timestamp += delta
            else:
                at += 1
            offset_delta = section[at] >> 1
            if section[at] & 0x81:
                offset_delta, at = varint.decode(section, at)
            else:
                at += 1
            no_key, at = _skipped(section, at, "key")
            _, at = _skipped(section, at, "value")
            at = skip_record_headers(section, at, stop) if section[at] else at + 1
            if at != stop:
                raise LengthError("a record's length and its fields disagree")
            yield base_offset + offset_delta, timestamp, no_key
    except IndexError:
        raise TruncatedError("a record reaches beyond the end of its batch") from None
    if at != end:
        raise TrailingBytesError(f"{end - at} bytes follow the last of {header.record_count} records")


def _skipped(section: Buffer, at: int, what: str) -> tuple[bool, int]:
    """Return (whether the field is null, the position after it)."""
    size = section[at]
    at += 1
    if size > 127:
        size, at = read_length(section, at - 1)
    if not size & 1:
        return False, at + (size >> 1)
    if size != 1:
        raise LengthError(f"a {what}'s length is negative")
    return True, at
