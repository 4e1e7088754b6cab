"""JoinGroup: admission of members, their ids, and the resulting changes of the group.

A dynamic member joins without an id, receives one (MEMBER_ID_REQUIRED, KIP-394; before v4 it joins at once) and joins
again with it. A static member (KIP-345) joins without an id after each restart and replaces its earlier instance; if
nothing else has changed, the group does not rebalance. A member with an id rejoins.

| a member rejoins in | and                         | then                                                       |
|---------------------|-----------------------------|------------------------------------------------------------|
| PreparingRebalance  |                             | its join is parked; the last one completes the rebalance   |
| CompletingRebalance | its metadata is unchanged   | the response was lost: the member gets the same one again  |
| CompletingRebalance | its metadata has changed    | a new rebalance                                            |
| Stable              | is the leader, or changed   | a new rebalance                                            |
| Stable              | is an unchanged follower    | a response with the current generation, so that it syncs   |
"""

from __future__ import annotations

import sys

from coordinatord.coordination.group.classic.interned_metadata import Interned, interned
from coordinatord.coordination.group.classic.members import (
    add_member,
    answer_join,
    join_error,
    keep_alive,
    refusal,
    remove_member,
    replace_static_member,
    update_member,
)
from coordinatord.coordination.group.classic.protocol_selection import select_protocol, supports_protocols
from coordinatord.coordination.group.classic.rebalance import (
    generation_response,
    maybe_complete_join,
    members_for_leader,
    prepare_rebalance,
    write_metadata,
)
from coordinatord.coordination.group.events import Join
from coordinatord.coordination.group.replay import write
from coordinatord.coordination.group.result import (
    MAX_REASON,
    NO_REASON,
    SESSION,
    Joined,
    Result,
    Schedule,
    TimerKey,
    Trigger,
)
from coordinatord.coordination.group.state import MAX_ID_CHARACTERS, NEVER, Group, Member
from coordinatord.coordination.group.states import (
    COMPLETING_REBALANCE,
    DEAD,
    EMPTY,
    PREPARING_REBALANCE,
    STABLE,
    Cause,
    Why,
)
from kafka_wire.api.join_group import JoinGroupRequest, JoinGroupResponse
from kafka_wire.codecs import constructor
from kafka_wire.errors import ErrorCode
from kafka_wire.records.offsets import GroupMetadataKey, GroupMetadataValue

_group_logged = constructor(GroupMetadataValue)


