"""What a Produce request's records must be: each rule broken once, with the error that Kafka gives."""

from __future__ import annotations

import struct
from collections.abc import Callable

import cramjam
import pytest

from kafka_wire.errors import ErrorCode
from kafka_wire.records.amend import set_log_append_time
from kafka_wire.records.batch import (
    CONTROL,
    HEADER_BYTES,
    BatchBuilder,
    BatchHeader,
    build_batch,
    check_crc,
    read_header,
    records,
    write_crc,
)
from kafka_wire.records.compression import Compression
from kafka_wire.records.key_values import key_values
from kafka_wire.records.produced import MAX_FAULTS, Limits, Rejected, validate_produced

NOW = 1_000_000


def good(**fields: int) -> bytearray:
    builder = BatchBuilder()
    builder.extend([(b"a", b"1"), (b"b", None)], NOW)
    return builder.finish(**fields)  # type: ignore[arg-type]


def rejected(records: bytes | bytearray | None, version: int = 9, limits: Limits | None = None) -> Rejected:
    result = validate_produced(records, version, limits or Limits(), NOW)
    assert isinstance(result, Rejected), result
    assert result.reason
    return result


def taken(records: bytes | bytearray, version: int = 9, limits: Limits | None = None) -> tuple[BatchHeader, bytearray]:
    result = validate_produced(records, version, limits or Limits(), NOW)
    assert not isinstance(result, Rejected), result
    check_crc(result[1], 0, result[0])
    return result


def patched(position: int, layout: str, value: int, *, crc: bool = True) -> bytearray:
    batch = good()
    struct.pack_into(layout, batch, position, value)
    if crc:
        write_crc(batch)
    return batch


def test_a_good_batch_is_copied() -> None:
    batch = bytes(good())
    header, copy = taken(batch)
    assert copy == batch
    assert header == read_header(batch)


