"""ListGroups, DescribeGroups and DeleteGroups: the requests of admin tools."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from coordinatord.coordination.group.describe import describe, list_group, states_of, types_of
from coordinatord.coordination.group.events import Delete
from coordinatord.coordination.runtime.actors import later, respond_after
from coordinatord.transport.net.cooperative_tasks import CooperativeTask, TaskSteps, Wait, run_through
from coordinatord.transport.net.request import RequestContext
from kafka_wire.api.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from kafka_wire.api.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from kafka_wire.api.list_groups import ListGroupsRequest, ListGroupsResponse
from kafka_wire.api_key import ApiKey
from kafka_wire.errors import ErrorCode

if TYPE_CHECKING:
    from coordinatord.coordination.service.groups import Coordinator, GroupActor
    from coordinatord.coordination.service.share_states import Errors, ShareStates
    from coordinatord.coordination.share.persister import TopicIdPartition

ALL_GROUP_OPERATIONS = 1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11
"""READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS and ALTER_CONFIGS as bits (AclOperation codes): all are allowed."""


FEW_GROUPS = 256
"""Maximum number of groups for which ListGroups builds its response without yielding."""


class GroupAdmin:
    """The handlers."""

    def __init__(self, coordinator: Coordinator, share_states: Callable[[], ShareStates] | None = None) -> None:
        """`share_states` returns the state of share groups; None on a node without share groups."""
        self.coordinator = coordinator
        self.share_states = share_states

    def handlers(self) -> dict[int, Any]:
        """Return the handlers by API key."""
        return {ApiKey.DESCRIBE_GROUPS: self.describe, ApiKey.LIST_GROUPS: self.list, ApiKey.DELETE_GROUPS: self.delete}

    def list(self, context: RequestContext, request: ListGroupsRequest) -> Any:
        """Return all groups of this node that match the filters; an error until all groups are loaded."""
        coordinator = self.coordinator
        if coordinator.draining:
            return ListGroupsResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if coordinator.is_loading:
            return ListGroupsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        steps = self._list(context, request)
        return CooperativeTask(steps) if len(coordinator.actors) > FEW_GROUPS else run_through(steps)

    def _list(self, context: RequestContext, request: ListGroupsRequest) -> TaskSteps:
        coordinator = self.coordinator
        states, types = states_of(request.states_filter), types_of(request.types_filter)
        listed = []
        latest = None
        for actor in list(coordinator.actors.values()):
            group = list_group(actor.group, states, types)
            if group is not None:
                listed.append(group)
                latest = later(latest, actor)
            yield None
        # The deletion of a group that is not listed may not be durable yet.
        latest = later(latest, coordinator.absent())
        return respond_after(latest, context, ListGroupsResponse(groups=listed))

    def describe(self, context: RequestContext, request: DescribeGroupsRequest) -> Any:
        """Describe groups. Each group has its own error: an unknown group, or
        one of another node, does not fail the others.

        The empty group id is valid here and in `delete`: simple consumers may have committed under it.
        """
        version = context.api_version
        described = []
        latest = None
        for group_id in request.groups:
            actor = self.coordinator.find(group_id)
            if isinstance(actor, ErrorCode):
                described.append(DescribedGroup(error_code=actor, group_id=group_id))
                continue
            found = describe(actor.group if actor else None, group_id, version)
            if version >= 3 and request.include_authorized_operations and found.error_code == ErrorCode.NONE:
                found.authorized_operations = ALL_GROUP_OPERATIONS
            described.append(found)
            latest = later(latest, actor)
        return respond_after(latest, context, DescribeGroupsResponse(groups=described))

    def delete(self, context: RequestContext, request: DeleteGroupsRequest) -> Any:
        """Delete groups without members, and their offsets; a group that is named twice is deleted once. Before a share
        group, its state is deleted: then the response comes later.
        """
        results: dict[str, DeletableGroupResult] = {}
        latest = None
        deletions: dict[str, Sequence[TopicIdPartition]] = {}
        for group_id in dict.fromkeys(request.groups_names):
            actor = self.coordinator.find(group_id)
            if actor is None:
                results[group_id] = DeletableGroupResult(group_id, ErrorCode.GROUP_ID_NOT_FOUND)
                continue
            if isinstance(actor, ErrorCode):
                results[group_id] = DeletableGroupResult(group_id, actor)
                continue
            latest = later(latest, actor)
            if actor.group.share is not None and self.share_states is not None:
                deletion = actor.tell(self.share_states().deletion())
                if deletion.response is not None:
                    results[group_id] = deletion.response
                    continue
                if deletion.partitions:
                    results[group_id] = DeletableGroupResult(group_id)
                    deletions[group_id] = deletion.partitions
                    continue
            results[group_id] = actor.tell(Delete())
        if self.share_states is not None and deletions:
            return CooperativeTask(self._delete_shared(context, results, deletions, latest, self.share_states()))
        return respond_after(latest, context, DeleteGroupsResponse(results=[*results.values()]))

    def _delete_shared(
        self,
        context: RequestContext,
        results: dict[str, DeletableGroupResult],
        deletions: dict[str, Sequence[TopicIdPartition]],
        latest: GroupActor | None,
        states: ShareStates,
    ) -> TaskSteps:
        """Delete share groups, each after its state; `results` has those of other groups."""
        for group_id, partitions in deletions.items():
            errors: Errors = []
            yield Wait(partial(_delete_state, states, group_id, partitions, errors))
            error = next((each.error for each in errors if each.error is not ErrorCode.NONE), None)
            actor = self.coordinator.find(group_id)
            if error is not None:
                results[group_id] = DeletableGroupResult(group_id, error)
            elif actor is None or isinstance(actor, ErrorCode):
                results[group_id] = DeletableGroupResult(group_id, actor or ErrorCode.GROUP_ID_NOT_FOUND)
            else:
                results[group_id] = actor.tell(Delete())
                latest = later(latest, actor)
        return respond_after(latest, context, DeleteGroupsResponse(results=[*results.values()]))


def _delete_state(
    states: ShareStates,
    group_id: str,
    partitions: Sequence[TopicIdPartition],
    errors: Errors,
    resume: Callable[[], object],
) -> None:
    """Delete the state of a share group; then `errors` has the outcome."""

    def done(found: Errors) -> None:
        errors.extend(found)
        resume()

    states.delete(group_id, partitions, done)
