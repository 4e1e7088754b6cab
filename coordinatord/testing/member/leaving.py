"""LeaveGroup: sent once when the member leaves."""

from __future__ import annotations

from coordinatord.testing.member.result import Result
from coordinatord.testing.member.state import UNJOINED, Member
from kafka_wire.api.leave_group import LeaveGroupRequest, MemberIdentity


def leave_group(member: Member, leave: bool | None, reason: str, result: Result) -> None:
    """Leave the group, with or without a response of the coordinator. `leave` as in events.Close."""
    if leave is None:
        leave = member.settings.group_instance_id is None
    if leave and member.coordinator is not None and member.state is not UNJOINED and member.generation.member_id:
        member_id = member.generation.member_id
        identity = MemberIdentity(member_id, reason=reason[:255])
        member.send_to_coordinator(LeaveGroupRequest(member.settings.group_id, member_id, [identity]), result)
    member.reset_generation("consumer pro-actively leaving the group", False, result)
