"""What the heartbeat thread sees and does, row by row; and the client that has none."""

from __future__ import annotations

import pytest

from coordinatord.testing.member.events import Rejoin, Unsupported
from coordinatord.testing.member.heartbeats import run_task, schedule_task
from coordinatord.testing.member.result import Result
from coordinatord.testing.member.send import NO_GENERATION, Generation
from coordinatord.testing.member.state import COMPLETING_REBALANCE, STABLE, UNJOINED
from coordinatord.testing.member.timer import NEVER
from kafka_wire.api.find_coordinator import FindCoordinatorRequest
from kafka_wire.api.heartbeat import HeartbeatRequest
from kafka_wire.api.join_group import JoinGroupRequest
from kafka_wire.api.leave_group import LeaveGroupRequest
from kafka_wire.api.sync_group import SyncGroupRequest
from kafka_wire.errors import ErrorCode
from tests.testing.member.lab import GENERATION, MEMBER_ID, NODE, Lab

SESSION_MS = 45_000
INTERVAL_MS = 3_000


# What the thread sees


def test_disabled_until_the_first_join_and_then_until_the_next() -> None:
    lab = Lab()
    assert lab.member.next_deadline_ms == NEVER
    lab.preparing()
    assert not lab.member.heartbeats
    assert lab.member.next_deadline_ms == NEVER
    lab.poll(10**9)
    lab.join()
    assert lab.member.heartbeats
    lab.advance(INTERVAL_MS)
    assert lab.names() == ["SyncGroup", "Heartbeat"]


def test_one_is_sent_when_it_is_due_and_not_before() -> None:
    lab = Lab().stable()
    lab.advance(INTERVAL_MS - 1)
    assert lab.names() == []
    lab.advance(1)
    send = lab.take(HeartbeatRequest)
    assert send.to == NODE
    assert send.group
    assert send.request == HeartbeatRequest("g", GENERATION, MEMBER_ID, None)


def test_the_next_is_due_in_an_interval_whether_or_not_this_one_is_answered() -> None:
    lab = Lab().stable()
    lab.advance(3 * INTERVAL_MS)
    assert lab.names() == ["Heartbeat"] * 3


def test_a_static_member_heartbeats_with_its_instance_id() -> None:
    lab = Lab(group_instance_id="i").stable()
    lab.advance(INTERVAL_MS)
    assert lab.take(HeartbeatRequest).request.group_instance_id == "i"


def test_coordinator_unknown_it_is_looked_for_and_backed_off() -> None:
    lab = Lab().stable()
    lab.advance(INTERVAL_MS)
    lab.heartbeat(ErrorCode.NOT_COORDINATOR)
    assert lab.member.coordinator is None
    assert lab.disconnects == 1
    lab.advance(0)
    lab.take(FindCoordinatorRequest)
    assert lab.member.next_deadline_ms == NEVER, "waits for the answer"


