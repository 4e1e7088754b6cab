"""Commits of all four kinds, and every error that they can meet."""

from __future__ import annotations

import pytest

from coordinatord.testing.member.events import Commit, Rejoin, Unsupported
from coordinatord.testing.member.send import NO_GENERATION, Generation
from coordinatord.testing.member.state import STABLE, UNJOINED
from kafka_wire.api.heartbeat import HeartbeatRequest
from kafka_wire.api.join_group import JoinGroupRequest
from kafka_wire.api.offset_commit import OffsetCommitRequest
from kafka_wire.errors import ErrorCode
from tests.testing.member.lab import GENERATION, MEMBER_ID, Lab

T0, T1 = ("t", 0), ("t", 1)
OFFSETS = {T0: 5, T1: 7}


def outcome(lab: Lab) -> ErrorCode:
    return lab.committed[-1].error


def test_a_commit_says_who_and_what() -> None:
    lab = Lab(group_instance_id="i").stable()
    lab.tell(Commit(OFFSETS))
    request = lab.waiting(OffsetCommitRequest)[0].request
    assert (request.group_id, request.generation_id_or_member_epoch, request.member_id, request.group_instance_id) == (
        "g",
        GENERATION,
        MEMBER_ID,
        "i",
    )
    [topic] = request.topics
    assert [(each.partition_index, each.committed_offset, each.committed_metadata) for each in topic.partitions] == [
        (0, 5, ""),
        (1, 7, ""),
    ]
    lab.commit()
    assert (lab.committed[-1].offsets, outcome(lab)) == (OFFSETS, ErrorCode.NONE)


def test_without_offsets_it_is_what_was_consumed() -> None:
    lab = Lab().stable()
    lab.tell(Commit())
    [topic] = lab.waiting(OffsetCommitRequest)[0].request.topics
    assert [each.committed_offset for each in topic.partitions] == [10, 10]


def test_nothing_to_commit_is_a_success() -> None:
    lab = Lab(fetches=False).stable()
    lab.tell(Commit())
    assert outcome(lab) is ErrorCode.NONE
    lab.tell(Commit({}, timeout_ms=1_000))
    assert outcome(lab) is ErrorCode.NONE
    assert lab.sent == []


def test_negative_offsets_are_refused() -> None:
    with pytest.raises(ValueError, match="negative"):
        Lab().stable().tell(Commit({T0: -1}))


@pytest.mark.parametrize(
    ("error", "coordinator_lost", "left"),
    [
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, False, None),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, False, None),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, True, None),
        (ErrorCode.NOT_COORDINATOR, True, None),
        (ErrorCode.REQUEST_TIMED_OUT, True, None),
        (ErrorCode.REBALANCE_IN_PROGRESS, False, None),
        (ErrorCode.OFFSET_METADATA_TOO_LARGE, False, None),
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, False, None),
        (ErrorCode.ILLEGAL_GENERATION, False, Generation(-1, MEMBER_ID)),
        (ErrorCode.UNKNOWN_MEMBER_ID, False, NO_GENERATION),
    ],
)
def test_errors_of_commit_async(error: ErrorCode, coordinator_lost: bool, left: Generation | None) -> None:
    lab = Lab().stable()
    lab.tell(Commit(OFFSETS))
    lab.commit(error)
    assert outcome(lab) is error
    assert (lab.member.coordinator is None) == coordinator_lost
    assert lab.member.rejoin_needed == (error is ErrorCode.REBALANCE_IN_PROGRESS or left is not None)
    assert lab.member.state is (STABLE if left is None else UNJOINED)
    if left is not None:
        assert lab.member.generation == left
    assert lab.waiting(OffsetCommitRequest) == [], "once"


def test_a_fenced_commit_fails_the_next_poll() -> None:
    lab = Lab(group_instance_id="i").stable()
    lab.tell(Commit(OFFSETS))
    lab.commit(ErrorCode.FENCED_INSTANCE_ID)
    polled = lab.poll()
    assert polled is not None
    assert polled.error is ErrorCode.FENCED_INSTANCE_ID


@pytest.mark.parametrize(
    "error", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_INSTANCE_ID]
)
def test_news_of_an_earlier_generation_means_a_rebalance(error: ErrorCode) -> None:
    lab = Lab().stable()
    lab.tell(Commit(OFFSETS))
    lab.tell(Rejoin())
    lab.poll(10_000)
    lab.join(ErrorCode.UNKNOWN_MEMBER_ID)
    generation = lab.member.generation
    lab.commit(error)
    assert outcome(lab) is ErrorCode.REBALANCE_IN_PROGRESS
    assert lab.member.generation == generation


def test_while_rebalancing_nothing_is_sent() -> None:
    lab = Lab().completing()
    lab.tell(Commit(OFFSETS))
    assert outcome(lab) is ErrorCode.REBALANCE_IN_PROGRESS
    lab = Lab().stable()
    lab.advance(3_000)
    lab.heartbeat(ErrorCode.UNKNOWN_MEMBER_ID)
    lab.tell(Commit(OFFSETS))
    assert outcome(lab) is ErrorCode.UNKNOWN_MEMBER_ID
    assert lab.waiting(OffsetCommitRequest) == []


