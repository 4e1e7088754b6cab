"""ShareFetch: what is acquired, when it waits, and what its errors are."""

from __future__ import annotations

from typing import Any

import pytest

from coordinatord.broker.topics.producers import Aborted
from coordinatord.coordination.share.apis.acknowledgements import MAX_AT_ONCE
from coordinatord.coordination.share.apis.reading import aborted_batches
from coordinatord.coordination.share.partition.events import OffsetRange
from kafka_wire.api.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kafka_wire.api.delete_topics import DeleteTopicsRequest
from kafka_wire.api.share_fetch import FetchPartition, FetchTopic, ShareFetchRequest
from kafka_wire.errors import ErrorCode
from kafka_wire.records.batch import TRANSACTIONAL, BatchHeader, assign_offset, build_control_batch, iterate_batches
from kafka_wire.records.control import ControlType
from tests.broker.topics.world import Context, batch
from tests.coordination.share.handlers.world import FETCH, Member, ShareWorld, ack_errors, acquired, errors


@pytest.fixture
def world() -> ShareWorld:
    return ShareWorld()


@pytest.fixture
def member(world: ShareWorld) -> Member:
    return Member(world, world.create("orders", 3))


def put(world: ShareWorld, count: int, partition: int = 0) -> None:
    world.produce("orders", batch(*[b"x"] * count), partition=partition)


def test_records_are_acquired_once(world: ShareWorld, member: Member) -> None:
    put(world, 3)
    assert acquired(member.fetch(0)) == [(0, 0, 2, 1)]
    assert acquired(Member(world, member.topic_id, "other").fetch(0)) == []
    response = member.fetch()
    assert (acquired(response), response.acquisition_lock_timeout_ms) == ([], 30_000)


def test_the_response_has_the_batches_of_the_acquired_records(world: ShareWorld, member: Member) -> None:
    for _ in range(3):
        put(world, 2)
    response = member.fetch(0, max_records=3, share_acquire_mode=1)
    assert acquired(response) == [(0, 0, 2, 1)]
    [data] = response.responses[0].partitions
    assert [header.base_offset for _, header in iterate_batches(data.records or b"")] == [0, 2]
    response = member.fetch(max_records=1)
    assert acquired(response) == [(0, 3, 3, 1)]
    [data] = response.responses[0].partitions
    assert [header.base_offset for _, header in iterate_batches(data.records or b"")] == [2]


def test_max_records_is_a_limit_for_all_partitions(world: ShareWorld, member: Member) -> None:
    put(world, 4, 0)
    put(world, 4, 1)
    response = member.fetch(0, 1, max_records=5, share_acquire_mode=1)
    assert sum(last - first + 1 for _, first, last, _ in acquired(response)) == 5


def test_a_fetch_waits_for_records(world: ShareWorld, member: Member) -> None:
    context = member.ask(0, wait_ms=500)
    assert context.answers == 0
    put(world, 1)
    assert acquired(context.response) == [(0, 0, 0, 1)]
    context = member.ask(wait_ms=500)
    world.pass_time(500)
    assert acquired(context.response) == []
    assert not world.fetches.parked


def test_a_fetch_waits_for_min_bytes(world: ShareWorld, member: Member) -> None:
    size = len(batch(b"x"))
    context = member.ask(0, wait_ms=500, min_bytes=2 * size)
    put(world, 1)
    assert context.answers == 0
    put(world, 1)
    assert acquired(context.response) == [(0, 0, 1, 1)]


@pytest.mark.parametrize("is_last", [True, False])
def test_a_waiting_fetch_gets_released_records(world: ShareWorld, member: Member, *, is_last: bool) -> None:
    put(world, 2)
    member.fetch(0)
    waiting = Member(world, member.topic_id, "other").ask(0, wait_ms=500)
    offset = 1 if is_last else 0
    assert member.send_acks((0, offset, offset, [2])).answers == 1
    assert acquired(waiting.response) == [(0, offset, offset, 2)]


def test_a_waiting_fetch_gets_records_whose_lock_has_timed_out(world: ShareWorld, member: Member) -> None:
    put(world, 2)
    member.fetch(0)
    waiting = Member(world, member.topic_id, "other").ask(0, wait_ms=40_000)
    world.pass_time(29_999)
    assert waiting.answers == 0
    world.pass_time(1)
    assert acquired(waiting.response) == [(0, 0, 1, 2)]


