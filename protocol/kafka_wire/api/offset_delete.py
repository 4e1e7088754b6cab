"""OffsetDelete: delete committed offsets of individual partitions (KIP-496).

v0 only
"""

from __future__ import annotations

from kafka_wire.errors import ErrorCode
from kafka_wire.schema import array, int16, int32, message, string


@message()
class OffsetDeleteRequestPartition:
    partition_index: int = int32("0+")


@message()
class OffsetDeleteRequestTopic:
    name: str = string("0+")
    partitions: list[OffsetDeleteRequestPartition] = array(OffsetDeleteRequestPartition, "0+")


@message(versions="0", api_key=47)
class OffsetDeleteRequest:
    group_id: str = string("0+")
    topics: list[OffsetDeleteRequestTopic] = array(OffsetDeleteRequestTopic, "0+")


@message()
class OffsetDeleteResponsePartition:
    partition_index: int = int32("0+")
    error_code: int = int16("0+")


@message()
class OffsetDeleteResponseTopic:
    name: str = string("0+")
    partitions: list[OffsetDeleteResponsePartition] = array(OffsetDeleteResponsePartition, "0+")


@message(versions="0", api_key=47)
class OffsetDeleteResponse:
    error_code: int = int16("0+")
    throttle_time_ms: int = int32("0+")
    topics: list[OffsetDeleteResponseTopic] = array(OffsetDeleteResponseTopic, "0+")


def error_response(request: OffsetDeleteRequest, version: int, code: ErrorCode) -> OffsetDeleteResponse:
    """Return the response with the error `code`. Only permissions for topics have errors of partitions."""
    if code is not ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        return OffsetDeleteResponse(error_code=code)
    return OffsetDeleteResponse(
        topics=[
            OffsetDeleteResponseTopic(
                topic.name, [OffsetDeleteResponsePartition(each.partition_index, code) for each in topic.partitions]
            )
            for topic in request.topics
        ]
    )
