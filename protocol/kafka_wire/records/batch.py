"""Record batch v2 (magic 2): the same layout in Produce requests, log segments and Fetch responses.

```
offset  size  field
     0     8  base offset              assigned by the log, outside the CRC
     8     4  batch length             of what follows this field
    12     4  partition leader epoch   assigned by the log, outside the CRC
    16     1  magic
    17     4  CRC-32C                  of everything from the attributes on
    21     2  attributes               bits 0-2 codec, 3 log-append time, 4 transactional, 5 control, 6 delete horizon
    23     4  last offset delta        kept by compaction, so last offset and count need not agree
    27     8  base timestamp           (with bit 6: when its tombstones and markers may be removed)
    35     8  max timestamp
    43     8  producer id     51  2  producer epoch     53  4  base sequence     57  4  record count
    61        records, compressed together
```
A record: varint length, int8 attributes, varlong timestamp delta, varint offset delta, varint key length (-1: null),
key, varint value length, value, varint header count, headers. All lengths are zigzag varints.

Two ways to read: `records()` yields complete Record objects; `key_values()` of the module of that name yields plain
tuples, fast, for replay and cleaning. `BatchBuilder` (or `build_batch`) writes: it appends records to one buffer
without an object per record. A decoder raises only DecodeError. Magic 0 and 1 are rejected, as in Kafka 4.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from kafka_wire.errors import DecodeError, EncodeError, LengthError, TrailingBytesError, TruncatedError
from kafka_wire.records import varint
from kafka_wire.records.compression import MAX_DECOMPRESSED_BYTES, Compression
from kafka_wire.records.control import ControlType, decode_key, encode_end_marker, encode_key
from kafka_wire.records.crc import crc32c
from kafka_wire.records.varint import VARINT

HEADER = struct.Struct(">qiibIhiqqqhii")
HEADER_BYTES = HEADER.size  # 61
#: base offset and length, which the batch length does not include
LENGTH_OVERHEAD = 12
MAGIC = 2

_MAGIC_AT = 16
_CRC_AT = 17
ATTRIBUTES_AT = 21
#: length, attributes, two deltas, two lengths, header count
MIN_RECORD_BYTES = 7

_PREFIX = struct.Struct(">qi")
_BASE_OFFSET = struct.Struct(">q")
_LEADER_EPOCH = struct.Struct(">i")
_CRC = struct.Struct(">I")

CODEC_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40

NO_TIMESTAMP = -1
NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1

Buffer = bytes | bytearray | memoryview
#: (key, value)
KeyValue = tuple[bytes | None, bytes | None]

_NO_HEADER = bytes(HEADER_BYTES)


class UnsupportedMagicError(DecodeError):
    """Raised for a message set of Kafka before 0.11 (magic 0 or 1), or an unknown format."""


class CorruptBatchError(DecodeError):
    """Raised for a batch whose CRC does not match its bytes."""


class BatchHeader(NamedTuple):
    """The 61 bytes before the records."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        """Size of the whole batch in bytes."""
        return self.length + LENGTH_OVERHEAD

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """The last sequence number; sequences wrap at 2^31, as in Kafka."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & 0x7FFF_FFFF

    @property
    def codec(self) -> int:
        return self.attributes & CODEC_MASK

    @property
    def is_log_append_time(self) -> bool:
        return bool(self.attributes & LOG_APPEND_TIME)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL)

    @property
    def delete_horizon_ms(self) -> int | None:
        return self.base_timestamp if self.attributes & DELETE_HORIZON else None


@dataclass(slots=True)
class Record:
    """One record. `timestamp` is in milliseconds since 1970, -1 for none. In a header's key that is not UTF-8, U+FFFD
    replaces invalid bytes, as for Java's consumers.
    """

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


# --- reading ----------------------------------------------------------------------------------------------------------


