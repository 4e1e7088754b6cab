"""Batches with records taken out of them, against the decoder that everybody else uses."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_wire.errors import DecodeError
from kafka_wire.records.batch import BatchBuilder, check_crc, read_header, record_bytes, records
from kafka_wire.records.compression import Compression
from kafka_wire.records.rewrite import emptied, rewritten, spans

RECORDS = st.lists(
    st.tuples(
        st.none() | st.binary(max_size=200),
        st.none() | st.binary(max_size=200),
        st.integers(0, 1 << 40),
        st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=2),
    ),
    min_size=1,
    max_size=70,
)


def build(
    entries: list[tuple[bytes | None, bytes | None, int, list[tuple[str, bytes | None]]]], codec: int
) -> bytearray:
    builder = BatchBuilder()
    for key, value, time, headers in entries:
        builder.add(key, value, time, headers)
    return builder.finish(
        1000, leader_epoch=3, compression=Compression(codec), producer_id=7, producer_epoch=2, base_sequence=11
    )


@given(RECORDS, st.integers(0, 4), st.none() | st.integers(0, 1 << 41), st.data())
def test_what_is_kept_is_what_it_was(entries: list, codec: int, horizon_ms: int | None, data: st.DataObject) -> None:  # type: ignore[type-arg]
    batch = build(entries, codec)
    header = read_header(batch)
    all_records = list(records(batch))
    section = record_bytes(batch, 0, header)
    found = spans(section, header)
    assert [(span[3], span[4], span[5]) for span in found] == [
        (each.offset - 1000, each.key, each.value is not None) for each in all_records
    ]
    numbers = sorted(data.draw(st.sets(st.integers(0, len(entries) - 1), min_size=1)))
    kept = rewritten(header, section, [found[number] for number in numbers], horizon_ms)
    changed = read_header(kept)
    check_crc(kept, 0, changed)
    assert list(records(kept)) == [all_records[number] for number in numbers]
    assert changed.max_timestamp == max(all_records[number].timestamp for number in numbers)
    assert changed.delete_horizon_ms == horizon_ms
    same = (
        "base_offset",
        "leader_epoch",
        "last_offset_delta",
        "producer_id",
        "producer_epoch",
        "base_sequence",
        "codec",
    )
    assert [getattr(changed, name) for name in same] == [getattr(header, name) for name in same]
    # A second time, with the horizon that it has.
    again = rewritten(
        changed, record_bytes(kept, 0, changed), spans(record_bytes(kept, 0, changed), changed)[-1:], None
    )
    assert list(records(again)) == [all_records[numbers[-1]]]
    assert read_header(again).delete_horizon_ms == horizon_ms
    assert list(records(emptied(changed))) == []
    assert read_header(emptied(changed)).last_offset == header.last_offset


@given(st.binary(max_size=60), st.integers(0, 5))
def test_nonsense_is_refused_or_read(section: bytes, count: int) -> None:
    header = read_header(build([(b"k", b"v", 5, [])], 0))._replace(record_count=count)
    try:
        found = spans(section, header)
    except DecodeError:
        return
    assert len(found) == count
    assert [span[0] for span in found] == [0, *(span[1] for span in found)][:count]


def test_records_that_are_cut_short_are_refused() -> None:
    batch = build([(b"key", b"value", 5, []), (None, None, 6, [("h", b"x")])], 0)
    header = read_header(batch)
    section = record_bytes(batch, 0, header)
    for size in range(len(section)):
        with pytest.raises(DecodeError):
            spans(section[:size], header)
