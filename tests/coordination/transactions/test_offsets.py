"""Offsets that transactions commit, over the wire and in the log."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_wire.api.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kafka_wire.errors import ErrorCode
from tests.coordination.transactions.world import TX, World, group_partition

E = ErrorCode


@pytest.fixture
def world() -> World:
    made = World()
    made.create("orders", 3)
    return made


@pytest.mark.parametrize("version", range(5))
def test_offsets_before_version_2(world: World, version: int) -> None:
    producer = world.producer()
    not_added = E.TRANSACTION_ABORTABLE if version >= 4 else E.INVALID_TXN_STATE
    assert world.commit_offset(producer, 5, version=version) == not_added
    assert world.add_offsets(producer, version=min(version, 4)) == 0
    assert world.commit_offset(producer, 5, version=version) == 0
    world.end(producer, commit=False)
    assert world.committed() == (0, -1)
    world.add_offsets(producer)
    assert world.commit_offset(producer, 6, version=version) == 0
    world.end(producer)
    assert world.committed() == (0, 6)


@pytest.mark.parametrize(("fields", "error"), [
    ({"topic": "none"}, E.UNKNOWN_TOPIC_OR_PARTITION),
    ({"group": ""}, E.INVALID_GROUP_ID),
    ({"id_": ""}, E.INVALID_REQUEST),
    ({"id_": "unknown"}, E.INVALID_PRODUCER_ID_MAPPING),
    ({"generation_id": 3}, E.ILLEGAL_GENERATION),
    ({"producer": (99, 0)}, E.INVALID_PRODUCER_ID_MAPPING),
    ({"producer": (0, 1)}, E.INVALID_PRODUCER_EPOCH),
])  # fmt: skip
def test_committing_an_offset_refused(world: World, fields: dict[str, Any], error: int) -> None:
    own = world.producer()
    world.add_offsets(own)
    producer = fields.pop("producer", own)
    assert world.commit_offset(producer, 5, **fields) == error
    assert world.committed() == (0, -1)


def test_what_is_not_there_is_refused_and_the_rest_is_committed(world: World) -> None:
    producer = world.producer()
    world.add_offsets(producer)
    request = TxnOffsetCommitRequest(TX, "g", *producer)
    request.topics = [
        TxnOffsetCommitRequestTopic(name, partitions=[TxnOffsetCommitRequestPartition(p, 10) for p in (0, 9)])
        for name in ("orders", "none")
    ]
    response = world.call(28, 3, request)
    found = [(t.name, [(p.partition_index, p.error_code) for p in t.partitions]) for t in response.topics]
    unknown = E.UNKNOWN_TOPIC_OR_PARTITION
    assert found == [("orders", [(9, unknown), (0, 0)]), ("none", [(0, unknown), (9, unknown)])]


def test_a_fenced_producer_commits_no_offset(world: World) -> None:
    old = world.producer()
    world.add_offsets(old)
    world.commit_offset(old, 5)
    world.init()
    new = world.producer()
    assert world.commit_offset(old, 6) == E.INVALID_PRODUCER_EPOCH
    world.add_offsets(new)
    assert world.commit_offset(new, 7) == 0
    world.end(new)
    assert world.committed() == (0, 7)


def test_a_plain_commit_after_it_wins(world: World) -> None:
    producer = world.producer()
    world.add_offsets(producer)
    world.commit_offset(producer, 5)
    assert world.commit_plainly(9) == 0
    world.end(producer)
    assert world.committed() == (0, 9)
    world.restart()
    assert world.committed() == (0, 9)


def test_one_marker_is_for_all_groups_of_a_partition() -> None:
    world = World(offsets_topic_num_partitions=1)
    world.create("orders")
    producer = world.producer()
    for group in ("a", "b"):
        world.add_offsets(producer, group)
        world.commit_offset(producer, 5, group=group)
    world.end(producer)
    assert [world.committed(group) for group in ("a", "b")] == [(0, 5)] * 2
    log = world.partition("__consumer_offsets").log
    assert sum(header.is_control for header in log.batches(0)) == 1


def test_the_offsets_log_is_as_kafka_writes_it(world: World) -> None:
    producer = world.producer()
    world.add_offsets(producer)
    world.commit_offset(producer, 5)
    world.end(producer)
    log = world.partition("__consumer_offsets", group_partition(world)).log
    data, marker = log.batches(0)
    assert (data.is_transactional, data.is_control, data.base_sequence, data.producer_id) == (
        True,
        False,
        0,
        producer[0],
    )
    assert (marker.is_transactional, marker.is_control, marker.base_sequence) == (True, True, -1)
