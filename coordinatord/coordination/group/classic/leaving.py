"""LeaveGroup: members leave by member id or, if an operator sends the request, by instance id (KIP-345)."""

from __future__ import annotations

from coordinatord.coordination.group.classic.members import answer_join, join_error, refusal, remove_member
from coordinatord.coordination.group.classic.rebalance import maybe_complete_join, prepare_rebalance
from coordinatord.coordination.group.events import Leave
from coordinatord.coordination.group.result import MAX_REASON, NO_REASON, Result, Trigger
from coordinatord.coordination.group.state import Group
from coordinatord.coordination.group.states import COMPLETING_REBALANCE, DEAD, PREPARING_REBALANCE, STABLE, Cause, Why
from kafka_wire.api.leave_group import LeaveGroupResponse, MemberIdentity, MemberResponse
from kafka_wire.errors import ErrorCode


def leave(group: Group, event: Leave, now_ms: int) -> Result:
    """Remove the members of the request, with a separate error code for each and one rebalance for all."""
    if not group.group_id:
        return Result(reply=LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID))
    if group.state is DEAD:
        return Result(reply=LeaveGroupResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE))
    result = Result()
    responses: list[MemberResponse] = []
    gone: list[Trigger] = []
    for identity in event.members:
        error = _leave_one(group, identity, result)
        if error is None:
            who = identity.member_id or identity.group_instance_id
            reason = (identity.reason or NO_REASON)[:MAX_REASON]
            gone.append(Trigger(Why.MEMBER_LEFT, f"{who} left; client reason: {reason}", who or "", reason))
        responses.append(
            MemberResponse(identity.member_id, identity.group_instance_id, ErrorCode.NONE if error is None else error)
        )
    if event.single:
        result.reply = LeaveGroupResponse(error_code=responses[0].error_code)
    else:
        result.reply = LeaveGroupResponse(members=responses)
    if gone:
        if group.state is STABLE or group.state is COMPLETING_REBALANCE:
            # Like Kafka, rebalance also if only a pending id has left.
            trigger = gone[0] if len(gone) == 1 else Trigger(Why.MEMBER_LEFT, "; ".join(each.text for each in gone))
            prepare_rebalance(group, trigger, now_ms, result)
        elif group.state is PREPARING_REBALANCE:
            maybe_complete_join(group, now_ms, result)
    return result


def _leave_one(group: Group, identity: MemberIdentity, result: Result) -> ErrorCode | None:
    member_id = identity.member_id
    if not member_id:
        owner = None if identity.group_instance_id is None else group.static_members.get(identity.group_instance_id)
        if owner is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        member_id = owner
    elif member_id not in group.pending_members:
        error = refusal(group, member_id, identity.group_instance_id)
        if error is not None:
            return error
    member = group.members.get(member_id)
    if member is not None:
        # If a join of the member is parked on another connection, its client must start over.
        answer_join(group, member, join_error(ErrorCode.UNKNOWN_MEMBER_ID), result)
    remove_member(group, member_id, Cause.LEFT, result)
    return None