def test_a_lookup_that_fails_is_repeated_after_the_back_off() -> None:
    lab = Lab().stable()
    lab.advance(INTERVAL_MS)
    lab.heartbeat(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    lab.advance(0)
    for wait_ms in (100, 200, 400, 800, 1_000, 1_000):
        lab.find(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        lab.advance(wait_ms - 1)
        assert lab.names() == []
        lab.advance(1)
        assert lab.names() == ["FindCoordinator"]
    lab.find()
    assert lab.member.coordinator == NODE
    assert lab.member.heartbeat.session.deadline_ms == lab.now_ms + SESSION_MS
    lab.advance(0)
    assert lab.names() == ["Heartbeat"], "it is overdue"


def test_a_session_without_an_answer_marks_the_coordinator_dead() -> None:
    lab = Lab().stable()
    lab.advance(SESSION_MS - 1)
    assert lab.member.coordinator == NODE
    assert set(lab.names()) == {"Heartbeat"}
    lab.advance(1)
    assert lab.member.coordinator is None
    assert lab.disconnects == 1
    assert lab.names() == ["FindCoordinator"], "what it was asked is not waited for any more"
    assert lab.member.state is STABLE, "it may still be the same group"


def test_an_application_that_does_not_poll_leaves() -> None:
    lab = Lab(max_poll_interval_ms=10_000).stable()
    for _ in range(3):
        lab.advance(INTERVAL_MS)
        lab.heartbeat()
    lab.advance(999)
    assert lab.member.state is STABLE
    lab.advance(1)
    request = lab.take(LeaveGroupRequest).request
    assert [(each.member_id, each.reason) for each in request.members] == [
        (
            MEMBER_ID,
            "consumer poll timeout has expired. The member's poll loop is slow: "
            "increase max.poll.interval.ms (10000) or reduce max.poll.records (500).",
        )
    ]
    assert lab.member.state is UNJOINED
    assert lab.member.generation == NO_GENERATION
    assert lab.member.next_deadline_ms == NEVER, "nothing more until the application polls"
    lab.poll()
    assert [type(change).__name__ for change in lab.changes] == ["Assigned", "Lost"]
    assert lab.names() == ["JoinGroup"]


def test_a_static_member_that_does_not_poll_stops_and_does_not_leave() -> None:
    lab = Lab(max_poll_interval_ms=10_000, group_instance_id="i").stable()
    lab.advance(10_000)
    assert "LeaveGroup" not in lab.names()
    assert lab.member.state is UNJOINED
    assert len(lab.result.warnings) == 1


def test_an_application_within_a_poll_is_alive() -> None:
    lab = Lab(max_poll_interval_ms=10_000, session_timeout_ms=10**8, fetches=False).stable()
    assert lab.poll(60_000) is None
    lab.advance(59_999)
    assert lab.member.state is STABLE
    lab.advance(1)
    assert lab.polled[-1].records == {}
    lab.advance(9_999)
    assert lab.member.state is STABLE
    lab.advance(1)
    assert lab.member.state is UNJOINED


# What it makes of an answer


def one_is_sent(lab: Lab) -> int:
    """Returns the deadline of the session before its answer."""
    lab.advance(INTERVAL_MS)
    lab.now_ms += 50
    return lab.member.heartbeat.session.deadline_ms


def test_ok_begins_a_session() -> None:
    lab = Lab().stable()
    one_is_sent(lab)
    assert lab.heartbeat().sends == []
    assert lab.member.heartbeat.session.deadline_ms == lab.now_ms + SESSION_MS
    assert lab.member.in_flight == {}


def test_rebalance_in_progress_counts_as_received_and_asks_for_a_rejoin() -> None:
    lab = Lab().stable()
    one_is_sent(lab)
    lab.heartbeat(ErrorCode.REBALANCE_IN_PROGRESS)
    assert lab.member.heartbeat.session.deadline_ms == lab.now_ms + SESSION_MS
    assert lab.member.rejoin_needed
    assert lab.member.state is STABLE
    lab.advance(INTERVAL_MS)
    assert lab.names() == ["Heartbeat"], "it goes on, so that the member stays while its application works"
    lab.heartbeat(ErrorCode.REBALANCE_IN_PROGRESS)
    lab.poll()
    assert lab.take(JoinGroupRequest).request.reason == "group is already rebalancing"


def test_rebalance_in_progress_while_completing_is_ignored() -> None:
    lab = Lab().completing()
    lab.advance(INTERVAL_MS)
    lab.heartbeat(ErrorCode.REBALANCE_IN_PROGRESS)
    assert lab.member.state is COMPLETING_REBALANCE
    lab.sync(("t", 0))
    assert lab.member.state is STABLE
    assert not lab.member.rejoin_needed


@pytest.mark.parametrize(
    ("error", "left"),
    [
        (ErrorCode.ILLEGAL_GENERATION, Generation(-1, MEMBER_ID)),
        (ErrorCode.UNKNOWN_MEMBER_ID, NO_GENERATION),
        (ErrorCode.FENCED_INSTANCE_ID, NO_GENERATION),
    ],
)
@pytest.mark.parametrize("completing", [False, True])
def test_out_of_the_group(error: ErrorCode, left: Generation, completing: bool) -> None:
    lab = Lab()
    if completing:
        lab.completing()
        lab.end_poll()
    else:
        lab.stable()
    session_ms = one_is_sent(lab)
    lab.heartbeat(error)
    assert lab.member.state is UNJOINED
    assert lab.member.generation == left
    assert lab.member.heartbeat.session.deadline_ms == session_ms, "that was no sign of life"
    assert lab.member.next_deadline_ms == NEVER
    returned = lab.poll()
    if error is ErrorCode.FENCED_INSTANCE_ID:
        assert returned is not None
        assert returned.error is ErrorCode.FENCED_INSTANCE_ID
        assert lab.poll() is not None, "the application may go on, at its own risk"
    if completing:
        # The SyncGroup of the generation that is gone has to come back first.
        lab.sync(("t", 0))
        lab.poll()
    request = lab.take(JoinGroupRequest).request
    assert request.member_id == left.member_id
    if not completing:
        assert request.reason == f"encountered {error.name} from HEARTBEAT response"
        assert [type(change).__name__ for change in lab.changes] == ["Assigned", "Lost"]


@pytest.mark.parametrize(
    "error", [ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID]
)
def test_news_of_an_earlier_generation_is_ignored(error: ErrorCode) -> None:
    lab = Lab().stable()
    one_is_sent(lab)
    stale = lab.take(HeartbeatRequest)
    lab.member.request_rejoin("test")
    lab.poll(10**9)
    lab.join(generation=GENERATION + 1)
    lab.sync(("t", 0))
    lab.sent.append(stale)
    lab.heartbeat(error)
    assert lab.member.state is STABLE
    assert lab.member.heartbeat.session.deadline_ms == lab.now_ms + SESSION_MS


@pytest.mark.parametrize("error", [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE])
def test_the_coordinator_says_that_it_is_none(error: ErrorCode) -> None:
    lab = Lab().stable()
    session_ms = one_is_sent(lab)
    lab.heartbeat(error)
    assert lab.member.coordinator is None
    assert lab.member.state is STABLE
    assert lab.member.heartbeat.session.deadline_ms == session_ms
    assert lab.member.heartbeat.heartbeat.deadline_ms == lab.now_ms + 100


@pytest.mark.parametrize(
    "error",
    [ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.UNKNOWN_SERVER_ERROR],
)
def test_any_other_error_is_tried_again_after_the_back_off(error: ErrorCode) -> None:
    lab = Lab().stable()
    session_ms = one_is_sent(lab)
    for wait_ms in (100, 200):
        lab.heartbeat(error)
        assert lab.member.heartbeat.session.deadline_ms == session_ms
        lab.advance(wait_ms - 1)
        assert lab.names() == []
        lab.advance(1)
        assert lab.names() == ["Heartbeat"]


def test_a_lost_connection_is_a_failure_and_the_coordinator_is_looked_for() -> None:
    lab = Lab().stable()
    one_is_sent(lab)
    lab.lose(HeartbeatRequest)
    assert lab.member.coordinator is None
    lab.advance(0)
    lab.find()
    lab.advance(100)
    assert lab.names() == ["Heartbeat"]


def test_a_heartbeat_that_the_broker_has_no_version_for_fails_the_next_poll() -> None:
    lab = Lab(group_instance_id="i").stable()
    lab.advance(INTERVAL_MS)
    lab.tell(Unsupported(lab.take(HeartbeatRequest), "too old"))
    polled = lab.poll()
    assert polled is not None
    assert (polled.error, polled.what) == (ErrorCode.UNSUPPORTED_VERSION, "too old")


# Without a thread


def test_without_a_thread_nothing_is_sent_while_the_application_works() -> None:
    lab = Lab(single_threaded=True, fetches=False, session_timeout_ms=30_000).stable()
    assert lab.member.next_deadline_ms == NEVER
    lab.advance(29_000)
    assert lab.names() == []
    lab.poll()
    assert lab.names() == ["Heartbeat"], "the task was long due"


def test_without_a_thread_a_long_work_is_a_dead_coordinator() -> None:
    """Nobody read the answer: the client cannot tell who is to blame, itself or the coordinator."""
    lab = Lab(single_threaded=True, fetches=False, session_timeout_ms=30_000).stable()
    lab.poll()
    lab.advance(30_000)
    lab.poll()
    assert lab.member.coordinator is None


def test_without_a_thread_the_task_comes_back_after_each_answer() -> None:
    lab = Lab(single_threaded=True, fetches=False, session_timeout_ms=30_000).stable()
    lab.poll(10**6)
    lab.advance(INTERVAL_MS)
    for _ in range(3):
        assert lab.names() == ["Heartbeat"]
        lab.advance(500)
        assert lab.names() == ["Heartbeat"], "one at a time"
        lab.heartbeat()
        lab.advance(INTERVAL_MS)


def test_without_a_thread_a_rebalance_is_a_failure_and_the_poll_waits_for_the_rejoin() -> None:
    lab = Lab(single_threaded=True, fetches=False, session_timeout_ms=30_000).stable()
    lab.poll(1_000)
    lab.advance(INTERVAL_MS)
    lab.poll(5_000)
    session_ms = lab.member.heartbeat.session.deadline_ms
    lab.heartbeat(ErrorCode.REBALANCE_IN_PROGRESS)
    assert lab.member.heartbeat.session.deadline_ms == session_ms
    request = lab.waiting(JoinGroupRequest)[0].request
    assert request.rebalance_timeout_ms == 30_000
    before = len(lab.polled)
    lab.advance(20_000)
    assert len(lab.polled) == before, "longer than the poll's timeout"
    lab.join(generation=GENERATION + 1)
    assert [type(send.request) for send in lab.sent] == [SyncGroupRequest]
    lab.sync(("t", 0))
    assert len(lab.polled) == before + 1


def test_without_a_thread_a_rejoin_waits_for_what_the_coordinator_was_asked() -> None:
    lab = Lab(single_threaded=True, fetches=False, session_timeout_ms=30_000).stable()
    lab.poll(10**6)
    lab.advance(INTERVAL_MS)
    assert lab.names() == ["Heartbeat"]
    lab.end_poll()
    lab.tell(Rejoin())
    lab.poll(10**6)
    lab.advance(1_000)
    assert lab.names() == ["Heartbeat"], "awaitPendingRequests"
    lab.heartbeat()
    assert lab.names() == ["JoinGroup"]


def test_without_a_thread_a_failure_schedules_the_task_after_the_back_off() -> None:
    lab = Lab(single_threaded=True, fetches=False, session_timeout_ms=30_000).stable()
    lab.poll(10**6)
    lab.advance(INTERVAL_MS)
    assert lab.member.task_ms == NEVER
    lab.heartbeat(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert lab.member.task_ms == lab.now_ms + 100


def test_without_a_thread_a_join_schedules_the_task_unless_a_response_will() -> None:
    lab = Lab(single_threaded=True, fetches=False, session_timeout_ms=30_000).stable()
    member = lab.member
    for in_flight, task_ms in ((False, lab.now_ms), (True, NEVER)):
        member.heartbeat.in_flight = in_flight
        schedule_task(member, lab.now_ms)
        assert member.task_ms == task_ms
        assert member.heartbeat.session.deadline_ms == lab.now_ms + 30_000


@pytest.mark.parametrize("without", ["generation", "coordinator", "need"])
def test_without_a_thread_the_task_does_nothing_outside_of_a_group(without: str) -> None:
    lab = Lab(single_threaded=True, fetches=False, session_timeout_ms=30_000).stable()
    member = lab.member
    lab.now_ms += INTERVAL_MS
    result = Result()
    run_task(member, lab.now_ms, result)
    assert [type(each.request) for each in result.sends] == [HeartbeatRequest]
    match without:
        case "generation":
            member.generation = NO_GENERATION
        case "coordinator":
            member.coordinator = None
        case _:
            member.request_rejoin("test")
    lab.now_ms += INTERVAL_MS
    result = Result()
    run_task(member, lab.now_ms, result)
    assert (result.sends, member.task_ms) == ([], NEVER)


def test_with_a_thread_a_rejoin_does_not_wait() -> None:
    lab = Lab(fetches=False).stable()
    lab.advance(INTERVAL_MS)
    lab.tell(Rejoin())
    lab.poll()
    assert lab.names() == ["Heartbeat", "JoinGroup"]


def test_without_a_thread_nobody_leaves_for_not_polling() -> None:
    lab = Lab(single_threaded=True, fetches=False, max_poll_interval_ms=1_000, session_timeout_ms=10**6).stable()
    lab.advance(10**5)
    assert lab.member.state is STABLE