def join(group: Group, event: Join, now_ms: int) -> Result:
    """Respond to a JoinGroup, or park it."""
    request = event.request
    settings = group.settings
    if not group.group_id:
        return _refused(request.member_id, ErrorCode.INVALID_GROUP_ID)
    if not settings.allow_session(request.session_timeout_ms):
        return _refused(request.member_id, ErrorCode.INVALID_SESSION_TIMEOUT)
    if group.state is DEAD:
        return _refused(request.member_id, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    if not group.exists and request.member_id:
        return _refused(request.member_id, ErrorCode.UNKNOWN_MEMBER_ID)
    if not event.has_room and event.wants_id:
        # Clients retry after a while. GROUP_MAX_SIZE_REACHED would end an application that is not responsible for the
        # ids that other clients requested.
        return _refused("", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    result = Result(asked_by=event.reply_to)
    is_new_group = not group.exists
    if is_new_group:
        group.current_state_timestamp_ms = now_ms
    if not _has_room(group, request.member_id):
        remove_member(group, request.member_id, Cause.GROUP_FULL, result)
        result.reply = join_error(ErrorCode.GROUP_MAX_SIZE_REACHED)
    elif not supports_protocols(group, request.protocol_type, request.protocols):
        result.reply = join_error(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, request.member_id)
    elif not request.member_id:
        _join_without_id(group, event, now_ms, result)
    else:
        _join_with_id(group, event, now_ms, result)
    if is_new_group:
        _write_new_group(group, result)
    return result


def _join_without_id(group: Group, event: Join, now_ms: int, result: Result) -> None:
    request = event.request
    instance_id = request.group_instance_id
    new_id = f"{event.client_id if instance_id is None else instance_id}-{group.new_id()}"
    if len(new_id) > MAX_ID_CHARACTERS:
        result.reply = join_error(ErrorCode.INVALID_REQUEST)
    elif instance_id is not None:
        old_id = group.static_members.get(instance_id)
        if old_id is None:
            _add_member(group, event, new_id, now_ms, result)
        else:
            _restart_static_member(group, event, old_id, new_id, now_ms, result)
    elif not event.require_known_member_id:
        _add_member(group, event, new_id, now_ms, result)
    elif len(group.pending_members) >= group.settings.max_pending_members:
        result.reply = join_error(ErrorCode.GROUP_MAX_SIZE_REACHED)
    else:
        timer = Schedule(TimerKey(group.group_id, SESSION, new_id), now_ms + request.session_timeout_ms)
        group.pending_members[new_id] = timer
        result.timers.append(timer)
        result.reply = join_error(ErrorCode.MEMBER_ID_REQUIRED, new_id)


def _join_with_id(group: Group, event: Join, now_ms: int, result: Result) -> None:
    request = event.request
    member_id = request.member_id
    timer = group.pending_members.get(member_id)
    if timer is not None:
        if request.group_instance_id is not None:
            # Only dynamic members receive ids: this client is wrong. Kafka fails in the same way.
            result.reply = join_error(ErrorCode.UNKNOWN_SERVER_ERROR)
        else:
            # The timer of a pending id becomes the member's timer, and both use the same string object as id.
            _add_member(group, event, timer.key.member_id, now_ms, result, timer.deadline_ms)
        return
    member = group.members.get(member_id)
    if member is None or request.group_instance_id is not None:
        error = refusal(group, member_id, request.group_instance_id)
        if error is not None:
            result.reply = join_error(error, member_id)
            return
        assert member is not None
    protocols, rebalance_timeout_ms, session_timeout_ms = _interned(event)
    leader = member_id == group.leader_id
    if group.state is PREPARING_REBALANCE:
        why = text = ""  # the member joins the rebalance in progress
    elif member.protocols != protocols:
        why, text = Why.METADATA_CHANGED, f"member {member_id} changed its metadata"
    elif group.state is STABLE and leader:
        # The leader may know of changes that its metadata does not show, such as new partitions.
        why, text = Why.LEADER_REJOINED, f"leader {member_id} rejoins"
    else:
        result.reply = generation_response(group, member)
        return
    update_member(group, member, protocols, rebalance_timeout_ms, session_timeout_ms, event.reply_to, result)
    result.changes.append(joined(member, request, is_new=False))
    if group.state is PREPARING_REBALANCE:
        maybe_complete_join(group, now_ms, result)
    else:
        prepare_rebalance(group, _trigger(why, text, member_id, request), now_ms, result)


def _add_member(group: Group, event: Join, member_id: str, now_ms: int, result: Result, timer_ms: int = NEVER) -> None:
    """Add a member with a parked join. `timer_ms`: deadline of a timer that is already set for this id."""
    request = event.request
    protocols, rebalance_timeout_ms, session_timeout_ms = _interned(event)
    member = Member(
        member_id,
        request.group_instance_id,
        event.client_id,
        event.client_host,
        rebalance_timeout_ms,
        session_timeout_ms,
        protocols,
        join_reply_to=event.reply_to,
        is_new=True,
        timer_ms=timer_ms,
    )
    # New members extend the initial delay of every group that was empty, as in Kafka 4.3. The article on JoinGroup and
    # Kafka's coordinator of that time check for generation 0 instead: a group that has become empty again then does not
    # wait longer for new members.
    if group.state is PREPARING_REBALANCE and group.previous_state is EMPTY:
        group.new_member_added = True
    add_member(group, member, request.protocol_type)
    # A member cannot send heartbeats before it has the response, and a connection that breaks meanwhile goes unnoticed.
    # If clients give up and join again under new ids, such members fill the group, so a parked new member expires too.
    keep_alive(group, member, group.settings.new_member_join_timeout_ms, now_ms, result)
    result.changes.append(joined(member, request, is_new=True))
    if group.state is PREPARING_REBALANCE:
        maybe_complete_join(group, now_ms, result)
    else:
        trigger = _trigger(Why.NEW_MEMBER, f"new member {member_id}", member_id, request)
        prepare_rebalance(group, trigger, now_ms, result)


def _restart_static_member(group: Group, event: Join, old_id: str, new_id: str, now_ms: int, result: Result) -> None:
    request = event.request
    leader_before = group.leader_id
    member = replace_static_member(group, old_id, new_id, Cause.REPLACED, result)
    keep_alive(group, member, member.session_timeout_ms, now_ms, result)
    protocols, rebalance_timeout_ms, session_timeout_ms = _interned(event)
    update_member(group, member, protocols, rebalance_timeout_ms, session_timeout_ms, event.reply_to, result)
    result.changes.append(joined(member, request, is_new=False))
    if group.state is STABLE:
        if select_protocol(group) == group.protocol_name:
            _replace_without_rebalance(group, event, member, leader_before, result)
        else:
            text = f"static member {new_id} changes the choice of protocol"
            prepare_rebalance(group, _trigger(Why.METADATA_CHANGED, text, new_id, request), now_ms, result)
    elif group.state is COMPLETING_REBALANCE:
        # The leader may already be computing an assignment for the old id.
        text = f"static member {new_id} restarted"
        prepare_rebalance(group, _trigger(Why.STATIC_MEMBER_RESTARTED, text, new_id, request), now_ms, result)
    else:
        maybe_complete_join(group, now_ms, result)


def _replace_without_rebalance(
    group: Group, event: Join, member: Member, leader_before: str | None, result: Result
) -> None:
    """Log the new member id with the same generation and assignment."""
    write_metadata(group, result)
    response = JoinGroupResponse(
        generation_id=group.generation_id,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=group.leader_id or "",
        member_id=member.member_id,
    )
    if not event.supports_skipping_assignment:
        # The assignment of a restarted leader would be discarded, so the response must not name it as the leader.
        response.leader = leader_before or ""
    elif member.member_id == group.leader_id:
        response.members = members_for_leader(group)
        response.skip_assignment = True
    answer_join(group, member, response, result)


def _has_room(group: Group, member_id: str) -> bool:
    """Enforce group.max.size. The first members to rejoin stay: the limit may have been lowered since."""
    if group.state is PREPARING_REBALANCE:
        member = group.members.get(member_id)
        if member is not None and member.join_reply_to is not None:
            return True
        return group.awaiting_join_count < group.settings.max_size
    if group.state is STABLE or group.state is COMPLETING_REBALANCE:
        return member_id in group.members or len(group.members) < group.settings.max_size
    return True


def _write_new_group(group: Group, result: Result) -> None:
    """Log the group when a join creates it, whether or not the join itself succeeds."""
    value = _group_logged("", 0, None, None, group.current_state_timestamp_ms, [])
    write(group, GroupMetadataKey(group.group_id), value, result)


def _interned(event: Join) -> Interned:
    """Return the protocols and timeouts of a join. All members share a few names: one copy of each is kept. A repeated
    name counts once.
    """
    request = event.request
    timeout_ms = request.rebalance_timeout_ms if event.rebalance_timeout_ms is None else event.rebalance_timeout_ms
    if len(request.protocols) == 1:
        (protocol,) = request.protocols
        return interned(((sys.intern(protocol.name), protocol.metadata),), timeout_ms, request.session_timeout_ms)
    first: dict[str, bytes] = {}
    for protocol in request.protocols:
        first.setdefault(sys.intern(protocol.name), protocol.metadata)
    return interned(tuple(first.items()), timeout_ms, request.session_timeout_ms)


def _trigger(why: str, text: str, member_id: str, request: JoinGroupRequest) -> Trigger:
    reason = (request.reason or NO_REASON)[:MAX_REASON]
    return Trigger(why, f"{text}; client reason: {reason}", member_id, reason)


def joined(member: Member, request: JoinGroupRequest, *, is_new: bool) -> Joined:
    """Return the ledger's entry for a join."""
    reason = (request.reason or NO_REASON)[:MAX_REASON]
    return Joined(member.member_id, member.group_instance_id, member.client_id, reason, is_new)


def _refused(member_id: str, error: ErrorCode) -> Result:
    return Result(reply=join_error(error, member_id))