def read_header(data: Buffer, pos: int = 0, end: int | None = None) -> BatchHeader:
    """Decode the header of the batch at `pos`. Raises DecodeError unless the whole batch is before `end`."""
    end = len(data) if end is None else end
    if end - pos < LENGTH_OVERHEAD + 5:
        raise TruncatedError(f"{end - pos} bytes are too few for a record batch")
    magic = data[pos + _MAGIC_AT]
    if magic != MAGIC:
        if magic < MAGIC:
            raise UnsupportedMagicError(
                f"message format version {magic} is not supported: only record batches (version 2)"
            )
        raise UnsupportedMagicError(f"unknown message format version {magic}")
    length = _PREFIX.unpack_from(data, pos)[1]
    if length < HEADER_BYTES - LENGTH_OVERHEAD:
        raise LengthError(f"a record batch cannot be {length} bytes long")
    if length > end - pos - LENGTH_OVERHEAD:
        raise TruncatedError(f"a record batch of {length + LENGTH_OVERHEAD} bytes has only {end - pos}")
    return BatchHeader._make(HEADER.unpack_from(data, pos))


def iterate_batches(data: Buffer, *, partial: bool = False) -> Iterator[tuple[int, BatchHeader]]:
    """Yield (position, header) of each batch; records are not decoded. With `partial`, a batch cut off at the end is
    skipped (a Fetch response may end in one); otherwise it is an error.
    """
    pos, end = 0, len(data)
    while pos < end:
        try:
            header = read_header(data, pos, end)
        except TruncatedError:
            if partial:
                return
            raise
        yield pos, header
        pos += header.length + LENGTH_OVERHEAD


def check_crc(data: Buffer, pos: int, header: BatchHeader) -> None:
    """Raise CorruptBatchError unless the CRC of the batch at `pos` matches its bytes."""
    computed = crc32c(memoryview(data)[pos + ATTRIBUTES_AT : pos + header.length + LENGTH_OVERHEAD])
    if computed != header.crc:
        raise CorruptBatchError(f"record batch is corrupt (stored crc {header.crc:#010x}, computed {computed:#010x})")


def record_section(data: Buffer, pos: int, header: BatchHeader, max_bytes: int = MAX_DECOMPRESSED_BYTES) -> Buffer:
    """Return the records of the batch at `pos`, decompressed; a view of `data` if they are not compressed. Raises
    CompressionError if they exceed `max_bytes`.
    """
    section = memoryview(data)[pos + HEADER_BYTES : pos + header.length + LENGTH_OVERHEAD]
    codec = header.attributes & CODEC_MASK
    if not (codec and header.record_count):
        return section
    from kafka_wire.records.compressors import decompress

    return decompress(codec, section, max_bytes)


def record_bytes(data: Buffer, pos: int, header: BatchHeader, max_bytes: int = MAX_DECOMPRESSED_BYTES) -> bytes:
    """Return a copy of `record_section`: code that reads many small records is fastest with bytes."""
    section = record_section(data, pos, header, max_bytes)
    return section if isinstance(section, bytes) else bytes(section)


def records(
    data: Buffer, pos: int = 0, header: BatchHeader | None = None, max_bytes: int = MAX_DECOMPRESSED_BYTES
) -> Iterator[Record]:
    """Yield the records of the batch at `pos`, decoded lazily one by one."""
    header = read_header(data, pos) if header is None else header
    section = record_bytes(data, pos, header, max_bytes)
    end = len(section)
    check_count(header, end)
    append_time = header.max_timestamp if header.attributes & LOG_APPEND_TIME else None
    at = 0
    for _ in range(header.record_count):
        record, at = _read_record(section, at, end, header, append_time)
        yield record
    if at != end:
        raise TrailingBytesError(f"{end - at} bytes follow the last of {header.record_count} records")


def check_count(header: BatchHeader, section_bytes: int) -> None:
    if not 0 <= header.record_count <= section_bytes // MIN_RECORD_BYTES:
        raise LengthError(f"{header.record_count} records cannot be in {section_bytes} bytes")


def _read_record(data: bytes, pos: int, end: int, header: BatchHeader, append_time: int | None) -> tuple[Record, int]:
    length, pos = varint.decode(data, pos)
    stop = pos + length
    if length < 0 or stop > end:
        raise LengthError(f"a record's length is {length}, {end - pos} bytes are left")
    timestamp_delta, pos = varint.decode(data, pos + 1)
    offset_delta, pos = varint.decode(data, pos)
    key, pos = _read_bytes(data, pos, stop)
    value, pos = _read_bytes(data, pos, stop)
    headers, pos = _read_headers(data, pos, stop)
    if pos != stop:
        raise TrailingBytesError(f"a record's length says {stop - pos} bytes more than its fields take")
    timestamp = header.base_timestamp + timestamp_delta if append_time is None else append_time
    return Record(header.base_offset + offset_delta, timestamp, key, value, headers), stop


