"""The end of a group: the group is deleted, or this coordinator stops serving it."""

from __future__ import annotations

from coordinatord.coordination.group.consumer.sessions import forget_all
from coordinatord.coordination.group.result import JOIN, SESSION, SYNC, Cancel, Result, TimerKey
from coordinatord.coordination.group.state import NEVER, Group
from coordinatord.coordination.group.states import DEAD


def terminate(group: Group, reason: str, now_ms: int, result: Result) -> None:
    """Make the group Dead: drop its members and cancel its timers. The caller has responded to all parked requests."""
    group.transition_to(DEAD, reason, now_ms, result)
    if group.consumer is not None:
        forget_all(group.group_id, group.consumer, result)
        group.consumer = None
    for member_id in [*group.members, *group.pending_members]:
        result.timers.append(Cancel(TimerKey(group.group_id, SESSION, member_id)))
    for kind, deadline_ms in ((JOIN, group.join_deadline_ms), (SYNC, group.sync_deadline_ms)):
        if deadline_ms != NEVER:
            result.timers.append(Cancel(TimerKey(group.group_id, kind)))
    group.leader_id = None
    group.members.clear()
    group.static_members.clear()
    group.pending_members.clear()
    group.pending_sync_members.clear()
    group.supported_protocols.clear()
    group.join_deadline_ms = group.sync_deadline_ms = NEVER
    group.exists = False
