"""DeleteShareGroupState: the group coordinator deletes the state of share partitions (KIP-932, between brokers)."""

from __future__ import annotations

from kafka_wire.errors import ErrorCode
from kafka_wire.schema import array, int16, int32, message, string, uuid


@message()
class PartitionData:
    partition: int = int32("0+")


@message()
class DeleteStateData:
    topic_id: bytes = uuid("0+")
    partitions: list[PartitionData] = array(PartitionData, "0+")


@message(versions="0", flexible="0+", api_key=86)
class DeleteShareGroupStateRequest:
    group_id: str = string("0+")
    topics: list[DeleteStateData] = array(DeleteStateData, "0+")


@message()
class PartitionResult:
    partition: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default=None)


@message()
class DeleteStateResult:
    topic_id: bytes = uuid("0+")
    partitions: list[PartitionResult] = array(PartitionResult, "0+")


@message(versions="0", flexible="0+", api_key=86)
class DeleteShareGroupStateResponse:
    results: list[DeleteStateResult] = array(DeleteStateResult, "0+")


def error_response(
    request: DeleteShareGroupStateRequest, version: int, code: ErrorCode
) -> DeleteShareGroupStateResponse:
    """Return the response with the error `code`."""
    return DeleteShareGroupStateResponse(
        [
            DeleteStateResult(
                topic.topic_id,
                [PartitionResult(each.partition, code) for each in topic.partitions],
            )
            for topic in request.topics
        ]
    )