def test_only_one_of_two_waiting_fetches_gets_a_record(world: ShareWorld, member: Member) -> None:
    waiting = [member.ask(0, wait_ms=500), Member(world, member.topic_id, "other").ask(0, wait_ms=500)]
    put(world, 1)
    world.pass_time(500)
    assert sorted(len(acquired(context.response)) for context in waiting) == [0, 1]


def test_a_client_that_is_gone_acquires_nothing(world: ShareWorld, member: Member) -> None:
    context = member.ask(0, wait_ms=500)
    context.closed = True
    put(world, 1)
    assert acquired(Member(world, member.topic_id, "other").fetch(0)) == [(0, 0, 0, 1)]


def test_a_node_that_no_longer_leads_delivers_nothing(world: ShareWorld, member: Member) -> None:
    """A waiting request would get records that another node delivers now."""
    put(world, 1)
    member.fetch(0)
    waiting = Member(world, member.topic_id, "other").ask(0, wait_ms=60_000)
    world.leads = False
    world.pass_time(30_000)  # the lock is over
    assert acquired(waiting.response) == []


# Acknowledgements with a fetch


def test_a_response_with_acknowledgements_waits_for_their_write(world: ShareWorld, member: Member) -> None:
    put(world, 2)
    member.fetch(0)
    world.persister.is_prompt = False
    context = member.ask(acks=[(0, 0, 1, [1])])
    assert context.answers == 0
    world.persister.end()
    assert ack_errors(context.response) == {0: 0}
    assert world.persister.written[-1].state_batches == ((0, 1, 2, 1),)


