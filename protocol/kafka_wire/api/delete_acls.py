"""DeleteAcls: remove the permissions that match filters.

v1 pattern types (KIP-290) · v2 flexible · v3 the user resource type
"""

from __future__ import annotations

from kafka_wire.errors import ErrorCode, message_of
from kafka_wire.schema import array, int8, int16, int32, message, string


@message()
class DeleteAclsFilter:
    resource_type_filter: int = int8("0+")
    resource_name_filter: str | None = string("0+", nullable="0+")
    pattern_type_filter: int = int8("1+", default=3)
    principal_filter: str | None = string("0+", nullable="0+")
    host_filter: str | None = string("0+", nullable="0+")
    operation: int = int8("0+")
    permission_type: int = int8("0+")


@message(versions="1-3", flexible="2+", api_key=31)
class DeleteAclsRequest:
    filters: list[DeleteAclsFilter] = array(DeleteAclsFilter, "0+")


@message()
class DeleteAclsMatchingAcl:
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    resource_type: int = int8("0+")
    resource_name: str = string("0+")
    pattern_type: int = int8("1+", default=3)
    principal: str = string("0+")
    host: str = string("0+")
    operation: int = int8("0+")
    permission_type: int = int8("0+")


@message()
class DeleteAclsFilterResult:
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    matching_acls: list[DeleteAclsMatchingAcl] = array(DeleteAclsMatchingAcl, "0+")


@message(versions="1-3", flexible="2+", api_key=31)
class DeleteAclsResponse:
    throttle_time_ms: int = int32("0+")
    filter_results: list[DeleteAclsFilterResult] = array(DeleteAclsFilterResult, "0+")


def error_response(request: DeleteAclsRequest, version: int, code: ErrorCode) -> DeleteAclsResponse:
    """Return the response with the error `code`."""
    return DeleteAclsResponse(filter_results=[DeleteAclsFilterResult(code, message_of(code)) for _ in request.filters])
