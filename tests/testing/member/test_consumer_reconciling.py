"""A member of the consumer protocol gives partitions up, takes others, and claims what it owns meanwhile."""

from __future__ import annotations

import pytest

from coordinatord.testing.member.events import Commit
from coordinatord.testing.member.result import Assigned, Lost, Revoked
from kafka_wire.api.consumer_group_heartbeat import TopicPartitions
from kafka_wire.api.offset_commit import OffsetCommitRequest
from kafka_wire.api.offset_fetch import OffsetFetchRequest
from kafka_wire.errors import ErrorCode
from tests.testing.member.consumer_lab import EPOCH, INTERVAL_MS, ConsumerLab, topic_id


def test_it_gives_up_then_takes_then_says_so() -> None:
    lab = ConsumerLab({"t": 2, "u": 1}).stable()
    lab.changes.clear()
    lab.advance(INTERVAL_MS)
    lab.respond(("t", 1), ("u", 0), epoch=EPOCH)
    assert lab.changes == [], "nothing happens outside of a poll"
    lab.short_poll()
    assert lab.changes == [Revoked((("t", 0),)), Assigned((("u", 0),))]
    said = {each.topic_id: each.partitions for each in lab.request.topic_partitions or []}
    assert said == {topic_id("t"): [1], topic_id("u"): [0]}


