"""Record batches: round trips, and what becomes of bytes that are none."""

from __future__ import annotations

import random
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_wire.errors import DecodeError, EncodeError, LengthError, TrailingBytesError, TruncatedError
from kafka_wire.records import varint
from kafka_wire.records.amend import set_create_time, set_log_append_time
from kafka_wire.records.batch import (
    CONTROL,
    HEADER_BYTES,
    TRANSACTIONAL,
    BatchBuilder,
    CorruptBatchError,
    UnsupportedMagicError,
    assign_offset,
    build_batch,
    check_crc,
    iterate_batches,
    read_header,
    records,
    write_crc,
)
from kafka_wire.records.compression import Compression, CompressionError
from kafka_wire.records.compressors import compress, decompress
from kafka_wire.records.control import ControlType, decode_end_marker, decode_key
from kafka_wire.records.key_values import key_values

maybe_bytes = st.none() | st.binary(max_size=300)
header_lists = st.lists(st.tuples(st.text(max_size=8), maybe_bytes), max_size=3)
timestamps = st.integers(min_value=0, max_value=1 << 45)
entries = st.lists(st.tuples(maybe_bytes, maybe_bytes, timestamps, header_lists), min_size=1, max_size=12)


@given(entries, st.sampled_from(Compression), st.integers(min_value=0, max_value=1 << 62))
def test_what_is_built_is_read(
    given_records: list[tuple[bytes | None, bytes | None, int, list[tuple[str, bytes | None]]]],
    codec: Compression,
    base_offset: int,
) -> None:
    builder = BatchBuilder()
    for key, value, timestamp, headers in given_records:
        builder.add(key, value, timestamp, headers)
    batch = builder.finish(base_offset, compression=codec, attributes=TRANSACTIONAL, producer_id=4, base_sequence=9)
    header = read_header(batch)
    check_crc(batch, 0, header)
    assert (header.size, header.record_count, header.last_offset) == (
        len(batch),
        len(given_records),
        base_offset + len(given_records) - 1,
    )
    assert header.max_timestamp == max(timestamp for _, _, timestamp, _ in given_records)
    got = list(records(batch))
    assert [(r.key, r.value, r.timestamp, r.headers) for r in got] == given_records
    assert key_values(batch, 0, header) == [(r.offset, r.timestamp, r.key, r.value) for r in got]


@given(st.integers(min_value=-(1 << 63), max_value=(1 << 63) - 1))
def test_varints(value: int) -> None:
    data = varint.encode(value)
    assert varint.VARINT[value] == data
    assert varint.VARINT[value] == data  # also when it has been asked for before
    assert (value in varint.VARINT) == (-64 <= value < 8192)
    assert varint.decode(data + b"rest", 0) == (value, len(data))
    for size in range(len(data)):
        with pytest.raises(TruncatedError):
            varint.decode(data[:size], 0)


@pytest.mark.parametrize("data", [b"\xff" * 10 + b"\x01", b"\xff" * 9 + b"\x7f", b"\x80" * 12])
def test_varints_of_more_than_64_bits(data: bytes) -> None:
    with pytest.raises(LengthError):
        varint.decode(data, 0)


def test_records_of_several_calls_share_a_batch() -> None:
    builder = BatchBuilder()
    builder.extend([(b"a", b"1"), (b"b", None)], 1000)
    builder.extend([(b"c", b""), (None, b"x"), (None, None)], 900)
    batch = builder.finish(7)
    assert key_values(batch, 0, read_header(batch)) == [
        (7, 1000, b"a", b"1"),
        (8, 1000, b"b", None),
        (9, 900, b"c", b""),
        (10, 900, None, b"x"),
        (11, 900, None, None),
    ]


def test_an_empty_batch_is_our_mistake() -> None:
    with pytest.raises(EncodeError):
        BatchBuilder().finish()


def test_a_batch_that_compaction_emptied_has_no_records() -> None:
    batch = build_batch([(b"k", b"v")], 5)[:HEADER_BYTES]
    struct.pack_into(">i", batch, 8, HEADER_BYTES - 12)
    struct.pack_into(">i", batch, 57, 0)
    write_crc(batch)
    header = read_header(batch)
    assert key_values(batch, 0, header) == []
    assert list(records(batch)) == []


def test_several_batches_and_one_cut_off() -> None:
    data = bytes(build_batch([(b"a", b"1")], 1) + build_batch([(b"b", b"2")], 2, 1) + build_batch([(b"c", b"3")], 3, 2))
    assert [header.base_offset for _, header in iterate_batches(data)] == [0, 1, 2]
    cut = data[:-1]
    assert [header.base_offset for _, header in iterate_batches(cut, partial=True)] == [0, 1]
    with pytest.raises(TruncatedError):
        list(iterate_batches(cut))


def test_offsets_and_leader_epoch_are_outside_the_crc() -> None:
    batch = build_batch([(b"a", b"1")], 1)
    assign_offset(batch, 1 << 40, 6)
    header = read_header(batch)
    check_crc(batch, 0, header)
    assert (header.base_offset, header.leader_epoch) == (1 << 40, 6)


def test_timestamps_can_be_settled() -> None:
    batch = build_batch([(b"a", b"1")], 1)
    set_log_append_time(batch, 500)
    check_crc(batch, 0, read_header(batch))
    assert key_values(batch, 0, read_header(batch))[0][1] == 500
    set_create_time(batch, 1)
    check_crc(batch, 0, read_header(batch))
    assert key_values(batch, 0, read_header(batch))[0][1] == 1


