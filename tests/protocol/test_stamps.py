"""`stamps` reads what `key_values` reads, and refuses what it refuses."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kafka_wire.errors import DecodeError
from kafka_wire.records.batch import HEADER_BYTES, BatchBuilder, BatchHeader, read_header, record_section
from kafka_wire.records.compression import Compression
from kafka_wire.records.key_values import key_values
from kafka_wire.records.stamps import stamps

SMALL = st.one_of(st.none(), st.binary(max_size=3), st.just(bytes(200)))
RECORDS = st.lists(
    st.tuples(SMALL, SMALL, st.integers(0, 1 << 40), st.lists(st.tuples(st.text(max_size=2), SMALL), max_size=2)),
    min_size=1,
    max_size=5,
)


def built(records: list[Any], compression: Compression = Compression.NONE) -> tuple[bytes, BatchHeader]:
    builder = BatchBuilder()
    for key, value, timestamp, headers in records:
        builder.add(key, value, timestamp, headers)
    batch = bytes(builder.finish(7, compression=compression))
    return batch, read_header(batch)


def by_key_values(batch: bytes, header: BatchHeader) -> list[tuple[int, int, bool]] | type[Exception]:
    try:
        return [(offset, timestamp, key is None) for offset, timestamp, key, _ in key_values(batch, 0, header)]
    except DecodeError as error:
        return type(error)


def by_stamps(batch: bytes, header: BatchHeader) -> list[tuple[int, int, bool]] | type[Exception]:
    try:
        return list(stamps(record_section(batch, 0, header), header))
    except DecodeError as error:
        return type(error)


@given(RECORDS, st.sampled_from(Compression))
def test_sound_batches(records: list[Any], compression: Compression) -> None:
    batch, header = built(records, compression)
    found = by_stamps(batch, header)
    assert found == [(7 + at, timestamp, key is None) for at, (key, _, timestamp, _) in enumerate(records)]
    assert found == by_key_values(batch, header)


@given(RECORDS, st.data())
def test_damaged_batches(records: list[Any], data: st.DataObject) -> None:
    batch, header = built(records)
    damaged = bytearray(batch)
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(HEADER_BYTES, len(batch) - 1))] = data.draw(st.integers(0, 255))
    found, expected = by_stamps(bytes(damaged), header), by_key_values(bytes(damaged), header)
    assert isinstance(found, list) == isinstance(expected, list)
    if isinstance(found, list):
        assert found == expected


def test_nothing_large_is_copied() -> None:
    """Of a record of 40 MB no more than some bytes are taken."""

    class Watched(bytes):
        def __getitem__(self, at: Any) -> Any:
            assert isinstance(at, int), "a copy"
            return super().__getitem__(at)

    batch, header = built([(b"k", bytes(40 << 20), 5, [("h", bytes(1 << 20))])])
    assert list(stamps(Watched(batch[HEADER_BYTES:]), header)) == [(7, 5, False)]
