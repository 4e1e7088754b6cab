"""ReadShareGroupState: the leader of a share partition reads its state (KIP-932, between brokers)."""

from __future__ import annotations

from kafka_wire.errors import ErrorCode, message_of
from kafka_wire.schema import array, int8, int16, int32, int64, message, string, uuid


@message()
class PartitionData:
    partition: int = int32("0+")
    leader_epoch: int = int32("0+")


@message()
class ReadStateData:
    topic_id: bytes = uuid("0+")
    partitions: list[PartitionData] = array(PartitionData, "0+")


@message(versions="0", flexible="0+", api_key=84)
class ReadShareGroupStateRequest:
    group_id: str = string("0+")
    topics: list[ReadStateData] = array(ReadStateData, "0+")


@message()
class StateBatch:
    first_offset: int = int64("0+")
    last_offset: int = int64("0+")
    delivery_state: int = int8("0+")
    delivery_count: int = int16("0+")


@message()
class PartitionResult:
    partition: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default=None)
    state_epoch: int = int32("0+")
    start_offset: int = int64("0+")
    state_batches: list[StateBatch] = array(StateBatch, "0+")


@message()
class ReadStateResult:
    topic_id: bytes = uuid("0+")
    partitions: list[PartitionResult] = array(PartitionResult, "0+")


@message(versions="0", flexible="0+", api_key=84)
class ReadShareGroupStateResponse:
    results: list[ReadStateResult] = array(ReadStateResult, "0+")


def error_response(request: ReadShareGroupStateRequest, version: int, code: ErrorCode) -> ReadShareGroupStateResponse:
    """Return the response with the error `code`."""
    text = message_of(code)
    return ReadShareGroupStateResponse(
        [
            ReadStateResult(
                topic.topic_id,
                [PartitionResult(each.partition, code, text) for each in topic.partitions],
            )
            for topic in request.topics
        ]
    )
