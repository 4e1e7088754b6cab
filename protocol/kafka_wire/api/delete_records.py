"""DeleteRecords: delete a partition's records below an offset.

v2 flexible
"""

from __future__ import annotations

from kafka_wire.errors import ErrorCode
from kafka_wire.schema import array, int16, int32, int64, message, string


@message()
class DeleteRecordsPartition:
    partition_index: int = int32("0+")
    offset: int = int64("0+")


@message()
class DeleteRecordsTopic:
    name: str = string("0+")
    partitions: list[DeleteRecordsPartition] = array(DeleteRecordsPartition, "0+")


@message(versions="0-2", flexible="2+", api_key=21)
class DeleteRecordsRequest:
    topics: list[DeleteRecordsTopic] = array(DeleteRecordsTopic, "0+")
    timeout_ms: int = int32("0+")


@message()
class DeleteRecordsPartitionResult:
    partition_index: int = int32("0+")
    low_watermark: int = int64("0+")
    error_code: int = int16("0+")


@message()
class DeleteRecordsTopicResult:
    name: str = string("0+")
    partitions: list[DeleteRecordsPartitionResult] = array(DeleteRecordsPartitionResult, "0+")


@message(versions="0-2", flexible="2+", api_key=21)
class DeleteRecordsResponse:
    throttle_time_ms: int = int32("0+")
    topics: list[DeleteRecordsTopicResult] = array(DeleteRecordsTopicResult, "0+", batched=True)


def error_response(request: DeleteRecordsRequest, version: int, code: ErrorCode) -> DeleteRecordsResponse:
    """Return the response with the error `code`."""
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                topic.name, [DeleteRecordsPartitionResult(each.partition_index, -1, code) for each in topic.partitions]
            )
            for topic in request.topics
        ]
    )
