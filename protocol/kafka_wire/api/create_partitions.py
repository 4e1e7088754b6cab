"""CreatePartitions: add partitions to topics.

v2 flexible
"""

from __future__ import annotations

from kafka_wire.errors import ErrorCode, message_of
from kafka_wire.schema import array, boolean, int16, int32, message, string


@message()
class CreatePartitionsAssignment:
    broker_ids: list[int] = array(int32, "0+")


@message()
class CreatePartitionsTopic:
    name: str = string("0+")
    count: int = int32("0+")
    assignments: list[CreatePartitionsAssignment] | None = array(CreatePartitionsAssignment, "0+", nullable="0+")


@message(versions="0-3", flexible="2+", api_key=37)
class CreatePartitionsRequest:
    topics: list[CreatePartitionsTopic] = array(CreatePartitionsTopic, "0+")
    timeout_ms: int = int32("0+")
    validate_only: bool = boolean("0+")


@message()
class CreatePartitionsTopicResult:
    name: str = string("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default=None)


@message(versions="0-3", flexible="2+", api_key=37)
class CreatePartitionsResponse:
    throttle_time_ms: int = int32("0+")
    results: list[CreatePartitionsTopicResult] = array(CreatePartitionsTopicResult, "0+")


def error_response(request: CreatePartitionsRequest, version: int, code: ErrorCode) -> CreatePartitionsResponse:
    """Return the response with the error `code`. The controller gives no text for a topic without permission."""
    text = None if code is ErrorCode.TOPIC_AUTHORIZATION_FAILED else message_of(code)
    return CreatePartitionsResponse(
        results=[CreatePartitionsTopicResult(each.name, code, text) for each in request.topics]
    )
