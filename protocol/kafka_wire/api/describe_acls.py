"""DescribeAcls: the permissions that match a filter.

v1 pattern types (KIP-290) · v2 flexible · v3 the user resource type
"""

from __future__ import annotations

from kafka_wire.errors import ErrorCode, message_of
from kafka_wire.schema import array, int8, int16, int32, message, string


@message(versions="1-3", flexible="2+", api_key=29)
class DescribeAclsRequest:
    resource_type_filter: int = int8("0+")
    resource_name_filter: str | None = string("0+", nullable="0+")
    pattern_type_filter: int = int8("1+", default=3)
    principal_filter: str | None = string("0+", nullable="0+")
    host_filter: str | None = string("0+", nullable="0+")
    operation: int = int8("0+")
    permission_type: int = int8("0+")


@message()
class AclDescription:
    principal: str = string("0+")
    host: str = string("0+")
    operation: int = int8("0+")
    permission_type: int = int8("0+")


@message()
class DescribeAclsResource:
    resource_type: int = int8("0+")
    resource_name: str = string("0+")
    pattern_type: int = int8("1+", default=3)
    acls: list[AclDescription] = array(AclDescription, "0+")


@message(versions="1-3", flexible="2+", api_key=29)
class DescribeAclsResponse:
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    resources: list[DescribeAclsResource] = array(DescribeAclsResource, "0+")


def error_response(request: DescribeAclsRequest, version: int, code: ErrorCode) -> DescribeAclsResponse:
    """Return the response with the error `code`."""
    return DescribeAclsResponse(error_code=code, error_message=message_of(code))
