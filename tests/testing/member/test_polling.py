"""The six steps of a poll: positions, records that are kept, fetches per node, pause and seek."""

from __future__ import annotations

import pytest

from coordinatord.testing.member.calls import ConcurrentModificationError, ConsumerClosedError
from coordinatord.testing.member.events import Close, Commit, Pause, Poll, Received, Rejoin, Resume, Seek, Wakeup
from coordinatord.testing.member.result import Lost, Revoked
from coordinatord.testing.member.timer import NEVER
from kafka_wire.api.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from kafka_wire.api.join_group import JoinGroupRequest
from kafka_wire.api.leave_group import LeaveGroupRequest, LeaveGroupResponse
from kafka_wire.api.list_offsets import ListOffsetsRequest
from kafka_wire.api.metadata import MetadataRequest
from kafka_wire.api.offset_commit import OffsetCommitRequest
from kafka_wire.api.offset_fetch import OffsetFetchRequest
from kafka_wire.errors import ErrorCode
from kafka_wire.records.batch import build_batch, build_control_batch
from kafka_wire.records.control import ControlType
from tests.testing.member.lab import NODE, Lab

T0, T1 = ("t", 0), ("t", 1)


def joined(*, committed: int = 10, **settings: object) -> Lab:
    """Within a poll that has just fetched for the first time; T0 and T1 are ours."""
    lab = Lab(**settings).completing()  # type: ignore[arg-type]
    lab.sync(T0, T1)
    lab.committed_offsets(committed)
    return lab


def answer_fetch(lab: Lab, records: dict[int, tuple[int, int]], node: int = NODE, error: int = 0) -> None:
    """`records`: partition -> (first offset, how many)."""
    [send] = [each for each in lab.waiting(FetchRequest) if each.to == node]
    lab.sent.remove(send)
    partitions = []
    for number, (first, count) in records.items():
        data = PartitionData(number, error, first + count)
        data.records = bytes(build_batch([(None, b"%d" % n) for n in range(count)], 0, first)) if count else None
        partitions.append(data)
    lab.tell(Received(send, FetchResponse(responses=[FetchableTopicResponse("t", partitions=partitions)])))


def fetched(lab: Lab) -> dict[int, int]:
    """Partition -> offset of the one fetch that is under way."""
    [send] = lab.waiting(FetchRequest)
    return {each.partition: each.fetch_offset for topic in send.request.topics for each in topic.partitions}


def handed(lab: Lab) -> dict[tuple[str, int], list[int]]:
    """Offsets of the last poll that returned."""
    return {partition: [each.offset for each in records] for partition, records in lab.polled[-1].records.items()}


# Positions


@pytest.mark.parametrize("offset", [0, 10])
def test_positions_are_the_committed_offsets(offset: int) -> None:
    lab = Lab().completing()
    lab.sync(T0, T1)
    [group] = lab.waiting(OffsetFetchRequest)[0].request.groups
    assert [(topic.name, topic.partition_indexes) for topic in group.topics] == [("t", [0, 1])]
    assert lab.waiting(OffsetFetchRequest)[0].request.require_stable
    assert lab.waiting(FetchRequest) == []
    lab.committed_offsets(offset)
    assert fetched(lab) == {0: offset, 1: offset}


@pytest.mark.parametrize(("policy", "timestamp"), [("latest", -1), ("earliest", -2)])
def test_without_a_committed_offset_the_reset_policy_says_where(policy: str, timestamp: int) -> None:
    lab = joined(committed=-1, auto_offset_reset=policy)
    request = lab.waiting(ListOffsetsRequest)[0].request
    assert [each.timestamp for topic in request.topics for each in topic.partitions] == [timestamp] * 2
    lab.list_offsets(33)
    assert fetched(lab) == {0: 33, 1: 33}


def test_without_a_policy_it_is_the_applications() -> None:
    lab = joined(committed=-1, auto_offset_reset="none")
    assert lab.polled[-1].error is ErrorCode.OFFSET_OUT_OF_RANGE
    assert "auto.offset.reset is none" in lab.polled[-1].what


@pytest.mark.parametrize("error", [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.UNSTABLE_OFFSET_COMMIT])
def test_committed_offsets_that_cannot_be_had_now_are_asked_for_again(error: ErrorCode) -> None:
    lab = Lab().completing()
    lab.sync(T0, T1)
    for wait_ms in (100, 200):
        lab.committed_offsets(error=error)
        lab.advance(wait_ms - 1)
        assert lab.waiting(OffsetFetchRequest) == []
        lab.advance(1)
    lab.committed_offsets(5)
    assert fetched(lab) == {0: 5, 1: 5}


