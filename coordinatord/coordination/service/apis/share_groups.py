"""ShareGroupHeartbeat and ShareGroupDescribe (KIP-932): from the request to the group's step."""

from __future__ import annotations

from typing import Any, Final

from coordinatord.base.config import Settings
from coordinatord.coordination.group.consumer.state import GroupEnvironment
from coordinatord.coordination.group.share.describe import describe_share
from coordinatord.coordination.group.share.events import ShareHeartbeat
from coordinatord.coordination.runtime.actors import later, respond_after
from coordinatord.coordination.service.apis.admin import ALL_GROUP_OPERATIONS
from coordinatord.coordination.service.share_states import ShareStates
from coordinatord.transport.net.request import RequestContext
from kafka_wire.api.share_group_describe import DescribedGroup, ShareGroupDescribeRequest, ShareGroupDescribeResponse
from kafka_wire.api.share_group_heartbeat import ShareGroupHeartbeatRequest
from kafka_wire.api_key import ApiKey
from kafka_wire.errors import ErrorCode, message_of
from kafka_wire.registry import error_response

MAX_MEMBER_ID: Final = 36
"""Maximum characters of a member id: those of a UUID."""


class ShareGroups:
    """Handlers of the requests of share groups' members, and of their description."""

    def __init__(self, states: ShareStates, surroundings: GroupEnvironment, settings: Settings) -> None:
        self.states = states
        self.coordinator = states.coordinator
        self.surroundings = surroundings
        self.max_group_id_bytes = settings.group_id_max_bytes
        self.max_metadata_bytes = settings.group_max_member_metadata_bytes

    def handlers(self) -> dict[int, Any]:
        """Return the handlers by API key."""
        return {ApiKey.SHARE_GROUP_HEARTBEAT: self.heartbeat, ApiKey.SHARE_GROUP_DESCRIBE: self.describe}

    def heartbeat(self, context: RequestContext, request: ShareGroupHeartbeatRequest) -> Any:
        """Handle a heartbeat. The group's response waits until the state that it shows is durable, but not for the
        state of share partitions that it asks for.
        """
        version = context.api_version
        if not 0 < len(request.member_id) <= MAX_MEMBER_ID:
            return error_response(request, version, ErrorCode.INVALID_REQUEST)
        if len(request.group_id) > self.max_group_id_bytes:
            return error_response(request, version, ErrorCode.INVALID_GROUP_ID)
        names = request.subscribed_topic_names
        if names is not None and sum(map(len, names)) > self.max_metadata_bytes:
            return error_response(request, version, ErrorCode.POLICY_VIOLATION)
        actor = self.coordinator.actor_for(request.group_id)
        if isinstance(actor, ErrorCode):
            return error_response(request, version, actor)
        answer = actor.tell(ShareHeartbeat(request, context.client_id or "", context.client_host))
        if answer.create:
            self.states.initialize(request.group_id, answer.create)
        return actor.respond_to_heartbeat(context, answer.response)

    def describe(self, context: RequestContext, request: ShareGroupDescribeRequest) -> Any:
        """Describe each group by itself: a group that does not exist, or is on another node, is no error of the
        others.
        """
        described = []
        latest = None
        for group_id in request.group_ids:
            actor = self.coordinator.find(group_id)
            if isinstance(actor, ErrorCode):
                text = message_of(actor)
                described.append(DescribedGroup(error_code=actor, error_message=text, group_id=group_id))
                continue
            if not group_id:
                described.append(DescribedGroup(error_code=ErrorCode.INVALID_GROUP_ID, group_id=group_id))
                continue
            found = describe_share(actor.group if actor else None, group_id, self.surroundings.topics)
            if request.include_authorized_operations and found.error_code == ErrorCode.NONE:
                found.authorized_operations = ALL_GROUP_OPERATIONS
            described.append(found)
            latest = later(latest, actor)
        return respond_after(latest, context, ShareGroupDescribeResponse(groups=described))
