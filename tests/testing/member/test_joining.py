"""Joining: find, JoinGroup, SyncGroup; what is given up when; every error at every step."""

from __future__ import annotations

import pytest

from coordinatord.testing.member.events import Rejoin, Subscribe, Unsupported
from coordinatord.testing.member.result import Assigned, Lost, Revoked
from coordinatord.testing.member.send import NO_GENERATION, Generation
from coordinatord.testing.member.state import COMPLETING_REBALANCE, PREPARING_REBALANCE, STABLE, UNJOINED
from coordinatord.testing.member.subscription import decode_assignment, decode_subscription
from kafka_wire.api.find_coordinator import FindCoordinatorRequest
from kafka_wire.api.heartbeat import HeartbeatRequest
from kafka_wire.api.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from kafka_wire.api.leave_group import LeaveGroupRequest
from kafka_wire.api.metadata import MetadataRequest, MetadataResponse
from kafka_wire.api.sync_group import SyncGroupRequest, SyncGroupResponse
from kafka_wire.errors import ErrorCode
from tests.testing.member.lab import GENERATION, MEMBER_ID, Lab, metadata

T0, T1 = ("t", 0), ("t", 1)
FATAL = [
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
    ErrorCode.INVALID_SESSION_TIMEOUT,
    ErrorCode.INVALID_GROUP_ID,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_MAX_SIZE_REACHED,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.UNKNOWN_SERVER_ERROR,
]


def test_the_first_poll_asks_for_metadata_and_the_coordinator() -> None:
    lab = Lab()
    assert lab.poll() is not None, "with no time to wait"
    assert lab.names() == ["Metadata", "FindCoordinator"]


