"""The states of a member of the consumer protocol, row by row, and what its heartbeats say."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from coordinatord.testing.member.consumer.membership import transition_to
from coordinatord.testing.member.consumer.state import (
    PREVIOUS_STATES,
    STABLE,
    MemberState,
    new_member_id,
)
from coordinatord.testing.member.events import Close, Subscribe, Unsupported
from coordinatord.testing.member.result import Assigned, Lost, Result, Revoked
from coordinatord.testing.member.state import Member, MemberSettings
from coordinatord.testing.member.timer import NEVER
from kafka_wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from kafka_wire.api.find_coordinator import FindCoordinatorRequest
from kafka_wire.api.metadata import MetadataRequest, MetadataRequestTopic
from kafka_wire.errors import ErrorCode
from tests.testing.member.consumer_lab import EPOCH, INTERVAL_MS, MAX_POLL_MS, ConsumerLab, topic_id

# States × events

NAMES = ["UNSUBSCRIBED", "JOINING", "RECONCILING", "ACKNOWLEDGING", "STABLE", "FENCED", "STALE", "FATAL"]


def in_flight(lab: ConsumerLab) -> bool:
    """Let a heartbeat be under way, if the member sends any."""
    if not lab.waiting(ConsumerGroupHeartbeatRequest):
        lab.advance(INTERVAL_MS)
    return bool(lab.waiting(ConsumerGroupHeartbeatRequest))


def response(error: ErrorCode) -> Callable[[ConsumerLab], None]:
    def happens(lab: ConsumerLab) -> None:
        if in_flight(lab):
            lab.respond(error=error)

    return happens


def same_epoch(lab: ConsumerLab) -> None:
    if in_flight(lab):
        lab.respond(told=False)


def other_partitions(lab: ConsumerLab) -> None:
    if in_flight(lab):
        lab.respond(("u", 0), epoch=EPOCH + 1)


def what_it_owns(lab: ConsumerLab) -> None:
    if in_flight(lab):
        lab.respond(*lab.member.partitions, epoch=EPOCH + 1)


def no_response(lab: ConsumerLab) -> None:
    if in_flight(lab):
        lab.lose(ConsumerGroupHeartbeatRequest)


def no_poll(lab: ConsumerLab) -> None:
    lab.advance(MAX_POLL_MS)


def not_supported(lab: ConsumerLab) -> None:
    if in_flight(lab):
        lab.tell(Unsupported(lab.take(ConsumerGroupHeartbeatRequest), "it serves no such API"))


EVENTS: dict[str, Callable[[ConsumerLab], object]] = {
    "poll": lambda lab: lab.poll(0),
    "same epoch": same_epoch,
    "other partitions": other_partitions,
    "what it owns": what_it_owns,
    "FENCED_MEMBER_EPOCH": response(ErrorCode.FENCED_MEMBER_EPOCH),
    "UNKNOWN_MEMBER_ID": response(ErrorCode.UNKNOWN_MEMBER_ID),
    "NOT_COORDINATOR": response(ErrorCode.NOT_COORDINATOR),
    "COORDINATOR_NOT_AVAILABLE": response(ErrorCode.COORDINATOR_NOT_AVAILABLE),
    "COORDINATOR_LOAD_IN_PROGRESS": response(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
    "TOPIC_AUTHORIZATION_FAILED": response(ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    "UNRELEASED_INSTANCE_ID": response(ErrorCode.UNRELEASED_INSTANCE_ID),
    "FENCED_INSTANCE_ID": response(ErrorCode.FENCED_INSTANCE_ID),
    "INVALID_REQUEST": response(ErrorCode.INVALID_REQUEST),
    "UNSUPPORTED_ASSIGNOR": response(ErrorCode.UNSUPPORTED_ASSIGNOR),
    "INVALID_REGULAR_EXPRESSION": response(ErrorCode.INVALID_REGULAR_EXPRESSION),
    "GROUP_ID_NOT_FOUND": response(ErrorCode.GROUP_ID_NOT_FOUND),
    "GROUP_AUTHORIZATION_FAILED": response(ErrorCode.GROUP_AUTHORIZATION_FAILED),
    "no such API": not_supported,
    "no response": no_response,
    "no poll": no_poll,
    "subscribe": lambda lab: lab.tell(Subscribe(["u"])),
    "subscribe and poll": lambda lab: (lab.tell(Subscribe(["u"])), lab.poll(0)),
    "unsubscribe": lambda lab: lab.tell(Subscribe(())),
    "close": lambda lab: lab.tell(Close()),
}

STAYS = "."
TABLE = """
event                       |UNSUBSCRIBED JOINING      RECONCILING  ACKNOWLEDGING STABLE       FENCED       STALE  FATAL
poll                        |raises       .            STABLE       .             .            JOINING      JOINING .
same epoch                  |.            .            .            STABLE        .            .            .      .
other partitions            |.            RECONCILING  .            RECONCILING   RECONCILING  .            .      .
what it owns                |.            RECONCILING  .            STABLE        .            .            .      .
FENCED_MEMBER_EPOCH         |.            .            JOINING      FENCED        FENCED       .            .      .
UNKNOWN_MEMBER_ID           |.            .            JOINING      FENCED        FENCED       .            .      .
NOT_COORDINATOR             |.            .            .            .             .            .            .      .
COORDINATOR_NOT_AVAILABLE   |.            .            .            .             .            .            .      .
COORDINATOR_LOAD_IN_PROGRESS|.            .            .            .             .            .            .      .
TOPIC_AUTHORIZATION_FAILED  |.            .            .            .             .            .            .      .
UNRELEASED_INSTANCE_ID      |.            FATAL        FATAL        FATAL         FATAL        .            .      .
FENCED_INSTANCE_ID          |.            FATAL        FATAL        FATAL         FATAL        .            .      .
INVALID_REQUEST             |.            FATAL        FATAL        FATAL         FATAL        .            .      .
UNSUPPORTED_ASSIGNOR        |.            FATAL        FATAL        FATAL         FATAL        .            .      .
INVALID_REGULAR_EXPRESSION  |.            FATAL        FATAL        FATAL         FATAL        .            .      .
GROUP_ID_NOT_FOUND          |.            FATAL        FATAL        FATAL         FATAL        .            .      .
GROUP_AUTHORIZATION_FAILED  |.            FATAL        FATAL        FATAL         FATAL        .            .      .
no such API                 |.            FATAL        FATAL        FATAL         FATAL        .            .      .
no response                 |.            .            .            .             .            .            .      .
no poll                     |.            STALE        STALE        STALE         STALE        .            .      .
subscribe                   |.            .            .            .             .            .            .      .
subscribe and poll          |JOINING      .            STABLE       .             .            JOINING      JOINING .
unsubscribe                 |.            UNSUBSCRIBED UNSUBSCRIBED UNSUBSCRIBED  UNSUBSCRIBED UNSUBSCRIBED .      .
close                       |.            UNSUBSCRIBED UNSUBSCRIBED UNSUBSCRIBED  UNSUBSCRIBED UNSUBSCRIBED .      .
"""
"""The state after the event; a point: the one before it. Kafka's AbstractMembershipManager."""


