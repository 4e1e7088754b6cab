"""Rebalances, from the trigger to the next generation.

`prepare_rebalance` requests all members to rejoin. `complete_join` begins the next generation with those that did; the
last join, the rebalance timer, a leave or an expiry calls it. The first rebalance out of Empty waits
`initial_rebalance_delay_ms` for more members, and again while new ones join, up to the rebalance timeout.
"""

from __future__ import annotations

from coordinatord.coordination.group.classic.members import answer_sync, keep_alive, remove_member
from coordinatord.coordination.group.classic.protocol_selection import select_protocol
from coordinatord.coordination.group.classic.subscription import subscribed_topics
from coordinatord.coordination.group.replay import drop_logged_members, write
from coordinatord.coordination.group.result import JOIN, SYNC, Cancel, Result, Schedule, TimerKey, Trigger
from coordinatord.coordination.group.state import NEVER, Group, Member
from coordinatord.coordination.group.states import COMPLETING_REBALANCE, EMPTY, PREPARING_REBALANCE, Cause, Why
from kafka_wire.api.join_group import JoinGroupResponse, JoinGroupResponseMember
from kafka_wire.api.sync_group import SyncGroupResponse
from kafka_wire.codecs import constructor
from kafka_wire.errors import ErrorCode
from kafka_wire.records.offsets import GroupMetadataKey, GroupMetadataValue, MemberMetadata

_joined = constructor(JoinGroupResponse)
_member_joined = constructor(JoinGroupResponseMember)
_member_logged = constructor(MemberMetadata)
_group_logged = constructor(GroupMetadataValue)

LOOK_AGAIN_MS = 1_000
"""Minimum milliseconds between two checks of a rebalance that no member has joined.
With a timeout of 0 Kafka loops without pause.
"""


def maybe_complete_join(group: Group, now_ms: int, result: Result) -> None:
    """Complete the rebalance if no member is missing; the first rebalance out of Empty waits for its delay to end."""
    if group.state is PREPARING_REBALANCE and group.previous_state is not EMPTY and group.has_all_members_joined():
        complete_join(group, now_ms, result)


def prepare_rebalance(group: Group, trigger: Trigger, now_ms: int, result: Result) -> None:
    """Request all members to rejoin: those with a parked sync now, the others at their next heartbeat."""
    if group.state is COMPLETING_REBALANCE:
        reset_assignments(group, now_ms, result)
    cancel_sync_timer(group, result)
    group.pending_sync_members.clear()
    initial = group.state is EMPTY
    result.trigger = trigger
    group.transition_to(PREPARING_REBALANCE, trigger.text, now_ms, result)
    if initial:
        _begin_initial_delay(group, now_ms, result)
    elif group.has_all_members_joined() or not group.members:
        # Without members the rebalance timeout is 0: only pending ids are left to wait for.
        complete_join(group, now_ms, result)
    else:
        _set_join_timer(group, group.rebalance_timeout_ms(), now_ms, result)


def join_timed_out(group: Group, now_ms: int, result: Result) -> None:
    """Handle the end of the rebalance timeout or of the initial delay: wait longer only if new members have joined."""
    group.join_deadline_ms = NEVER
    remaining_ms = group.initial_remaining_ms
    if remaining_ms != NEVER and remaining_ms != 0 and group.new_member_added:
        group.new_member_added = False
        delay_ms = min(group.settings.initial_rebalance_delay_ms, remaining_ms)
        group.initial_remaining_ms = max(remaining_ms - group.initial_delay_ms, 0)
        group.initial_delay_ms = delay_ms
        _set_join_timer(group, delay_ms, now_ms, result)
    else:
        complete_join(group, now_ms, result)


def sync_timed_out(group: Group, now_ms: int, result: Result) -> None:
    """Remove the members that got their JoinGroup response and never synced, and rebalance the others."""
    group.sync_deadline_ms = NEVER
    missing = list(group.pending_sync_members)
    if not missing:
        return
    for member_id in missing:
        remove_member(group, member_id, Cause.NOT_SYNCED, result)
    who = missing[0] if len(missing) == 1 else ""
    trigger = Trigger(Why.NOT_SYNCED, f"no sync in time from {', '.join(missing)}", who)
    prepare_rebalance(group, trigger, now_ms, result)


def complete_join(group: Group, now_ms: int, result: Result) -> None:
    """Begin the next generation with the members that rejoined. Static members stay even if they did not."""
    _cancel_join_timer(group, result)
    group.initial_remaining_ms = NEVER
    for member in list(group.members.values()):
        if member.join_reply_to is None and member.group_instance_id is None:
            remove_member(group, member.member_id, Cause.NOT_REJOINED, result)
    if group.members and not _elect_leader(group):
        # Only static members are left, and none has rejoined. Their sessions expire or they rejoin, and either
        # completes the rebalance. So there is no need to check at once, even with a rebalance timeout of 0.
        _set_join_timer(group, max(group.rebalance_timeout_ms(), LOOK_AGAIN_MS), now_ms, result)
        return
    group.generation_id += 1
    group.pending_sync_members.clear()
    if group.members:
        _begin_generation(group, now_ms, result)
    else:
        group.protocol_name = None
        group.subscribed_topics = subscribed_topics(group)
        group.transition_to(EMPTY, "no members left", now_ms, result)
        write_metadata(group, result)


