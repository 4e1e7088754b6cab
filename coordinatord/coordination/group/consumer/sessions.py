"""Deadlines of members: the session, the revocation of partitions, and the JoinGroup and SyncGroup of classic members.

As in classic groups, a heartbeat moves a session's deadline and no timer: a timer that fires too early is set again.
"""

from __future__ import annotations

from typing import Protocol

from coordinatord.coordination.group.consumer.state import NEVER, ConsumerGroup, ConsumerMember, Session
from coordinatord.coordination.group.result import JOIN, SESSION, SYNC, Cancel, Result, Schedule, TimerKey
from kafka_wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from kafka_wire.errors import ErrorCode

REVOKE = "revoke"
"""Kind of timer: a member has to revoke partitions within its rebalance timeout."""

ASSIGNMENT = "assignment"
"""Kind of timer, of the group: continue its assignment."""

EXPRESSIONS = "expressions"
"""Kind of timer, of the group: resolve its expressions soon."""


class WithSessions(Protocol):
    """A group whose members have sessions of this kind: a consumer or a share group."""

    sessions: dict[str, Session]


def keep_alive(
    group_id: str, group: WithSessions, member_id: str, timeout_ms: int, now_ms: int, result: Result
) -> None:
    """Extend a member's session to `now_ms + timeout_ms`."""
    session = group.sessions.get(member_id)
    if session is None:
        session = group.sessions[member_id] = Session(timeout_ms)
    session.timeout_ms = timeout_ms
    session.deadline_ms = deadline_ms = now_ms + timeout_ms
    if deadline_ms < session.timer_ms:
        session.timer_ms = deadline_ms
        result.timers.append(Schedule(TimerKey(group_id, SESSION, member_id), deadline_ms))


def await_revocation(
    group_id: str, consumer: ConsumerGroup, member: ConsumerMember, now_ms: int, result: Result
) -> None:
    """Wait until the member has revoked its partitions, which ends its epoch, within its rebalance timeout."""
    session = _session(consumer, member.member_id)
    session.revoke_deadline_ms = now_ms + member.rebalance_timeout_ms
    session.revoke_epoch = member.epoch
    key = TimerKey(group_id, REVOKE, member.member_id)
    result.timers.append(Schedule(key, session.revoke_deadline_ms))


def revoked(group_id: str, consumer: ConsumerGroup, member_id: str, result: Result) -> None:
    """Stop waiting: the member has nothing to revoke."""
    session = consumer.sessions.get(member_id)
    if session is not None and session.revoke_deadline_ms != NEVER:
        session.revoke_deadline_ms = NEVER
        result.timers.append(Cancel(TimerKey(group_id, REVOKE, member_id)))


def await_join(group_id: str, consumer: ConsumerGroup, member: ConsumerMember, now_ms: int, result: Result) -> None:
    """Wait for a classic member to rejoin: it has its rebalance timeout from the first request to do so."""
    session = _session(consumer, member.member_id)
    if session.join_deadline_ms == NEVER:
        session.join_deadline_ms = now_ms + member.rebalance_timeout_ms
        result.timers.append(Schedule(TimerKey(group_id, JOIN, member.member_id), session.join_deadline_ms))


def joined(group_id: str, consumer: ConsumerGroup, member_id: str, result: Result) -> None:
    """Stop waiting: a classic member has rejoined."""
    session = _session(consumer, member_id)
    if session.join_deadline_ms != NEVER:
        session.join_deadline_ms = NEVER
        result.timers.append(Cancel(TimerKey(group_id, JOIN, member_id)))


def await_sync(
    group_id: str, consumer: ConsumerGroup, member_id: str, timeout_ms: int, now_ms: int, result: Result
) -> None:
    """Wait for a classic member that has joined to request its assignment."""
    session = _session(consumer, member_id)
    session.sync_deadline_ms = now_ms + timeout_ms
    result.timers.append(Schedule(TimerKey(group_id, SYNC, member_id), session.sync_deadline_ms))


def synced(group_id: str, consumer: ConsumerGroup, member_id: str, result: Result) -> None:
    """Stop waiting: a classic member has requested its assignment."""
    session = _session(consumer, member_id)
    if session.sync_deadline_ms != NEVER:
        session.sync_deadline_ms = NEVER
        result.timers.append(Cancel(TimerKey(group_id, SYNC, member_id)))


def forget(group_id: str, group: WithSessions, member_id: str, result: Result) -> None:
    """Remove the deadlines and timers of a removed member."""
    session = group.sessions.pop(member_id, None)
    if session is None:
        return
    deadlines = (
        (SESSION, session.timer_ms),
        (REVOKE, session.revoke_deadline_ms),
        (JOIN, session.join_deadline_ms),
        (SYNC, session.sync_deadline_ms),
    )
    result.timers += [
        Cancel(TimerKey(group_id, kind, member_id)) for kind, deadline_ms in deadlines if deadline_ms != NEVER
    ]


def forget_all(group_id: str, consumer: ConsumerGroup, result: Result) -> None:
    """Remove all deadlines and timers: the group is deleted, or another node serves it."""
    for member_id in list(consumer.sessions):
        forget(group_id, consumer, member_id, result)
    stop_assigning(group_id, consumer, ErrorCode.COORDINATOR_NOT_AVAILABLE, result)
    if consumer.is_resolving:
        consumer.is_resolving = False
        consumer.resolving = consumer.may_describe = None
        result.timers.append(Cancel(TimerKey(group_id, EXPRESSIONS)))


def next_slice(group_id: str, now_ms: int) -> Schedule:
    """Return the timer that continues the assignment after other
    requests have been served: due timers fire together.
    """
    return Schedule(TimerKey(group_id, ASSIGNMENT), now_ms + 1)


def stop_assigning(group_id: str, consumer: ConsumerGroup, error: ErrorCode, result: Result) -> None:
    """Abandon the assignment that is being computed. The heartbeat that waits for it gets an error."""
    assigning = consumer.assigning
    if assigning is None:
        return
    consumer.assigning = None
    result.timers.append(Cancel(TimerKey(group_id, ASSIGNMENT)))
    if assigning.heard is not None:
        result.replies.append((assigning.heard.event.reply_to, ConsumerGroupHeartbeatResponse(error_code=error)))


def _session(consumer: ConsumerGroup, member_id: str) -> Session:
    session = consumer.sessions.get(member_id)
    if session is None:
        session = consumer.sessions[member_id] = Session(0)
    return session