def test_committed_offsets_that_cannot_be_had_at_all_are_the_applications() -> None:
    lab = Lab().completing()
    lab.sync(T0, T1)
    lab.committed_offsets(error=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    assert lab.polled[-1].error is ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_a_lookup_that_fails_is_repeated_with_new_metadata() -> None:
    lab = joined(committed=-1)
    lab.list_offsets(0, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    lab.advance(100)
    assert set(lab.names()) == {"Metadata", "ListOffsets"}
    lab.lose(ListOffsetsRequest)
    lab.advance(100)
    lab.list_offsets(7)
    assert fetched(lab) == {0: 7, 1: 7}


# Records


def test_a_poll_returns_as_soon_as_there_are_records_and_the_next_fetch_is_on_its_way() -> None:
    lab = joined()
    assert lab.member.in_poll
    answer_fetch(lab, {0: (10, 3)})
    assert handed(lab) == {T0: [10, 11, 12]}
    assert fetched(lab) == {0: 13, 1: 10}


def test_what_is_kept_is_handed_out_up_to_max_poll_records_without_the_network() -> None:
    lab = joined(max_poll_records=4)
    answer_fetch(lab, {0: (10, 6), 1: (10, 3)})
    assert handed(lab) == {T0: [10, 11, 12, 13]}
    assert lab.waiting(FetchRequest) == [], "nothing more from a node of which something is kept"
    lab.poll()
    assert handed(lab) == {T0: [14, 15], T1: [10, 11]}
    assert lab.waiting(FetchRequest) == []
    lab.poll()
    assert handed(lab) == {T1: [12]}
    assert fetched(lab) == {0: 16, 1: 13}


def test_fetches_go_to_each_leader_and_one_at_a_time() -> None:
    lab = joined(nodes=2)
    assert [(each.to, [p.partition for p in each.request.topics[0].partitions]) for each in lab.sent] == [
        (NODE, [0]),
        (NODE + 1, [1]),
    ]
    answer_fetch(lab, {1: (10, 1)}, NODE + 1)
    assert handed(lab) == {T1: [10]}
    assert sorted(each.to for each in lab.waiting(FetchRequest)) == [NODE, NODE + 1]


def test_an_answer_without_records_is_followed_by_the_next_fetch() -> None:
    lab = joined()
    answer_fetch(lab, {})
    assert lab.member.in_poll
    assert fetched(lab) == {0: 10, 1: 10}


def test_records_before_the_position_are_left_out() -> None:
    """A batch is fetched whole."""
    lab = joined()
    answer_fetch(lab, {0: (5, 8)})
    assert handed(lab) == {T0: [10, 11, 12]}


def test_control_records_are_passed_over() -> None:
    lab = joined()
    send = lab.take(FetchRequest)
    marker = bytearray(build_control_batch(ControlType.COMMIT, 1, 0, 0, 0, base_offset=10))
    data = PartitionData(0, 0, 11, records=bytes(marker))
    lab.tell(Received(send, FetchResponse(responses=[FetchableTopicResponse("t", partitions=[data])])))
    assert handed(lab) == {}
    assert lab.member.partitions[T0].position == 11


def test_bytes_that_are_no_records_are_the_applications() -> None:
    lab = joined()
    send = lab.take(FetchRequest)
    broken = bytearray(build_batch([(None, b"v")], 0, 10))
    broken[-1] ^= 1
    data = PartitionData(0, 0, 11, records=bytes(broken))
    lab.tell(Received(send, FetchResponse(responses=[FetchableTopicResponse("t", partitions=[data])])))
    assert lab.polled[-1].error is ErrorCode.CORRUPT_MESSAGE


def test_an_offset_that_is_gone_is_reset_by_the_policy() -> None:
    lab = joined(auto_offset_reset="earliest")
    answer_fetch(lab, {0: (10, 0)}, error=ErrorCode.OFFSET_OUT_OF_RANGE)
    lab.list_offsets(42)
    assert lab.member.partitions[T0].position == 42


@pytest.mark.parametrize("error", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION])
def test_a_node_that_is_not_the_leader_is_asked_again_after_a_back_off_and_metadata(error: ErrorCode) -> None:
    lab = joined()
    answer_fetch(lab, {0: (10, 0)}, error=error)
    assert fetched(lab) == {1: 10}
    lab.advance(100)
    assert len(lab.waiting(MetadataRequest)) == 1
    answer_fetch(lab, {})
    assert fetched(lab) == {1: 10, 0: 10}


def test_fetching_without_permission_is_the_applications() -> None:
    lab = joined()
    answer_fetch(lab, {0: (10, 0)}, error=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    assert lab.polled[-1].error is ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_a_lost_fetch_is_sent_again_after_a_back_off() -> None:
    lab = joined()
    lab.lose(FetchRequest)
    assert lab.waiting(FetchRequest) == []
    lab.advance(100)
    assert fetched(lab) == {0: 10, 1: 10}


# Rejoin needed: empty-handed, if eager


def test_records_of_what_an_eager_member_gives_up_are_not_handed_out() -> None:
    lab = joined()
    lab.end_poll()
    answer_fetch(lab, {0: (10, 3)})
    lab.member.request_rejoin("test")
    returned = lab.poll()
    assert returned is not None
    assert returned.records == {}
    assert lab.changes[-1] == Revoked((T0, T1))


def test_records_of_what_a_cooperative_member_keeps_are_handed_out_while_it_rejoins() -> None:
    lab = joined(partition_assignment_strategy=("cooperative-sticky",))
    lab.end_poll()
    answer_fetch(lab, {0: (10, 3)})
    lab.member.request_rejoin("test")
    lab.poll()
    assert len(lab.waiting(JoinGroupRequest)) == 1
    assert handed(lab) == {T0: [10, 11, 12]}


def test_records_of_a_partition_that_went_are_dropped() -> None:
    lab = joined(partition_assignment_strategy=("cooperative-sticky",))
    lab.end_poll()
    lab.tell(Pause([T1]))
    answer_fetch(lab, {0: (10, 3), 1: (10, 2)})
    lab.poll()
    assert handed(lab) == {T0: [10, 11, 12]}
    assert lab.waiting(FetchRequest) == [], "that of T1 is kept"
    lab.tell(Rejoin())
    lab.poll(10_000)
    lab.join(generation=6)
    lab.sync(T0)
    assert fetched(lab) == {0: 13}


# Pause, seek


def test_a_paused_partition_is_neither_fetched_nor_handed_out_and_what_is_kept_stays() -> None:
    lab = joined()
    lab.end_poll()
    answer_fetch(lab, {0: (10, 2), 1: (10, 2)})
    lab.tell(Pause([T0]))
    lab.poll()
    assert handed(lab) == {T1: [10, 11]}
    lab.tell(Resume([T0]))
    lab.poll()
    assert handed(lab) == {T0: [10, 11]}


def test_a_seek_drops_what_is_kept() -> None:
    lab = joined()
    lab.end_poll()
    answer_fetch(lab, {0: (10, 2)})
    lab.tell(Seek(T0, 100))
    lab.poll()
    assert handed(lab) == {}
    assert fetched(lab) == {0: 100, 1: 10}


def test_a_seek_to_an_end_is_looked_up() -> None:
    lab = joined()
    lab.end_poll()
    lab.tell(Seek(T0, "earliest"))
    lab.poll()
    assert lab.member.partitions[T0].reset == "earliest"
    lab.list_offsets(3)
    assert lab.member.partitions[T0].position == 3
    assert lab.member.partitions[T0].reset is None, "so that it is not looked up again"


def test_what_is_not_ours_cannot_be_paused_or_sought() -> None:
    lab = joined()
    for event in (Pause([("u", 0)]), Resume([("t", 9)]), Seek(("u", 0), 1)):
        with pytest.raises(ValueError, match="is not assigned to this consumer"):
            lab.tell(event)
    with pytest.raises(ValueError, match="negative"):
        lab.tell(Seek(T0, -1))


# Calls


def test_a_poll_returns_when_its_time_is_up_and_not_before() -> None:
    lab = joined_without_fetches()
    lab.poll(2_000)
    lab.advance(1_999)
    assert lab.member.in_poll
    lab.advance(1)
    assert not lab.member.in_poll


def test_a_poll_can_be_woken_up() -> None:
    lab = joined()
    lab.tell(Wakeup())
    assert handed(lab) == {}
    assert not lab.member.in_poll


def test_a_negative_timeout_is_refused_and_the_next_poll_is_as_if_nothing_had_happened() -> None:
    lab = joined_without_fetches()
    for event in (Poll(-1), Commit({T0: 1}, -1), Close(-1)):
        with pytest.raises(ValueError, match="Invalid negative timeout -1"):
            lab.tell(event)
    assert lab.sent == []
    assert lab.poll() is not None
    assert lab.member.closing is None


def test_a_second_call_is_refused_and_the_first_goes_on() -> None:
    lab = joined()
    for event, call in ((Poll(0), "poll"), (Commit({T0: 1}, 1_000), "commit")):
        with pytest.raises(ConcurrentModificationError, match=f"{call} was called, and poll has not returned yet"):
            lab.tell(event)
    assert lab.member.in_poll
    answer_fetch(lab, {0: (10, 3)})
    assert handed(lab) == {T0: [10, 11, 12]}
    lab.tell(Commit(timeout_ms=1_000))
    with pytest.raises(ConcurrentModificationError, match="commit has not returned yet"):
        lab.poll()
    lab.commit()
    assert lab.poll() is not None


def test_a_closed_consumer_refuses_calls() -> None:
    lab = joined_without_fetches()
    lab.tell(Close())
    with pytest.raises(ConcurrentModificationError, match="close has not returned yet"):
        lab.poll()
    lab.answer(LeaveGroupRequest, LeaveGroupResponse())
    for event in (Poll(0), Commit(timeout_ms=0), Close()):
        with pytest.raises(ConsumerClosedError, match="already been closed"):
            lab.tell(event)


def test_a_member_without_fetches_costs_only_heartbeats() -> None:
    lab = joined_without_fetches()
    lab.poll(10**7)
    for _ in range(5):
        lab.advance(3_000)
        assert lab.names() == ["Heartbeat"]
        lab.heartbeat()


def joined_without_fetches() -> Lab:
    lab = Lab(fetches=False, metadata_max_age_ms=10**9).stable()
    assert lab.waiting(OffsetFetchRequest) == []
    return lab


def test_closing_commits_leaves_and_gives_up() -> None:
    lab = joined(enable_auto_commit=True)
    lab.end_poll()
    lab.tell(Close())
    assert lab.names() == ["Fetch", "OffsetCommit"]
    lab.commit()
    assert lab.changes[-1] == Revoked((T0, T1))
    [identity] = lab.waiting(LeaveGroupRequest)[0].request.members
    assert identity.reason == "the consumer is being closed"
    assert not lab.result.closed
    assert lab.answer(LeaveGroupRequest, LeaveGroupResponse()).closed
    assert lab.member.next_deadline_ms == NEVER


def test_closing_a_static_member_does_not_leave_unless_told_to() -> None:
    lab = joined(group_instance_id="i")
    assert lab.tell(Close()).closed
    assert lab.waiting(LeaveGroupRequest) == []
    lab = joined(group_instance_id="i")
    assert not lab.tell(Close(leave=True)).closed
    assert len(lab.waiting(LeaveGroupRequest)) == 1


def test_closing_takes_no_longer_than_it_may() -> None:
    lab = joined(enable_auto_commit=True)
    lab.tell(Close(timeout_ms=5_000))
    lab.advance(5_000)
    assert lab.result.closed
    assert len(lab.waiting(OffsetCommitRequest)) == 1


def test_closing_waits_for_commits_under_way() -> None:
    lab = joined(group_instance_id="i")
    lab.end_poll()
    lab.tell(Commit({T0: 12}))
    assert not lab.tell(Close()).closed, "a static member sends no LeaveGroup, but its commit is not lost"
    result = lab.commit()
    assert result.closed
    assert lab.committed[-1].error is ErrorCode.NONE


def test_closing_that_takes_too_long_says_what_is_pending() -> None:
    lab = joined(enable_auto_commit=False)
    lab.end_poll()
    lab.tell(Commit({T0: 12}))
    lab.tell(Close(timeout_ms=1_000))
    assert lab.member.pending_requests == 2
    lab.advance(999)
    assert lab.member.closing is not None
    lab.advance(1)
    assert lab.result.closed
    assert lab.result.warnings == ["Close timed out with 2 pending requests to coordinator"]


def test_closing_does_not_wait_for_a_join() -> None:
    lab = Lab(group_instance_id="i").preparing()
    assert lab.names() == ["JoinGroup"]
    assert lab.tell(Close()).closed


def test_closing_does_not_wait_for_a_coordinator_that_is_gone() -> None:
    lab = joined(group_instance_id="i")
    lab.end_poll()
    lab.tell(Commit({T0: 12}))
    lab.tell(Close())
    assert lab.lose(OffsetCommitRequest).closed


def test_closing_outside_the_group_has_lost_what_was_owned() -> None:
    lab = Lab().stable()
    lab.advance(3_000)
    lab.heartbeat(ErrorCode.UNKNOWN_MEMBER_ID)
    assert lab.tell(Close()).closed
    assert lab.changes[-1] == Lost((T0, T1))