def test_the_coordinator_step_of_a_poll_waits_for_the_coordinator() -> None:
    lab = Lab()
    lab.poll(5_000)
    lab.know()
    for _ in range(4):
        lab.find(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        lab.advance(1_000)
    assert lab.polled == []
    lab.advance(1_000)
    assert lab.polled[-1].records == {}


@pytest.mark.parametrize("error", [ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.INVALID_GROUP_ID])
def test_a_lookup_that_cannot_succeed_is_the_applications(error: ErrorCode) -> None:
    lab = Lab()
    lab.poll(5_000)
    lab.find(error)
    assert lab.polled[-1].error is error


def test_a_lookup_that_fails_asks_for_metadata_too() -> None:
    lab = Lab()
    lab.poll(5_000)
    lab.know()
    assert lab.names() == ["FindCoordinator"]
    lab.find(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    lab.advance(100)
    assert lab.names() == ["Metadata", "FindCoordinator"]


def test_a_join_that_comes_when_nobody_waits_for_it_is_no_success() -> None:
    lab = Lab().preparing()
    lab.tell(Subscribe([]))
    assert lab.member.state is UNJOINED
    lab.join()
    lab.tell(Subscribe(["t"]))
    lab.poll()
    assert lab.member.state is not COMPLETING_REBALANCE
    assert lab.member.generation.generation_id == -1
    assert "SyncGroup" not in lab.names()


def test_a_join_says_who_we_are_and_what_we_can() -> None:
    lab = Lab(
        group_instance_id="i",
        client_rack="r",
        max_poll_interval_ms=60_000,
        partition_assignment_strategy=("range", "sticky"),
    ).preparing()
    send = lab.take(JoinGroupRequest)
    request = send.request
    assert (request.group_id, request.member_id, request.group_instance_id) == ("g", "", "i")
    assert (request.session_timeout_ms, request.rebalance_timeout_ms) == (45_000, 60_000)
    assert request.protocol_type == "consumer"
    assert [each.name for each in request.protocols] == ["range", "sticky"]
    subscription = decode_subscription(request.protocols[0].metadata)
    assert (subscription.topics, subscription.rack_id, subscription.owned_partitions) == (["t"], "r", [])
    assert send.timeout_ms == 65_000, "it may be parked for the rebalance timeout"


def test_a_join_may_take_as_long_as_the_rebalance_and_five_seconds() -> None:
    for max_poll_interval_ms, timeout_ms in ((300_000, 305_000), (1_000, 30_000)):
        lab = Lab(max_poll_interval_ms=max_poll_interval_ms).preparing()
        assert lab.take(JoinGroupRequest).timeout_ms == timeout_ms


def test_rejoin_is_needed_until_the_assignment_has_come() -> None:
    lab = Lab().completing()
    assert lab.member.rejoin_needed, "a SyncGroup that fails is followed by a join"
    lab.sync(T0)
    assert not lab.member.rejoin_needed


def test_member_id_required_is_followed_by_the_id_at_once() -> None:
    lab = Lab().preparing()
    lab.poll(5_000)
    lab.join(ErrorCode.MEMBER_ID_REQUIRED, member_id="given")
    request = lab.take(JoinGroupRequest).request
    assert request.member_id == "given"
    assert request.reason == "need to re-join with the given member-id: given"


def test_a_follower_syncs_at_once_and_heartbeats_from_then_on() -> None:
    lab = Lab().completing()
    request = lab.take(SyncGroupRequest).request
    assert (request.generation_id, request.member_id, request.protocol_name) == (GENERATION, MEMBER_ID, "range")
    assert request.assignments == []
    assert lab.member.heartbeat.heartbeat.deadline_ms == lab.now_ms + 3_000


def test_the_leader_brings_the_assignment() -> None:
    lab = Lab().completing(leads=True)
    [assignment] = lab.take(SyncGroupRequest).request.assignments
    assert assignment.member_id == MEMBER_ID
    assert decode_assignment(assignment.assignment) == [T0, T1]


def test_the_leader_asks_for_topics_that_it_does_not_know() -> None:
    lab = Lab().preparing()
    own = lab.waiting(JoinGroupRequest)[0].request.protocols[0].metadata
    lab.poll(10_000)
    other = own.replace(b"\x00\x01t", b"\x00\x01u")
    others = [JoinGroupResponseMember(MEMBER_ID, None, own), JoinGroupResponseMember("other", None, other)]
    lab.join(leads=True, members=others)
    assert lab.names() == ["Metadata"]
    lab.advance(3_000)
    assert lab.names() == ["Metadata", "Heartbeat"], "it lives on meanwhile"
    lab.answer(MetadataRequest, metadata({"t": 2, "u": 1}))
    request = lab.take(SyncGroupRequest).request
    assert {each.member_id: decode_assignment(each.assignment) for each in request.assignments} == {
        MEMBER_ID: [T0, T1],
        "other": [("u", 0)],
    }


def test_a_leader_whose_metadata_is_lost_asks_again_and_one_that_lost_its_coordinator_joins_again() -> None:
    lab = Lab().preparing()
    lab.member.metadata_wanted = True
    lab.poll(10_000)
    lab.join(leads=True)
    assert lab.names() == ["Metadata"]
    lab.lose(MetadataRequest)
    lab.advance(100)
    assert lab.names() == ["Metadata"]
    lab.advance(2_900)
    lab.lose(HeartbeatRequest)
    assert lab.member.coordinator is None
    lab.know()
    lab.find()
    lab.advance(100)
    assert "JoinGroup" in lab.names()


def test_a_leader_that_is_expelled_while_its_metadata_is_on_the_way_joins_again() -> None:
    """The heartbeats hear of it; the join under way must not wait for an outcome for good."""
    lab = Lab().preparing()
    lab.member.metadata_wanted = True
    lab.poll(60_000)
    lab.join(leads=True)
    lab.advance(3_000)
    assert lab.names() == ["Metadata", "Heartbeat"]
    lab.heartbeat(ErrorCode.UNKNOWN_MEMBER_ID)
    assert lab.member.state is UNJOINED
    lab.know()
    assert lab.names() == ["JoinGroup"], "without a SyncGroup for a generation that it is not in"
    assert lab.waiting(JoinGroupRequest)[0].request.member_id == ""
    lab.join(generation=GENERATION + 1, leads=True)
    lab.sync(T0, T1)
    assert lab.member.state is STABLE
    assert lab.changes == [Assigned((T0, T1))]


def test_a_static_leader_that_came_back_does_not_assign() -> None:
    lab = Lab(group_instance_id="i").completing(leads=True, skip_assignment=True)
    assert lab.take(SyncGroupRequest).request.assignments == []
    assert lab.member.is_leader
    assert lab.member.assignment_snapshot == {"t": 2}, "it watches the topics all the same"


def test_the_assignment_is_taken_in_a_poll() -> None:
    lab = Lab().completing()
    lab.end_poll()
    lab.sync(T1)
    assert lab.member.state is STABLE
    assert lab.changes == []
    lab.poll()
    assert lab.changes == [Assigned((T1,))]
    assert lab.member.assignment == (T1,)


@pytest.mark.parametrize(
    ("step", "error"),
    [
        ("join", ErrorCode.UNKNOWN_MEMBER_ID),
        ("join", ErrorCode.REBALANCE_IN_PROGRESS),
        ("sync", ErrorCode.UNKNOWN_MEMBER_ID),
        ("sync", ErrorCode.ILLEGAL_GENERATION),
        ("sync", ErrorCode.REBALANCE_IN_PROGRESS),
    ],
)
def test_errors_that_are_followed_by_a_join_at_once(error: ErrorCode, step: str) -> None:
    if step == "join":
        lab = Lab().stable()
        lab.tell(Rejoin())
        lab.poll(10_000)
        lab.join(error)
    else:
        lab = Lab().completing()
        lab.sync(error=error)
    request = lab.waiting(JoinGroupRequest)[-1].request
    forgets = error is ErrorCode.UNKNOWN_MEMBER_ID
    assert request.member_id == ("" if forgets else MEMBER_ID)
    assert request.reason.startswith("rebalance failed due to ")
    assert lab.member.state is PREPARING_REBALANCE


@pytest.mark.parametrize(
    ("step", "error"),
    [
        ("join", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        ("join", ErrorCode.COORDINATOR_NOT_AVAILABLE),
        ("join", ErrorCode.NOT_COORDINATOR),
        ("sync", ErrorCode.COORDINATOR_NOT_AVAILABLE),
        ("sync", ErrorCode.NOT_COORDINATOR),
    ],
)
def test_errors_that_are_followed_by_a_join_after_a_back_off(error: ErrorCode, step: str) -> None:
    lab = Lab().preparing()
    lab.poll(10_000)
    if step == "join":
        lab.join(error)
    else:
        lab.join()
        lab.sync(error=error)
    if error is not ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        assert lab.member.coordinator is None
        lab.find()
    assert "JoinGroup" not in lab.names()
    lab.advance(99)
    assert "JoinGroup" not in lab.names()
    lab.advance(1)
    request = lab.take(JoinGroupRequest).request
    assert request.reason.startswith(
        "rebalance failed due to Coordinator" if "OR_" in error.name else "rebalance failed"
    )


@pytest.mark.parametrize(
    ("step", "error"),
    [
        *(("join", error) for error in [*FATAL, ErrorCode.ILLEGAL_GENERATION]),
        *(("sync", error) for error in [*FATAL, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]),
    ],
)
def test_errors_that_are_the_applications(error: ErrorCode, step: str) -> None:
    lab = Lab().preparing()
    lab.poll(10_000)
    if step == "join":
        lab.join(error)
    else:
        lab.join()
        lab.sync(error=error)
    assert lab.polled[-1].error is error
    lab.poll()
    assert "JoinGroup" in lab.names(), "the next poll tries again"


@pytest.mark.parametrize("step", ["join", "sync"])
def test_a_lost_answer_costs_the_coordinator_and_a_back_off(step: str) -> None:
    lab = Lab().preparing()
    lab.poll(10_000)
    if step == "join":
        lab.lose(JoinGroupRequest)
    else:
        lab.join()
        lab.lose(SyncGroupRequest)
    assert lab.member.coordinator is None
    lab.find()
    lab.advance(100)
    assert lab.take(JoinGroupRequest).request.reason == "rebalance failed due to DisconnectException"


@pytest.mark.parametrize("kind", [JoinGroupRequest, SyncGroupRequest])
def test_a_broker_without_a_version_for_it_is_told_to_the_application(kind: type[object]) -> None:
    lab = Lab(group_instance_id="i").preparing()
    lab.poll(10_000)
    if kind is SyncGroupRequest:
        lab.join()
    lab.tell(Unsupported(lab.take(kind), "too old"))
    assert lab.polled[-1].error is ErrorCode.UNSUPPORTED_VERSION
    assert lab.polled[-1].what == "too old"
    assert lab.member.coordinator is not None, "it is there"
    lab.poll()
    assert "JoinGroup" in lab.names()


def test_metadata_without_a_broker_are_none() -> None:
    """A broker that is just starting knows nobody, not even itself."""
    lab = Lab(metadata_max_age_ms=1_000)
    lab.poll(10_000)
    lab.know()
    known = lab.member.cluster
    lab.advance(1_000)
    lab.answer(MetadataRequest, MetadataResponse())
    assert lab.member.cluster is known
    lab.advance(100)
    assert "Metadata" in lab.names(), "asked again"


def test_answers_of_another_protocol_are_fatal() -> None:
    for step in ("connect", "range that we did not offer", "sync type", "sync name"):
        lab = Lab().preparing()
        lab.poll(10_000)
        if not step.startswith("sync"):
            of_join = (step, "range") if step == "connect" else ("consumer", step)
            response = JoinGroupResponse(0, 0, 1, *of_join, "other", False, MEMBER_ID)
            lab.answer(JoinGroupRequest, response)
        else:
            lab.join()
            of_type = ("connect", "range") if step == "sync type" else ("consumer", "other")
            lab.answer(SyncGroupRequest, SyncGroupResponse(0, 0, *of_type, b""))
        assert lab.polled[-1].error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_answers_wait_while_nobody_reads() -> None:
    lab = Lab().preparing()
    lab.join()
    assert lab.member.state is PREPARING_REBALANCE
    lab.poll()
    assert lab.member.state is COMPLETING_REBALANCE
    assert lab.names() == ["SyncGroup"]


def test_thrown_out_while_the_answer_to_sync_is_on_its_way() -> None:
    lab = Lab(max_poll_interval_ms=5_000).completing()
    lab.end_poll()
    lab.advance(5_000)
    assert lab.member.state is UNJOINED
    lab.take(LeaveGroupRequest)
    lab.poll()
    lab.sync(T0)
    lab.poll()
    assert lab.take(JoinGroupRequest).request.member_id == ""
    assert lab.changes == []


# What is given up


def test_eager_members_give_up_everything_before_they_rejoin() -> None:
    lab = Lab().stable()
    lab.tell(Rejoin())
    lab.poll()
    assert lab.changes == [Assigned((T0, T1)), Revoked((T0, T1))]
    request = lab.take(JoinGroupRequest).request
    assert decode_subscription(request.protocols[0].metadata).owned_partitions == []
    assert request.reason == "rebalance enforced by user"


def test_cooperative_members_keep_what_they_own_until_somebody_else_shall_have_it() -> None:
    lab = Lab(partition_assignment_strategy=("cooperative-sticky",)).stable()
    lab.tell(Rejoin())
    lab.poll(10_000)
    subscription = decode_subscription(lab.waiting(JoinGroupRequest)[0].request.protocols[0].metadata)
    assert (subscription.owned_partitions, subscription.generation_id) == ([T0, T1], GENERATION)
    lab.join(generation=GENERATION + 1)
    lab.sync(T0)
    assert lab.changes == [Assigned((T0, T1)), Revoked((T1,)), Assigned(())]
    request = lab.take(JoinGroupRequest).request
    assert request.reason == "need to revoke partitions and re-join", "so that somebody can have it"
    assert decode_subscription(request.protocols[0].metadata).owned_partitions == [T0]


def test_cooperative_members_give_up_topics_that_they_do_not_subscribe_to_any_more() -> None:
    lab = Lab({"t": 2, "u": 1}, partition_assignment_strategy=("cooperative-sticky",)).stable(T0, ("u", 0))
    lab.tell(Subscribe(["t"]))
    lab.poll()
    assert lab.changes[1:] == [Revoked((("u", 0),))]
    assert lab.take(JoinGroupRequest).request.reason == "subscription has changed"


def test_one_eager_assignor_makes_the_member_eager() -> None:
    assert not Lab(partition_assignment_strategy=("range", "cooperative-sticky")).member.cooperative


def test_cooperative_members_that_are_out_of_the_group_have_lost_everything() -> None:
    lab = Lab(partition_assignment_strategy=("cooperative-sticky",)).stable()
    lab.advance(3_000)
    lab.heartbeat(ErrorCode.UNKNOWN_MEMBER_ID)
    lab.poll()
    assert lab.changes == [Assigned((T0, T1)), Lost((T0, T1))]


def test_an_assignment_of_what_we_do_not_subscribe_to_is_refused() -> None:
    lab = Lab().completing()
    lab.sync(("other", 0))
    assert lab.member.assignment == ()
    assert (
        lab.waiting(JoinGroupRequest)[0].request.reason == "received assignment does not match the current subscription"
    )


def test_an_assignment_that_is_none_is_the_applications() -> None:
    lab = Lab().completing()
    lab.answer(SyncGroupRequest, SyncGroupResponse(0, 0, "consumer", "range", b""))
    assert lab.polled[-1].error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


# What makes a member rejoin


def test_the_leader_rejoins_when_a_topic_grows() -> None:
    lab = Lab(fetches=False, metadata_max_age_ms=20_000).completing(leads=True)
    lab.sync(T0, T1)
    lab.advance(3_000)
    lab.heartbeat()
    lab.end_poll()
    lab.now_ms += 20_000
    lab.poll()
    lab.answer(MetadataRequest, metadata({"t": 3}))
    lab.poll()
    assert lab.take(JoinGroupRequest).request.reason == "cached metadata has changed"


def test_a_follower_does_not() -> None:
    lab = Lab(fetches=False, metadata_max_age_ms=20_000).stable()
    lab.now_ms += 20_000
    lab.poll()
    lab.answer(MetadataRequest, metadata({"t": 3}))
    lab.poll()
    assert "JoinGroup" not in lab.names()


def test_unsubscribing_leaves_at_once() -> None:
    lab = Lab().stable()
    lab.tell(Subscribe([]))
    [identity] = lab.take(LeaveGroupRequest).request.members
    assert identity.reason == "the consumer unsubscribed from all topics"
    assert lab.changes == [Assigned((T0, T1)), Revoked((T0, T1))]
    assert lab.member.generation == NO_GENERATION
    with pytest.raises(ValueError, match="subscribe"):
        lab.poll()


def test_a_lost_coordinator_alone_is_no_reason() -> None:
    """The next one, or the same again, has the group in its log."""
    lab = Lab().stable()
    lab.advance(3_000)
    lab.lose(HeartbeatRequest)
    lab.advance(0)
    lab.find()
    lab.advance(100)
    assert lab.take(HeartbeatRequest).request.generation_id == GENERATION
    assert lab.member.generation == Generation(GENERATION, MEMBER_ID, "range")
    assert not lab.waiting(FindCoordinatorRequest)
