"""What is written out by hand for speed gives the same bytes and objects as what the declarations give."""

from __future__ import annotations

import random
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from kafka_wire.api.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    error_response,
)
from kafka_wire.codecs import encode_message, maker
from kafka_wire.commit_shape import FIRST_VERSION, CommitShape, ShapedRecords
from kafka_wire.errors import ErrorCode
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


def with_numbers(request: OffsetCommitRequest, numbers: list[tuple[int, int]]) -> OffsetCommitRequest:
    rest = iter(numbers)
    return replace(
        request,
        topics=[
            replace(
                topic,
                partitions=[
                    OffsetCommitRequestPartition(each.partition_index, *next(rest), each.committed_metadata)
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


plain_topics = st.builds(
    OffsetCommitRequestTopic,
    name=names,
    topic_id=topic_ids,
    partitions=st.lists(
        st.builds(OffsetCommitRequestPartition, int32s, committed_metadata=st.sampled_from(["", None])),
        min_size=1,
        max_size=4,
    ),
)
many_numbers = st.integers(0, 1 << 32).map(
    lambda seed: [
        (each := random.Random(seed + at)) and (each.getrandbits(63), each.getrandbits(31)) for at in range(8)
    ]
)


@given(
    st.builds(
        OffsetCommitRequest,
        names,
        int32s,
        names,
        st.none() | names,
        topics=st.lists(plain_topics, min_size=1, max_size=2),
    ),
    st.integers(FIRST_VERSION, 10),
    many_numbers,
    many_numbers,
    int64s,
    st.binary(max_size=5),
    st.randoms(use_true_random=False),
)
def test_a_commit_through_its_shape_is_what_its_declarations_say(
    request: OffsetCommitRequest,
    version: int,
    first: list[tuple[int, int]],
    then: list[tuple[int, int]],
    time_ms: int,
    before: bytes,
    rng: random.Random,
) -> None:
    for topic in request.topics:  # as the shortcut asks for
        topic.partitions = list({each.partition_index: each for each in topic.partitions}.values())
    shape = CommitShape(with_numbers(request, first), version)
    later = with_numbers(request, then)
    for topic in later.topics:
        order = [each.partition_index for each in topic.partitions]
        rng.shuffle(order)
        for index, each in zip(order, topic.partitions, strict=True):
            each.partition_index = index
    body = encode_message(later, version)
    numbers = shape.numbers(before + body + b"next", len(before), len(before) + len(body))
    assert numbers is not None
    values = [
        (
            topic.name,
            [
                (
                    each.partition_index,
                    OffsetCommitValue(
                        each.committed_offset, each.committed_leader_epoch, "", time_ms, -1, topic.topic_id
                    ),
                )
                for each in topic.partitions
            ],
        )
        for topic in later.topics
    ]
    assert shape.read_numbers(body, 0) == tuple(
        number
        for topic in later.topics
        for each in topic.partitions
        for number in (each.partition_index, each.committed_offset, each.committed_leader_epoch)
    )
    bodies = [body for topic in values for body in encode_offsets(request.group_id, *topic)]
    assert shape.bodies(numbers, time_ms) == bodies
    by_shape, by_body = BatchBuilder(), BatchBuilder()
    for times_ms in (0, 0, 5, 63, 64, -65, 0, 70, 0, 1, 1, 2, 2, 3, 3, 5):  # 16 commits have 64 records or more
        passed_ms = min(max(time_ms, -(1 << 62)), 1 << 62) + times_ms
        ShapedRecords(shape, numbers).put_into(by_shape, passed_ms)
        by_body.extend_bodies(shape.bodies(numbers, passed_ms), passed_ms)
        assert by_shape.size == by_body.size == sum(map(len, by_shape.pieces))
    assert by_shape.finish(7, leader_epoch=3) == by_body.finish(7, leader_epoch=3)
    assert shape.answer == encode_message(error_response(later, version, ErrorCode.NONE), version)
    # One byte that differs is a number's, or it is another request.
    position = rng.randrange(len(body))
    other = body[:position] + bytes([body[position] ^ 1]) + body[position + 1 :]
    assert shape.numbers(other, 0, len(other)) != numbers
    assert shape.numbers(body, 0, len(body) - 1) is None
    # Another partition, or one twice, is another request.
    partitions = later.topics[0].partitions
    taken = {each.partition_index for each in partitions}
    for index in ({*range(8)} - taken).pop(), partitions[0].partition_index:
        changed = replace(later, topics=[replace(each, partitions=list(each.partitions)) for each in later.topics])
        changed.topics[0].partitions[-1] = replace(partitions[-1], partition_index=index)
        body = encode_message(changed, version)
        is_the_same = len(partitions) == 1 and index in taken
        assert (shape.numbers(body, 0, len(body)) is not None) == is_the_same


@given(values)
def test_a_maker_makes_what_the_class_makes(value: OffsetCommitValue) -> None:
    fields = [getattr(value, field.name) for field in OffsetCommitValue.__schema__.fields]  # type: ignore[attr-defined]
    assert maker(OffsetCommitValue)(*fields) == value
