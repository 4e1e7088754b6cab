"""Responses for a request's version: their conversion where versions differ by more than a missing field, and the error
response after a failure of the log.

Steps return one form for all versions. Responses of a group pass through `for_version` before they are encoded.
OffsetFetch uses `fetch_groups` and `fetch_response` instead: before v8 a request contains a single group.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from coordinatord.transport.net.received import Body
from kafka_wire.api.join_group import JoinGroupResponse
from kafka_wire.api.leave_group import LeaveGroupResponse
from kafka_wire.api.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from kafka_wire.codecs import constructor
from kafka_wire.errors import ErrorCode
from kafka_wire.registry import Codec, error_response

_fetched = constructor(OffsetFetchResponse)
_old_partition = constructor(OffsetFetchResponsePartition)


def for_version(response: Any, version: int) -> Any:
    """Return the response in the form of `version`: the same object if it needs no conversion."""
    if type(response) is JoinGroupResponse:
        return response if response.protocol_name else _join_response(response, version)
    if type(response) is LeaveGroupResponse:
        return _leave_response(response, version)
    return response


def _join_response(response: JoinGroupResponse, version: int) -> JoinGroupResponse:
    """Convert the protocol name: a missing name is null from v7 on, and the empty string in earlier versions."""
    protocol_name = None if version >= 7 else ""
    return response if response.protocol_name == protocol_name else replace(response, protocol_name=protocol_name)


def _leave_response(response: LeaveGroupResponse, version: int) -> LeaveGroupResponse:
    """Convert the members: before v3 a request contains one member, and the error code is that of the member."""
    if version >= 3 or not response.members:
        return response
    return LeaveGroupResponse(error_code=response.error_code or response.members[0].error_code)


def fetch_groups(request: OffsetFetchRequest, version: int) -> list[OffsetFetchRequestGroup]:
    """Return the groups of a request: exactly one before v8."""
    if version >= 8:
        return request.groups
    topics = None
    if request.topics is not None:
        topics = [OffsetFetchRequestTopics(name=t.name, partition_indexes=t.partition_indexes) for t in request.topics]
    return [OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)]


def fetch_response(groups: list[OffsetFetchResponseGroup], version: int) -> OffsetFetchResponse:
    """Return the response for `groups`. Before v8 there must be exactly one."""
    if version >= 8:
        return _fetched(0, [], ErrorCode.NONE, groups)
    (group,) = groups
    topics = [
        OffsetFetchResponseTopic(
            topic.name,
            [
                _old_partition(
                    p.partition_index, p.committed_offset, p.committed_leader_epoch, p.metadata, p.error_code
                )
                for p in topic.partitions
            ],
        )
        for topic in group.topics
    ]
    return OffsetFetchResponse(topics=topics, error_code=group.error_code)


def fetch_error(request: OffsetFetchRequestGroup, error: ErrorCode, version: int) -> OffsetFetchResponseGroup:
    """Return the response for a group whose offsets cannot be read. v1 has error codes only per partition."""
    if version >= 2:
        return OffsetFetchResponseGroup(group_id=request.group_id, error_code=error)
    topics = [
        OffsetFetchResponseTopics(
            topic.name,
            topic.topic_id,
            [OffsetFetchResponsePartitions(p, -1, -1, "", error) for p in topic.partition_indexes],
        )
        for topic in request.topics or ()
    ]
    return OffsetFetchResponseGroup(group_id=request.group_id, topics=topics)


def unavailable(codec: Codec, body: Body) -> Any:
    """Return the response to a request if the log fails before its records are durable."""
    return error_response(codec.decode_request(*body), codec.api_version, ErrorCode.COORDINATOR_NOT_AVAILABLE)