@pytest.mark.parametrize(
    ("batch", "error"),
    [
        (lambda: None, ErrorCode.INVALID_RECORD),
        (lambda: b"", ErrorCode.INVALID_RECORD),
        (lambda: good()[:40], ErrorCode.INVALID_RECORD),
        (lambda: good()[:-1], ErrorCode.INVALID_RECORD),
        (lambda: patched(70, ">B", 99, crc=False), ErrorCode.CORRUPT_MESSAGE),
        (lambda: patched(16, ">B", 1), ErrorCode.INVALID_RECORD),  # magic
        (lambda: good() + good(), ErrorCode.INVALID_RECORD),  # two batches
        (lambda: good(base_offset=5), ErrorCode.INVALID_RECORD),
        (lambda: patched(57, ">i", 0), ErrorCode.INVALID_RECORD),  # count
        (lambda: patched(57, ">i", -3), ErrorCode.INVALID_RECORD),
        (lambda: patched(57, ">i", 3), ErrorCode.INVALID_RECORD),
        (lambda: patched(23, ">i", 7), ErrorCode.INVALID_RECORD),  # last offset delta
        (lambda: good(attributes=CONTROL), ErrorCode.INVALID_RECORD),
        (lambda: good(producer_id=7, base_sequence=-1), ErrorCode.INVALID_RECORD),
        (lambda: patched(21, ">h", 7), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (lambda: patched(21, ">h", Compression.GZIP), ErrorCode.UNKNOWN_SERVER_ERROR),  # records are not gzip
        (lambda: patched(65, ">B", 0x20), ErrorCode.INVALID_RECORD),  # a record's fields
    ],
)
def test_refused(batch: Callable[[], bytes | bytearray | None], error: ErrorCode) -> None:
    assert rejected(batch()).error == error


def test_batches_over_the_limit() -> None:
    size = len(good())
    assert rejected(good(), limits=Limits(max_message_bytes=size - 1)).error == ErrorCode.MESSAGE_TOO_LARGE
    taken(good(), limits=Limits(max_message_bytes=size))


def test_zstd_needs_version_7() -> None:
    batch = build_batch([(b"a", b"b" * 100)], NOW, compression=Compression.ZSTD)
    assert rejected(batch, version=6).error == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    taken(batch, version=7)


def test_a_bomb_is_refused() -> None:
    batch = build_batch([(b"a", bytes(5_000_000))], NOW, compression=Compression.ZSTD)
    assert len(batch) < 5000
    assert rejected(batch, limits=Limits(max_decompressed_bytes=1_000_000)).error == ErrorCode.MESSAGE_TOO_LARGE


def test_a_record_of_a_compressed_batch_over_the_limit() -> None:
    """The size of a record is that of all of it but its length. Batches that are not compressed have no such limit."""
    records = [(b"a", b"1"), (b"a", bytes(100))]
    size = 1 + 1 + 1 + 2 + 2 + 100 + 1  # attributes, timestamp, offset, key, value and its length, headers
    batch = build_batch(records, NOW, compression=Compression.GZIP)
    taken(batch, limits=Limits(max_decompressed_message_bytes=size))
    refused = rejected(batch, limits=Limits(max_decompressed_message_bytes=size - 1))
    assert refused.error == ErrorCode.INVALID_RECORD
    assert refused.reason.startswith(f"Invalid record size: {size} exceeds")
    assert refused.faults == ()
    taken(build_batch(records, NOW), limits=Limits(max_decompressed_message_bytes=1))


def test_compacted_topics_need_keys() -> None:
    batch = build_batch([(b"a", b"1"), (None, b"2")], NOW)
    refused = rejected(batch, limits=Limits(compacted=True))
    assert (refused.error, [each.record for each in refused.faults]) == (ErrorCode.INVALID_RECORD, [1])
    taken(batch)


def test_timestamps_out_of_bounds() -> None:
    limits = Limits(timestamp_before_max_ms=1000, timestamp_after_max_ms=500)
    for offset, allowed in ((-1000, True), (-1001, False), (500, True), (501, False)):
        builder = BatchBuilder()
        builder.add(b"a", b"1", NOW)
        builder.add(b"b", b"2", NOW + offset)
        if allowed:
            taken(builder.finish(), limits=limits)
        else:
            refused = rejected(builder.finish(), limits=limits)
            assert (refused.error, [each.record for each in refused.faults]) == (ErrorCode.INVALID_TIMESTAMP, [1])


def test_records_without_a_time_are_taken() -> None:
    header, _ = taken(build_batch([(b"a", b"1")], -1), limits=Limits(timestamp_before_max_ms=10))
    assert header.max_timestamp == -1


def test_log_append_time_topics_set_their_own() -> None:
    header, _ = taken(good(), limits=Limits(log_append_time=True, timestamp_before_max_ms=0, timestamp_after_max_ms=0))
    assert header.is_log_append_time
    assert header.max_timestamp == NOW


def test_a_producer_does_not_set_log_append_time() -> None:
    batch = good()
    set_log_append_time(batch, NOW)
    header, _ = taken(batch)  # Kafka takes it and makes it create time
    assert not header.is_log_append_time
    set_log_append_time(batch, -1)
    assert rejected(batch).error == ErrorCode.INVALID_TIMESTAMP


def test_a_wrong_max_timestamp_is_put_right() -> None:
    batch = patched(35, ">q", NOW + 77)
    header, _ = taken(batch)
    assert header.max_timestamp == NOW


def test_offset_deltas_must_count_up() -> None:
    batch = good()
    batch[64] = 2  # record 0: length, attributes, timestamp delta, offset delta
    write_crc(batch)
    refused = rejected(batch)
    assert (refused.error, [each.record for each in refused.faults]) == (ErrorCode.INVALID_RECORD, [0])


@pytest.mark.parametrize("base", [(1 << 63) - 1, (1 << 63) - 5])
def test_a_time_beyond_a_java_long_is_no_time_in_any_topic(base: int) -> None:
    """The base is a long, and base + delta is not; no setting lets that pass."""
    builder = BatchBuilder()
    builder.extend([(b"k", b"v")], 1)
    builder.extend([(b"k", b"v")], 11)
    batch = bytearray(builder.finish())
    struct.pack_into(">q", batch, 27, base)
    write_crc(batch)
    limits = Limits(timestamp_after_max_ms=(1 << 63) - 1)
    found = rejected(bytes(batch), limits=limits)
    assert (found.error, [each.record for each in found.faults]) == (ErrorCode.INVALID_TIMESTAMP, [1])


def test_all_invalid_records_are_named() -> None:
    """KIP-467, Kafka's LogValidator. Its answers are in the story produce_refused_records."""
    builder = BatchBuilder()
    for key, timestamp in ((None, NOW), (b"k", NOW), (None, NOW - 5_000), (b"k", NOW - 5_000)):
        builder.add(key, b"v", timestamp)
    batch = builder.finish()
    found = rejected(batch, limits=Limits(compacted=True))
    assert (found.error, [each.record for each in found.faults]) == (ErrorCode.INVALID_RECORD, [0, 2])
    assert found.reason == "2 record errors in total"
    found = rejected(batch, limits=Limits(timestamp_before_max_ms=1_000))
    assert (found.error, [each.record for each in found.faults]) == (ErrorCode.INVALID_TIMESTAMP, [2, 3])
    found = rejected(batch, limits=Limits(compacted=True, timestamp_before_max_ms=1_000))
    assert found.error == ErrorCode.INVALID_TIMESTAMP
    assert [(each.record, each.is_time) for each in found.faults] == [(0, False), (2, False), (3, True)]


def test_how_many_invalid_records_are_named_is_limited() -> None:
    found = rejected(build_batch([(None, b"")] * (MAX_FAULTS + 7), NOW), limits=Limits(compacted=True))
    assert len(found.faults) == MAX_FAULTS
    assert found.reason == f"{MAX_FAULTS + 7} record errors in total"


def lz4(*, linked: bool) -> bytes:
    """A batch whose LZ4 frame has two blocks."""
    plain = build_batch([(b"k", b"".join(number.to_bytes(4) for number in range(40_000)))], NOW)
    compressor = cramjam.lz4.Compressor(content_checksum=False, block_linked=linked)
    compressor.compress(bytes(plain[HEADER_BYTES:]))
    batch = plain[:HEADER_BYTES] + bytes(compressor.finish())
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    struct.pack_into(">h", batch, 21, Compression.LZ4)
    write_crc(batch)
    return bytes(batch)


def test_lz4_frames_that_java_cannot_read_are_refused() -> None:
    taken(lz4(linked=False))
    assert rejected(lz4(linked=True)).error == ErrorCode.UNKNOWN_SERVER_ERROR  # as in Kafka
    for at, byte in ((61, 5), (65, 0x30), (65, 0x61), (66, 0x30), (66, 0x41)):
        batch = bytearray(lz4(linked=False))
        batch[at] = byte
        write_crc(batch)
        assert rejected(batch).error == ErrorCode.UNKNOWN_SERVER_ERROR, (at, byte)
    assert rejected(lz4(linked=False)[:61] + b"").error == ErrorCode.INVALID_RECORD


def test_keys_of_headers_may_be_any_bytes() -> None:
    builder = BatchBuilder()
    builder.add(b"k", b"v", NOW, [("XY", b"\xff"), ("h", None)])
    batch = builder.finish()
    at = batch.index(b"XY")
    batch[at : at + 2] = b"\xc3("
    write_crc(batch)
    _, stored = taken(batch)
    assert stored[HEADER_BYTES:] == batch[HEADER_BYTES:]
    assert [each.headers for each in records(stored)] == [[("\ufffd(", b"\xff"), ("h", None)]]
    assert key_values(stored, 0, read_header(stored)) == [(0, NOW, b"k", b"v")]
