"""The response that carries an error for the whole request, for each API of the group family.

They follow `getErrorResponse` of Kafka's request classes: some have one error code, some have it in every partition.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from protocol.api.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from protocol.api.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from protocol.api.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol.api.join_group import JoinGroupRequest, JoinGroupResponse
from protocol.api.leave_group import LeaveGroupRequest, LeaveGroupResponse
from protocol.api.list_groups import ListGroupsRequest, ListGroupsResponse
from protocol.api.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from protocol.api.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from protocol.api.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from protocol.api.sync_group import SyncGroupRequest, SyncGroupResponse
from protocol.errors import ErrorCode

NO_OFFSET = -1


def _join(request: JoinGroupRequest, version: int, error: ErrorCode) -> JoinGroupResponse:
    return join_response(JoinGroupResponse(error_code=error, member_id=request.member_id, protocol_name=None), version)


def join_response(response: JoinGroupResponse, version: int) -> JoinGroupResponse:
    """Before v7 the protocol name cannot be null, and no protocol is an empty one."""
    if version < 7 and response.protocol_name is None:
        response.protocol_name = ""
    return response


def _commit(request: OffsetCommitRequest, version: int, error: ErrorCode) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[OffsetCommitResponsePartition(p.partition_index, error) for p in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def fetch_group(group: OffsetFetchRequestGroup, error: ErrorCode) -> OffsetFetchResponseGroup:
    """One group's part of a refused OffsetFetch v8+."""
    return OffsetFetchResponseGroup(group_id=group.group_id, error_code=error)


def _fetch(request: OffsetFetchRequest, version: int, error: ErrorCode) -> OffsetFetchResponse:
    if version >= 8:
        return OffsetFetchResponse(groups=[fetch_group(group, error) for group in request.groups])
    if version >= 2:
        return OffsetFetchResponse(error_code=error)
    # v1 has no error code of its own: it is in every partition that was asked for.
    return OffsetFetchResponse(
        topics=[
            OffsetFetchResponseTopic(
                topic.name,
                [OffsetFetchResponsePartition(p, NO_OFFSET, -1, "", error) for p in topic.partition_indexes],
            )
            for topic in request.topics or []
        ]
    )


def _describe(request: DescribeGroupsRequest, version: int, error: ErrorCode) -> DescribeGroupsResponse:
    return DescribeGroupsResponse(groups=[DescribedGroup(error_code=error, group_id=g) for g in request.groups])


def _delete(request: DeleteGroupsRequest, version: int, error: ErrorCode) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(results=[DeletableGroupResult(g, error) for g in request.groups_names])


_REFUSALS: dict[type[Any], Callable[[Any, int, ErrorCode], Any]] = {
    JoinGroupRequest: _join,
    SyncGroupRequest: lambda request, version, error: SyncGroupResponse(error_code=error),
    HeartbeatRequest: lambda request, version, error: HeartbeatResponse(error_code=error),
    LeaveGroupRequest: lambda request, version, error: LeaveGroupResponse(error_code=error),
    OffsetCommitRequest: _commit,
    OffsetFetchRequest: _fetch,
    OffsetDeleteRequest: lambda request, version, error: OffsetDeleteResponse(error_code=error),
    DescribeGroupsRequest: _describe,
    ListGroupsRequest: lambda request, version, error: ListGroupsResponse(error_code=error),
    DeleteGroupsRequest: _delete,
}


def refuse(request: Any, version: int, error: ErrorCode) -> Any:
    """The response of `request`'s API in `version` that says `error`."""
    return _REFUSALS[type(request)](request, version, error)
