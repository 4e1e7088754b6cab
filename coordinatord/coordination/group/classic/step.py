"""The classic group protocol: members join, the leader assigns, members sync, send heartbeats and leave.

`step(group, event, now_ms)` is the entry point for every decision. It dispatches on the event's type, changes the
group, and returns in its `Result` the records to log, the responses to send and the timers to set. A step is
synchronous and uses no clock, no randomness and no I/O: `now_ms` (milliseconds since the Unix epoch, never decreasing)
is passed in, ids come from `group.new_id`. A step has already applied the records that it returns; none of its
responses may be sent before those records are durable.

      Empty ──join──▶ PreparingRebalance ──all rejoined, or timeout──▶ CompletingRebalance ──leader syncs──▶ Stable
        ▲                │  ▲     ▲                                          │                               │
        └── no members ──┘  │     └─ a member joins, leaves, expires, changes ┘                              │
                            └──────────────── a member joins, leaves, expires, changes ──────────────────────┘

states.py has the table of states, joining.py the effect of a rejoin in each of them. `step` may be called with a group
that does not exist yet: a group *exists* once a join or an offset has created it. When `group.exists` is False after a
step, the shell drops the group.

Nearly all requests are heartbeats. A heartbeat moves `member.session_deadline_ms` and returns a constant. A
session timer that fires before that deadline is set again. As long as `group.version` does not change, a heartbeat can
be repeated without a step (`Member.keep_alive`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from coordinatord.coordination.group import events
from coordinatord.coordination.group.classic.interned_metadata import interned
from coordinatord.coordination.group.classic.joining import join
from coordinatord.coordination.group.classic.leaving import leave
from coordinatord.coordination.group.classic.members import (
    add_member,
    answer_join,
    answer_sync,
    join_error,
    keep_alive,
    refusal,
    remove_member,
)
from coordinatord.coordination.group.classic.rebalance import (
    complete_join,
    join_timed_out,
    prepare_rebalance,
    sync_timed_out,
)
from coordinatord.coordination.group.classic.subscription import subscribed_topics
from coordinatord.coordination.group.classic.syncing import sync
from coordinatord.coordination.group.consumer.step import consumer_step
from coordinatord.coordination.group.consumer.timeouts import restore as restore_consumer
from coordinatord.coordination.group.offsets.committed import commit, delete, delete_offsets, expire, topic_deleted
from coordinatord.coordination.group.offsets.transactional import commit_transactional, end_transaction
from coordinatord.coordination.group.replay import drop_logged_members
from coordinatord.coordination.group.result import (
    JOIN,
    NOTHING,
    SESSION,
    SYNC,
    Dropped,
    Result,
    Schedule,
    TimerKey,
    Trigger,
)
from coordinatord.coordination.group.share.step_on_demand import restore_share, share_event
from coordinatord.coordination.group.state import HEARTBEAT_RESULTS, NEVER, Group, Member, heartbeat_error
from coordinatord.coordination.group.states import DEAD, PREPARING_REBALANCE, STABLE, Cause, Why
from coordinatord.coordination.group.terminate import terminate
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
    """Handle one event: one of events.py, a HeartbeatRequest or an OffsetDeleteRequest."""
    if group.consumer is not None:
        return consumer_step(group, event, now_ms)
    if group.share is not None:
        return share_event(group, event, now_ms)
    return HANDLERS.get(type(event), share_event)(group, event, now_ms)


def heartbeat(group: Group, request: HeartbeatRequest, now_ms: int) -> Result:
    """Extend the member's session. Returns a constant, unless the new deadline is before the member's timer."""
    member = group.members.get(request.member_id)
    if member is None or request.group_instance_id is not None:
        error = _heartbeat_refusal(group, request)
        if error is not None:
            return HEARTBEAT_REFUSALS[error]
        assert member is not None
    if request.generation_id != group.generation_id:
        return HEARTBEAT_ILLEGAL_GENERATION
    member.keep_alive(now_ms)
    if now_ms + member.session_timeout_ms < member.timer_ms:
        result = Result(reply=group.heartbeat_result.reply)
        keep_alive(group, member, member.session_timeout_ms, now_ms, result)
        return result
    return group.heartbeat_result


def timed_out(group: Group, event: events.TimedOut, now_ms: int) -> Result:
    """Handle a timer, which may be early or may belong to something that no longer exists."""
    key = event.key
    if key.kind == SESSION:
        return _session_timed_out(group, key, now_ms)
    if key.kind not in (JOIN, SYNC) or key.member_id:
        return NOTHING  # a timer of the other protocol: the group was converted
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


def rebalance(group: Group, event: events.Rebalance, now_ms: int) -> Result:
    """Request all members to rejoin. A group without members, or one that is rebalancing already, stays unchanged."""
    if not group.members or group.state is PREPARING_REBALANCE:
        return NOTHING
    result = Result()
    prepare_rebalance(group, Trigger(Why.FORCED, f"forced: {event.reason}", "", event.reason), now_ms, result)
    return result


def unload(group: Group, event: events.Unload, now_ms: int) -> Result:
    """Respond to all parked requests and stop serving the group. The group stays in the log."""
    if group.state is DEAD:
        return NOTHING
    result = Result()
    for member in group.members.values():
        answer_join(group, member, join_error(event.error, member.member_id), result)
        answer_sync(member, SyncGroupResponse(error_code=event.error), result)
    terminate(group, "no longer served here", now_ms, result)
    return result


def restore(group: Group, now_ms: int) -> Result:
    """Rebuild the volatile state from the durable state that a load has replayed. Sessions start anew.

    The log holds each member's metadata for the selected protocol only: a member that rejoins with more has changed.
    """
    if group.consumer is not None or group.share is not None:
        return _restore_modern(group, now_ms)
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
            # Neither coordinatord nor Kafka logs this, but another program may. The member must join again.
            result.changes.append(Dropped(logged.member_id, logged.group_instance_id, Cause.NOT_LOADED))
            continue
        timeout_ms = logged.session_timeout if logged.rebalance_timeout == -1 else logged.rebalance_timeout
        protocols, rebalance_timeout_ms, session_timeout_ms = interned(
            ((metadata.protocol or "", logged.subscription),), timeout_ms, logged.session_timeout
        )
        member = Member(
            logged.member_id,
            logged.group_instance_id,
            logged.client_id,
            logged.client_host,
            rebalance_timeout_ms,
            session_timeout_ms,
            protocols,
            logged.assignment,
        )
        add_member(group, member, metadata.protocol_type)
        keep_alive(group, member, member.session_timeout_ms, now_ms, result)
    if group.members:
        if group.leader_id not in group.members:
            group.leader_id = next(iter(group.members))
        group.state = STABLE  # not a transition: the group was Stable before the restart
        group.heartbeat_result = HEARTBEAT_RESULTS[STABLE]
    drop_logged_members(group)
    group.subscribed_topics = subscribed_topics(group)
    if len(group.members) > group.settings.max_size:
        text = f"loaded with more than {group.settings.max_size} members"
        prepare_rebalance(group, Trigger(Why.TOO_MANY_MEMBERS, text), now_ms, result)
    return result


def _restore_modern(group: Group, now_ms: int) -> Result:
    group.current_state_timestamp_ms = now_ms
    if group.surroundings is None:
        return NOTHING
    if group.consumer is not None:
        return restore_consumer(group, group.consumer, group.surroundings, now_ms)
    return restore_share(group, now_ms)


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
    if min(now_ms, member.timer_ms) < member.session_deadline_ms:
        # The member has sent a request since the timer was set. Its new deadline may have passed, too. The shell has
        # read the sockets only up to the old deadline, so the timer is set again: it fires after the next read.
        member.timer_ms = deadline_ms = member.session_deadline_ms
        return Result(timers=[Schedule(key, deadline_ms)])
    member.timer_ms = NEVER
    parked = member.join_reply_to is not None or member.sync_reply_to is not None
    if parked and not member.is_new:
        # The member's request is parked. The response to it sets a new deadline, unless the response is the error of a
        # failed upgrade to the consumer protocol: then, as in Kafka, a member that has gone stays until the rebalance
        # ends without it.
        return NOTHING
    result = Result()
    # A new member whose client still waits must start over.
    answer_join(group, member, join_error(ErrorCode.UNKNOWN_MEMBER_ID), result)
    remove_member(group, member_id, Cause.JOIN_EXPIRED if member.is_new else Cause.SESSION_EXPIRED, result)
    if group.state is PREPARING_REBALANCE:
        _complete_if_all_joined(group, now_ms, result)
    else:
        trigger = Trigger(Why.SESSION_EXPIRED, f"session of member {member_id} expired", member_id)
        prepare_rebalance(group, trigger, now_ms, result)
    return result


def _pending_id_timed_out(group: Group, key: TimerKey, now_ms: int) -> Result:
    timer = group.pending_members.get(key.member_id)
    if timer is None:
        return NOTHING
    if now_ms < timer.deadline_ms:
        return Result(timers=[timer])
    result = Result()
    remove_member(group, key.member_id, Cause.ID_NOT_USED, result)
    _complete_if_all_joined(group, now_ms, result)
    return result


def _complete_if_all_joined(group: Group, now_ms: int, result: Result) -> None:
    """Complete the rebalance if no member is missing. Like Kafka, an expiry ends the initial rebalance delay early; a
    join or a leave does not.
    """
    if group.state is PREPARING_REBALANCE and group.has_all_members_joined():
        complete_join(group, now_ms, result)


HANDLERS: dict[type[Any], Callable[[Group, Any, int], Result]] = {
    HeartbeatRequest: heartbeat,
    OffsetDeleteRequest: delete_offsets,
    events.ConsumerHeartbeat: consumer_step,
    events.Join: join,
    events.Sync: sync,
    events.Leave: leave,
    events.Commit: commit,
    events.TxnCommit: commit_transactional,
    events.EndTransaction: end_transaction,
    events.TimedOut: timed_out,
    events.Rebalance: rebalance,
    events.Delete: delete,
    events.Expire: expire,
    events.TopicDeleted: topic_deleted,
    events.Unload: unload,
}
