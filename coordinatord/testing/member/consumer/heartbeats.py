"""ConsumerGroupHeartbeat: schedule, content, and handling of the response.

A heartbeat is due at once when the member joins, leaves or acknowledges an assignment, otherwise an interval after the
last one. The interval is the coordinator's. One heartbeat is in flight at a time, except that a leave does not wait for
one. A heartbeat has the member id, the member epoch, and all fields that have changed since the last heartbeat; after
an error, or without a response, the next heartbeat has all fields. The first one (member epoch 0) has all fields, too.

| the response                                                  | the member                                         |
|---------------------------------------------------------------|----------------------------------------------------|
| NONE                                                          | takes the epoch, the interval and the assignment   |
| FENCED_MEMBER_EPOCH, UNKNOWN_MEMBER_ID                        | is out of the group: membership.py                 |
| NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE, no response       | finds the coordinator, then sends all fields again |
| COORDINATOR_LOAD_IN_PROGRESS                                  | sends all fields again after the back-off          |
| TOPIC_AUTHORIZATION_FAILED                                    | does so, too; the poll raises the error            |
| any other error, and a broker without this API                | FATAL: the poll raises the error                   |

Kafka's client does not back off while it joins or acknowledges, so it sends requests to a coordinator that is loading
as fast as the network allows; this client backs off.
"""

from __future__ import annotations

from typing import Final

from coordinatord.testing.member.consumer.membership import (
    fail,
    fenced,
    leave,
    left,
    membership_of,
    set_epoch,
    transition_to,
)
from coordinatord.testing.member.consumer.state import (
    ACKNOWLEDGING,
    JOINING,
    LEAVING,
    RECONCILING,
    SILENT,
    STABLE,
    Membership,
)
from coordinatord.testing.member.finding import ensure_coordinator
from coordinatord.testing.member.network import coordinator_failed
from coordinatord.testing.member.result import Result
from coordinatord.testing.member.send import Send
from coordinatord.testing.member.state import Member
from kafka_wire.api.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from kafka_wire.errors import ErrorCode, error_of

COORDINATOR_GONE: Final = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})
FENCING: Final = frozenset({ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID})

NOT_SUPPORTED: Final = (
    "The cluster does not support the new CONSUMER group protocol. Set group.protocol=classic on the consumer configs "
    "to revert to the CLASSIC protocol until the cluster is upgraded."
)
"""Kafka's sentence; the versions that the broker supports follow it."""


def tick(member: Member, now_ms: int, result: Result) -> None:
    """Send a heartbeat if one is due. A member whose application does not poll leaves."""
    membership = membership_of(member)
    if membership.state in SILENT or member.closed:
        return
    if member.coordinator is None:
        ensure_coordinator(member, now_ms, result)
        return
    if not member.in_poll and member.heartbeat.poll.is_expired(now_ms):
        _poll_timeout_expired(member, now_ms, result)
    elif membership.in_flight is None and now_ms >= max(membership.due_ms, membership.retry_ms):
        _send(member, now_ms, result)


def leave_group(member: Member, wanted: bool | None, now_ms: int, result: Result, *, is_stale: bool = False) -> None:
    """Leave, and send the coordinator one request. The response is ignored; a close waits for it."""
    told = leave(member, wanted, result)
    if not is_stale:
        member.subscription, membership_of(member).pattern = frozenset(), None
    if told:
        member.send_to_coordinator(_request(member), result)
    if membership_of(member).state is LEAVING:
        left(member, result, is_stale=is_stale, now_ms=now_ms)


def _poll_timeout_expired(member: Member, now_ms: int, result: Result) -> None:
    settings = member.settings
    result.warnings.append(
        "consumer poll timeout has expired. This means the time between subsequent calls to poll() was longer than the "
        f"configured max.poll.interval.ms ({settings.max_poll_interval_ms}), which typically implies that the poll "
        "loop is spending too much time processing messages. You can address this either by increasing "
        "max.poll.interval.ms or by reducing the maximum size of batches returned in poll() with max.poll.records "
        f"({settings.max_poll_records})."
    )
    leave_group(member, None, now_ms, result, is_stale=True)


def _send(member: Member, now_ms: int, result: Result) -> None:
    membership = membership_of(member)
    membership.in_flight = member.send_to_coordinator(_request(member), result, context=membership.lives)
    membership.due_ms = now_ms + membership.interval_ms
    if membership.state is ACKNOWLEDGING:
        is_done = membership.current == membership.target
        transition_to(member, STABLE if is_done else RECONCILING, result)


