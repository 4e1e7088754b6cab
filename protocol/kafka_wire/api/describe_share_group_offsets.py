"""DescribeShareGroupOffsets: start offsets of share groups (KIP-932).

v1 lag (KIP-1226)
"""

from __future__ import annotations

from kafka_wire.errors import ErrorCode, message_of
from kafka_wire.schema import array, int16, int32, int64, message, string, uuid


@message()
class DescribeShareGroupOffsetsRequestTopic:
    topic_name: str = string("0+")
    partitions: list[int] = array(int32, "0+")


@message()
class DescribeShareGroupOffsetsRequestGroup:
    group_id: str = string("0+")
    topics: list[DescribeShareGroupOffsetsRequestTopic] | None = array(
        DescribeShareGroupOffsetsRequestTopic, "0+", nullable="0+"
    )


@message(versions="0-1", flexible="0+", api_key=90)
class DescribeShareGroupOffsetsRequest:
    groups: list[DescribeShareGroupOffsetsRequestGroup] = array(DescribeShareGroupOffsetsRequestGroup, "0+")


@message()
class DescribeShareGroupOffsetsResponsePartition:
    partition_index: int = int32("0+")
    start_offset: int = int64("0+")
    leader_epoch: int = int32("0+")
    lag: int = int64("1+", default=-1)
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default=None)


@message()
class DescribeShareGroupOffsetsResponseTopic:
    topic_name: str = string("0+")
    topic_id: bytes = uuid("0+")
    partitions: list[DescribeShareGroupOffsetsResponsePartition] = array(
        DescribeShareGroupOffsetsResponsePartition, "0+"
    )


@message()
class DescribeShareGroupOffsetsResponseGroup:
    group_id: str = string("0+")
    topics: list[DescribeShareGroupOffsetsResponseTopic] = array(DescribeShareGroupOffsetsResponseTopic, "0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default=None)


@message(versions="0-1", flexible="0+", api_key=90)
class DescribeShareGroupOffsetsResponse:
    throttle_time_ms: int = int32("0+")
    groups: list[DescribeShareGroupOffsetsResponseGroup] = array(DescribeShareGroupOffsetsResponseGroup, "0+")


def error_response(
    request: DescribeShareGroupOffsetsRequest, version: int, code: ErrorCode
) -> DescribeShareGroupOffsetsResponse:
    """Return the response with the error `code`."""
    text = message_of(code)
    return DescribeShareGroupOffsetsResponse(
        groups=[
            DescribeShareGroupOffsetsResponseGroup(each.group_id, error_code=code, error_message=text)
            for each in request.groups
        ]
    )
