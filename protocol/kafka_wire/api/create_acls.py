"""CreateAcls: permissions for principals.

v1 pattern types (KIP-290) · v2 flexible · v3 the user resource type
"""

from __future__ import annotations

from kafka_wire.errors import ErrorCode, message_of
from kafka_wire.schema import array, int8, int16, int32, message, string


@message()
class AclCreation:
    resource_type: int = int8("0+")
    resource_name: str = string("0+")
    resource_pattern_type: int = int8("1+", default=3)
    principal: str = string("0+")
    host: str = string("0+")
    operation: int = int8("0+")
    permission_type: int = int8("0+")


@message(versions="1-3", flexible="2+", api_key=30)
class CreateAclsRequest:
    creations: list[AclCreation] = array(AclCreation, "0+")


@message()
class AclCreationResult:
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")


@message(versions="1-3", flexible="2+", api_key=30)
class CreateAclsResponse:
    throttle_time_ms: int = int32("0+")
    results: list[AclCreationResult] = array(AclCreationResult, "0+")


def error_response(request: CreateAclsRequest, version: int, code: ErrorCode) -> CreateAclsResponse:
    """Return the response with the error `code`."""
    return CreateAclsResponse(results=[AclCreationResult(code, message_of(code)) for _ in request.creations])
