"""AlterShareGroupOffsets: set start offsets of an empty share group (KIP-932)."""

from __future__ import annotations

from kafka_wire.errors import ErrorCode, message_of
from kafka_wire.schema import array, int16, int32, int64, message, string, uuid


@message()
class AlterShareGroupOffsetsRequestPartition:
    partition_index: int = int32("0+")
    start_offset: int = int64("0+")


@message()
class AlterShareGroupOffsetsRequestTopic:
    topic_name: str = string("0+")
    partitions: list[AlterShareGroupOffsetsRequestPartition] = array(AlterShareGroupOffsetsRequestPartition, "0+")


@message(versions="0", flexible="0+", api_key=91)
class AlterShareGroupOffsetsRequest:
    group_id: str = string("0+")
    topics: list[AlterShareGroupOffsetsRequestTopic] = array(AlterShareGroupOffsetsRequestTopic, "0+")


@message()
class AlterShareGroupOffsetsResponsePartition:
    partition_index: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default=None)


@message()
class AlterShareGroupOffsetsResponseTopic:
    topic_name: str = string("0+")
    topic_id: bytes = uuid("0+")
    partitions: list[AlterShareGroupOffsetsResponsePartition] = array(AlterShareGroupOffsetsResponsePartition, "0+")


@message(versions="0", flexible="0+", api_key=91)
class AlterShareGroupOffsetsResponse:
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default=None)
    responses: list[AlterShareGroupOffsetsResponseTopic] = array(AlterShareGroupOffsetsResponseTopic, "0+")


def error_response(
    request: AlterShareGroupOffsetsRequest, version: int, code: ErrorCode
) -> AlterShareGroupOffsetsResponse:
    """Return the response with the error `code`."""
    return AlterShareGroupOffsetsResponse(error_code=code, error_message=message_of(code))
