"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup: from the request to the group's step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coordinatord.coordination.group.events import Join, Leave, Sync
from coordinatord.coordination.group.state import MAX_ID_CHARACTERS
from coordinatord.transport.net.request import RequestContext
from kafka_wire.api.heartbeat import HeartbeatRequest
from kafka_wire.api.join_group import JoinGroupRequest
from kafka_wire.api.leave_group import LeaveGroupRequest
from kafka_wire.api.sync_group import SyncGroupRequest
from kafka_wire.api_key import ApiKey
from kafka_wire.errors import ErrorCode
from kafka_wire.registry import error_response

if TYPE_CHECKING:
    from coordinatord.coordination.service.groups import Coordinator

HEARTBEAT_WHILE_LOADING = ErrorCode.NONE
"""Error of Heartbeat while loading, as in Kafka: clients do not handle COORDINATOR_LOAD_IN_PROGRESS of Heartbeat, and
the load soon shows whether the member exists.
"""

SYNC_WHILE_LOADING = ErrorCode.REBALANCE_IN_PROGRESS
"""Error of SyncGroup while loading. The rebalance was in the memory of the previous coordinator, so the client must
start with JoinGroup again. Kafka's old group coordinator responded in this way; the new one responds with
COORDINATOR_LOAD_IN_PROGRESS, which Java's consumer turns into an exception that poll() throws to the application.
"""


class Membership:
    """The handlers of the four requests of the classic protocol."""

    def __init__(self, coordinator: Coordinator, *, max_group_id_bytes: int, max_metadata_bytes: int) -> None:
        self.coordinator = coordinator
        self.max_group_id_bytes = max_group_id_bytes
        self.max_metadata_bytes = max_metadata_bytes

    def handlers(self) -> dict[int, Any]:
        """Return the handlers by API key."""
        return {
            ApiKey.JOIN_GROUP: self.join,
            ApiKey.HEARTBEAT: self.heartbeat,
            ApiKey.LEAVE_GROUP: self.leave,
            ApiKey.SYNC_GROUP: self.sync,
        }

    def join(self, context: RequestContext, request: JoinGroupRequest) -> Any:
        """Handle a JoinGroup. It is parked until the generation begins, unless it is rejected or changes nothing."""
        version = context.api_version
        if not request.group_id or len(request.group_id) > self.max_group_id_bytes:
            return error_response(request, version, ErrorCode.INVALID_GROUP_ID)
        if not self.coordinator.group_settings.allow_session(request.session_timeout_ms):
            return error_response(request, version, ErrorCode.INVALID_SESSION_TIMEOUT)
        size = 0
        for protocol in request.protocols:
            name_size = len(protocol.name)
            if name_size > MAX_ID_CHARACTERS:
                return error_response(request, version, ErrorCode.POLICY_VIOLATION)
            size += name_size + len(protocol.metadata)
        if size > self.max_metadata_bytes:
            # Longer metadata could not be written to the log, and would fail the rebalance of the whole group.
            return error_response(request, version, ErrorCode.POLICY_VIOLATION)
        actor = self.coordinator.actor_for(request.group_id)
        if isinstance(actor, ErrorCode):
            return error_response(request, version, actor)
        client_id, host = context.client_id, context.client_host
        has_room = self.coordinator.has_room_for_id()
        event = Join.of(request, version, context, client_id, host, context.may_describe, has_room)
        return actor.respond_together(context, actor.tell(event))

    def sync(self, context: RequestContext, request: SyncGroupRequest) -> Any:
        """Handle a SyncGroup. It is parked until the leader's SyncGroup arrives, unless the group is stable already."""
        actor = self._actor(context, request, SYNC_WHILE_LOADING)
        if actor is None:
            return None
        return actor.respond_together(context, actor.tell(Sync.of(request, context.api_version, context)))

    def heartbeat(self, context: RequestContext, request: HeartbeatRequest) -> Any:
        """Handle a Heartbeat. The request is the event."""
        actor = self._actor(context, request, HEARTBEAT_WHILE_LOADING)
        return None if actor is None else actor.respond_to_heartbeat(context, actor.tell(request))

    def leave(self, context: RequestContext, request: LeaveGroupRequest) -> Any:
        """Handle a LeaveGroup of one or several members."""
        actor = self._actor(context, request)
        if actor is None:
            return None
        response = actor.tell(Leave.of(request, context.api_version))
        return actor.respond(context, response)

    def _actor(
        self,
        context: RequestContext,
        request: Any,
        while_loading: ErrorCode = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ) -> Any:
        """Return the actor of the request's group; if there is none, send an error response and return None."""
        actor = self.coordinator.actor_for(request.group_id)
        if isinstance(actor, ErrorCode):
            if actor is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                actor = while_loading
            context.reply(error_response(request, context.api_version, actor))
            return None
        return actor
