"""Rewriting of batches with some of their records removed: the output of compaction (Kafka's MemoryRecords.filterTo).

A batch keeps its base offset, last offset delta, producer and sequence whichever records remain, so offsets do not
change and a producer's last sequence number stays known; a batch without records can be kept as its header alone.
Records are copied from the decompressed section unchanged and never encoded again, unless the batch gets a *delete
horizon* (KIP-534): the time at which its tombstones, or its marker, may be removed. The horizon replaces the base
timestamp and is flagged by attribute bit 6, so all timestamp deltas change.
"""

from __future__ import annotations

from collections.abc import Sequence

from kafka_wire.errors import LengthError, TrailingBytesError, TruncatedError
from kafka_wire.records import varint
from kafka_wire.records.batch import (
    CODEC_MASK,
    CONTROL,
    DELETE_HORIZON,
    HEADER,
    HEADER_BYTES,
    LENGTH_OVERHEAD,
    LOG_APPEND_TIME,
    NO_TIMESTAMP,
    TRANSACTIONAL,
    BatchHeader,
    check_count,
    write_crc,
)
from kafka_wire.records.compression import Compression
from kafka_wire.records.compressors import compress
from kafka_wire.records.varint import VARINT

Span = tuple[int, int, int, int, bytes | None, bool]
"""One record: its start and end in the section, timestamp delta, offset delta, key, whether it has a value."""


def spans(section: bytes, header: BatchHeader) -> list[Span]:
    """Return every record of a decompressed section. The loop is inlined, as in `key_values`: the cleaner calls this
    function twice for every batch. Bytes after the value's length are not checked: the CRC has matched, and these bytes
    are only copied.
    """
    end = len(section)
    check_count(header, end)
    found: list[Span] = []
    add = found.append
    at = 0
    try:
        for _ in range(header.record_count):
            start = at
            size = section[at]
            at += 1
            if size > 127:
                size, at = _length(section, start)
            if size & 1:
                raise LengthError("a record's length is negative")
            stop = at + (size >> 1)
            delta = section[at + 1]
            at += 2
            if delta:
                delta, at = varint.decode(section, at - 1)
            offset_delta = section[at] >> 1
            at += 1
            if section[at - 1] & 0x81:
                offset_delta, at = varint.decode(section, at - 1)
            size = section[at]
            at += 1
            if size > 127:
                size, at = _length(section, at - 1)
            if size & 1:
                key = None
            else:
                key = section[at : at + (size >> 1)]
                at += size >> 1
            if at >= stop or stop > end:
                raise LengthError("a record's length and its fields disagree")
            add((start, stop, delta, offset_delta, key, not section[at] & 1))
            at = stop
    except IndexError:
        raise TruncatedError("a record reaches beyond the end of its batch") from None
    if at != end:
        raise TrailingBytesError(f"{end - at} bytes follow the last of {header.record_count} records")
    return found


def last_offsets(section: bytes, header: BatchHeader, first_offset: int, last: dict[bytes, int]) -> int:
    """Store the offset of every key of a section in `last`, from `first_offset` on; return the total bytes of the new
    keys. Half of a cleaning's time is spent here, so the loop reads each record only up to its key.
    """
    new_bytes = at = 0
    end = len(section)
    check_count(header, end)
    base_offset = header.base_offset
    try:
        for _ in range(header.record_count):
            size = section[at]
            at += 1
            if size > 127:
                size, at = _length(section, at - 1)
            stop = at + (size >> 1)
            at += 2
            if section[at - 1]:
                at = varint.decode(section, at - 1)[1]
            offset_delta = section[at] >> 1
            at += 1
            if section[at - 1] & 0x81:
                offset_delta, at = varint.decode(section, at - 1)
            size = section[at]
            at += 1
            if size > 127:
                size, at = _length(section, at - 1)
            if not size & 1 and base_offset + offset_delta >= first_offset:
                size >>= 1
                key = section[at : at + size]
                if key not in last:
                    new_bytes += size
                last[key] = base_offset + offset_delta
            if not at < stop <= end:
                raise LengthError("a record's length and its fields disagree")
            at = stop
    except IndexError:
        raise TruncatedError("a record reaches beyond the end of its batch") from None
    return new_bytes


def _length(section: bytes, at: int) -> tuple[int, int]:
    """Return (zigzag length, position after it) of a length of more than one byte."""
    high = section[at + 1]
    if high < 128:
        return section[at] & 127 | high << 7, at + 2
    length, at = varint.decode(section, at)
    return (length << 1) ^ (length >> 63), at


def rewritten(header: BatchHeader, section: bytes, kept: Sequence[Span], horizon_ms: int | None) -> bytearray:
    """Return the batch with only the records in `kept`, at least one, under its own codec. With `horizon_ms` the batch
    gets that delete horizon; a batch that already has a delete horizon keeps it.
    """
    base_timestamp, max_timestamp = header.base_timestamp, header.max_timestamp
    attributes = header.attributes
    if not attributes & LOG_APPEND_TIME:
        max_timestamp = base_timestamp + max(span[2] for span in kept)
    if horizon_ms is None:
        section = _cut(section, kept)
    else:
        section = _moved(section, kept, header, horizon_ms)
        base_timestamp = horizon_ms
        attributes |= DELETE_HORIZON
    codec = Compression(attributes & CODEC_MASK)
    out = bytearray(HEADER_BYTES)
    out += compress(codec, section) if codec else section
    _finish(out, header, attributes, base_timestamp, max_timestamp, len(kept))
    return out


def emptied(header: BatchHeader) -> bytearray:
    """Return the batch without records: offsets, time and producer as Kafka's writeEmptyHeader leaves them."""
    out = bytearray(HEADER_BYTES)
    attributes = header.attributes & (LOG_APPEND_TIME | TRANSACTIONAL | CONTROL)
    _finish(out, header, attributes, NO_TIMESTAMP, header.max_timestamp, 0)
    return out


def _finish(
    out: bytearray, header: BatchHeader, attributes: int, base_timestamp: int, max_timestamp: int, count: int
) -> None:
    changed = header._replace(
        length=len(out) - LENGTH_OVERHEAD,
        attributes=attributes,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        record_count=count,
    )
    HEADER.pack_into(out, 0, *changed)
    write_crc(out)


def _cut(section: bytes, kept: Sequence[Span]) -> bytes:
    """Return the bytes of the kept records; adjacent records are copied in one piece."""
    pieces = []
    start, end = kept[0][0], kept[0][1]
    for span in kept[1:]:
        if span[0] != end:
            pieces.append(section[start:end])
            start = span[0]
        end = span[1]
    pieces.append(section[start:end])
    return b"".join(pieces)


def _moved(section: bytes, kept: Sequence[Span], header: BatchHeader, base_timestamp: int) -> bytes:
    """Return the bytes of the kept records with timestamp deltas relative to another base."""
    pieces = []
    for start, stop, delta, *_ in kept:
        at = varint.decode(section, start)[1]
        attributes = section[at : at + 1]
        at = varint.decode(section, at + 1)[1]
        time = header.max_timestamp if header.attributes & LOG_APPEND_TIME else header.base_timestamp + delta
        body = attributes + VARINT[time - base_timestamp] + section[at:stop]
        pieces.append(VARINT[len(body)] + body)
    return b"".join(pieces)