def _request(member: Member) -> ConsumerGroupHeartbeatRequest:
    """Return the request of Kafka's HeartbeatState.buildRequestData. The subscription is sorted,
    which Kafka's is not.
    """
    membership, settings = membership_of(member), member.settings
    said = membership.said
    joins = membership.state is JOINING
    request = ConsumerGroupHeartbeatRequest(
        settings.group_id, membership.member_id, membership.epoch, settings.group_instance_id
    )
    if joins or said.rebalance_timeout_ms != settings.max_poll_interval_ms:
        request.rebalance_timeout_ms = said.rebalance_timeout_ms = settings.max_poll_interval_ms
    if joins or said.topics != member.subscription:
        request.subscribed_topic_names = sorted(member.subscription)
        said.topics = member.subscription
    if (joins and membership.pattern is not None) or said.pattern != membership.pattern:
        request.subscribed_topic_regex = membership.pattern or ""
        said.pattern = membership.pattern
        membership.has_said_pattern = membership.has_said_pattern or membership.pattern is not None
    assignor = settings.group_remote_assignor
    if assignor is not None and (joins or said.assignor != assignor):
        request.server_assignor = said.assignor = assignor
    if joins or said.assignment != membership.current:
        request.topic_partitions = [
            TopicPartitions(topic_id, sorted(each)) for topic_id, each in membership.claimed.items()
        ]
        said.assignment = membership.current
    if joins:
        request.rack_id = settings.client_rack or None
    return request


def answered(member: Member, send: Send, response: ConsumerGroupHeartbeatResponse, now_ms: int, result: Result) -> None:
    """Handle a response as in the table."""
    membership = membership_of(member)
    member.metrics.heartbeat_latency.record(now_ms - send.sent_ms)
    if send is not membership.in_flight or send.context != membership.lives:
        return
    membership.in_flight = None
    if response.error_code:
        _refused(member, error_of(response.error_code), response.error_message or "", now_ms, result)
        return
    membership.attempts = membership.retry_ms = 0
    if membership.interval_ms != response.heartbeat_interval_ms:
        membership.interval_ms = max(1, response.heartbeat_interval_ms)
        if membership.state is not ACKNOWLEDGING:
            membership.due_ms = now_ms + membership.interval_ms
    if response.member_epoch < 0:
        return
    set_epoch(member, response.member_epoch)
    if response.assignment is not None:
        partitions = {
            each.topic_id: frozenset(each.partitions)
            for each in response.assignment.topic_partitions
            if each.partitions
        }
        _assigned(member, membership, partitions, result)


def _assigned(member: Member, membership: Membership, partitions: dict[bytes, frozenset[int]], result: Result) -> None:
    membership.target = membership.target.followed_by(partitions)
    if membership.current != membership.target:
        transition_to(member, RECONCILING, result)
    elif membership.state in (RECONCILING, JOINING):
        transition_to(member, STABLE, result)


def _refused(member: Member, error: ErrorCode, message: str, now_ms: int, result: Result) -> None:
    if error in FENCING:
        fenced(member, f"{error.name}: {message}" if message else error.name, now_ms, result)
    elif error in COORDINATOR_GONE:
        _failed(member, now_ms)
        if membership_of(member).attempts == 1:
            membership_of(member).retry_ms = now_ms  # a coordinator that has moved gets the request at once
        coordinator_failed(member, now_ms, result)
    elif error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        _failed(member, now_ms)
    elif error is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        _failed(member, now_ms)
        member.failure = (error, message)
    else:
        fail(member, error, message or "ConsumerGroupHeartbeat", now_ms, result)


def unanswered(member: Member, send: Send, now_ms: int, result: Result) -> None:
    """Handle a request without a response."""
    membership = membership_of(member)
    if send is membership.in_flight:
        membership.in_flight = None
        _failed(member, now_ms)


def unsupported(member: Member, send: Send, what: str, now_ms: int, result: Result) -> None:
    """Handle a broker without a usable version of the request."""
    membership = membership_of(member)
    if send is membership.in_flight:
        membership.in_flight = None
        fail(member, ErrorCode.UNSUPPORTED_VERSION, f"{NOT_SUPPORTED} ({what})", now_ms, result)


def _failed(member: Member, now_ms: int) -> None:
    """Schedule a heartbeat with all fields, after a back-off that grows."""
    membership = membership_of(member)
    membership.say_all_again()
    membership.due_ms = now_ms
    membership.retry_ms = now_ms + member.backoff.after_ms(membership.attempts)
    membership.attempts += 1
