"""Addition, update, replacement and removal of members: every change of `group.members` and of the counts based on it.

Session timers: `member.session_deadline_ms` is authoritative, and a heartbeat changes only this deadline. The member's
timer fires at `member.timer_ms`, never later than the deadline; if it fires early, it is set again. A member with a
parked request cannot expire, unless it `is_new`; its timer then stays unset until the deadline changes.
"""

from __future__ import annotations

from typing import Any

from coordinatord.coordination.group.classic.interned_metadata import Protocols
from coordinatord.coordination.group.result import SESSION, Cancel, Dropped, Result, Schedule, TimerKey
from coordinatord.coordination.group.state import NEVER, Group, Member
from kafka_wire.api.join_group import JoinGroupResponse
from kafka_wire.api.sync_group import SyncGroupResponse
from kafka_wire.codecs import constructor
from kafka_wire.errors import ErrorCode

_joined = constructor(JoinGroupResponse)


def join_error(error: ErrorCode, member_id: str = "") -> JoinGroupResponse:
    """Return the response to a failed JoinGroup, with a null protocol name (`for_version`: empty before v7)."""
    return _joined(0, error, -1, None, None, "", False, member_id, [])  # for every new member (MEMBER_ID_REQUIRED)


def refusal(group: Group, member_id: str, group_instance_id: str | None) -> ErrorCode | None:
    """Return the error if the member is unknown, or fenced by a newer member with its instance id; else None."""
    if group_instance_id is not None:
        owner = group.static_members.get(group_instance_id)
        if owner is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if owner != member_id:
            return ErrorCode.FENCED_INSTANCE_ID
    return None if member_id in group.members else ErrorCode.UNKNOWN_MEMBER_ID


def add_member(group: Group, member: Member, protocol_type: str) -> None:
    """Add a member; its join is already parked if it has one. The first member sets the group's protocol type."""
    if not group.members:
        group.protocol_type = protocol_type
    group.version += 1
    if member.group_instance_id is not None:
        assert member.group_instance_id not in group.static_members
        group.static_members[member.group_instance_id] = member.member_id
    if group.leader_id is None:
        group.leader_id = member.member_id
    group.members[member.member_id] = member
    _count_protocols(group, member, 1)
    if member.join_reply_to is not None:
        group.awaiting_join_count += 1
    if group.pending_members.pop(member.member_id, None) is not None and not group.pending_members:
        group.pending_members.clear()  # an empty dict keeps its allocated table


def remove_member(group: Group, member_id: str, cause: str, result: Result) -> None:
    """Remove a member or a pending id from the group. The member's parked sync never gets a response.

    The oldest member succeeds a leader. Without such a member the function does nothing.
    """
    member = group.members.pop(member_id, None)
    if member is not None:
        group.version += 1
        _count_protocols(group, member, -1)
        assert member.join_reply_to is None, "a parked join is answered before its member goes"
        if member.sync_reply_to is not None:
            result.dropped.append(member.sync_reply_to)
        if member.group_instance_id is not None:
            group.static_members.pop(member.group_instance_id, None)
        if member.timer_ms != NEVER:
            result.timers.append(Cancel(TimerKey(group.group_id, SESSION, member_id)))
        result.changes.append(Dropped(member_id, member.group_instance_id, cause))
    elif group.pending_members.pop(member_id, None) is not None:
        result.timers.append(Cancel(TimerKey(group.group_id, SESSION, member_id)))
        result.changes.append(Dropped(member_id, None, cause))
    if group.leader_id == member_id:
        group.leader_id = next(iter(group.members), None)
    group.pending_sync_members.pop(member_id, None)


def update_member(
    group: Group,
    member: Member,
    protocols: Protocols,
    rebalance_timeout_ms: int,
    session_timeout_ms: int,
    join_reply_to: Any,
    result: Result,
) -> None:
    """Store a rejoining member's metadata, and park its join. A join that was parked earlier never gets a response."""
    if member.protocols != protocols:
        _count_protocols(group, member, -1)
        member.protocols = protocols
        _count_protocols(group, member, 1)
    member.rebalance_timeout_ms = rebalance_timeout_ms
    member.session_timeout_ms = session_timeout_ms
    if member.join_reply_to is None:
        group.awaiting_join_count += 1
    else:
        result.dropped.append(member.join_reply_to)
    member.join_reply_to = join_reply_to


def replace_static_member(group: Group, old_id: str, new_id: str, cause: str, result: Result) -> Member:
    """Replace a restarted static member by a new member. The parked requests of the old one get FENCED_INSTANCE_ID.

    The new member inherits all state of the old one, including client id and host. As in Kafka, the group still waits
    for `old_id` to sync: a restart between the leader's sync and the member's own ends in a rebalance after that wait.
    """
    old = group.members[old_id]
    answer_join(group, old, join_error(ErrorCode.FENCED_INSTANCE_ID, old_id), result)
    answer_sync(old, SyncGroupResponse(error_code=ErrorCode.FENCED_INSTANCE_ID), result)
    del group.members[old_id]
    group.version += 1
    if old.timer_ms != NEVER:
        result.timers.append(Cancel(TimerKey(group.group_id, SESSION, old_id)))
    result.changes.append(Dropped(old_id, old.group_instance_id, cause))
    new = Member(
        new_id,
        old.group_instance_id,
        old.client_id,
        old.client_host,
        old.rebalance_timeout_ms,
        old.session_timeout_ms,
        old.protocols,
        old.assignment,
    )
    group.members[new_id] = new
    assert new.group_instance_id is not None
    group.static_members[new.group_instance_id] = new_id
    if group.leader_id == old_id:
        group.leader_id = new_id
    return new


def keep_alive(group: Group, member: Member, timeout_ms: int, now_ms: int, result: Result) -> None:
    """Extend the member's session to `now_ms + timeout_ms`. Its timer is moved forward if it would fire too late."""
    member.heard_ms, member.patience_ms = now_ms, timeout_ms
    deadline_ms = now_ms + timeout_ms
    if deadline_ms < member.timer_ms:
        member.timer_ms = deadline_ms
        result.timers.append(Schedule(TimerKey(group.group_id, SESSION, member.member_id), deadline_ms))


def answer_join(group: Group, member: Member, response: JoinGroupResponse, result: Result) -> None:
    """Respond to the member's parked join, if there is one."""
    if member.join_reply_to is not None:
        result.answer(member.join_reply_to, response)
        member.join_reply_to = None
        group.awaiting_join_count -= 1


def answer_sync(member: Member, response: SyncGroupResponse, result: Result) -> bool:
    """Respond to the member's parked sync; return False if there is none."""
    if member.sync_reply_to is None:
        return False
    result.answer(member.sync_reply_to, response)
    member.sync_reply_to = None
    return True


def _count_protocols(group: Group, member: Member, change: int) -> None:
    counts = group.supported_protocols
    for name, _ in member.protocols:
        count = counts.get(name, 0) + change
        if count:
            counts[name] = count
        else:
            del counts[name]  # members choose the names: remove those without members
