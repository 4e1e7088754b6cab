"""ListOffsets: offsets by timestamp, and the special timestamps -1 latest, -2 earliest, -3 max timestamp …

v1 one offset per partition · v2 isolation_level · v4 leader epochs · v6 flexible · v7 max timestamp (KIP-734) ·
v8 earliest local (KIP-405) · v9 last tiered · v10 timeout_ms · v11 earliest pending upload (KIP-1023)
"""

from __future__ import annotations

from kafka_wire.errors import ErrorCode
from kafka_wire.schema import array, int8, int16, int32, int64, message, string


@message()
class ListOffsetsPartition:
    partition_index: int = int32("0+")
    current_leader_epoch: int = int32("4+", default=-1)
    timestamp: int = int64("0+")


@message()
class ListOffsetsTopic:
    name: str = string("0+")
    partitions: list[ListOffsetsPartition] = array(ListOffsetsPartition, "0+")


@message(versions="1-11", flexible="6+", api_key=2)
class ListOffsetsRequest:
    replica_id: int = int32("0+")
    isolation_level: int = int8("2+")
    topics: list[ListOffsetsTopic] = array(ListOffsetsTopic, "0+")
    timeout_ms: int = int32("10+")


@message()
class ListOffsetsPartitionResponse:
    partition_index: int = int32("0+")
    error_code: int = int16("0+")
    timestamp: int = int64("1+", default=-1)
    offset: int = int64("1+", default=-1)
    leader_epoch: int = int32("4+", default=-1)


@message()
class ListOffsetsTopicResponse:
    name: str = string("0+")
    partitions: list[ListOffsetsPartitionResponse] = array(ListOffsetsPartitionResponse, "0+")


@message(versions="1-11", flexible="6+", api_key=2)
class ListOffsetsResponse:
    throttle_time_ms: int = int32("2+")
    topics: list[ListOffsetsTopicResponse] = array(ListOffsetsTopicResponse, "0+")


def error_response(request: ListOffsetsRequest, version: int, code: ErrorCode) -> ListOffsetsResponse:
    """Return the response with the error `code`."""
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                topic.name, [ListOffsetsPartitionResponse(each.partition_index, code) for each in topic.partitions]
            )
            for topic in request.topics
        ]
    )