def rows() -> list[tuple[str, str, str]]:
    head, *lines = TABLE.strip().splitlines()
    assert head.split("|")[1].split() == NAMES
    assert [line.split("|")[0].strip() for line in lines] == list(EVENTS)
    return [
        (state, line.split("|")[0].strip(), after)
        for line in lines
        for state, after in zip(NAMES, line.split("|")[1].split(), strict=True)
    ]


@pytest.mark.parametrize(("state", "event", "after"), rows())
def test_state_and_event(state: str, event: str, after: str) -> None:
    lab: ConsumerLab = getattr(ConsumerLab(), state.lower())()
    if after == "raises":
        with pytest.raises(ValueError, match="subscribe"):
            EVENTS[event](lab)
        return
    EVENTS[event](lab)
    assert lab.state.value == (state if after == STAYS else after)


def test_no_other_transition_is_possible() -> None:
    for old in MemberState:
        for new in MemberState:
            lab = ConsumerLab()
            lab.membership.state = old
            if old is new or old in PREVIOUS_STATES[new]:
                transition_to(lab.member, new, Result())
            else:
                with pytest.raises(AssertionError, match="no transition"):
                    transition_to(lab.member, new, Result())


# What heartbeats say


def test_the_first_one_says_all() -> None:
    lab = ConsumerLab(client_rack="r", group_instance_id="i", group_remote_assignor="range").joining()
    member_id = lab.membership.member_id
    assert len(member_id) == 22
    assert lab.request == ConsumerGroupHeartbeatRequest(
        "g", member_id, 0, "i", "r", MAX_POLL_MS, ["t"], None, "range", []
    )