def test_commit_async_waits_for_a_coordinator_that_is_being_looked_for() -> None:
    for answer in (ErrorCode.NONE, ErrorCode.COORDINATOR_NOT_AVAILABLE):
        lab = Lab().stable()
        lab.advance(3_000)
        lab.lose(HeartbeatRequest)
        lab.tell(Commit(OFFSETS))
        assert lab.names() == ["FindCoordinator"]
        lab.find(answer)
        if answer:
            assert outcome(lab) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        else:
            lab.commit()
            assert outcome(lab) is ErrorCode.NONE


def test_commit_sync_tries_again_with_growing_pauses() -> None:
    lab = Lab().stable()
    lab.tell(Commit(OFFSETS, timeout_ms=2_000))
    for wait_ms in (100, 200, 400):
        lab.commit(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        lab.advance(wait_ms - 1)
        assert lab.waiting(OffsetCommitRequest) == []
        lab.advance(1)
    lab.commit()
    assert outcome(lab) is ErrorCode.NONE
    assert lab.member.sync_commit is None


def test_commit_sync_gives_up_when_its_time_is_up() -> None:
    lab = Lab().stable()
    lab.tell(Commit(OFFSETS, timeout_ms=2_000))
    lab.advance(2_000)
    assert outcome(lab) is ErrorCode.REQUEST_TIMED_OUT
    lab.commit()
    assert len(lab.committed) == 2, "what comes later is nobody's"
    assert lab.committed[-1].event is None


def test_commit_sync_looks_for_the_coordinator() -> None:
    lab = Lab().stable()
    lab.tell(Commit(OFFSETS, timeout_ms=5_000))
    lab.lose(OffsetCommitRequest)
    assert lab.member.coordinator is None
    lab.find()
    lab.advance(100)
    lab.commit()
    assert outcome(lab) is ErrorCode.NONE


def test_commit_sync_does_not_repeat_what_cannot_succeed() -> None:
    lab = Lab().stable()
    lab.tell(Commit(OFFSETS, timeout_ms=5_000))
    lab.commit(ErrorCode.ILLEGAL_GENERATION)
    assert outcome(lab) is ErrorCode.ILLEGAL_GENERATION


def test_a_broker_without_a_version_for_it_is_told_to_the_commits_caller() -> None:
    lab = Lab(group_instance_id="i").stable()
    lab.tell(Commit(OFFSETS, timeout_ms=60_000))
    lab.tell(Unsupported(lab.take(OffsetCommitRequest), "too old"))
    assert outcome(lab) is ErrorCode.UNSUPPORTED_VERSION
    assert lab.member.sync_commit is None
    assert lab.member.coordinator is not None


# Auto-commit


def auto() -> Lab:
    """Commits each five seconds; the last time at its join."""
    return Lab(enable_auto_commit=True, session_timeout_ms=10**6, heartbeat_interval_ms=10**5).stable()


def test_auto_commit_comes_with_the_poll_after_its_interval() -> None:
    lab = auto()
    lab.advance(4_999)
    lab.poll()
    assert lab.waiting(OffsetCommitRequest) == []
    lab.advance(1)
    assert lab.waiting(OffsetCommitRequest) == [], "within polls only"
    lab.poll()
    lab.poll()
    assert len(lab.waiting(OffsetCommitRequest)) == 1
    lab.poll(10_000)
    lab.commit()
    lab.advance(5_000)
    assert len(lab.waiting(OffsetCommitRequest)) == 1


def test_auto_commit_comes_again_soon_after_an_error_that_may_pass() -> None:
    lab = auto()
    lab.advance(5_000)
    lab.poll(10_000)
    lab.commit(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    lab.advance(100)
    lab.commit(ErrorCode.OFFSET_METADATA_TOO_LARGE)
    lab.advance(1_000)
    assert lab.waiting(OffsetCommitRequest) == []


def test_before_it_rejoins_a_member_commits_and_hands_nothing_out() -> None:
    lab = auto()
    lab.tell(Rejoin())
    lab.poll(10_000)
    assert "JoinGroup" not in lab.names()
    assert all(state.pending_revocation for state in lab.member.partitions.values())
    lab.commit()
    assert len(lab.waiting(JoinGroupRequest)) == 1


def test_it_tries_that_again_while_errors_may_pass() -> None:
    lab = auto()
    lab.tell(Rejoin())
    lab.poll(10_000)
    lab.commit(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert lab.waiting(OffsetCommitRequest) == []
    lab.advance(100)
    lab.lose(OffsetCommitRequest)
    lab.find()
    lab.advance(100)
    lab.commit(ErrorCode.ILLEGAL_GENERATION)
    assert len(lab.waiting(JoinGroupRequest)) == 1


def test_it_does_not_wait_for_that_for_longer_than_a_rebalance_may_take() -> None:
    lab = Lab(
        enable_auto_commit=True, max_poll_interval_ms=4_000, session_timeout_ms=10**6, heartbeat_interval_ms=10**5
    ).stable()
    lab.tell(Rejoin())
    lab.poll(10_000)
    lab.advance(3_999)
    assert "JoinGroup" not in lab.names()
    lab.advance(1)
    assert len(lab.waiting(JoinGroupRequest)) == 1


def test_a_member_that_was_thrown_out_has_nothing_to_commit_for() -> None:
    lab = auto()
    lab.advance(10**5)
    lab.heartbeat(ErrorCode.UNKNOWN_MEMBER_ID)
    lab.poll()
    assert lab.waiting(OffsetCommitRequest) == []
    assert len(lab.waiting(JoinGroupRequest)) == 1
