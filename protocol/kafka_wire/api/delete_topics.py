"""DeleteTopics: delete topics by name or id.

v4 flexible · v5 error message · v6 topic ids
"""

from __future__ import annotations

from kafka_wire.errors import ErrorCode, message_of
from kafka_wire.schema import array, int16, int32, message, string, uuid


@message()
class DeleteTopicState:
    name: str | None = string("6+", nullable="6+", default=None)
    topic_id: bytes = uuid("6+")


@message(versions="1-6", flexible="4+", api_key=20)
class DeleteTopicsRequest:
    topics: list[DeleteTopicState] = array(DeleteTopicState, "6+")
    topic_names: list[str] = array(string, "0-5")
    timeout_ms: int = int32("0+")


@message()
class DeletableTopicResult:
    name: str | None = string("0+", nullable="6+")
    topic_id: bytes = uuid("6+")
    error_code: int = int16("0+")
    error_message: str | None = string("5+", nullable="5+", default=None)


@message(versions="1-6", flexible="4+", api_key=20)
class DeleteTopicsResponse:
    throttle_time_ms: int = int32("1+")
    responses: list[DeletableTopicResult] = array(DeletableTopicResult, "0+")


def error_response(request: DeleteTopicsRequest, version: int, code: ErrorCode) -> DeleteTopicsResponse:
    """Return the response with the error `code`."""
    topics = request.topics if version >= 6 else [DeleteTopicState(name) for name in request.topic_names]
    return DeleteTopicsResponse(
        responses=[DeletableTopicResult(each.name, each.topic_id, code, message_of(code)) for each in topics]
    )
