"""ShareAcknowledge: when the response leaves, and its errors."""

from __future__ import annotations

from typing import Any

import pytest

from coordinatord.coordination.share.apis.acknowledgements import (
    MAX_AT_ONCE,
    MAX_RECORDS,
    Acknowledging,
    are_valid,
    is_large,
)
from coordinatord.coordination.share.leader import ShareError
from coordinatord.coordination.share.persister import StateBatch
from kafka_wire.api.share_acknowledge import AcknowledgementBatch, AcknowledgePartition, AcknowledgeTopic
from kafka_wire.errors import ErrorCode, message_of
from tests.broker.topics.world import batch
from tests.coordination.share.handlers.world import Member, ShareWorld, acquired, errors


@pytest.fixture
def world() -> ShareWorld:
    return ShareWorld()


@pytest.fixture
def member(world: ShareWorld) -> Member:
    """A member that has acquired records 0 to 4 of partition 0."""
    made = Member(world, world.create("orders", 2))
    world.produce("orders", batch(*[b"x"] * 5))
    assert acquired(made.fetch(0, 1)) == [(0, 0, 4, 1)]
    return made


def test_the_response_waits_for_the_write(world: ShareWorld, member: Member) -> None:
    world.persister.is_prompt = False
    context = member.send_acks((0, 0, 4, [1]))
    assert context.answers == 0
    world.persister.end()
    assert errors(context.response) == {}
    assert context.response.acquisition_lock_timeout_ms == 30_000
    [state] = world.persister.states.values()
    assert (state.start_offset, len(state.state_batches)) == (0, 5)


def test_a_late_error_leaves_the_next_share_partition_alone(world: ShareWorld, member: Member) -> None:
    key = "g", member.topic_id, 0
    world.persister.is_prompt = False
    context = member.send_acks((0, 0, 4, [1]))
    [end] = world.persister.waiting
    world.persister.waiting.clear()
    world.partitions.remove(key)
    world.persister.is_prompt = True
    assert acquired(Member(world, member.topic_id, "other").fetch(0)) == [(0, 0, 4, 1)]
    created = world.partitions.find(key)
    world.persister.error = ErrorCode.GROUP_ID_NOT_FOUND
    end()
    assert errors(context.response) == {0: ErrorCode.GROUP_ID_NOT_FOUND}
    assert created is not None
    assert world.partitions.find(key) is created


INVALID = [
    ("first after last", [(3, 2, [1])]),
    ("not sorted", [(3, 4, [1]), (0, 1, [1])]),
    ("overlapping", [(0, 3, [1]), (2, 4, [1])]),
    ("no type", [(0, 4, [])]),
    ("too few types", [(0, 4, [1, 1])]),
    ("too many types", [(0, 1, [1, 1, 1])]),
    ("a type that does not exist", [(0, 4, [5])]),
    ("a negative type", [(0, 4, [-1])]),
    ("the least offset", [(-(2**63), 2**63 - 1, [1])]),
    ("beyond the window", [(0, 2**63 - 1, [1])]),
    ("renewal that is not announced", [(0, 4, [4])]),
]


@pytest.mark.parametrize("batches", [row[1] for row in INVALID], ids=[row[0] for row in INVALID])
def test_invalid_batches(world: ShareWorld, member: Member, batches: list[Any]) -> None:
    context = member.send_acks(*[(0, *each) for each in batches])
    assert errors(context.response) == {0: ErrorCode.INVALID_REQUEST}
    assert world.persister.written == []
    assert errors(member.send_acks((0, 0, 4, [1])).response) == {}


def test_renewal_needs_version_2(world: ShareWorld, member: Member) -> None:
    assert errors(member.send_acks((0, 0, 4, [4]), version=1).response) == {0: ErrorCode.INVALID_REQUEST}
    assert errors(member.send_acks((0, 0, 4, [4]), is_renew_ack=True).response) == {}
    assert world.persister.written == []