def test_the_next_ones_say_what_has_changed() -> None:
    lab = ConsumerLab(group_remote_assignor="range").reconciling()
    lab.short_poll()
    acknowledges = lab.request
    owns = [TopicPartitions(topic_id("t"), [0, 1])]
    member_id = lab.membership.member_id
    assert acknowledges == ConsumerGroupHeartbeatRequest("g", member_id, EPOCH, topic_partitions=owns)
    lab.respond(told=False)
    lab.advance(INTERVAL_MS)
    assert lab.request == ConsumerGroupHeartbeatRequest("g", member_id, EPOCH)
    lab.respond(told=False)
    lab.tell(Subscribe(["u", "t"]))
    assert lab.names() == [], "it is said at the interval"
    lab.advance(INTERVAL_MS)
    assert lab.request == ConsumerGroupHeartbeatRequest("g", member_id, EPOCH, subscribed_topic_names=["t", "u"])


@pytest.mark.parametrize("error", [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, None])
def test_after_a_failure_all_is_said_again(error: ErrorCode | None) -> None:
    lab = ConsumerLab(client_rack="r").stable()
    lab.advance(INTERVAL_MS)
    if error is None:
        lab.lose(ConsumerGroupHeartbeatRequest)
        lab.advance(100)
        lab.find()
    else:
        lab.respond(error=error)
        assert lab.names() == []
    lab.advance(200)
    owns = [TopicPartitions(topic_id("t"), [0, 1])]
    expected = ConsumerGroupHeartbeatRequest(
        "g",
        lab.membership.member_id,
        EPOCH,
        rebalance_timeout_ms=MAX_POLL_MS,
        subscribed_topic_names=["t"],
        topic_partitions=owns,
    )
    assert lab.request == expected, "but for the rack, which is said when joining alone"


def test_heartbeats_come_at_the_coordinators_interval() -> None:
    lab = ConsumerLab().stable()
    lab.advance(INTERVAL_MS - 1)
    assert lab.names() == []
    lab.advance(1)
    assert lab.names() == ["ConsumerGroupHeartbeat"]
    lab.advance(3 * INTERVAL_MS)
    assert lab.names() == ["ConsumerGroupHeartbeat"], "one at a time"
    lab.respond(told=False)
    assert lab.names() == ["ConsumerGroupHeartbeat"], "it is overdue"


