"""LeaveGroup: members leave without waiting for their sessions to expire.

v1 throttle time · v3 several members, by id or instance id (KIP-345) · v4 flexible · v5 reason (KIP-800)
"""

from __future__ import annotations

from kafka_wire.schema import array, int16, int32, message, string


@message()
class MemberIdentity:
    member_id: str = string("3+")
    group_instance_id: str | None = string("3+", nullable="3+", default=None)
    reason: str | None = string("5+", nullable="5+", default=None)


@message(versions="0-5", flexible="4+", api_key=13)
class LeaveGroupRequest:
    group_id: str = string("0+")
    member_id: str = string("0-2")
    members: list[MemberIdentity] = array(MemberIdentity, "3+")


@message()
class MemberResponse:
    member_id: str = string("3+")
    group_instance_id: str | None = string("3+", nullable="3+")
    error_code: int = int16("3+")


@message(versions="0-5", flexible="4+", api_key=13)
class LeaveGroupResponse:
    throttle_time_ms: int = int32("1+")
    error_code: int = int16("0+")
    members: list[MemberResponse] = array(MemberResponse, "3+")
