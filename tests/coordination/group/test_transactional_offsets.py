"""Offsets of open transactions: whose they are, when they count, and in what order."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from coordinatord.coordination.group import events
from coordinatord.coordination.group.offsets.committed import fetch_offsets
from coordinatord.coordination.group.offsets.pending import PendingOffsets
from coordinatord.coordination.group.states import EMPTY
from kafka_wire.api.offset_delete import OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from kafka_wire.api.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from kafka_wire.errors import ErrorCode
from kafka_wire.records.offsets import OffsetCommitValue
from tests.coordination.group.world import GROUP_ID, TOPIC_ID, World

UNSTABLE = ErrorCode.UNSTABLE_OFFSET_COMMIT


def fetched(world: World, *, stable: bool = False, partitions: tuple[int, ...] = (0,)) -> list[tuple[int, int]]:
    """(error, offset) of partitions of t."""
    request = OffsetFetchRequestGroup(GROUP_ID, topics=[OffsetFetchRequestTopics("t", partition_indexes=[*partitions])])
    found = fetch_offsets(world.group, request, stable).topics[0].partitions
    return [(each.error_code, each.committed_offset) for each in found]


def all_fetched(world: World, *, stable: bool = False) -> list[tuple[str, int, int]]:
    found = fetch_offsets(world.group, OffsetFetchRequestGroup(GROUP_ID, topics=None), stable)
    return [(t.name, p.error_code, p.committed_offset) for t in found.topics for p in t.partitions]


def test_an_offset_counts_when_its_transaction_is_committed() -> None:
    world = World()
    world.commit()
    assert world.commit_transactional(1, 7) == [0]
    assert fetched(world) == [(0, 5)]
    assert fetched(world, stable=True, partitions=(0, 1)) == [(UNSTABLE, -1), (0, -1)]
    assert all_fetched(world) == [("t", 0, 5)]
    assert all_fetched(world, stable=True) == [("t", UNSTABLE, -1)]
    world.end_transaction(1, committed=True)
    assert fetched(world, stable=True) == [(0, 7)]
    assert world.group.pending is None


def test_an_offset_is_forgotten_when_its_transaction_is_aborted() -> None:
    world = World()
    world.commit_transactional(1, 7)
    assert world.group.exists
    assert fetched(world, stable=True) == [(UNSTABLE, -1)]
    world.end_transaction(1, committed=False)
    assert fetched(world, stable=True) == [(0, -1)]
    assert world.group.exists  # as in Kafka: an empty simple group, until it expires


def test_a_group_that_only_a_transaction_knows_lists_nothing_for_all_topics() -> None:
    world = World()
    world.commit_transactional(1, 7)
    assert all_fetched(world, stable=True) == []


def test_a_marker_for_nothing_does_nothing() -> None:
    world = World()
    world.commit_transactional(1, 7)
    world.end_transaction(2, committed=True)
    assert fetched(world, stable=True) == [(UNSTABLE, -1)]


def test_a_plain_commit_that_came_later_wins() -> None:
    world = World()
    world.commit_transactional(1, 7)
    world.commit()
    assert fetched(world, stable=True) == [(UNSTABLE, -1)]
    world.end_transaction(1, committed=True)
    assert fetched(world, stable=True) == [(0, 5)]


def test_a_transaction_that_wrote_later_wins_though_it_ends_first() -> None:
    world = World()
    world.commit_transactional(1, 7)
    world.commit_transactional(2, 8)
    world.end_transaction(2, committed=True)
    world.end_transaction(1, committed=True)
    assert fetched(world) == [(0, 8)]


def test_one_that_wrote_later_and_was_aborted_does_not_count() -> None:
    world = World()
    world.commit_transactional(1, 7)
    world.commit_transactional(2, 8)
    world.end_transaction(2, committed=False)
    world.end_transaction(1, committed=True)
    assert fetched(world) == [(0, 7)]


def test_generation_member_and_instance_are_checked_if_they_are_told() -> None:
    world = World()
    unknown, illegal, fenced = (
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.FENCED_INSTANCE_ID,
    )
    assert world.commit_transactional(1, member_id="m", generation_id=0) == [illegal]
    assert not world.group.exists
    (member_id,) = world.stable(1, group_instance_id="i")
    generation_id = world.group.generation_id
    assert world.commit_transactional(1, member_id=member_id, generation_id=generation_id) == [0]
    assert world.commit_transactional(1, member_id=member_id, generation_id=generation_id - 1) == [illegal]
    assert world.commit_transactional(1, member_id="stranger", generation_id=generation_id) == [unknown]
    assert world.commit_transactional(1, member_id="x", generation_id=1, group_instance_id="i") == [fenced]
    assert world.commit_transactional(1) == [0]  # before v3 nobody says who it is


def test_the_state_of_the_group_does_not_matter() -> None:
    world = World()
    member_ids = world.stable(2)
    world.rejoin_all(member_ids)
    assert world.group.state.value == "CompletingRebalance"
    generation_id = world.group.generation_id
    assert world.commit_transactional(1, member_id=member_ids[0], generation_id=generation_id) == [0]


def test_it_does_not_keep_the_session_alive() -> None:
    world = World()
    (member_id,) = world.stable()
    deadline_ms = world.group.members[member_id].session_deadline_ms
    world.now_ms += 1_000
    world.commit_transactional(1, member_id=member_id, generation_id=1)
    assert world.group.members[member_id].session_deadline_ms == deadline_ms


def test_metadata_that_is_too_long_fails_by_itself() -> None:
    world = World(offset_metadata_max_bytes=3)
    request = events.TxnCommit
    errors = world.commit_transactional(1, topics=[("t", {0: 1, 1: 2})])
    assert errors == [0, 0]
    event = request(_with_metadata("four"))
    reply = world.tell(event).reply
    assert [p.error_code for p in reply.topics[0].partitions] == [ErrorCode.OFFSET_METADATA_TOO_LARGE, 0]
    world.end_transaction(1, committed=True)
    assert fetched(world, partitions=(0, 1)) == [(0, 1), (0, 9)]


def _with_metadata(text: str) -> Any:
    from kafka_wire.api.txn_offset_commit import (
        TxnOffsetCommitRequest,
        TxnOffsetCommitRequestPartition,
        TxnOffsetCommitRequestTopic,
    )

    partitions = [TxnOffsetCommitRequestPartition(0, 9, -1, text), TxnOffsetCommitRequestPartition(1, 9, -1, None)]
    return TxnOffsetCommitRequest(
        "tx", GROUP_ID, 1, 0, topics=[TxnOffsetCommitRequestTopic("t", partitions=partitions)]
    )


def test_deleting_takes_what_is_pending_too() -> None:
    world = World()
    world.commit_transactional(1, 7)
    request = OffsetDeleteRequest(GROUP_ID, [OffsetDeleteRequestTopic("t", [OffsetDeleteRequestPartition(0)])])
    world.tell(request)
    assert world.group.pending is None
    world.end_transaction(1, committed=True)
    assert fetched(world) == [(0, -1)]
    world.commit_transactional(1, 7)
    world.commit_transactional(2, 8)
    group = world.group
    assert world.tell(events.Delete()).reply.error_code == 0
    assert group.pending is None
    assert not group.exists


def test_the_offsets_of_a_deleted_topic_go() -> None:
    world = World()
    world.commit()
    world.commit_transactional(1, topics=[("t", {0: 7, 3: 8}), ("u", {0: 1})])
    world.tell(events.TopicDeleted("t", TOPIC_ID))
    assert world.group.offsets == {}
    assert list(world.group.pending or ()) == [("u", 0)]


def test_a_group_with_an_open_transaction_does_not_expire() -> None:
    world = World()
    world.commit()
    world.commit_transactional(1, 7)
    world.advance(10_000)
    world.tell(events.Expire(0))
    assert world.group.exists
    assert fetched(world) == [(0, 5)]
    world.end_transaction(1, committed=True)
    world.advance(10_000)
    world.tell(events.Expire(0))
    assert not world.group.exists
    assert world.group.state is EMPTY


WRITES = st.tuples(st.sampled_from(["plain", "txn", "delete"]), st.integers(1, 3), st.integers(0, 1))
ENDS = st.tuples(st.sampled_from(["commit", "abort"]), st.integers(1, 3), st.just(0))


@given(st.lists(WRITES | ENDS, max_size=40))
def test_the_order_is_that_of_kafka_which_compares_offsets_of_records(history: list[tuple[str, int, int]]) -> None:
    """Kafka's OffsetMetadataManager in twenty lines, beside ours."""
    ours: dict[tuple[str, int], OffsetCommitValue] = {}
    pending = PendingOffsets()
    kafka: dict[int, tuple[int, int]] = {}  # partition -> (record offset, value)
    kafka_pending: dict[int, dict[int, tuple[int, int]]] = {}
    for record_offset, (kind, producer_id, partition) in enumerate(history):
        key, value = ("t", partition), OffsetCommitValue(record_offset)
        if kind == "plain":
            ours[key] = value
            pending.overtake(key)
            kafka[partition] = record_offset, record_offset
        elif kind == "txn":
            pending.add(producer_id, key, value)
            kafka_pending.setdefault(producer_id, {})[partition] = record_offset, record_offset
        elif kind == "delete":
            ours.pop(key, None)
            pending.drop(key)
            kafka.pop(partition, None)
            for offsets in kafka_pending.values():
                offsets.pop(partition, None)
        else:
            ours.update(pending.end(producer_id, committed=kind == "commit"))
            for index, entry in kafka_pending.pop(producer_id, {}).items():
                if kind == "commit" and (index not in kafka or entry[0] > kafka[index][0]):
                    kafka[index] = entry
        assert {p: v.offset for (_, p), v in ours.items()} == {p: v for p, (_, v) in kafka.items()}
        is_open = {p for offsets in kafka_pending.values() for p in offsets}
        assert {p for _, p in pending} == is_open
        assert bool(pending) == bool(is_open)