def test_what_it_was_told_to_take_is_claimed_before_it_is_taken() -> None:
    """Found by a simulated world: a heartbeat failed while a commit held up the reconciliation. The next one said all
    again, without the partition to come; the coordinator gave that to another member, and both took it.
    """
    lab = ConsumerLab().reconciling()
    lab.advance(INTERVAL_MS)
    lab.respond(error=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    lab.advance(100)
    assert lab.request.topic_partitions == [TopicPartitions(topic_id("t"), [0, 1])]


def test_what_it_is_about_to_give_up_is_claimed_until_it_is_given_up() -> None:
    """A heartbeat fails while a commit holds up the reconciliation, and the next one says all again."""
    lab = ConsumerLab(enable_auto_commit=True, auto_commit_interval_ms=10**8).stable()
    for state in lab.member.partitions.values():
        state.position = 7
    lab.advance(INTERVAL_MS)
    lab.respond(("t", 0), epoch=EPOCH + 1)
    lab.short_poll()
    assert lab.names() == ["OffsetCommit"]
    lab.advance(INTERVAL_MS)
    lab.respond(error=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    lab.advance(200)
    assert lab.request.topic_partitions == [TopicPartitions(topic_id("t"), [0, 1])]


def test_what_is_known_is_not_held_up_by_what_is_not() -> None:
    lab = ConsumerLab({"t": 2}).stable()
    lab.changes.clear()
    lab.advance(INTERVAL_MS)
    lab.respond(("t", 0), ("new", 3))
    lab.short_poll()
    assert lab.changes == [Revoked((("t", 1),)), Assigned(())]
    said = {each.topic_id: each.partitions for each in lab.request.topic_partitions or []}
    assert said == {topic_id("t"): [0], topic_id("new"): [3]}, "nobody else may get what it will take"
    assert lab.state.value == "RECONCILING"
    lab.respond(told=False)
    lab.short_poll()
    lab.advance(1_000)
    assert lab.names().count("ConsumerGroupHeartbeat") == 0, "acknowledged once, and not again and again"


def test_what_was_consumed_is_committed_before_it_is_given_up() -> None:
    lab = ConsumerLab(enable_auto_commit=True, auto_commit_interval_ms=10**8).stable()
    for state in lab.member.partitions.values():
        state.position = 7
    lab.advance(INTERVAL_MS)
    lab.respond(("t", 0), epoch=EPOCH + 1)
    assert lab.names() == []
    lab.changes.clear()
    lab.short_poll()
    assert lab.names() == ["OffsetCommit"]
    assert lab.changes == []
    commit = lab.waiting(OffsetCommitRequest)[0].request
    assert (commit.member_id, commit.generation_id_or_member_epoch) == (lab.membership.member_id, EPOCH + 1)
    assert [lab.member.partitions["t", n].pending_revocation for n in (0, 1)] == [False, True]
    lab.commit(ErrorCode.STALE_MEMBER_EPOCH)
    lab.short_poll()
    assert lab.names() == [], "again after a back-off"
    lab.advance(200)
    lab.short_poll()
    assert lab.changes == []
    lab.commit()
    lab.short_poll()
    assert lab.changes == [Revoked((("t", 1),)), Assigned(())]


@pytest.mark.parametrize("error", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION])
def test_a_commit_that_cannot_succeed_holds_nothing_up(error: ErrorCode) -> None:
    lab = ConsumerLab(enable_auto_commit=True, auto_commit_interval_ms=10**8).stable()
    lab.member.partitions["t", 1].position = 7
    lab.advance(INTERVAL_MS)
    lab.respond(("t", 0))
    lab.short_poll()
    lab.commit(error)
    lab.short_poll()
    assert lab.request.topic_partitions == [TopicPartitions(topic_id("t"), [0])]


def test_what_is_given_back_while_it_is_given_up_comes_back_later() -> None:
    lab = ConsumerLab(enable_auto_commit=True, auto_commit_interval_ms=10**8).stable()
    lab.member.partitions["t", 1].position = 7
    lab.advance(INTERVAL_MS)
    lab.respond(("t", 0))
    lab.short_poll()
    lab.advance(INTERVAL_MS)
    lab.respond(("t", 0), ("t", 1))
    lab.commit()
    lab.changes.clear()
    lab.short_poll()
    assert lab.changes == [Revoked((("t", 1),)), Assigned(())]
    lab.respond(told=False)
    lab.short_poll()
    assert lab.changes[-1] == Assigned((("t", 1),))
    lab.respond(told=False)
    assert lab.member.is_settled
    assert lab.names() == []


def test_a_fenced_member_gives_up_the_commit_before_its_reconciliation() -> None:
    lab = ConsumerLab(enable_auto_commit=True, auto_commit_interval_ms=10**8).stable()
    lab.member.partitions["t", 1].position = 7
    lab.advance(INTERVAL_MS)
    lab.respond(("t", 0))
    lab.short_poll()
    lab.advance(INTERVAL_MS)
    lab.respond(error=ErrorCode.FENCED_MEMBER_EPOCH)
    lab.short_poll()
    assert lab.changes[-1] == Lost((("t", 0), ("t", 1)))
    lab.commit(ErrorCode.UNKNOWN_MEMBER_ID)
    lab.respond(("t", 1))
    lab.short_poll()
    assert lab.changes[-1] == Assigned((("t", 1),))


def test_a_commit_and_a_fetch_of_offsets_carry_the_epoch() -> None:
    lab = ConsumerLab(fetches=True).reconciling()
    lab.short_poll()
    lab.short_poll()
    asked = lab.waiting(OffsetFetchRequest)[0].request.groups[0]
    assert (asked.member_id, asked.member_epoch) == (lab.membership.member_id, EPOCH)
    lab.tell(Commit({("t", 0): 3}))
    commit = lab.waiting(OffsetCommitRequest)[0].request
    assert (commit.member_id, commit.generation_id_or_member_epoch) == (lab.membership.member_id, EPOCH)


@pytest.mark.parametrize("error", [ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID])
def test_offsets_that_are_refused_are_asked_for_again(error: ErrorCode) -> None:
    lab = ConsumerLab(fetches=True).reconciling()
    lab.short_poll()
    lab.short_poll()
    send = lab.take(OffsetFetchRequest)
    lab.sent.append(send)
    lab.committed_offsets(error=error)
    lab.advance(200)
    polled = lab.poll(0)
    assert polled is not None
    assert polled.error is None
    assert len(lab.waiting(OffsetFetchRequest)) == 1