def test_errors_of_acknowledgements_are_beside_acquired_records(world: ShareWorld, member: Member) -> None:
    put(world, 1, 0)
    put(world, 1, 1)
    member.fetch(0)
    response = member.fetch(1, acks=[(0, 7, 9, [1]), (2, 0, 0, [1])])
    assert acquired(response) == [(1, 0, 0, 1)]
    found = ack_errors(response)
    assert (found[0], found[2]) == (ErrorCode.INVALID_REQUEST, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def test_a_failed_write_gives_the_record_back_to_the_member(world: ShareWorld, member: Member) -> None:
    put(world, 1)
    member.fetch(0)
    world.persister.error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    response = member.fetch(acks=[(0, 0, 0, [1])])
    assert ack_errors(response) == {0: ErrorCode.COORDINATOR_NOT_AVAILABLE}
    world.persister.error = ErrorCode.NONE
    assert ack_errors(member.fetch(acks=[(0, 0, 0, [1])])) == {0: 0}


def test_a_fenced_share_partition_is_read_again(world: ShareWorld, member: Member) -> None:
    put(world, 1)
    member.fetch(0)
    world.persister.error = ErrorCode.FENCED_STATE_EPOCH
    response = member.fetch(acks=[(0, 0, 0, [1])])
    assert ack_errors(response) == {0: ErrorCode.NOT_LEADER_OR_FOLLOWER}
    world.persister.error = ErrorCode.NONE
    assert acquired(member.fetch()) == [(0, 0, 0, 1)]


def test_renewal_acquires_nothing(world: ShareWorld, member: Member) -> None:
    put(world, 1)
    member.fetch(0)
    put(world, 1)
    world.pass_time(20_000)
    wrong = member.fetch(epoch=1, acks=[(0, 0, 0, [4])], is_renew_ack=True)
    assert (wrong.error_code, wrong.error_message) == (ErrorCode.INVALID_REQUEST, None)
    response = member.fetch(acks=[(0, 0, 0, [4])], is_renew_ack=True, max_bytes=0, min_bytes=0, max_records=0)
    assert (acquired(response), ack_errors(response)) == ([], {0: 0})
    world.pass_time(20_000)
    assert acquired(member.fetch()) == [(0, 1, 1, 1)]


# The state


def test_the_state_is_read_first(world: ShareWorld, member: Member) -> None:
    put(world, 2)
    world.persister.is_prompt = False
    context = member.ask(0, wait_ms=500)
    assert context.answers == 0
    world.persister.end()
    assert acquired(context.response) == [(0, 0, 1, 1)]


def test_a_state_that_cannot_be_read_is_an_error_of_its_partition(world: ShareWorld, member: Member) -> None:
    put(world, 2)
    world.persister.error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert errors(member.fetch(0)) == {0: ErrorCode.COORDINATOR_NOT_AVAILABLE}
    world.persister.error = ErrorCode.NONE
    assert acquired(member.fetch()) == [(0, 0, 1, 1)]


@pytest.mark.parametrize(("timestamp", "first"), [(-2, 0), (-1, None), (1_700_000_000_000, 0)])
def test_the_start_is_that_of_the_groups_settings(
    world: ShareWorld, member: Member, timestamp: int, first: int | None
) -> None:
    put(world, 2)
    world.groups.timestamp = timestamp
    assert acquired(member.fetch(0)) == ([] if first is None else [(0, first, 1, 1)])
    put(world, 1)
    assert acquired(member.fetch()) == [(0, 2, 2, 1)]


def test_acknowledged_records_are_not_delivered_after_a_restart(world: ShareWorld, member: Member) -> None:
    put(world, 3)
    member.fetch(0)
    member.fetch(acks=[(0, 1, 1, [1])])
    world.partitions.remove_group("g")
    assert acquired(member.fetch()) == [(0, 0, 0, 1), (0, 2, 2, 1)]


def test_deleted_records_are_skipped(world: ShareWorld, member: Member) -> None:
    put(world, 2)
    put(world, 2)
    member.fetch(1)
    world.groups.timestamp = 0
    member.fetch(0, max_records=1)
    member.send_acks((0, 0, 1, [2]))
    world.call(21, 2, DeleteRecordsRequest([DeleteRecordsTopic("orders", [DeleteRecordsPartition(0, 3)])]))
    assert acquired(member.fetch()) == []
    assert acquired(member.fetch()) == [(0, 3, 3, 1)]


def test_a_deleted_topic_ends_its_share_partitions(world: ShareWorld, member: Member) -> None:
    put(world, 1)
    member.fetch(0)
    assert len(world.partitions) == 1
    world.call(20, 5, DeleteTopicsRequest(topic_names=["orders"]))
    assert len(world.partitions) == 0
    assert errors(member.fetch()) == {0: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


# Sessions and bad input


def test_a_session_counts_its_requests(world: ShareWorld, member: Member) -> None:
    assert member.fetch(0, epoch=1).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
    assert member.fetch(0, epoch=-1).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
    assert member.fetch(0).error_code == 0
    for wrong in (2, 7, -2, 2**31 - 1):
        assert member.fetch(epoch=wrong).error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert member.fetch().error_code == 0
    assert member.fetch(epoch=-1).error_code == 0
    assert member.fetch().error_code == ErrorCode.SHARE_SESSION_NOT_FOUND


def test_the_first_request_cannot_acknowledge(world: ShareWorld, member: Member) -> None:
    assert member.fetch(0, acks=[(0, 0, 0, [1])]).error_code == ErrorCode.INVALID_REQUEST
    assert len(world.sessions) == 0


@pytest.mark.parametrize("ends", ["epoch", "connection"])
def test_the_end_of_a_session_releases_its_records(world: ShareWorld, member: Member, ends: str) -> None:
    put(world, 2)
    member.fetch(0)
    other = Member(world, member.topic_id, "other")
    assert acquired(other.fetch(0)) == []
    if ends == "epoch":
        member.fetch(epoch=-1, acks=[(0, 0, 0, [1])])
        assert acquired(other.fetch()) == [(0, 1, 1, 2)]
    else:
        member.connection.on_lost()
        assert acquired(other.fetch()) == [(0, 0, 1, 2)]
    assert len(world.sessions) == 1


def test_a_group_without_sessions_has_no_share_partitions(world: ShareWorld, member: Member) -> None:
    member.fetch(0, 1)
    assert len(world.partitions) == 2
    member.connection.on_lost()
    assert (len(world.partitions), len(world.sessions)) == (0, 0)


def test_partitions_are_forgotten(world: ShareWorld, member: Member) -> None:
    member.fetch(0, 1)
    member.fetch(forgotten=[0])
    put(world, 1, 0)
    put(world, 1, 1)
    assert acquired(member.fetch()) == [(1, 0, 0, 1)]


def test_too_many_sessions(world: ShareWorld, member: Member) -> None:
    world.sessions.max_sessions = 1
    member.fetch(0)
    context = Member(world, member.topic_id, "other").ask(0, wait_ms=500)
    assert context.answers == 0
    world.pass_time(500)
    assert context.response.error_code == ErrorCode.SHARE_SESSION_LIMIT_REACHED


@pytest.mark.parametrize("fields", [
    {"group_id": None}, {"member_id": None}, {"member_id": ""}, {"member_id": "x" * 37},
])  # fmt: skip
def test_wrong_ids(world: ShareWorld, member: Member, fields: dict[str, Any]) -> None:
    assert member.fetch(0, **fields).error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("field", ["max_wait_ms", "min_bytes", "max_bytes", "max_records", "batch_size"])
@pytest.mark.parametrize("value", [-(2**31), -1, 0, 1, 2**31 - 1])
def test_extreme_numbers(world: ShareWorld, member: Member, field: str, value: int) -> None:
    put(world, 3)
    fields: dict[str, Any] = {field: value}
    context = member.ask(0, **fields)
    assert context.response.error_code == 0
    is_nothing = field in ("max_bytes", "max_records") and value <= 0
    assert acquired(context.response) == ([] if is_nothing else [(0, 0, 2, 1)])


def test_unknown_topics_and_partitions(world: ShareWorld, member: Member) -> None:
    assert errors(member.fetch(0, 7, -1)) == dict.fromkeys((7, -1), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    stranger = Member(world, b"?" * 16, "other")
    assert errors(stranger.fetch(0)) == {0: ErrorCode.UNKNOWN_TOPIC_ID}


def test_a_partition_without_news_is_left_out(world: ShareWorld, member: Member) -> None:
    assert len(member.fetch(0, 1).responses[0].partitions) == 2
    assert member.fetch().responses == []
    assert [data.partition_index for data in member.fetch(2).responses[0].partitions] == [2]
    assert member.fetch().responses == []


def test_drain_ends_waiting_fetches(world: ShareWorld, member: Member) -> None:
    context = member.ask(0, wait_ms=500)
    world.fetches.drain()
    assert context.response.error_code == 0


def test_a_request_without_topics(world: ShareWorld) -> None:
    request = ShareFetchRequest(group_id="g", member_id="m", max_records=1)
    assert world.send(FETCH, 1, request).response.responses == []


# Isolation


def headers_of(data: bytes) -> list[tuple[int, BatchHeader]]:
    return list(iterate_batches(data))


def at(offset: int, data: bytes | bytearray) -> bytes:
    moved = bytearray(data)
    assign_offset(moved, offset, 0)
    return bytes(moved)


def test_batches_of_aborted_transactions_are_found() -> None:
    """Producer 1 aborts 0-1 and commits 5; producer 2 commits 2; records without a transaction stay."""
    in_transaction: dict[str, Any] = {"producer_epoch": 0, "base_sequence": 0, "attributes": TRANSACTIONAL}
    data = b"".join([
        at(0, batch(b"a", b"b", producer_id=1, **in_transaction)),
        at(2, batch(b"c", producer_id=2, **in_transaction)),
        at(3, build_control_batch(ControlType.ABORT, 1, 0, 0, 0)),
        at(4, batch(b"d")),
        at(5, batch(b"e", producer_id=1, **in_transaction)),
    ])  # fmt: skip
    assert aborted_batches(data, headers_of(data), [Aborted(1, 0, 3, 0)]) == [OffsetRange(0, 1)]
    assert aborted_batches(data, headers_of(data), []) == []


def test_a_large_session_that_ends_meanwhile_loads_nothing_more(world: ShareWorld) -> None:
    topic_id = world.create("wide", 3 * MAX_AT_ONCE)
    partitions = [FetchPartition(index) for index in range(3 * MAX_AT_ONCE)]
    request = ShareFetchRequest("g", "m", 0, max_records=1, topics=[FetchTopic(topic_id, partitions)])
    context = Context(world, FETCH, 2)
    task = world.handlers[FETCH](context, request)
    next(task.steps)
    assert len(world.partitions) == MAX_AT_ONCE
    context.closed = True
    context.connection.on_lost()
    assert len(world.partitions) == 0
    for _ in task.steps:
        pass
    assert len(world.partitions) == 0
