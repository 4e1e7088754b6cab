"""The entry point for all events of a share group; classic/step.py calls it.

Requests of other protocols get Kafka's errors: a share group is never converted into another type, nor another into
it, and it has no committed offsets.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from coordinatord.coordination.group import events
from coordinatord.coordination.group.classic.leaving import leave
from coordinatord.coordination.group.classic.members import join_error
from coordinatord.coordination.group.consumer.sessions import ASSIGNMENT, forget, keep_alive
from coordinatord.coordination.group.consumer.state import GroupEnvironment
from coordinatord.coordination.group.consumer.timeouts import session_due
from coordinatord.coordination.group.offsets.committed import deletion_refusal
from coordinatord.coordination.group.replay import write
from coordinatord.coordination.group.result import (
    NOTHING,
    SESSION,
    Cancel,
    Result,
    Schedule,
    TimerKey,
    Transition,
    Trigger,
)
from coordinatord.coordination.group.share.assigning import go_on
from coordinatord.coordination.group.share.heartbeat import heartbeat, raise_epoch, remove
from coordinatord.coordination.group.share.offsets import alter, delete_offsets, delete_state, offsets_deleted
from coordinatord.coordination.group.share.partitions import state_created, topic_deleted
from coordinatord.coordination.group.share.records import group_tombstones
from coordinatord.coordination.group.share.state import ShareGroup, limits_of
from coordinatord.coordination.group.state import Group
from coordinatord.coordination.group.states import Cause, ShareState, Why
from coordinatord.coordination.group.terminate import terminate
from kafka_wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from kafka_wire.api.delete_groups import DeletableGroupResult
from kafka_wire.api.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafka_wire.api.offset_commit import error_response as commit_error
from kafka_wire.api.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from kafka_wire.api.sync_group import SyncGroupResponse
from kafka_wire.api.txn_offset_commit import error_response as txn_commit_error
from kafka_wire.errors import ErrorCode

UNKNOWN_MEMBER = ErrorCode.UNKNOWN_MEMBER_ID
NOT_FOUND = ErrorCode.GROUP_ID_NOT_FOUND


def share_step(group: Group, event: Any, now_ms: int) -> Result:
    """Handle one event of a group that is a share group, or becomes one."""
    before = ShareState.EMPTY if group.share is None else group.share.state
    result = HANDLERS[type(event)](group, event, now_ms)
    share = group.share
    if share is not None and share.state is not before:
        group.current_state_timestamp_ms = now_ms
        reason = result.trigger.text if result.trigger is not None else ""
        result.transitions.append(Transition(group.group_id, before, share.state, share.epoch, reason))
    return result


def restore(group: Group, share: ShareGroup, surroundings: GroupEnvironment, now_ms: int) -> Result:
    """Start sessions anew when a group has been loaded."""
    result = Result()
    share.partitions_ms = now_ms
    if surroundings.share is None:
        return result
    timeout_ms = limits_of(surroundings).session_timeout_ms(group.group_id)
    for member_id in share.members:
        keep_alive(group.group_id, share, member_id, timeout_ms, now_ms, result)
    return result


def _timed_out(group: Group, event: events.TimedOut, now_ms: int) -> Result:
    share, surroundings, key = group.share, group.surroundings, event.key
    if share is None or surroundings is None:
        return NOTHING
    if key.kind == ASSIGNMENT:
        return go_on(group, share, now_ms)
    session = share.sessions.get(key.member_id)
    if key.kind != SESSION or session is None:
        return NOTHING
    due = session_due(session, now_ms)
    if due:
        return Result(timers=[Schedule(key, due)])
    result = Result()
    remove(group, share, surroundings, key.member_id, Cause.SESSION_EXPIRED, now_ms, result)
    return result


def _rebalance(group: Group, event: events.Rebalance, now_ms: int) -> Result:
    """Raise the epoch, so that the partitions are assigned anew."""
    share, surroundings = group.share, group.surroundings
    if share is None or surroundings is None or not share.members:
        return NOTHING
    result = Result()
    trigger = Trigger(Why.FORCED, f"forced: {event.reason}", "", event.reason)
    raise_epoch(group, share, share.hash_of(surroundings.topics), trigger, result)
    return result


def _delete(group: Group, event: events.Delete, now_ms: int) -> Result:
    """Handle the second step of a DeleteGroups: the share coordinator has deleted its state."""
    error = deletion_refusal(group)
    if error is not None:
        return Result(reply=DeletableGroupResult(group.group_id, error))
    result = Result(reply=DeletableGroupResult(group.group_id))
    for record in group_tombstones(group.group_id):
        write(group, *record, result)
    _end(group, "deleted", now_ms, result)
    return result


def _unload(group: Group, event: events.Unload, now_ms: int) -> Result:
    result = Result()
    _end(group, "no longer served here", now_ms, result)
    return result


def _end(group: Group, reason: str, now_ms: int, result: Result) -> None:
    share = group.share
    if share is not None:
        for member_id in list(share.sessions):
            forget(group.group_id, share, member_id, result)
        if share.assigning is not None:
            result.timers.append(Cancel(TimerKey(group.group_id, ASSIGNMENT)))
        group.share = None
    terminate(group, reason, now_ms, result)


def _consumer_heartbeat(group: Group, event: events.ConsumerHeartbeat, now_ms: int) -> Result:
    text = f"Group {group.group_id} is not a consumer group."
    return Result(reply=ConsumerGroupHeartbeatResponse(error_code=NOT_FOUND, error_message=text))


def _answer(reply: Callable[[Any], Any]) -> Callable[[Group, Any, int], Result]:
    return lambda group, event, now_ms: Result(reply=reply(event))


HANDLERS: dict[type[Any], Callable[[Group, Any, int], Result]] = {
    events.ShareHeartbeat: heartbeat,
    events.ShareStateCreated: state_created,
    events.AlterShareOffsets: alter,
    events.DeleteShareOffsets: delete_offsets,
    events.ShareOffsetsDeleted: offsets_deleted,
    events.DeleteShareState: delete_state,
    events.TimedOut: _timed_out,
    events.Rebalance: _rebalance,
    events.Delete: _delete,
    events.TopicDeleted: topic_deleted,
    events.Unload: _unload,
    events.ConsumerHeartbeat: _consumer_heartbeat,
    events.Join: _answer(lambda event: join_error(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)),
    events.Sync: _answer(lambda event: SyncGroupResponse(error_code=UNKNOWN_MEMBER)),
    events.Leave: leave,  # of no classic member
    events.Commit: _answer(lambda event: commit_error(event.request, 0, NOT_FOUND)),
    events.TxnCommit: _answer(lambda event: txn_commit_error(event.request, 0, NOT_FOUND)),
    events.EndTransaction: lambda group, event, now_ms: NOTHING,
    events.Expire: lambda group, event, now_ms: NOTHING,
    HeartbeatRequest: _answer(lambda event: HeartbeatResponse(error_code=UNKNOWN_MEMBER)),
    OffsetDeleteRequest: _answer(lambda event: OffsetDeleteResponse(error_code=NOT_FOUND)),
}
