"""DeleteShareGroupOffsets: delete an empty share group's state of topics (KIP-932)."""

from __future__ import annotations

from kafka_wire.errors import ErrorCode, message_of
from kafka_wire.schema import array, int16, int32, message, string, uuid


@message()
class DeleteShareGroupOffsetsRequestTopic:
    topic_name: str = string("0+")


@message(versions="0", flexible="0+", api_key=92)
class DeleteShareGroupOffsetsRequest:
    group_id: str = string("0+")
    topics: list[DeleteShareGroupOffsetsRequestTopic] = array(DeleteShareGroupOffsetsRequestTopic, "0+")


@message()
class DeleteShareGroupOffsetsResponseTopic:
    topic_name: str = string("0+")
    topic_id: bytes = uuid("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default=None)


@message(versions="0", flexible="0+", api_key=92)
class DeleteShareGroupOffsetsResponse:
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default=None)
    responses: list[DeleteShareGroupOffsetsResponseTopic] = array(DeleteShareGroupOffsetsResponseTopic, "0+")


def error_response(
    request: DeleteShareGroupOffsetsRequest, version: int, code: ErrorCode
) -> DeleteShareGroupOffsetsResponse:
    """Return the response with the error `code`."""
    return DeleteShareGroupOffsetsResponse(error_code=code, error_message=message_of(code))