def reset_assignments(group: Group, now_ms: int, result: Result) -> None:
    """Abandon the generation: clear the assignments and respond to parked syncs with REBALANCE_IN_PROGRESS."""
    for member in group.members.values():
        member.assignment = b""
        if answer_sync(member, SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS), result):
            keep_alive(group, member, member.session_timeout_ms, now_ms, result)


def cancel_sync_timer(group: Group, result: Result) -> None:
    """Stop waiting for members to sync."""
    if group.sync_deadline_ms != NEVER:
        group.sync_deadline_ms = NEVER
        result.timers.append(Cancel(TimerKey(group.group_id, SYNC)))


def members_for_leader(group: Group) -> list[JoinGroupResponseMember]:
    """Return the members as the leader needs them to compute the assignment."""
    return [
        _member_joined(member.member_id, member.group_instance_id, metadata)
        for member, metadata in zip(group.members.values(), group.all_metadata(), strict=True)
    ]


def generation_response(group: Group, member: Member) -> JoinGroupResponse:
    """Return the successful response to a join: the generation and, for the leader, all members."""
    member_id, leader_id = member.member_id, group.leader_id  # _begin_generation does this for all members
    return _joined(
        0,
        ErrorCode.NONE,
        group.generation_id,
        group.protocol_type,
        group.protocol_name,
        leader_id or "",
        False,
        member_id,
        members_for_leader(group) if member_id == leader_id else [],
    )


def write_metadata(group: Group, result: Result) -> None:
    """Log the group's current state."""
    members = [
        _member_logged(
            member.member_id,
            member.group_instance_id,
            member.client_id,
            member.client_host,
            member.rebalance_timeout_ms,
            member.session_timeout_ms,
            metadata,
            member.assignment,
        )
        for member, metadata in zip(group.members.values(), group.all_metadata(), strict=True)
    ]
    value = _group_logged(
        group.protocol_type or "",
        group.generation_id,
        group.protocol_name,
        group.leader_id,
        group.current_state_timestamp_ms,
        members,
    )
    write(group, GroupMetadataKey(group.group_id), value, result)
    drop_logged_members(group)


def _begin_initial_delay(group: Group, now_ms: int, result: Result) -> None:
    delay_ms = group.settings.initial_rebalance_delay_ms
    if delay_ms == 0:
        complete_join(group, now_ms, result)
        return
    group.initial_delay_ms = delay_ms
    group.initial_remaining_ms = max(group.rebalance_timeout_ms() - delay_ms, 0)
    _set_join_timer(group, delay_ms, now_ms, result)


def _begin_generation(group: Group, now_ms: int, result: Result) -> None:
    group.protocol_name = select_protocol(group)
    group.subscribed_topics = subscribed_topics(group)
    size = len(group.members)
    group.transition_to(COMPLETING_REBALANCE, f"{size} member{'s' if size != 1 else ''} joined", now_ms, result)
    pending_sync_members, timeout_ms = group.pending_sync_members, 0
    generation = ErrorCode.NONE, group.generation_id, group.protocol_type, group.protocol_name, group.leader_id or ""
    leader_id = group.leader_id
    for member_id, member in group.members.items():
        if member.join_reply_to is not None:
            members = members_for_leader(group) if member_id == leader_id else []
            result.answer(member.join_reply_to, _joined(0, *generation, False, member_id, members))
            member.join_reply_to = None
        keep_alive(group, member, member.session_timeout_ms, now_ms, result)
        member.is_new = False
        pending_sync_members[member_id] = None
        if member.rebalance_timeout_ms > timeout_ms:
            timeout_ms = member.rebalance_timeout_ms
    group.awaiting_join_count = 0
    group.sync_deadline_ms = now_ms + timeout_ms
    result.timers.append(Schedule(TimerKey(group.group_id, SYNC), group.sync_deadline_ms))


def _elect_leader(group: Group) -> bool:
    """Keep the leader if it has rejoined, else select the first member that has; return False if none has rejoined."""
    assert group.leader_id is not None
    if group.members[group.leader_id].join_reply_to is not None:
        return True
    for member in group.members.values():
        if member.join_reply_to is not None:
            group.leader_id = member.member_id
            return True
    return False


def _set_join_timer(group: Group, delay_ms: int, now_ms: int, result: Result) -> None:
    group.join_deadline_ms = now_ms + delay_ms
    result.timers.append(Schedule(TimerKey(group.group_id, JOIN), group.join_deadline_ms))


def _cancel_join_timer(group: Group, result: Result) -> None:
    if group.join_deadline_ms != NEVER:
        group.join_deadline_ms = NEVER
        result.timers.append(Cancel(TimerKey(group.group_id, JOIN)))
