"""A rebalance to which nobody comes, of members whose rebalance timeout is nothing."""

from __future__ import annotations

from coordinatord.coordination.group.classic.rebalance import LOOK_AGAIN_MS
from coordinatord.coordination.group.classic.step import step
from coordinatord.coordination.group.events import Join, Leave, TimedOut
from coordinatord.coordination.group.result import JOIN, Schedule, TimerKey
from coordinatord.coordination.group.state import Group, GroupSettings
from coordinatord.coordination.group.states import PREPARING_REBALANCE
from kafka_wire.api.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafka_wire.api.leave_group import LeaveGroupRequest, MemberIdentity

KEY = TimerKey("g", JOIN)


def joining(instance: str | None, reply_to: str) -> Join:
    request = JoinGroupRequest("g", 10_000, 0, "", instance, "consumer", [JoinGroupRequestProtocol("range", b"")])
    return Join(request, reply_to, "c", "/127.0.0.1", require_known_member_id=False)


def test_a_rebalance_timeout_of_0_does_not_spin_until_the_session_ends() -> None:
    group = Group("g", GroupSettings(initial_rebalance_delay_ms=0), iter("abcdefgh").__next__)
    step(group, joining("static", "first"), 1_000)
    step(group, joining(None, "second"), 2_000)
    if group.state is PREPARING_REBALANCE:
        step(group, TimedOut(KEY), 2_000)
    (dynamic,) = [member_id for member_id, member in group.members.items() if member.group_instance_id is None]
    leave = LeaveGroupRequest("g", members=[MemberIdentity(dynamic)])
    result = step(group, Leave.of(leave, 5), 3_000)
    assert Schedule(KEY, 3_000) in result.timers
    result = step(group, TimedOut(KEY), 3_000)
    assert group.state is PREPARING_REBALANCE
    assert result.timers == [Schedule(KEY, 3_000 + LOOK_AGAIN_MS)]
