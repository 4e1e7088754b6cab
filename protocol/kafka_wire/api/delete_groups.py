"""DeleteGroups: delete empty groups with their offsets.

v1 throttle time as before · v2 flexible · v3 error message (Kafka 4.4)
"""

from __future__ import annotations

from kafka_wire.errors import ErrorCode
from kafka_wire.schema import array, int16, int32, message, string


@message(versions="0-3", flexible="2+", api_key=42)
class DeleteGroupsRequest:
    groups_names: list[str] = array(string, "0+")


@message()
class DeletableGroupResult:
    group_id: str = string("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("3+", nullable="3+", default=None)


@message(versions="0-3", flexible="2+", api_key=42)
class DeleteGroupsResponse:
    throttle_time_ms: int = int32("0+")
    results: list[DeletableGroupResult] = array(DeletableGroupResult, "0+", batched=True)


def error_response(request: DeleteGroupsRequest, version: int, code: ErrorCode) -> DeleteGroupsResponse:
    """Return the response with the error `code`."""
    return DeleteGroupsResponse(results=[DeletableGroupResult(each, code) for each in request.groups_names])
