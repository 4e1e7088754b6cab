"""DescribeGroups: state and members of classic groups.

v1 throttle time · v3 authorized operations · v4 group_instance_id · v5 flexible · v6 error message, GROUP_ID_NOT_FOUND
"""

from __future__ import annotations

from kafka_wire.errors import ErrorCode
from kafka_wire.schema import array, boolean, bytes_, int16, int32, message, string


@message(versions="0-6", flexible="5+", api_key=15)
class DescribeGroupsRequest:
    groups: list[str] = array(string, "0+")
    include_authorized_operations: bool = boolean("3+")


@message()
class DescribedGroupMember:
    member_id: str = string("0+")
    group_instance_id: str | None = string("4+", nullable="4+", default=None)
    client_id: str = string("0+")
    client_host: str = string("0+")
    member_metadata: bytes = bytes_("0+")
    member_assignment: bytes = bytes_("0+")


@message()
class DescribedGroup:
    error_code: int = int16("0+")
    error_message: str | None = string("6+", nullable="6+", default=None)
    group_id: str = string("0+")
    group_state: str = string("0+")
    protocol_type: str = string("0+")
    protocol_data: str = string("0+")
    members: list[DescribedGroupMember] = array(DescribedGroupMember, "0+")
    authorized_operations: int = int32("3+", default=-2147483648)


@message(versions="0-6", flexible="5+", api_key=15)
class DescribeGroupsResponse:
    throttle_time_ms: int = int32("1+")
    groups: list[DescribedGroup] = array(DescribedGroup, "0+", batched=True)


def error_response(request: DescribeGroupsRequest, version: int, code: ErrorCode) -> DescribeGroupsResponse:
    """Return the response with the error `code`."""
    return DescribeGroupsResponse(groups=[DescribedGroup(error_code=code, group_id=each) for each in request.groups])
