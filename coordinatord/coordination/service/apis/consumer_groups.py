"""ConsumerGroupHeartbeat and ConsumerGroupDescribe (KIP-848): from the request to the group's step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coordinatord.base.config import Settings
from coordinatord.base.observe.logger import get_logger
from coordinatord.coordination.group.consumer.describe import describe_consumer
from coordinatord.coordination.group.consumer.state import GroupEnvironment
from coordinatord.coordination.group.events import ConsumerHeartbeat
from coordinatord.coordination.group.state import MAX_ID_CHARACTERS
from coordinatord.coordination.runtime.actors import later, respond_after
from coordinatord.coordination.service.apis.admin import ALL_GROUP_OPERATIONS
from coordinatord.transport.net.request import RequestContext
from kafka_wire.api.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)
from kafka_wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafka_wire.api_key import ApiKey
from kafka_wire.errors import ErrorCode
from kafka_wire.registry import error_response

if TYPE_CHECKING:
    from coordinatord.coordination.service.groups import Coordinator

log = get_logger("coordinatord.coordination.service")


class ConsumerGroups:
    """Handlers of the requests of consumer groups."""

    def __init__(self, coordinator: Coordinator, surroundings: GroupEnvironment, settings: Settings) -> None:
        self.coordinator = coordinator
        self.surroundings = surroundings
        self.max_group_id_bytes = settings.group_id_max_bytes
        self.max_metadata_bytes = settings.group_max_member_metadata_bytes

    def handlers(self) -> dict[int, Any]:
        """Return the handlers by API key."""
        return {
            ApiKey.CONSUMER_GROUP_HEARTBEAT: self.heartbeat,
            ApiKey.CONSUMER_GROUP_DESCRIBE: self.describe,
        }

    def heartbeat(self, context: RequestContext, request: ConsumerGroupHeartbeatRequest) -> Any:
        """Handle a heartbeat. The group's response waits until the state that it shows is durable."""
        version = context.api_version
        if len(request.group_id) > self.max_group_id_bytes:
            return error_response(request, version, ErrorCode.INVALID_GROUP_ID)
        names = request.subscribed_topic_names
        if names is not None and sum(map(len, names)) > self.max_metadata_bytes:
            return error_response(request, version, ErrorCode.POLICY_VIOLATION)
        actor = self.coordinator.actor_for(request.group_id)
        if isinstance(actor, ErrorCode):
            return error_response(request, version, actor)
        host, may_describe = context.client_host, context.may_describe
        event = ConsumerHeartbeat.of(request, version, context.client_id, host, context, may_describe)
        response = actor.tell(event)
        if response is not None and response.error_code == ErrorCode.GROUP_ID_NOT_FOUND and not request.member_epoch:
            # The client says "the group id does not exist", which is no help. Kafka's broker logs it, too.
            reason, who = response.error_message, (context.client_id or "")[:MAX_ID_CHARACTERS]
            log.warning("consumer protocol refused", group=request.group_id, client_id=who, host=host, reason=reason)
        return None if response is None else actor.respond_to_heartbeat(context, response)

    def describe(self, context: RequestContext, request: ConsumerGroupDescribeRequest) -> Any:
        """Describe each group by itself: a group that does not exist, or is on another node, is no error of the
        others.
        """
        described = []
        latest = None
        for group_id in request.group_ids:
            actor = self.coordinator.find(group_id)
            if isinstance(actor, ErrorCode):
                described.append(DescribedGroup(error_code=actor, group_id=group_id))
                continue
            if not group_id:
                described.append(DescribedGroup(error_code=ErrorCode.INVALID_GROUP_ID, group_id=group_id))
                continue
            found = describe_consumer(actor.group if actor else None, group_id, self.surroundings)
            if request.include_authorized_operations and found.error_code == ErrorCode.NONE:
                found.authorized_operations = ALL_GROUP_OPERATIONS
            described.append(found)
            latest = later(latest, actor)
        return respond_after(latest, context, ConsumerGroupDescribeResponse(groups=described))