@pytest.mark.parametrize("magic", [0, 1, 3, 200])
def test_other_formats_are_refused(magic: int) -> None:
    batch = build_batch([(b"a", b"1")], 1)
    batch[16] = magic
    with pytest.raises(UnsupportedMagicError, match=str(magic)):
        read_header(batch)


def test_any_changed_byte_under_the_crc_is_noticed() -> None:
    batch = build_batch([(b"key", b"value")], 1)
    for position in range(17, len(batch)):
        changed = bytearray(batch)
        changed[position] ^= 0x10
        with pytest.raises(CorruptBatchError):
            check_crc(changed, 0, read_header(changed))


@pytest.mark.parametrize("codec", Compression)
def test_only_decode_errors_leave_the_decoders(codec: Compression) -> None:
    """Bytes changed anywhere behind the header, with the CRC made right again: a peer can send that."""
    chance = random.Random(codec)
    builder = BatchBuilder()
    for number in range(20):
        builder.add(
            b"k%d" % number, b"v" * number, 1000 + number, [("h", b"x"), ("n", None)] if number % 4 == 0 else []
        )
    good = builder.finish(compression=codec)
    agreed = 0
    for _ in range(1500):
        batch = bytearray(good)
        for _ in range(chance.randint(1, 3)):
            position = chance.randrange(21, len(batch))
            batch[position] = chance.choice([0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)])
        if chance.random() < 0.3:
            del batch[chance.randrange(HEADER_BYTES, len(batch)) :]
            struct.pack_into(">i", batch, 8, len(batch) - 12)
        write_crc(batch)
        header = read_header(batch)
        flat: object
        full: object
        try:
            flat = key_values(batch, 0, header, 1 << 20)
        except DecodeError:
            flat = None
        try:
            full = [(r.offset, r.timestamp, r.key, r.value) for r in records(batch, 0, header, 1 << 20)]
        except DecodeError:
            full = None
        assert flat == full
        agreed += flat is not None
    assert agreed < 1500


@pytest.mark.parametrize("size", range(0, 80, 7))
def test_truncated_batches(size: int) -> None:
    batch = build_batch([(b"k" * 30, b"v" * 30)], 1)
    with pytest.raises(DecodeError):
        read_header(batch[:size])


def test_counts_that_the_bytes_cannot_hold() -> None:
    batch = build_batch([(b"k", b"v")], 1)
    for count in (-1, 2, 1 << 30):
        struct.pack_into(">i", batch, 57, count)
        with pytest.raises(LengthError):
            key_values(batch, 0, read_header(batch))
        with pytest.raises(LengthError):
            list(records(batch))


@pytest.mark.parametrize("zigzag", [b"\xfe" + b"\xff" * 8 + b"\1", b"\x80" * 9 + b"\1", b"\x80" * 4 + b"\x10"])
def test_keys_longer_than_any_record(zigzag: bytes) -> None:
    """2^63 - 1, 2^62 and 2^31 bytes: no index into anything, and as such not even a number in a compiled build."""
    batch = build_batch([(b"k" * 12, b"v")], 1)
    batch[65 : 65 + len(zigzag)] = zigzag
    with pytest.raises(LengthError):
        key_values(batch, 0, read_header(batch))
    with pytest.raises(LengthError):
        list(records(batch))


def test_bytes_after_the_last_record() -> None:
    batch = build_batch([(b"k", b"v"), (b"k", b"v")], 1)
    struct.pack_into(">i", batch, 57, 1)
    with pytest.raises(TrailingBytesError):
        key_values(batch, 0, read_header(batch))
    with pytest.raises(TrailingBytesError):
        list(records(batch))


@pytest.mark.parametrize("codec", [codec for codec in Compression if codec])
def test_compression_bombs_are_bounded(codec: Compression) -> None:
    bomb = memoryview(compress(codec, bytes(20_000_000)))
    with pytest.raises(CompressionError, match="more than 1000000 bytes"):
        decompress(codec, bomb, 1_000_000)
    assert len(decompress(codec, bomb, 20_000_000)) == 20_000_000


@pytest.mark.parametrize("codec", [codec for codec in Compression if codec])
@pytest.mark.parametrize("data", [b"", b"\1" * 40, b"\x82SNAPPY\0" + b"\0" * 8 + b"\x7f\xff\xff\xff", b"\xff" * 9])
def test_compressed_rubbish(codec: Compression, data: bytes) -> None:
    with pytest.raises(CompressionError):
        decompress(codec, memoryview(data))


def test_unknown_codec() -> None:
    with pytest.raises(CompressionError, match="unknown compression type 5"):
        decompress(5, memoryview(b"abc"))


def test_control_keys() -> None:
    assert decode_key(b"\0\0\0\1") is ControlType.COMMIT
    assert decode_key(b"\0\0\0\2") is ControlType.UNKNOWN
    assert decode_key(b"\xff\xff\0\1") is ControlType.UNKNOWN
    for short in (None, b"", b"\0\0\0"):
        with pytest.raises(DecodeError):
            decode_key(short)
    with pytest.raises(DecodeError):
        decode_end_marker(b"\0\0\0")


def test_flags() -> None:
    builder = BatchBuilder()
    builder.add(b"\0\0\0\1", b"\0\0\0\0\0\0", 1)
    header = read_header(builder.finish(attributes=CONTROL | TRANSACTIONAL, producer_id=1, base_sequence=(1 << 31) - 1))
    assert header.is_control
    assert header.is_transactional
    assert header.delete_horizon_ms is None
    assert header.last_sequence == (1 << 31) - 1
