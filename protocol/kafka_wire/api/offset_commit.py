"""OffsetCommit: store a group's offsets.

v2 retention_time_ms · v3 throttle time · v5 no retention time · v6 leader epoch (KIP-320) · v7 group_instance_id ·
v8 flexible · v9 KIP-848 member epochs · v10 topic ids instead of names
"""

from __future__ import annotations

from kafka_wire.errors import ErrorCode
from kafka_wire.schema import array, int16, int32, int64, message, string, uuid


@message()
class OffsetCommitRequestPartition:
    partition_index: int = int32("0+")
    committed_offset: int = int64("0+")
    committed_leader_epoch: int = int32("6+", default=-1)
    committed_metadata: str | None = string("0+", nullable="0+")


@message()
class OffsetCommitRequestTopic:
    name: str = string("0-9")
    topic_id: bytes = uuid("10+")
    partitions: list[OffsetCommitRequestPartition] = array(OffsetCommitRequestPartition, "0+")


@message(versions="2-10", flexible="8+", api_key=8)
class OffsetCommitRequest:
    group_id: str = string("0+")
    generation_id_or_member_epoch: int = int32("1+", default=-1)
    member_id: str = string("1+")
    group_instance_id: str | None = string("7+", nullable="7+", default=None)
    retention_time_ms: int = int64("2-4", default=-1)
    topics: list[OffsetCommitRequestTopic] = array(OffsetCommitRequestTopic, "0+")


@message()
class OffsetCommitResponsePartition:
    partition_index: int = int32("0+")
    error_code: int = int16("0+")


@message()
class OffsetCommitResponseTopic:
    name: str = string("0-9")
    topic_id: bytes = uuid("10+")
    partitions: list[OffsetCommitResponsePartition] = array(OffsetCommitResponsePartition, "0+")


@message(versions="2-10", flexible="8+", api_key=8)
class OffsetCommitResponse:
    throttle_time_ms: int = int32("3+")
    topics: list[OffsetCommitResponseTopic] = array(OffsetCommitResponseTopic, "0+")


def error_response(request: OffsetCommitRequest, version: int, code: ErrorCode) -> OffsetCommitResponse:
    """Return the response with the error `code`."""
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                topic.name,
                topic.topic_id,
                [OffsetCommitResponsePartition(each.partition_index, code) for each in topic.partitions],
            )
            for topic in request.topics
        ]
    )