def test_errors_are_those_of_partitions(world: ShareWorld, member: Member) -> None:
    context = member.send_acks((0, 0, 4, [1]), (1, 0, 0, [1]), (9, 0, 0, [1]), (-1, 0, 0, [1]))
    assert errors(context.response) == {
        1: ErrorCode.INVALID_RECORD_STATE,
        9: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        -1: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    member.topic_id = b"?" * 16
    assert errors(member.send_acks((0, 0, 0, [1])).response) == {0: ErrorCode.UNKNOWN_TOPIC_ID}


def test_another_members_records(world: ShareWorld, member: Member) -> None:
    other = Member(world, member.topic_id, "other")
    other.fetch(0)
    assert errors(other.send_acks((0, 0, 4, [1])).response) == {0: ErrorCode.INVALID_RECORD_STATE}
    assert errors(member.send_acks((0, 0, 4, [1])).response) == {}


def test_session_epochs(world: ShareWorld, member: Member) -> None:
    for epoch, error in ((0, ErrorCode.INVALID_SHARE_SESSION_EPOCH), (5, ErrorCode.INVALID_SHARE_SESSION_EPOCH)):
        assert member.send_acks((0, 0, 0, [1]), epoch=epoch).response.error_code == error
    stranger = Member(world, member.topic_id, "stranger")
    for epoch in (1, -1):
        response = stranger.send_acks((0, 0, 0, [1]), epoch=epoch).response
        assert response.error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
    assert errors(member.send_acks((0, 0, 0, [1])).response) == {}
    assert errors(member.send_acks((0, 1, 1, [1])).response) == {}


def test_the_last_acknowledgement_releases_the_rest(world: ShareWorld, member: Member) -> None:
    assert errors(member.send_acks((0, 0, 1, [1]), epoch=-1).response) == {}
    assert len(world.sessions) == 0
    assert acquired(Member(world, member.topic_id, "other").fetch(0)) == [(0, 2, 4, 2)]


@pytest.mark.parametrize("fields", [
    {"group_id": None}, {"member_id": None}, {"member_id": ""}, {"member_id": "x" * 37},
])  # fmt: skip
def test_wrong_ids(member: Member, fields: dict[str, Any]) -> None:
    response = member.send_acks((0, 0, 0, [1]), **fields).response
    assert response.error_code == ErrorCode.INVALID_REQUEST


def test_records_with_the_same_end_are_persisted_as_one_batch(world: ShareWorld, member: Member) -> None:
    """However they were acknowledged: one by one, or with a type for each."""
    acks = [(0, 0, 0, [1]), (0, 1, 1, [1]), (0, 2, 4, [3, 1, 1])]
    assert errors(member.send_acks(*acks).response) == {}
    (change,) = world.persister.written
    assert change.state_batches == [StateBatch(0, 1, 2, 1), StateBatch(2, 2, 4, 1), StateBatch(3, 4, 2, 1)]


def test_more_acknowledgements_than_records_can_be_acquired_are_invalid() -> None:
    batches = [AcknowledgementBatch(offset, offset, [1]) for offset in range(MAX_RECORDS + 1)]
    assert not are_valid(batches, may_renew=False, version=2)
    assert are_valid(batches[:-1], may_renew=False, version=2)
    assert not are_valid([AcknowledgementBatch(0, MAX_RECORDS, [1] * (MAX_RECORDS + 1))], may_renew=False, version=2)


def test_many_acknowledgements_are_served_in_slices(world: ShareWorld) -> None:
    """The steps yield after each partition, and the outcome is there at their end."""
    one = [AcknowledgementBatch(0, 0, [1])]
    few = AcknowledgeTopic(b"", [AcknowledgePartition(0, one * (MAX_AT_ONCE - 1))])
    assert not is_large([few])
    assert is_large([few, few])
    outcomes: list[object] = []
    acknowledging = Acknowledging(outcomes.append)
    steps = acknowledging.steps(world.partitions, "g", "m", [((b"", each), one) for each in range(3)])
    assert [outcomes == [] for _ in steps] == [True] * 3
    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert outcomes == [{(b"", each): ShareError(error, message_of(error)) for each in range(3)}]