def _read_headers(data: bytes, pos: int, stop: int) -> tuple[list[tuple[str, bytes | None]], int]:
    count, pos = varint.decode(data, pos)
    headers: list[tuple[str, bytes | None]] = []
    if not 0 <= count <= (stop - pos) // 2:
        raise LengthError(f"{count} headers cannot be in {stop - pos} bytes")
    for _ in range(count):
        name, pos = _read_bytes(data, pos, stop)
        if name is None:
            raise LengthError("a header's key is null")
        value, pos = _read_bytes(data, pos, stop)
        headers.append((name.decode(errors="replace"), value))
    return headers, pos


def _read_bytes(data: bytes, pos: int, stop: int) -> tuple[bytes | None, int]:
    size, pos = varint.decode(data, pos)
    if size == -1:
        return None, pos
    if size < 0 or size > stop - pos:
        raise LengthError(f"a field of {size} bytes in a record that has {stop - pos} left")
    return data[pos : pos + size], pos + size


# --- writing ----------------------------------------------------------------------------------------------------------


class BatchBuilder:
    """An uncompressed batch under construction: space for the header and the pieces of the records so far, joined once
    at the end. `size` is the batch's size in bytes so far. A caller that encodes whole records itself updates `pieces`,
    `size` and `count`.
    """

    __slots__ = ("base_timestamp", "count", "max_timestamp", "pieces", "size")

    def __init__(self) -> None:
        self.pieces: list[bytes] = [_NO_HEADER]
        self.size = HEADER_BYTES
        self.count = 0
        self.base_timestamp = NO_TIMESTAMP
        self.max_timestamp = NO_TIMESTAMP

    def extend(self, records: Iterable[KeyValue], timestamp_ms: int) -> None:
        """Append records without headers."""
        count, size = self.count, self.size
        start = b"\0" + self.time_delta(timestamp_ms)
        pieces = self.pieces
        varints = VARINT
        join = b"".join
        for key, value in records:
            if key is None:
                body = join(
                    (start, varints[count], b"\1\1\0" if value is None else b"\1" + varints[len(value)] + value + b"\0")
                )
            elif value is None:
                body = join((start, varints[count], varints[len(key)], key, b"\1\0"))
            else:
                body = join((start, varints[count], varints[len(key)], key, varints[len(value)], value, b"\0"))
            length = varints[len(body)]
            pieces += (length, body)
            size += len(length) + len(body)
            count += 1
        self.count, self.size = count, size

    def extend_bodies(self, bodies: Iterable[bytes], timestamp_ms: int) -> None:
        """Append records whose bytes from the key's length on are already encoded: see `record_body`."""
        count, total = self.count, self.size
        start = b"\0" + self.time_delta(timestamp_ms)
        fixed = len(start)
        varints = VARINT
        pieces = self.pieces
        # Successive bodies mostly have the same length: bodies of one commit differ only in numbers.
        size = -1
        head = b""
        for body in bodies:
            delta = varints[count]
            if fixed + len(delta) + len(body) != size:
                size = fixed + len(delta) + len(body)
                head = varints[size] + start
            pieces += (head, delta, body)
            total += len(head) - fixed + size
            count += 1
        self.count, self.size = count, total

    def time_delta(self, timestamp_ms: int) -> bytes:
        """Return the encoded timestamp delta for records of this time that are about to be appended."""
        if not self.count:
            self.base_timestamp = timestamp_ms
        if timestamp_ms > self.max_timestamp:
            self.max_timestamp = timestamp_ms
        return VARINT[timestamp_ms - self.base_timestamp]

    def add(
        self,
        key: bytes | None,
        value: bytes | None,
        timestamp_ms: int,
        headers: Sequence[tuple[str, bytes | None]] = (),
    ) -> None:
        """Append one record, with headers."""
        if not headers:
            self.extend(((key, value),), timestamp_ms)
            return
        parts = [b"\0", self.time_delta(timestamp_ms), VARINT[self.count], _nullable(key), _nullable(value)]
        parts.append(VARINT[len(headers)])
        for name, header_value in headers:
            parts.append(_nullable(name.encode()))
            parts.append(_nullable(header_value))
        body = b"".join(parts)
        length = VARINT[len(body)]
        self.pieces += (length, body)
        self.size += len(length) + len(body)
        self.count += 1

    def finish(
        self,
        base_offset: int = 0,
        *,
        leader_epoch: int = -1,
        compression: Compression = Compression.NONE,
        attributes: int = 0,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        base_sequence: int = NO_SEQUENCE,
    ) -> bytearray:
        """Return the finished batch."""
        if not self.count:
            raise EncodeError("a record batch holds at least one record")
        out = bytearray().join(self.pieces)
        if compression:
            from kafka_wire.records.compressors import compress

            out = bytearray(HEADER_BYTES) + compress(compression, memoryview(out)[HEADER_BYTES:])
        HEADER.pack_into(
            out,
            0,
            base_offset,
            len(out) - LENGTH_OVERHEAD,
            leader_epoch,
            MAGIC,
            0,
            attributes | compression,
            self.count - 1,
            self.base_timestamp,
            self.max_timestamp,
            producer_id,
            producer_epoch,
            base_sequence,
            self.count,
        )
        write_crc(out)
        return out


