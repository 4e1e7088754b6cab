"""JoinGroup: a member joins a group or its next generation.

v1 rebalance_timeout_ms · v2 throttle time · v4 MEMBER_ID_REQUIRED (KIP-394) · v5 group_instance_id (KIP-345) ·
v6 flexible · v7 protocol type in the response · v8 reason (KIP-800) · v9 skip_assignment (KIP-814)
"""

from __future__ import annotations

from kafka_wire.errors import ErrorCode
from kafka_wire.schema import array, boolean, bytes_, int16, int32, message, string


@message()
class JoinGroupRequestProtocol:
    name: str = string("0+")
    metadata: bytes = bytes_("0+")


@message(versions="0-9", flexible="6+", api_key=11)
class JoinGroupRequest:
    group_id: str = string("0+")
    session_timeout_ms: int = int32("0+")
    rebalance_timeout_ms: int = int32("1+", default=-1)
    member_id: str = string("0+")
    group_instance_id: str | None = string("5+", nullable="5+", default=None)
    protocol_type: str = string("0+")
    protocols: list[JoinGroupRequestProtocol] = array(JoinGroupRequestProtocol, "0+")
    reason: str | None = string("8+", nullable="8+", default=None)


@message()
class JoinGroupResponseMember:
    member_id: str = string("0+")
    group_instance_id: str | None = string("5+", nullable="5+", default=None)
    metadata: bytes = bytes_("0+")


@message(versions="0-9", flexible="6+", api_key=11)
class JoinGroupResponse:
    throttle_time_ms: int = int32("2+")
    error_code: int = int16("0+")
    generation_id: int = int32("0+", default=-1)
    protocol_type: str | None = string("7+", nullable="7+", default=None)
    protocol_name: str | None = string("0+", nullable="7+")
    leader: str = string("0+")
    skip_assignment: bool = boolean("9+")
    member_id: str = string("0+")
    members: list[JoinGroupResponseMember] = array(JoinGroupResponseMember, "0+")


def error_response(request: JoinGroupRequest, version: int, code: ErrorCode) -> JoinGroupResponse:
    """Return the response with the error `code`. The response has no protocol name: null from v7 on, "" before."""
    return JoinGroupResponse(error_code=code, protocol_name=None if version >= 7 else "", member_id=request.member_id)
