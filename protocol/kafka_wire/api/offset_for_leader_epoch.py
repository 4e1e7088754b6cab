"""OffsetForLeaderEpoch: the end offset of a leader epoch.

v2 current_leader_epoch · v3 replica_id · v4 flexible
"""

from __future__ import annotations

from kafka_wire.errors import ErrorCode
from kafka_wire.schema import array, int16, int32, int64, message, string


@message()
class OffsetForLeaderPartition:
    partition: int = int32("0+")
    current_leader_epoch: int = int32("2+", default=-1)
    leader_epoch: int = int32("0+")


@message()
class OffsetForLeaderTopic:
    topic: str = string("0+")
    partitions: list[OffsetForLeaderPartition] = array(OffsetForLeaderPartition, "0+")


@message(versions="2-4", flexible="4+", api_key=23)
class OffsetForLeaderEpochRequest:
    replica_id: int = int32("3+", default=-2)
    topics: list[OffsetForLeaderTopic] = array(OffsetForLeaderTopic, "0+")


@message()
class EpochEndOffset:
    error_code: int = int16("0+")
    partition: int = int32("0+")
    leader_epoch: int = int32("1+", default=-1)
    end_offset: int = int64("0+", default=-1)


@message()
class OffsetForLeaderTopicResult:
    topic: str = string("0+")
    partitions: list[EpochEndOffset] = array(EpochEndOffset, "0+")


@message(versions="2-4", flexible="4+", api_key=23)
class OffsetForLeaderEpochResponse:
    throttle_time_ms: int = int32("2+")
    topics: list[OffsetForLeaderTopicResult] = array(OffsetForLeaderTopicResult, "0+", batched=True)


def error_response(request: OffsetForLeaderEpochRequest, version: int, code: ErrorCode) -> OffsetForLeaderEpochResponse:
    """Return the response with the error `code`."""
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(topic.topic, [EpochEndOffset(code, each.partition) for each in topic.partitions])
            for topic in request.topics
        ]
    )
