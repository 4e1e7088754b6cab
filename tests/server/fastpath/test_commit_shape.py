"""A commit through its shape gives the same records and response as a decoded one."""

from __future__ import annotations

import random
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from coordinatord.server.fastpath.commit_shape import FIRST_VERSION, CommitShape, ShapedRecords
from coordinatord.server.fastpath.commits import apply
from kafka_wire.api.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    error_response,
)
from kafka_wire.codecs import encode_message
from kafka_wire.errors import ErrorCode
from kafka_wire.records.batch import BatchBuilder
from kafka_wire.records.keys import encode_offsets
from kafka_wire.records.offsets import OffsetCommitValue
from kafka_wire.schema import ZERO_UUID
from tests.coordination.group.world import TOPIC_ID, World, commit_topic

names = st.text(max_size=80)
topic_ids = st.just(ZERO_UUID) | st.binary(min_size=16, max_size=16)
int64s = st.integers(-(2**63), 2**63 - 1)
int32s = st.integers(-(2**31), 2**31 - 1)


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


def test_a_commit_that_repeats_another_has_the_same_outcome_whatever_was_committed_between() -> None:
    world = World()
    world.commit(topics=[commit_topic("t", {0: 5}, committed_metadata="m", committed_leader_epoch=3)])
    expected = world.group.offsets["t"][0]
    world.now_ms += 10
    world.commit(retention_time_ms=1_000, version=4)
    between = world.group.offsets["t"][0]
    assert (between.expire_timestamp, between.commit_timestamp) == (world.now_ms + 1_000, world.now_ms)
    apply(world.group, None, [("t", TOPIC_ID, ["m"])], (0, 5, 3), expected.commit_timestamp)
    assert world.group.offsets["t"][0] == expected
