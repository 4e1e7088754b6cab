"""The APIs of the share coordinator (keys 83 to 87), which brokers call.

A request has partitions of one group. Each is a step of its own, with its own result; the response waits until all of
them are durable. As in Kafka (ShareCoordinatorService), a request without a group id, topics or partitions gets an
empty response, and of a partition that occurs more than once the response has the last result.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial
from typing import Any, Final, NamedTuple

from coordinatord.broker.log.errors import LogFailed
from coordinatord.coordination.runtime.versions import unavailable
from coordinatord.coordination.share.coordinator import events
from coordinatord.coordination.share.coordinator.coordinator import ShareCoordinator, coordinator_key
from coordinatord.coordination.share.coordinator.result import Reply
from coordinatord.coordination.share.persister import PartitionError, PartitionState, PartitionSummary, StateBatch
from coordinatord.coordination.share.state_persister import Topics
from coordinatord.transport.net.batching import is_durable
from coordinatord.transport.net.cooperative_tasks import CooperativeTask, TaskSteps
from coordinatord.transport.net.request import RequestContext
from kafka_wire.api import delete_share_group_state as delete
from kafka_wire.api import initialize_share_group_state as initialize
from kafka_wire.api import read_share_group_state as read
from kafka_wire.api import read_share_group_state_summary as summary
from kafka_wire.api import write_share_group_state as write
from kafka_wire.api_key import ApiKey
from kafka_wire.errors import ErrorCode, message_of
from kafka_wire.registry import error_response

FEW: Final = 10
"""A request of more partitions is served in slices."""

MAX_STATE_BATCHES: Final = 20_000
"""Maximum number of state batches of a partition in a write, which is one step: 8 ms. A share partition has at most one
batch for each acquired record (group.share.max.partition.max.record.locks).
"""


class _Api(NamedTuple):
    """The events and results of an API. A partition that this node cannot serve has a PartitionError."""

    what: str  # in Kafka's error messages
    event_of: Callable[[Any, bool], events.Event]
    partition_result: Callable[[Any], Any]
    topic_result: Callable[[bytes, list[Any]], Any]
    response: Callable[[list[Any]], Any]


class ShareStateApis:
    """The handlers."""

    def __init__(self, coordinator: ShareCoordinator, topics: Topics) -> None:
        self.coordinator = coordinator
        self.topics = topics

    def handlers(self) -> dict[int, Any]:
        """Return the handlers by API key."""
        return {
            ApiKey.INITIALIZE_SHARE_GROUP_STATE: self.initialize,
            ApiKey.READ_SHARE_GROUP_STATE: self.read,
            ApiKey.WRITE_SHARE_GROUP_STATE: self.write,
            ApiKey.DELETE_SHARE_GROUP_STATE: self.delete,
            ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: self.read_summary,
        }

    def initialize(self, context: RequestContext, request: Any) -> Any:
        """Create or reset the state of share partitions, for their group's coordinator."""
        return self._serve(context, request, APIS[ApiKey.INITIALIZE_SHARE_GROUP_STATE])

    def read(self, context: RequestContext, request: Any) -> Any:
        """Return the state of share partitions to their leader, and fence earlier leaders."""
        return self._serve(context, request, APIS[ApiKey.READ_SHARE_GROUP_STATE])

    def write(self, context: RequestContext, request: Any) -> Any:
        """Write changes of share partitions, for their leader."""
        return self._serve(context, request, APIS[ApiKey.WRITE_SHARE_GROUP_STATE])

    def delete(self, context: RequestContext, request: Any) -> Any:
        """Delete the state of share partitions, for their group's coordinator."""
        return self._serve(context, request, APIS[ApiKey.DELETE_SHARE_GROUP_STATE])

    def read_summary(self, context: RequestContext, request: Any) -> Any:
        """Return start offsets and epochs of share partitions to their group's coordinator."""
        return self._serve(context, request, APIS[ApiKey.READ_SHARE_GROUP_STATE_SUMMARY])

    def _serve(self, context: RequestContext, request: Any, api: _Api) -> Any:
        if sum(len(topic.partitions) for topic in request.topics) > FEW:
            return CooperativeTask(self._in_slices(context, request, api), is_change=True)
        steps = self._steps(context, request, api)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                return self._respond(context, *end.value)

    def _in_slices(self, context: RequestContext, request: Any, api: _Api) -> TaskSteps:
        epoch, response = yield from self._steps(context, request, api)
        if not (yield from is_durable(context, epoch)):
            return error_response(request, context.api_version, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return response

    def _respond(self, context: RequestContext, epoch: int, response: Any) -> Any:
        """Return the response, or hold it until it is durable: the node's next request does not wait for that."""
        gate = self.coordinator.gate
        if epoch <= gate.flushed_epoch or gate.has_flushed(epoch):
            return response
        context.answer_at(epoch, response, partial(unavailable, context.codec, context.keep()))
        return None

    def _steps(self, context: RequestContext, request: Any, api: _Api) -> Generator[None, None, tuple[int, Any]]:
        """Return the response, and the flush epoch for which it waits."""
        results: dict[bytes, dict[int, Reply]] = {}
        epoch = 0
        for topic in () if _is_empty(request) else request.topics:
            for part in topic.partitions:
                try:
                    result, written = self._run(request.group_id, topic.topic_id, part, api)
                except LogFailed:
                    return 0, error_response(request, context.api_version, ErrorCode.COORDINATOR_NOT_AVAILABLE)
                results.setdefault(topic.topic_id, {})[part.partition] = result
                epoch = max(epoch, written)
                yield None
        topics = []
        for topic_id, parts in results.items():
            answered = []
            for each in parts.values():
                answered.append(api.partition_result(each))
                yield None
            topics.append(api.topic_result(topic_id, answered))
        return epoch, api.response(topics)

    def _run(self, group_id: str, topic_id: bytes, part: Any, api: _Api) -> tuple[Reply, int]:
        """Return the result of a step, and the flush epoch for which it waits."""
        if len(getattr(part, "state_batches", ())) > MAX_STATE_BATCHES:
            message = f"Unable to {api.what}: more than {MAX_STATE_BATCHES} state batches"
            return PartitionError(topic_id, part.partition, ErrorCode.INVALID_REQUEST, message), 0
        event = api.event_of(part, self.topics.has_partition(topic_id, part.partition))
        actor = self.coordinator.actor_of(coordinator_key(group_id, topic_id, part.partition), event)
        if isinstance(actor, ErrorCode):
            return PartitionError(topic_id, part.partition, actor, f"Unable to {api.what}: {message_of(actor)}"), 0
        return actor.tell(event), actor.epoch


def _is_empty(request: Any) -> bool:
    if not request.group_id:
        return True
    if isinstance(request, initialize.InitializeShareGroupStateRequest):
        return False  # Kafka skips topics without partitions
    return not all(topic.partitions for topic in request.topics)


def _write(part: write.PartitionData, exists: bool) -> events.Write:
    batches = [
        StateBatch(each.first_offset, each.last_offset, each.delivery_state, each.delivery_count)
        for each in part.state_batches
    ]
    return events.Write(
        part.state_epoch, part.leader_epoch, part.start_offset, part.delivery_complete_count, batches, exists
    )


def _error(made: Callable[..., Any]) -> Callable[[Reply], Any]:
    return lambda reply: made(reply.partition, reply.error, reply.message)


def _state(reply: Reply) -> read.PartitionResult:
    made = read.PartitionResult(reply.partition, reply.error, reply.message)
    if isinstance(reply, PartitionState) and reply.error is ErrorCode.NONE:
        made.state_epoch, made.start_offset = reply.state_epoch, reply.start_offset
        made.state_batches = [read.StateBatch(*each) for each in reply.state_batches]
    return made


def _summary(reply: Reply) -> summary.PartitionResult:
    made = summary.PartitionResult(reply.partition, reply.error, reply.message)
    if isinstance(reply, PartitionSummary) and reply.error is ErrorCode.NONE:
        made.state_epoch, made.leader_epoch = reply.state_epoch, reply.leader_epoch
        made.start_offset, made.delivery_complete_count = reply.start_offset, reply.delivery_complete_count
    return made


APIS: Final[dict[int, _Api]] = {
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: _Api(
        "initialize share group state",
        lambda part, exists: events.Initialize(part.state_epoch, part.start_offset, exists),
        _error(initialize.PartitionResult),
        initialize.InitializeStateResult,
        initialize.InitializeShareGroupStateResponse,
    ),
    ApiKey.READ_SHARE_GROUP_STATE: _Api(
        "read share group state",
        lambda part, exists: events.Read(part.leader_epoch, exists),
        _state,
        read.ReadStateResult,
        read.ReadShareGroupStateResponse,
    ),
    ApiKey.WRITE_SHARE_GROUP_STATE: _Api(
        "write share group state",
        _write,
        _error(write.PartitionResult),
        write.WriteStateResult,
        write.WriteShareGroupStateResponse,
    ),
    ApiKey.DELETE_SHARE_GROUP_STATE: _Api(
        "delete share group state",
        lambda _part, exists: events.Delete(exists),
        _error(delete.PartitionResult),
        delete.DeleteStateResult,
        delete.DeleteShareGroupStateResponse,
    ),
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: _Api(
        "read share group state summary",
        lambda _part, exists: events.ReadSummary(exists),
        _summary,
        summary.ReadStateSummaryResult,
        summary.ReadShareGroupStateSummaryResponse,
    ),
}
