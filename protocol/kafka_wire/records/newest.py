"""The newest value of each offset in a batch's records: loading `__consumer_offsets` spends most of its time here.

Most records of that topic are overwritten later, so `gather` keeps raw values by raw key, and the caller decodes only
the values that remain. `gather` handles one kind of record, a committed offset of one partition that is not deleted,
and returns every other record to the caller: the meaning of such a record depends on the records before it.
"""

from __future__ import annotations

from kafka_wire.errors import LengthError, TruncatedError
from kafka_wire.records import varint
from kafka_wire.records.batch import MIN_RECORD_BYTES
from kafka_wire.records.key_values import read_length, skip_record_headers

OFFSET_KEY_TYPE = 1
"""The int16 at the start of the key of an OffsetCommit record."""

MIN_OFFSET_KEY_BYTES = 10
"""Minimum size of an offset's key: type, two string lengths and a partition."""

Odd = tuple[bytes | None, bytes | None]
"""(key, value) of a record that is not an offset, or that deletes an offset in the same `Newest`."""

Newest = dict[bytes, bytes | None]
"""Key -> value, None for a tombstone."""


def gather(
    section: bytes, at: int, end: int, count: int, newest: Newest, *, tombstones_are_odd: bool = False
) -> tuple[int, int, Odd | None]:
    """Read at most `count` records between `at` and `end` of `section`; return (position, records read, odd record).

    Stops at an odd record, which counts as read. A tombstone for a key without a value in `newest` is stored there,
    unless `tombstones_are_odd`.
    """
    if count * MIN_RECORD_BYTES > end - at:
        raise LengthError(f"{count} records cannot be in {end - at} bytes")
    try:
        return _gather(section, at, end, count, newest, tombstones_are_odd)
    except IndexError:
        raise TruncatedError("a record reaches beyond the end of its batch") from None


def _gather(
    section: bytes, at: int, end: int, count: int, newest: Newest, tombstones_are_odd: bool
) -> tuple[int, int, Odd | None]:
    """Run the loop of `key_values` without offsets and timestamps, inlined for the same reason."""
    for done in range(1, count + 1):
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
        if stop > end:
            raise TruncatedError("a record reaches beyond the end of its batch")
        if section[at + 1] > 127 or section[at + 2] > 127:
            at = varint.decode(section, varint.decode(section, at + 1)[1])[1]
        else:
            at += 3  # attributes and two deltas
        size = section[at]
        at += 1
        if size > 127:
            size, at = read_length(section, at - 1)
        if size & 1:
            key = None
            if size != 1:
                raise LengthError("a key's length is negative")
        else:
            size >>= 1
            key = section[at : at + size]
            at += size
        size = section[at]
        at += 1
        if size > 127:
            size, at = read_length(section, at - 1)
        if size & 1:
            value = None
            if size != 1:
                raise LengthError("a value's length is negative")
        else:
            size >>= 1
            value = section[at : at + size]
            at += size
        if section[at]:
            at = skip_record_headers(section, at, stop)
        else:
            at += 1
        if at != stop:
            raise LengthError("a record's length and its fields disagree")
        if key is None or len(key) < MIN_OFFSET_KEY_BYTES or key[1] != OFFSET_KEY_TYPE or key[0]:
            return at, done, (key, value)
        if value is None and (tombstones_are_odd or newest.get(key) is not None):
            return at, done, (key, value)
        newest[key] = value
    return at, count, None