def test_failures_back_off_and_a_response_ends_that() -> None:
    lab = ConsumerLab().stable()
    lab.advance(INTERVAL_MS)
    for wait_ms in (100, 200, 400, 800, 1_000, 1_000):
        lab.respond(error=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        lab.advance(wait_ms - 1)
        assert lab.names() == []
        lab.advance(1)
        assert lab.names() == ["ConsumerGroupHeartbeat"]
    lab.respond(told=False)
    lab.advance(INTERVAL_MS)
    lab.respond(error=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    lab.advance(100)
    assert lab.names() == ["ConsumerGroupHeartbeat"]


def test_a_coordinator_that_has_moved_is_found_and_told_at_once() -> None:
    lab = ConsumerLab().stable()
    lab.advance(INTERVAL_MS)
    lab.respond(error=ErrorCode.NOT_COORDINATOR)
    assert lab.disconnects == 1
    assert lab.names() == ["FindCoordinator"]
    lab.find()
    assert lab.request.topic_partitions is not None
    lab.respond(error=ErrorCode.NOT_COORDINATOR)
    lab.find()
    assert lab.names() == [], "the second time after a back-off"
    lab.advance(200)
    assert lab.names() == ["ConsumerGroupHeartbeat"]


def test_a_response_to_an_earlier_life_says_nothing() -> None:
    lab = ConsumerLab().stable()
    lab.advance(INTERVAL_MS)
    late = lab.take(ConsumerGroupHeartbeatRequest)
    lab.tell(Subscribe(()))
    lab.sent.clear()
    lab.tell(Subscribe(["t"]))
    lab.short_poll()
    assert lab.request.member_epoch == 0
    lab.sent.append(late)
    again = lab.waiting(ConsumerGroupHeartbeatRequest)[0]
    lab.sent.remove(again)
    lab.respond(error=ErrorCode.UNKNOWN_MEMBER_ID)
    assert (lab.state.value, lab.membership.epoch) == ("JOINING", 0)
    lab.sent.append(again)
    lab.respond(("t", 0), epoch=9)
    assert lab.state.value == "RECONCILING"


def test_a_member_keeps_its_id_for_its_life() -> None:
    lab = ConsumerLab().fenced()
    member_id = lab.membership.member_id
    lab.short_poll()
    assert (lab.request.member_id, lab.request.member_epoch) == (member_id, 0)
    assert Member(MemberSettings("g", group_protocol="consumer"), lambda: 0.7).membership is not None


def test_ids_are_kafkas() -> None:
    """22 characters of base64 of a random UUID; java.util.UUID's bits, and no dash in front."""
    assert new_member_id(lambda: 0.0) == "AAAAAAAAQACAAAAAAAAAAA"
    assert new_member_id(lambda: 0.97).startswith("-") is False
    assert len(new_member_id(lambda: 1 - 2**-33)) == 22


# Out of the group


def test_a_fenced_member_loses_all_within_its_next_poll_and_joins_again() -> None:
    lab = ConsumerLab().fenced()
    assert [type(each) for each in lab.changes] == [Assigned]
    assert lab.member.next_deadline_ms == NEVER
    lab.advance(3 * INTERVAL_MS)
    assert lab.names() == []
    lab.short_poll()
    assert lab.changes[-1] == Lost((("t", 0), ("t", 1)))
    assert lab.request.member_epoch == 0
    assert lab.request.topic_partitions == []
    lab.respond(("t", 1), epoch=EPOCH + 2)
    lab.short_poll()
    assert lab.changes[-1] == Assigned((("t", 1),))


def test_a_fenced_member_that_owns_nothing_joins_at_once() -> None:
    lab = ConsumerLab().reconciling()
    lab.advance(INTERVAL_MS)
    lab.respond(error=ErrorCode.UNKNOWN_MEMBER_ID)
    assert lab.request.member_epoch == 0


def test_an_application_that_does_not_poll_leaves_and_comes_back_with_its_next_poll() -> None:
    lab = ConsumerLab().stale()
    lab.advance(10 * MAX_POLL_MS)
    assert lab.names() == []
    lab.short_poll()
    assert lab.changes[-1] == Lost((("t", 0), ("t", 1)))
    assert lab.request.member_epoch == 0


def test_the_leave_for_want_of_polls_is_told_and_explained() -> None:
    lab = ConsumerLab(group_instance_id="i").stable()
    warnings = []
    for _ in range(MAX_POLL_MS // INTERVAL_MS - 1):
        lab.advance(INTERVAL_MS)
        lab.respond(told=False)
    lab.advance(INTERVAL_MS - 1)
    assert lab.names() == []
    lab.advance(1)
    warnings = lab.result.warnings
    assert lab.request.member_epoch == -2
    assert f"max.poll.interval.ms ({MAX_POLL_MS})" in warnings[0]


@pytest.mark.parametrize(
    ("instance_id", "leave", "epoch"),
    [(None, None, -1), (None, True, -1), (None, False, None), ("i", None, -2), ("i", True, -1), ("i", False, -2)],
)
def test_leaving(instance_id: str | None, leave: bool | None, epoch: int | None) -> None:
    lab = ConsumerLab(group_instance_id=instance_id).stable()
    result = lab.tell(Close(leave=leave))
    assert lab.changes[-1] == Revoked((("t", 0), ("t", 1)))
    sent = [(each.request.member_epoch, each.request.instance_id) for each in lab.sent]
    assert sent == ([] if epoch is None else [(epoch, instance_id)])
    if epoch is not None:
        assert not result.closed
        result = lab.respond(error=ErrorCode.UNKNOWN_MEMBER_ID)
    assert result.closed
    assert lab.member.next_deadline_ms == NEVER


def test_a_close_commits_before_it_leaves() -> None:
    lab = ConsumerLab(enable_auto_commit=True, auto_commit_interval_ms=10**8).stable()
    lab.member.partitions["t", 0].position = 3
    lab.tell(Close())
    assert lab.names() == ["OffsetCommit"]
    lab.commit()
    assert lab.names() == ["ConsumerGroupHeartbeat"]
    assert lab.request.member_epoch == -1


def test_leaving_without_a_coordinator_is_told_to_nobody() -> None:
    lab = ConsumerLab().stable()
    lab.advance(INTERVAL_MS)
    lab.respond(error=ErrorCode.NOT_COORDINATOR)
    lab.take(FindCoordinatorRequest)
    assert lab.tell(Close()).closed
    assert lab.names() == []


def test_a_refusal_for_good_is_raised_by_the_poll() -> None:
    lab = ConsumerLab().joining()
    lab.respond(error=ErrorCode.UNRELEASED_INSTANCE_ID)
    polled = lab.poll(0)
    assert polled is not None
    assert (polled.error, polled.what) == (ErrorCode.UNRELEASED_INSTANCE_ID, "the coordinator's message")
    lab.advance(10 * INTERVAL_MS)
    assert lab.names() == []


# Expressions


def test_a_pattern_is_said_and_its_topics_are_asked_for_by_id() -> None:
    lab = ConsumerLab({}, pattern="t.*").joining()
    assert (lab.request.subscribed_topic_names, lab.request.subscribed_topic_regex) == ([], "t.*")
    lab.topics = {"t": 2}
    lab.respond(("t", 1))
    lab.advance(200)
    lab.short_poll()
    lab.short_poll()
    assert lab.waiting(MetadataRequest)[0].request.topics == [MetadataRequestTopic(topic_id("t"))]
    lab.know()
    lab.short_poll()
    assert lab.changes[-1] == Assigned((("t", 1),))


def test_a_pattern_that_is_given_up_is_said_to_be_empty() -> None:
    lab = ConsumerLab(pattern="t.*").joining()
    lab.respond()
    lab.short_poll()
    lab.respond(told=False)
    assert lab.state is STABLE
    lab.tell(Subscribe(["t"]))
    lab.advance(INTERVAL_MS)
    assert (lab.request.subscribed_topic_names, lab.request.subscribed_topic_regex) == (["t"], "")


def test_that_a_pattern_is_given_up_is_said_again_if_nobody_may_have_heard_it() -> None:
    """Found by a random history: the member kept the topics that its expression had matched."""
    lab = ConsumerLab({}, pattern="t.*").joining()
    lab.respond()
    lab.short_poll()
    lab.respond(told=False)
    lab.tell(Subscribe(["t"]))
    lab.advance(INTERVAL_MS)
    lab.respond(error=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    lab.advance(100)
    assert (lab.request.subscribed_topic_names, lab.request.subscribed_topic_regex) == (["t"], "")
    lab.respond(error=ErrorCode.UNKNOWN_MEMBER_ID)
    assert (lab.request.member_epoch, lab.request.subscribed_topic_regex) == (0, "")


@pytest.mark.parametrize(("protocol", "topics"), [("classic", ()), ("consumer", ("t",))])
def test_a_pattern_needs_the_protocol_and_stands_alone(protocol: str, topics: tuple[str, ...]) -> None:
    lab = ConsumerLab(group_protocol=protocol)
    with pytest.raises(ValueError, match="regular expression"):
        lab.tell(Subscribe(topics, "t.*"))


@pytest.mark.parametrize(
    ("settings", "what"),
    [({"group_protocol": "streams"}, "classic or consumer"), ({"single_threaded": True}, "heartbeat thread")],
)
def test_settings_that_make_no_sense(settings: dict[str, object], what: str) -> None:
    with pytest.raises(ValueError, match=what):
        MemberSettings(**{"group_id": "g", "group_protocol": "consumer", **settings})  # type: ignore[arg-type]
