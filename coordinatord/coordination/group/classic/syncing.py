"""SyncGroup: the leader sends the assignment, and each member gets its part.

Syncs of followers that arrive before the leader's are parked. The leader's request is logged, completes all parked
syncs, and makes the group Stable. A later sync gets its response at once. A member that has not synced within the
rebalance timeout after the generation began is removed (`rebalance.sync_timed_out`).
"""

from __future__ import annotations

from coordinatord.coordination.group.classic.members import answer_sync, keep_alive, refusal
from coordinatord.coordination.group.classic.rebalance import cancel_sync_timer, write_metadata
from coordinatord.coordination.group.events import Sync
from coordinatord.coordination.group.result import Result
from coordinatord.coordination.group.state import Group, Member
from coordinatord.coordination.group.states import COMPLETING_REBALANCE, DEAD, PREPARING_REBALANCE, STABLE
from kafka_wire.api.sync_group import SyncGroupRequest, SyncGroupResponse
from kafka_wire.codecs import constructor
from kafka_wire.errors import ErrorCode

_synced = constructor(SyncGroupResponse)


def sync(group: Group, event: Sync, now_ms: int) -> Result:
    """Respond to a SyncGroup, or park it."""
    request = event.request
    error = _refusal(group, event)
    if error is not None:
        return Result(reply=SyncGroupResponse(error_code=error))
    result = Result(asked_by=event.reply_to)
    member = group.members[request.member_id]
    group.pending_sync_members.pop(request.member_id, None)
    if not group.pending_sync_members:
        group.pending_sync_members.clear()  # an empty dict keeps its allocated table
        cancel_sync_timer(group, result)
    if group.state is STABLE:
        result.reply = _assignment_response(group, member)
        return result
    if member.sync_reply_to is not None:
        result.dropped.append(member.sync_reply_to)
    member.sync_reply_to = event.reply_to
    if request.member_id == group.leader_id:
        _assign(group, request, now_ms, result)
    return result


def _assign(group: Group, request: SyncGroupRequest, now_ms: int, result: Result) -> None:
    """Log and distribute the leader's assignment. Members that it omits get nothing; unknown ids in it are ignored."""
    by_id = {one.member_id: one.assignment for one in request.assignments}
    for member in group.members.values():
        member.assignment = by_id.get(member.member_id, b"")
    write_metadata(group, result)
    group.transition_to(STABLE, f"assignment from leader {group.leader_id}", now_ms, result)
    for member in group.members.values():
        if member.sync_reply_to is not None:
            answer_sync(member, _assignment_response(group, member), result)
            # The session may have expired while the sync was parked.
            keep_alive(group, member, member.session_timeout_ms, now_ms, result)


def _assignment_response(group: Group, member: Member) -> SyncGroupResponse:
    return _synced(0, ErrorCode.NONE, group.protocol_type, group.protocol_name, member.assignment)


def _refusal(group: Group, event: Sync) -> ErrorCode | None:
    request = event.request
    if event.require_protocol and (request.protocol_type is None or request.protocol_name is None):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if not group.group_id:
        return ErrorCode.INVALID_GROUP_ID
    if group.state is DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if request.group_instance_id is not None or request.member_id not in group.members:
        error = refusal(group, request.member_id, request.group_instance_id)
        if error is not None:
            return error
    if request.generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    asked, is_so = (request.protocol_type, request.protocol_name), (group.protocol_type, group.protocol_name)
    if asked != is_so and any(map(_differs, asked, is_so)):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if group.state is PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    assert group.state in (COMPLETING_REBALANCE, STABLE)
    return None


def _differs(of_request: str | None, of_group: str | None) -> bool:
    return of_request is not None and of_group is not None and of_request != of_group
