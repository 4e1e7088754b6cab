"""The response that carries an error for the whole request, for each API of the group family.

They follow `getErrorResponse` of Kafka's request classes: some have one error code, some have it in every partition.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from coordinatord.group.offsets import commit_error
from coordinatord.handlers.versions import fetch_error, fetch_groups, fetch_response, for_version
from protocol.api.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from protocol.api.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from protocol.api.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol.api.join_group import JoinGroupRequest, JoinGroupResponse
from protocol.api.leave_group import LeaveGroupRequest, LeaveGroupResponse
from protocol.api.list_groups import ListGroupsRequest, ListGroupsResponse
from protocol.api.offset_commit import OffsetCommitRequest
from protocol.api.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from protocol.api.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from protocol.api.sync_group import SyncGroupRequest, SyncGroupResponse
from protocol.errors import ErrorCode


def _join(request: JoinGroupRequest, version: int, error: ErrorCode) -> JoinGroupResponse:
    response = JoinGroupResponse(error_code=error, member_id=request.member_id)
    return for_version(response, version)  # type: ignore[no-any-return]


def _fetch(request: OffsetFetchRequest, version: int, error: ErrorCode) -> OffsetFetchResponse:
    return fetch_response([fetch_error(group, error, version) for group in fetch_groups(request, version)], version)


def _describe(request: DescribeGroupsRequest, version: int, error: ErrorCode) -> DescribeGroupsResponse:
    return DescribeGroupsResponse(groups=[DescribedGroup(error_code=error, group_id=g) for g in request.groups])


def _delete(request: DeleteGroupsRequest, version: int, error: ErrorCode) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(results=[DeletableGroupResult(g, error) for g in request.groups_names])


_REFUSALS: dict[type[Any], Callable[[Any, int, ErrorCode], Any]] = {
    JoinGroupRequest: _join,
    SyncGroupRequest: lambda request, version, error: SyncGroupResponse(error_code=error),
    HeartbeatRequest: lambda request, version, error: HeartbeatResponse(error_code=error),
    LeaveGroupRequest: lambda request, version, error: LeaveGroupResponse(error_code=error),
    OffsetCommitRequest: lambda request, version, error: commit_error(request, error),
    OffsetFetchRequest: _fetch,
    OffsetDeleteRequest: lambda request, version, error: OffsetDeleteResponse(error_code=error),
    DescribeGroupsRequest: _describe,
    ListGroupsRequest: lambda request, version, error: ListGroupsResponse(error_code=error),
    DeleteGroupsRequest: _delete,
}


def refuse(request: Any, version: int, error: ErrorCode) -> Any:
    """The response of `request`'s API in `version` that says `error`."""
    return _REFUSALS[type(request)](request, version, error)
