"""The classic group protocol: members join, their leader assigns, everybody syncs, heartbeats and leaves.

`step(group, event, now_ms)` is the way in for all that has to be decided: it looks at the event's type, decides,
changes the group, and says in its `Result` what has to be logged, answered and timed. It is synchronous and knows
neither clock nor chance nor I/O: `now_ms` (epoch milliseconds, never going back) is told, ids come from `group.new_id`.
What a step logs it has also applied; no reply of its result may leave before that is durable.

      Empty ──join──▶ PreparingRebalance ──all rejoined, or time is up──▶ CompletingRebalance ──leader syncs──▶ Stable
        ▲                │  ▲     ▲                                              │                              │
        └── nobody left ─┘  │     └──── somebody joins anew, leaves, expires ────┘                              │
                            └───────────────── somebody joins, leaves, expires, changes ────────────────────────┘

The table of states is in state.py, what a rejoin does in each of them in joining.py. A group is there as soon as
`step` is called on it, but it *exists* only once a join or an offset created it; when `group.exists` is False after a
step, the shell forgets it.

Heartbeats are nearly all the traffic: a heartbeat moves `member.session_deadline_ms` and returns a constant. The timer
of a member is set again when it fires before that deadline. Two changes need no decision while `group.version` stands
where it did when one was made, and so no step: `Member.is_alive` and `offsets.commit_like_before`. The shell's
shortcuts make them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from coordinatord.group import events
from coordinatord.group.bury import bury
from coordinatord.group.joining import join
from coordinatord.group.leaving import leave
from coordinatord.group.members import (
    add_member,
    answer_join,
    answer_sync,
    join_error,
    keep_alive,
    refusal,
    remove_member,
)
from coordinatord.group.offsets import commit, delete, delete_offsets, expire, topic_deleted
from coordinatord.group.rebalance import complete_join, join_timed_out, prepare_rebalance, sync_timed_out
from coordinatord.group.result import JOIN, NOTHING, SESSION, SYNC, Dropped, Result, Schedule, TimerKey, Trigger
from coordinatord.group.state import HEARTBEAT_RESULTS, NEVER, Group, Member, heartbeat_error
from coordinatord.group.states import DEAD, PREPARING_REBALANCE, STABLE, Cause, Why
from coordinatord.group.subscription import subscribed_topics
from coordinatord.group.syncing import sync
from coordinatord.group.transactional import commit_transactional, end_transaction
from kafka_wire.api.heartbeat import HeartbeatRequest
from kafka_wire.api.offset_delete import OffsetDeleteRequest
from kafka_wire.api.sync_group import SyncGroupResponse
from kafka_wire.errors import ErrorCode

HEARTBEAT_ILLEGAL_GENERATION = heartbeat_error(ErrorCode.ILLEGAL_GENERATION)
HEARTBEAT_REFUSALS = {
    error: heartbeat_error(error)
    for error in (
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.INVALID_GROUP_ID,
    )
}


def step(group: Group, event: Any, now_ms: int) -> Result:
    """Decide one event: one of events.py, a HeartbeatRequest or an OffsetDeleteRequest."""
    return HANDLERS[type(event)](group, event, now_ms)


def heartbeat(group: Group, request: HeartbeatRequest, now_ms: int) -> Result:
    """The member is alive. Returns constants, except for the rare deadline that moves to before its timer."""
    member = group.members.get(request.member_id)
    if member is None or request.group_instance_id is not None:
        error = _heartbeat_refusal(group, request)
        if error is not None:
            return HEARTBEAT_REFUSALS[error]
        assert member is not None
    if request.generation_id != group.generation_id:
        return HEARTBEAT_ILLEGAL_GENERATION
    deadline_ms = now_ms + member.session_timeout_ms
    member.session_deadline_ms = deadline_ms
    if deadline_ms < member.timer_ms:
        result = Result(reply=group.heartbeat_result.reply)
        keep_alive(group, member, member.session_timeout_ms, now_ms, result)
        return result
    return group.heartbeat_result


def timed_out(group: Group, event: events.TimedOut, now_ms: int) -> Result:
    """A timer fired. It may be early, or late for something that is no longer there."""
    key = event.key
    if key.kind == SESSION:
        return _session_timed_out(group, key, now_ms)
    assert key.kind in (JOIN, SYNC)
    deadline_ms = group.join_deadline_ms if key.kind == JOIN else group.sync_deadline_ms
    if deadline_ms == NEVER:
        return NOTHING
    if now_ms < deadline_ms:
        return Result(timers=[Schedule(key, deadline_ms)])
    result = Result()
    if key.kind == JOIN:
        join_timed_out(group, now_ms, result)
    else:
        sync_timed_out(group, now_ms, result)
    return result


def unload(group: Group, event: events.Unload, now_ms: int) -> Result:
    """Answer whatever is parked and serve the group no more; the log keeps it."""
    if group.state is DEAD:
        return NOTHING
    result = Result()
    for member in group.members.values():
        answer_join(group, member, join_error(event.error, member.member_id), result)
        answer_sync(member, SyncGroupResponse(error_code=event.error), result)
    bury(group, "no longer served here", now_ms, result)
    return result


def restore(group: Group, now_ms: int) -> Result:
    """Make volatile state from the durable one that a load has replayed; sessions begin anew.

    A member knows only the metadata of the protocol that was in use, so one that rejoins with more counts as changed.
    """
    result = Result()
    metadata = group.metadata
    if metadata is None:
        group.current_state_timestamp_ms = now_ms
        return result
    group.generation_id = metadata.generation
    group.protocol_type = metadata.protocol_type or None
    group.protocol_name = (metadata.protocol or "") if metadata.members else metadata.protocol
    group.leader_id = metadata.leader
    group.current_state_timestamp_ms = metadata.current_state_timestamp
    for logged in metadata.members:
        if (
            not logged.member_id
            or logged.member_id in group.members
            or logged.group_instance_id in group.static_members
        ):
            # Nobody logs this on purpose, but logs come from other programs too. It has to join anew.
            result.changes.append(Dropped(logged.member_id, logged.group_instance_id, Cause.NOT_LOADED))
            continue
        member = Member(
            logged.member_id,
            logged.group_instance_id,
            logged.client_id,
            logged.client_host,
            logged.session_timeout if logged.rebalance_timeout == -1 else logged.rebalance_timeout,
            logged.session_timeout,
            ((metadata.protocol or "", logged.subscription),),
            logged.assignment,
        )
        add_member(group, member, metadata.protocol_type)
        keep_alive(group, member, member.session_timeout_ms, now_ms, result)
    if group.members:
        if group.leader_id not in group.members:
            group.leader_id = next(iter(group.members))
        group.state = STABLE  # not a transition: this is where it was
        group.heartbeat_result = HEARTBEAT_RESULTS[STABLE]
    group.subscribed_topics = subscribed_topics(group)
    if len(group.members) > group.settings.max_size:
        text = f"loaded with more than {group.settings.max_size} members"
        prepare_rebalance(group, Trigger(Why.TOO_MANY_MEMBERS, text), now_ms, result)
    return result


def _heartbeat_refusal(group: Group, request: HeartbeatRequest) -> ErrorCode | None:
    if not group.group_id:
        return ErrorCode.INVALID_GROUP_ID
    if group.state is DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return refusal(group, request.member_id, request.group_instance_id)


def _session_timed_out(group: Group, key: TimerKey, now_ms: int) -> Result:
    member_id = key.member_id
    member = group.members.get(member_id)
    if member is None:
        return _pending_id_timed_out(group, key, now_ms)
    if now_ms < member.session_deadline_ms:
        member.timer_ms = member.session_deadline_ms
        return Result(timers=[Schedule(key, member.session_deadline_ms)])
    member.timer_ms = NEVER
    parked = member.join_reply_to is not None or member.sync_reply_to is not None
    if parked and not member.is_new:
        # It waits for us, not we for it. Whatever ends its wait gives it a new deadline.
        return NOTHING
    result = Result()
    # A newcomer that is still there shall ask anew.
    answer_join(group, member, join_error(ErrorCode.UNKNOWN_MEMBER_ID), result)
    remove_member(group, member_id, Cause.JOIN_EXPIRED if member.is_new else Cause.SESSION_EXPIRED, result)
    if group.state is PREPARING_REBALANCE:
        _complete_if_all_joined(group, now_ms, result)
    else:
        trigger = Trigger(Why.SESSION_EXPIRED, f"session of member {member_id} expired", member_id)
        prepare_rebalance(group, trigger, now_ms, result)
    return result


def _pending_id_timed_out(group: Group, key: TimerKey, now_ms: int) -> Result:
    deadline_ms = group.pending_members.get(key.member_id)
    if deadline_ms is None:
        return NOTHING
    if now_ms < deadline_ms:
        return Result(timers=[Schedule(key, deadline_ms)])
    result = Result()
    remove_member(group, key.member_id, Cause.ID_NOT_USED, result)
    _complete_if_all_joined(group, now_ms, result)
    return result


def _complete_if_all_joined(group: Group, now_ms: int, result: Result) -> None:
    """An expiry, unlike a join or a leave, may also cut the delay of the first rebalance short; so it is in Kafka."""
    if group.state is PREPARING_REBALANCE and group.has_all_members_joined():
        complete_join(group, now_ms, result)


HANDLERS: dict[type[Any], Callable[[Group, Any, int], Result]] = {
    HeartbeatRequest: heartbeat,
    OffsetDeleteRequest: delete_offsets,
    events.Join: join,
    events.Sync: sync,
    events.Leave: leave,
    events.Commit: commit,
    events.TxnCommit: commit_transactional,
    events.EndTransaction: end_transaction,
    events.TimedOut: timed_out,
    events.Delete: delete,
    events.Expire: expire,
    events.TopicDeleted: topic_deleted,
    events.Unload: unload,
}
