"""What is written out by hand for speed gives the same bytes and objects as what the declarations give."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kafka_wire.codecs import constructor
from kafka_wire.records.batch import BatchBuilder, record_body
from kafka_wire.records.keys import encode_key, encode_offsets, encode_value
from kafka_wire.records.offsets import OffsetCommitKey, OffsetCommitValue
from kafka_wire.schema import ZERO_UUID

names = st.text(max_size=80)
topic_ids = st.just(ZERO_UUID) | st.binary(min_size=16, max_size=16)
int64s = st.integers(-(2**63), 2**63 - 1)
int32s = st.integers(-(2**31), 2**31 - 1)
values = st.builds(
    OffsetCommitValue,
    offset=int64s,
    leader_epoch=int32s,
    metadata=st.just("") | names,
    commit_timestamp=st.sampled_from([0, 1_700_000_000_000]) | int64s,
    expire_timestamp=st.just(-1) | int64s,
    topic_id=topic_ids,
)
maybe_bytes = st.none() | st.binary(max_size=300)


@given(names, names, st.lists(st.tuples(int32s, values), max_size=5))
def test_offsets_are_encoded_as_their_declarations_say(
    group: str, topic: str, committed: list[tuple[int, OffsetCommitValue]]
) -> None:
    by_declaration = [
        record_body(encode_key(OffsetCommitKey(group, topic, partition)), encode_value(value))
        for partition, value in committed
    ]
    assert encode_offsets(group, topic, committed) == by_declaration


@given(st.lists(st.tuples(maybe_bytes, maybe_bytes), min_size=1, max_size=100), st.lists(int32s.map(abs), min_size=2))
def test_bodies_make_the_batch_that_their_records_make(
    records: list[tuple[bytes | None, bytes | None]], times_ms: list[int]
) -> None:
    by_record, by_body = BatchBuilder(), BatchBuilder()
    for time_ms in times_ms:
        by_record.extend(records, time_ms)
        by_body.extend_bodies([record_body(key, value) for key, value in records], time_ms)
    assert by_body.finish(7, leader_epoch=3) == by_record.finish(7, leader_epoch=3)


@given(values)
def test_a_maker_makes_what_the_class_makes(value: OffsetCommitValue) -> None:
    fields = [getattr(value, field.name) for field in OffsetCommitValue.__schema__.fields]  # type: ignore[attr-defined]
    assert constructor(OffsetCommitValue)(*fields) == value
