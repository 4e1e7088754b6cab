"""OffsetFetch: the committed offsets of groups.

v2 null topics mean all, top-level error · v3 throttle time · v5 leader epoch · v6 flexible · v7 require_stable ·
v8 several groups (KIP-709) · v9 member id and epoch (KIP-848) · v10 topic ids instead of names
"""

from __future__ import annotations

from kafka_wire.errors import ErrorCode
from kafka_wire.schema import array, boolean, int16, int32, int64, message, string, uuid


@message()
class OffsetFetchRequestTopic:
    name: str = string("0-7")
    partition_indexes: list[int] = array(int32, "0-7")


@message()
class OffsetFetchRequestTopics:
    name: str = string("8-9")
    topic_id: bytes = uuid("10+")
    partition_indexes: list[int] = array(int32, "8+")


@message()
class OffsetFetchRequestGroup:
    group_id: str = string("8+")
    member_id: str | None = string("9+", nullable="9+", default=None)
    member_epoch: int = int32("9+", default=-1)
    topics: list[OffsetFetchRequestTopics] | None = array(OffsetFetchRequestTopics, "8+", nullable="8+")


@message(versions="1-10", flexible="6+", api_key=9)
class OffsetFetchRequest:
    group_id: str = string("0-7")
    topics: list[OffsetFetchRequestTopic] | None = array(OffsetFetchRequestTopic, "0-7", nullable="2-7")
    groups: list[OffsetFetchRequestGroup] = array(OffsetFetchRequestGroup, "8+")
    require_stable: bool = boolean("7+")


@message()
class OffsetFetchResponsePartition:
    partition_index: int = int32("0-7")
    committed_offset: int = int64("0-7")
    committed_leader_epoch: int = int32("5-7", default=-1)
    metadata: str | None = string("0-7", nullable="0-7")
    error_code: int = int16("0-7")


@message()
class OffsetFetchResponseTopic:
    name: str = string("0-7")
    partitions: list[OffsetFetchResponsePartition] = array(OffsetFetchResponsePartition, "0-7")


@message()
class OffsetFetchResponsePartitions:
    partition_index: int = int32("8+")
    committed_offset: int = int64("8+")
    committed_leader_epoch: int = int32("8+", default=-1)
    metadata: str | None = string("8+", nullable="8+")
    error_code: int = int16("8+")


@message()
class OffsetFetchResponseTopics:
    name: str = string("8-9")
    topic_id: bytes = uuid("10+")
    partitions: list[OffsetFetchResponsePartitions] = array(OffsetFetchResponsePartitions, "8+")


@message()
class OffsetFetchResponseGroup:
    group_id: str = string("8+")
    topics: list[OffsetFetchResponseTopics] = array(OffsetFetchResponseTopics, "8+")
    error_code: int = int16("8+")


@message(versions="1-10", flexible="6+", api_key=9)
class OffsetFetchResponse:
    throttle_time_ms: int = int32("3+")
    topics: list[OffsetFetchResponseTopic] = array(OffsetFetchResponseTopic, "0-7")
    error_code: int = int16("2-7")
    groups: list[OffsetFetchResponseGroup] = array(OffsetFetchResponseGroup, "8+", batched=True)


def error_response(request: OffsetFetchRequest, version: int, code: ErrorCode) -> OffsetFetchResponse:
    """Return the response with the error `code`. v1 has no error code for the whole response."""
    if version >= 8:
        return OffsetFetchResponse(
            groups=[OffsetFetchResponseGroup(each.group_id, error_code=code) for each in request.groups]
        )
    if version >= 2:
        return OffsetFetchResponse(error_code=code)
    return OffsetFetchResponse(
        topics=[
            OffsetFetchResponseTopic(
                topic.name,
                [OffsetFetchResponsePartition(each, -1, -1, "", code) for each in topic.partition_indexes],
            )
            for topic in request.topics or ()
        ]
    )
