"""DescribeTopicPartitions: topics and partitions, page by page (KIP-966).

v0 only
"""

from __future__ import annotations

from kafka_wire.errors import ErrorCode
from kafka_wire.schema import array, boolean, int16, int32, message, string, struct, uuid


@message()
class TopicRequest:
    name: str = string("0+")


@message()
class Cursor:
    topic_name: str = string("0+")
    partition_index: int = int32("0+")


@message(versions="0", flexible="0+", api_key=75)
class DescribeTopicPartitionsRequest:
    topics: list[TopicRequest] = array(TopicRequest, "0+")
    response_partition_limit: int = int32("0+", default=2000)
    cursor: Cursor | None = struct(Cursor, "0+", nullable="0+", default=None)


@message()
class DescribeTopicPartitionsResponsePartition:
    error_code: int = int16("0+")
    partition_index: int = int32("0+")
    leader_id: int = int32("0+")
    leader_epoch: int = int32("0+", default=-1)
    replica_nodes: list[int] = array(int32, "0+")
    isr_nodes: list[int] = array(int32, "0+")
    eligible_leader_replicas: list[int] | None = array(int32, "0+", nullable="0+", default=None)
    last_known_elr: list[int] | None = array(int32, "0+", nullable="0+", default=None)
    offline_replicas: list[int] = array(int32, "0+")


@message()
class DescribeTopicPartitionsResponseTopic:
    error_code: int = int16("0+")
    name: str | None = string("0+", nullable="0+")
    topic_id: bytes = uuid("0+")
    is_internal: bool = boolean("0+")
    partitions: list[DescribeTopicPartitionsResponsePartition] = array(DescribeTopicPartitionsResponsePartition, "0+")
    topic_authorized_operations: int = int32("0+", default=-2147483648)


@message(versions="0", flexible="0+", api_key=75)
class DescribeTopicPartitionsResponse:
    throttle_time_ms: int = int32("0+")
    topics: list[DescribeTopicPartitionsResponseTopic] = array(DescribeTopicPartitionsResponseTopic, "0+")
    next_cursor: Cursor | None = struct(Cursor, "0+", nullable="0+", default=None)


def error_response(
    request: DescribeTopicPartitionsRequest, version: int, code: ErrorCode
) -> DescribeTopicPartitionsResponse:
    """Return the response with the error `code`."""
    return DescribeTopicPartitionsResponse(
        topics=[DescribeTopicPartitionsResponseTopic(code, each.name) for each in request.topics]
    )
