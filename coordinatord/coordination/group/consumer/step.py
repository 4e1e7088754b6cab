"""The entry point for all events of a consumer group; classic/step.py calls it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from coordinatord.coordination.group import events
from coordinatord.coordination.group.classic.joining import join
from coordinatord.coordination.group.classic.members import join_error
from coordinatord.coordination.group.consumer import classic_members
from coordinatord.coordination.group.consumer.epoch_record import follow
from coordinatord.coordination.group.consumer.group_epoch import raise_epoch
from coordinatord.coordination.group.consumer.heartbeat import heartbeat
from coordinatord.coordination.group.consumer.records import group_tombstones
from coordinatord.coordination.group.consumer.sessions import stop_assigning
from coordinatord.coordination.group.consumer.state import ConsumerState
from coordinatord.coordination.group.consumer.timeouts import timed_out
from coordinatord.coordination.group.offsets.committed import commit, delete, delete_offsets, expire, topic_deleted
from coordinatord.coordination.group.offsets.transactional import commit_transactional, end_transaction
from coordinatord.coordination.group.replay import write
from coordinatord.coordination.group.result import NOTHING, Result, Transition, Trigger
from coordinatord.coordination.group.share.step_on_demand import share_event
from coordinatord.coordination.group.state import Group
from coordinatord.coordination.group.states import Why
from coordinatord.coordination.group.terminate import terminate
from kafka_wire.api.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafka_wire.api.leave_group import LeaveGroupResponse
from kafka_wire.api.offset_delete import OffsetDeleteRequest
from kafka_wire.api.sync_group import SyncGroupResponse
from kafka_wire.errors import ErrorCode


def consumer_step(group: Group, event: Any, now_ms: int) -> Result:
    """Handle one event of a group that is a consumer group, or becomes one by a ConsumerHeartbeat."""
    consumer = group.consumer
    before = ConsumerState.EMPTY if consumer is None else consumer.state
    result = HANDLERS.get(type(event), share_event)(group, event, now_ms)
    after = group.consumer
    if after is consumer and not result.records:
        return result  # nearly always: a state is durable, so without records it is unchanged
    state = None if after is None else after.state
    follow(consumer, after, state, now_ms, result)
    if after is not None and state is not None and state is not before:
        group.current_state_timestamp_ms = now_ms
        reason = result.trigger.text if result.trigger is not None else ""
        result.transitions.append(Transition(group.group_id, before, state, after.epoch, reason))
    return result


def _timed_out(group: Group, event: events.TimedOut, now_ms: int) -> Result:
    consumer, surroundings = group.consumer, group.surroundings
    assert consumer is not None
    if surroundings is None:
        return NOTHING
    return timed_out(group, consumer, surroundings, event.key, now_ms)


def _rebalance(group: Group, event: events.Rebalance, now_ms: int) -> Result:
    """Raise the epoch, so that the partitions are assigned anew."""
    consumer, surroundings = group.consumer, group.surroundings
    if consumer is None or surroundings is None or not consumer.members:
        return NOTHING
    result = Result()
    trigger = Trigger(Why.FORCED, f"forced: {event.reason}", "", event.reason)
    raise_epoch(group, consumer, consumer.hash_of(surroundings.topics), trigger, now_ms, result)
    return result


def _unload(group: Group, event: events.Unload, now_ms: int) -> Result:
    result = Result()
    if group.consumer is not None:
        stop_assigning(group.group_id, group.consumer, event.error, result)
    terminate(group, "no longer served here", now_ms, result)
    return result


def _join(group: Group, event: events.Join, now_ms: int) -> Result:
    """Handle a JoinGroup. A group without members becomes a classic group; one with members accepts classic members."""
    consumer, surroundings = group.consumer, group.surroundings
    assert consumer is not None
    settings, session_ms = group.settings, event.request.session_timeout_ms
    if not settings.min_session_timeout_ms <= session_ms <= settings.max_session_timeout_ms:
        return Result(reply=join_error(ErrorCode.INVALID_SESSION_TIMEOUT, event.request.member_id))
    if consumer.members:
        if surroundings is None:
            return Result(reply=join_error(ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
        return classic_members.join(group, consumer, surroundings, event, now_ms)
    if event.request.member_id:
        return Result(reply=join_error(ErrorCode.UNKNOWN_MEMBER_ID, event.request.member_id))
    before = Result()
    for record in group_tombstones(group.group_id, (), list(consumer.resolved)):
        write(group, *record, before)
    result = join(group, event, now_ms)
    result.records[:0] = before.records
    return result


def _sync(group: Group, event: events.Sync, now_ms: int) -> Result:
    consumer, surroundings = group.consumer, group.surroundings
    if consumer is None or surroundings is None:
        return Result(reply=SyncGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
    return classic_members.sync(group, consumer, surroundings, event, now_ms)


def _heartbeat(group: Group, event: HeartbeatRequest, now_ms: int) -> Result:
    consumer, surroundings = group.consumer, group.surroundings
    if consumer is None or surroundings is None:
        return Result(reply=HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
    return classic_members.heartbeat(group, consumer, surroundings, event, now_ms)


def _leave(group: Group, event: events.Leave, now_ms: int) -> Result:
    consumer, surroundings = group.consumer, group.surroundings
    if consumer is None or surroundings is None:
        return Result(reply=LeaveGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
    return classic_members.leave(group, consumer, surroundings, event, now_ms)


HANDLERS: dict[type[Any], Callable[[Group, Any, int], Result]] = {
    HeartbeatRequest: _heartbeat,
    OffsetDeleteRequest: delete_offsets,
    events.ConsumerHeartbeat: heartbeat,
    events.Join: _join,
    events.Sync: _sync,
    events.Leave: _leave,
    events.Commit: commit,
    events.TxnCommit: commit_transactional,
    events.EndTransaction: end_transaction,
    events.TimedOut: _timed_out,
    events.Rebalance: _rebalance,
    events.Delete: delete,
    events.Expire: expire,
    events.TopicDeleted: topic_deleted,
    events.Unload: _unload,
}
