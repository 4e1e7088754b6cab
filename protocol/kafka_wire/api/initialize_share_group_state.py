"""InitializeShareGroupState: the group coordinator creates the state of share partitions (KIP-932, between brokers)."""

from __future__ import annotations

from kafka_wire.errors import ErrorCode
from kafka_wire.schema import array, int16, int32, int64, message, string, uuid


@message()
class PartitionData:
    partition: int = int32("0+")
    state_epoch: int = int32("0+")
    start_offset: int = int64("0+")


@message()
class InitializeStateData:
    topic_id: bytes = uuid("0+")
    partitions: list[PartitionData] = array(PartitionData, "0+")


@message(versions="0", flexible="0+", api_key=83)
class InitializeShareGroupStateRequest:
    group_id: str = string("0+")
    topics: list[InitializeStateData] = array(InitializeStateData, "0+")


@message()
class PartitionResult:
    partition: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default=None)


@message()
class InitializeStateResult:
    topic_id: bytes = uuid("0+")
    partitions: list[PartitionResult] = array(PartitionResult, "0+")


@message(versions="0", flexible="0+", api_key=83)
class InitializeShareGroupStateResponse:
    results: list[InitializeStateResult] = array(InitializeStateResult, "0+")


def error_response(
    request: InitializeShareGroupStateRequest, version: int, code: ErrorCode
) -> InitializeShareGroupStateResponse:
    """Return the response with the error `code`."""
    return InitializeShareGroupStateResponse(
        [
            InitializeStateResult(
                topic.topic_id,
                [PartitionResult(each.partition, code) for each in topic.partitions],
            )
            for topic in request.topics
        ]
    )
