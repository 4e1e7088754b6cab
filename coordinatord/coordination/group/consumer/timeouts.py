"""Handling of passed deadlines in a consumer group: sessions,
revocations, expressions; and new deadlines after a load.
"""

from __future__ import annotations

from collections.abc import Callable

from coordinatord.coordination.group.consumer.assigning import continue_assignment
from coordinatord.coordination.group.consumer.epoch_record import resume
from coordinatord.coordination.group.consumer.leaving import fence
from coordinatord.coordination.group.consumer.patterns import resolve
from coordinatord.coordination.group.consumer.sessions import (
    ASSIGNMENT,
    EXPRESSIONS,
    REVOKE,
    await_revocation,
    keep_alive,
)
from coordinatord.coordination.group.consumer.state import NEVER, ConsumerGroup, GroupEnvironment, MemberState, Session
from coordinatord.coordination.group.result import JOIN, NOTHING, SESSION, SYNC, Result, Schedule, TimerKey
from coordinatord.coordination.group.state import Group
from coordinatord.coordination.group.states import Cause


def timed_out(
    group: Group, consumer: ConsumerGroup, surroundings: GroupEnvironment, key: TimerKey, now_ms: int
) -> Result:
    """Handle a timer, which may be early or may belong to something that no longer exists."""
    if key.kind == EXPRESSIONS:
        return resolve(group, consumer, surroundings, now_ms)
    if key.kind == ASSIGNMENT:
        return continue_assignment(group, consumer, surroundings, now_ms)
    session = consumer.sessions.get(key.member_id)
    member = consumer.members.get(key.member_id)
    if session is None or member is None:
        return NOTHING
    due = _DUE[key.kind](session, now_ms)
    if due is None:
        return NOTHING
    if due:
        return Result(timers=[Schedule(key, due)])
    if key.kind == REVOKE and member.epoch != session.revoke_epoch:
        return NOTHING
    result = Result()
    fence(group, consumer, surroundings, [member], _CAUSES[key.kind], now_ms, result)
    return result


def restore(group: Group, consumer: ConsumerGroup, surroundings: GroupEnvironment, now_ms: int) -> Result:
    """Start sessions and revocations anew when a group has been loaded."""
    result = Result()
    timeout_ms = surroundings.limits.session_timeout_ms(group.group_id)
    for member_id, member in consumer.members.items():
        keep_alive(group.group_id, consumer, member_id, timeout_ms, now_ms, result)
        if member.state is MemberState.UNREVOKED_PARTITIONS and member.classic is None:
            await_revocation(group.group_id, consumer, member, now_ms, result)
    resume(consumer, surroundings.topics, now_ms)
    return result


def session_due(session: Session, now_ms: int) -> int | None:
    """Return 0 if the session has expired; None if there is no deadline; else the deadline."""
    if min(now_ms, session.timer_ms) < session.deadline_ms:
        # The member has sent a request since; see classic/step.py for a deadline that has passed, too.
        session.timer_ms = session.deadline_ms
        return session.deadline_ms
    session.timer_ms = NEVER
    return 0


def _revoke_due(session: Session, now_ms: int) -> int | None:
    due = _due(session.revoke_deadline_ms, now_ms)
    if due == 0:
        session.revoke_deadline_ms = NEVER
    return due


def _due(deadline_ms: int, now_ms: int) -> int | None:
    if deadline_ms == NEVER:
        return None
    return deadline_ms if now_ms < deadline_ms else 0


_DUE: dict[str, Callable[[Session, int], int | None]] = {
    SESSION: session_due,
    REVOKE: _revoke_due,
    JOIN: lambda session, now_ms: _due(session.join_deadline_ms, now_ms),
    SYNC: lambda session, now_ms: _due(session.sync_deadline_ms, now_ms),
}

_CAUSES = {
    SESSION: Cause.SESSION_EXPIRED,
    REVOKE: Cause.NOT_REVOKED,
    JOIN: Cause.NOT_REJOINED,
    SYNC: Cause.NOT_SYNCED,
}
