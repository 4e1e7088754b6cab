"""ReadShareGroupStateSummary: the group coordinator reads start offsets of share partitions (KIP-932, between brokers).

v1 delivery_complete_count (KIP-1226)
"""

from __future__ import annotations

from kafka_wire.errors import ErrorCode, message_of
from kafka_wire.schema import array, int16, int32, int64, message, string, uuid


@message()
class PartitionData:
    partition: int = int32("0+")
    leader_epoch: int = int32("0+")


@message()
class ReadStateSummaryData:
    topic_id: bytes = uuid("0+")
    partitions: list[PartitionData] = array(PartitionData, "0+")


@message(versions="0-1", flexible="0+", api_key=87)
class ReadShareGroupStateSummaryRequest:
    group_id: str = string("0+")
    topics: list[ReadStateSummaryData] = array(ReadStateSummaryData, "0+")


@message()
class PartitionResult:
    partition: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default=None)
    state_epoch: int = int32("0+")
    leader_epoch: int = int32("0+")
    start_offset: int = int64("0+")
    delivery_complete_count: int = int32("1+", default=-1)


@message()
class ReadStateSummaryResult:
    topic_id: bytes = uuid("0+")
    partitions: list[PartitionResult] = array(PartitionResult, "0+")


@message(versions="0-1", flexible="0+", api_key=87)
class ReadShareGroupStateSummaryResponse:
    results: list[ReadStateSummaryResult] = array(ReadStateSummaryResult, "0+")


def error_response(
    request: ReadShareGroupStateSummaryRequest, version: int, code: ErrorCode
) -> ReadShareGroupStateSummaryResponse:
    """Return the response with the error `code`."""
    text = message_of(code)
    return ReadShareGroupStateSummaryResponse(
        [
            ReadStateSummaryResult(
                topic.topic_id,
                [PartitionResult(each.partition, code, text) for each in topic.partitions],
            )
            for topic in request.topics
        ]
    )
