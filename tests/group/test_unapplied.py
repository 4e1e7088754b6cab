"""Commits that are not applied until somebody looks are seen as if they had been."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from coordinatord.group import replay
from coordinatord.group.state import MAX_UNAPPLIED, Group, GroupSettings
from kafka_wire.api.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kafka_wire.commit_shape import CommitShape
from kafka_wire.records.offsets import OffsetCommitKey, OffsetCommitValue

ORDERS, CLICKS = b"\1" * 16, b"\2" * 16


def new_group() -> Group:
    return Group("g", GroupSettings(), lambda: "id")


def shape(*topics: tuple[str, bytes, list[int]]) -> CommitShape:
    asked = [
        OffsetCommitRequestTopic(name, topic_id, [OffsetCommitRequestPartition(each, 0, 0, "") for each in partitions])
        for name, topic_id, partitions in topics
    ]
    return CommitShape(OffsetCommitRequest("g", 1, "member", topics=asked), 8)


SHAPES = [
    shape(("orders", ORDERS, [0, 1])),
    shape(("orders", ORDERS, [1, 2])),
    shape(("clicks", CLICKS, [0]), ("orders", ORDERS, [2])),
    shape(("clicks", CLICKS, [0, 1])),
]


@pytest.mark.parametrize("seed", range(20))
def test_whoever_looks_sees_what_was_committed_last(seed: int) -> None:
    rng = random.Random(seed)
    late, at_once = new_group(), new_group()
    most = 0
    for time_ms in range(300):
        kind = rng.random()
        if kind < 0.8:
            each = rng.choice(SHAPES)
            numbers = tuple(rng.randbytes(12) for _ in range(sum(len(t.partitions) for t in each.request.topics)))
            replay.replay_again(late, each, numbers, time_ms)
            for topic, values in each.values(numbers, time_ms):
                replay.replay_offsets(at_once, topic, values)
        else:
            value = None if kind < 0.85 else OffsetCommitValue(time_ms, 3, "here", time_ms)
            key = OffsetCommitKey("g", rng.choice(["orders", "clicks"]), rng.randrange(3))
            if kind < 0.9:
                for group in (late, at_once):
                    replay.replay_offset(group, key, value)
            else:
                for group in (late, at_once):
                    assert value is not None
                    replay.replay_offsets(group, key.topic, [(key.partition, value)])
        most = max(most, len(late.unapplied))
        # What is counted on another thread, without applying anything.
        assert {topic: set(found) for topic, found in late.committed.items()} == {
            topic: set(found) for topic, found in at_once.offsets.items()
        }
        if rng.random() < 0.1:
            assert late.offsets == at_once.offsets
            assert not late.unapplied
    assert late.offsets == at_once.offsets
    assert most == len(SHAPES)


def test_no_group_keeps_many_that_are_not_applied() -> None:
    group = new_group()
    made: list[Callable[[], CommitShape]] = [lambda: shape(("orders", ORDERS, [0, 1]))] * (MAX_UNAPPLIED + 10)
    for number, make in enumerate(made):
        replay.replay_again(group, make(), (bytes([number] * 12), bytes(12)), number)
        assert len(group.unapplied) <= MAX_UNAPPLIED
    assert len(group.unapplied) == 10
    assert group.offsets["orders"][0].commit_timestamp == MAX_UNAPPLIED + 9
