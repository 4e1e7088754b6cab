"""ShareAcknowledge v1-v2: acknowledgements without a fetch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coordinatord.broker.topics.catalogue import Catalogue
from coordinatord.coordination.share.apis.acknowledgements import Acknowledging, Outcomes, refuses, served
from coordinatord.coordination.share.apis.leaders import Leaders
from coordinatord.coordination.share.members import ShareMembers
from coordinatord.coordination.share.sessions import FINAL_EPOCH, INITIAL_EPOCH
from kafka_wire.api.share_acknowledge import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)
from kafka_wire.api_key import ApiKey
from kafka_wire.errors import ErrorCode

if TYPE_CHECKING:
    from coordinatord.transport.net.request import RequestContext


class ShareAcknowledges:
    """The handler of ShareAcknowledge."""

    def __init__(self, catalogue: Catalogue, leaders: Leaders, members: ShareMembers) -> None:
        self.catalogue = catalogue
        self.leaders = leaders
        self.members = members

    def handlers(self) -> dict[int, Any]:
        """Return the handlers by API key."""
        return {ApiKey.SHARE_ACKNOWLEDGE: self.acknowledge}

    def acknowledge(self, context: RequestContext, request: ShareAcknowledgeRequest) -> Any:
        """Return an error response; or None, or the slices of a large request: the response leaves when the
        acknowledgements are persisted.
        """
        group_id, member_id, epoch = request.group_id, request.member_id, request.share_session_epoch
        if group_id is None or member_id is None or refuses(group_id, member_id):
            return ShareAcknowledgeResponse(error_code=ErrorCode.INVALID_REQUEST)
        key = group_id, member_id
        sessions = self.members.sessions
        if epoch == INITIAL_EPOCH:
            return ShareAcknowledgeResponse(error_code=ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        if epoch == FINAL_EPOCH:
            if sessions.get(key) is None:
                return ShareAcknowledgeResponse(error_code=ErrorCode.SHARE_SESSION_NOT_FOUND)
        else:
            session = sessions.advance(key, epoch)
            if isinstance(session, ErrorCode):
                return ShareAcknowledgeResponse(error_code=session)

        def done(outcomes: Outcomes) -> None:
            if epoch == FINAL_EPOCH:
                self.members.end(key)
            context.reply(self._respond(context, group_id, outcomes))

        acknowledging = Acknowledging(done)
        may_read = None if context.admitted is None else context.admitted.may
        accepted = acknowledging.sort(
            request.topics, self.catalogue, may_read, context.api_version, may_renew=request.is_renew_ack
        )
        steps = acknowledging.steps(self.members.partitions, group_id, member_id, accepted)
        return served(request.topics, steps)

    def _respond(self, context: RequestContext, group_id: str, outcomes: Outcomes) -> ShareAcknowledgeResponse:
        topics: dict[bytes, list[PartitionData]] = {}
        leaders: set[int] = set()
        for (topic_id, index), outcome in outcomes.items():
            data = PartitionData(index, outcome.error, outcome.message)
            leader = self.leaders.of(topic_id, index, outcome.error)
            if leader is not None:
                data.current_leader = LeaderIdAndEpoch(*leader)
                leaders.add(leader[0])
            topics.setdefault(topic_id, []).append(data)
        return ShareAcknowledgeResponse(
            acquisition_lock_timeout_ms=self.members.partitions.settings.limits(group_id).record_lock_duration_ms,
            responses=[ShareAcknowledgeTopicResponse(topic_id, data) for topic_id, data in topics.items()],
            node_endpoints=[NodeEndpoint(*node) for node in self.leaders.endpoints(leaders, context.listener)],
        )