class Records(Protocol):
    """Records that are appended to the log together with one timestamp. Each class has its own encoding."""

    @property
    def count(self) -> int:
        """Number of records."""

    def put_into(self, batch: BatchBuilder, timestamp_ms: int) -> None:
        """Append all records to `batch`."""


class KeyValues:
    """Records given as (key, value) pairs."""

    __slots__ = ("count", "pairs")

    def __init__(self, pairs: Sequence[KeyValue]) -> None:
        self.count = len(pairs)
        self.pairs = pairs

    def put_into(self, batch: BatchBuilder, timestamp_ms: int) -> None:
        """See `Records`."""
        batch.extend(self.pairs, timestamp_ms)


class Bodies:
    """Records whose bodies are already encoded: see `record_body`."""

    __slots__ = ("bodies", "count")

    def __init__(self, bodies: Sequence[bytes]) -> None:
        self.bodies = bodies
        self.count = len(bodies)

    def put_into(self, batch: BatchBuilder, timestamp_ms: int) -> None:
        """See `Records`."""
        batch.extend_bodies(self.bodies, timestamp_ms)


def record_body(key: bytes | None, value: bytes | None) -> bytes:
    """Return the part of a record that does not depend on its position in a batch: key, value, and a header
    count of 0.
    """
    return _nullable(key) + _nullable(value) + b"\0"


def _nullable(data: bytes | None) -> bytes:
    return b"\1" if data is None else VARINT[len(data)] + data


def build_batch(
    records: Sequence[KeyValue], timestamp_ms: int, base_offset: int = 0, *, compression: Compression = Compression.NONE
) -> bytearray:
    """Return one batch of (key, value) pairs with one timestamp, ready for the log."""
    builder = BatchBuilder()
    builder.extend(records, timestamp_ms)
    return builder.finish(base_offset, compression=compression)


def build_control_batch(
    control_type: ControlType,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    timestamp_ms: int,
    base_offset: int = 0,
) -> bytearray:
    """Return the batch with the marker that ends a transaction."""
    builder = BatchBuilder()
    builder.extend(((encode_key(control_type), encode_end_marker(coordinator_epoch)),), timestamp_ms)
    return builder.finish(
        base_offset, attributes=TRANSACTIONAL | CONTROL, producer_id=producer_id, producer_epoch=producer_epoch
    )


def control_type(data: Buffer, pos: int, header: BatchHeader) -> ControlType:
    """Return the type of the control batch at `pos`."""
    first = next(records(data, pos, header), None)
    return decode_key(first.key) if first else ControlType.UNKNOWN


def write_crc(batch: bytearray) -> None:
    """Compute the CRC of a single batch and write it into the batch."""
    _CRC.pack_into(batch, _CRC_AT, crc32c(memoryview(batch)[ATTRIBUTES_AT:]))


def assign_offset(batch: bytearray, base_offset: int, leader_epoch: int) -> None:
    """Set the two fields that the log assigns. Both are outside the CRC."""
    _BASE_OFFSET.pack_into(batch, 0, base_offset)
    _LEADER_EPOCH.pack_into(batch, LENGTH_OVERHEAD, leader_epoch)
