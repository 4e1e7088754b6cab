"""DescribeShareGroupOffsets, AlterShareGroupOffsets and DeleteShareGroupOffsets (KIP-932): admin tools read, set and
delete the start offsets of share groups. The share coordinator keeps them; the request is parked until it has answered.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from coordinatord.base.budget import SLICE_COSTLY_ITEMS
from coordinatord.base.config import Settings
from coordinatord.coordination.group.consumer.topics import Topics
from coordinatord.coordination.group.share.events import AlterShareOffsets, DeleteShareOffsets, ShareOffsetsDeleted
from coordinatord.coordination.service.groups import GroupActor
from coordinatord.coordination.service.share_states import Errors, ShareStates
from coordinatord.coordination.share.end_offsets import EndOffsets, PartitionEnds
from coordinatord.coordination.share.persister import (
    UNINITIALIZED_DELIVERY_COMPLETE_COUNT,
    UNINITIALIZED_START_OFFSET,
    PartitionSummary,
    TopicIdPartition,
)
from coordinatord.transport.net.cooperative_tasks import CooperativeTask, TaskSteps
from coordinatord.transport.net.request import RequestContext
from kafka_wire.api.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponseTopic,
)
from kafka_wire.api.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)
from kafka_wire.api.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from kafka_wire.api_key import ApiKey
from kafka_wire.errors import ErrorCode, message_of
from kafka_wire.registry import error_response

NO_LAG = -1


class ShareOffsets:
    """The handlers."""

    def __init__(self, states: ShareStates, topics: Topics, ends: PartitionEnds, settings: Settings) -> None:
        self.states = states
        self.coordinator = states.coordinator
        self.topics = topics
        self.ends = ends
        self.max_group_id_bytes = settings.group_id_max_bytes

    def handlers(self) -> dict[int, Any]:
        """Return the handlers by API key."""
        return {
            ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: self.describe,
            ApiKey.ALTER_SHARE_GROUP_OFFSETS: self.alter,
            ApiKey.DELETE_SHARE_GROUP_OFFSETS: self.delete,
        }

    # DescribeShareGroupOffsets

    def describe(self, context: RequestContext, request: DescribeShareGroupOffsetsRequest) -> CooperativeTask:
        """Return the start offsets of each group's partitions, and how many records are before its members."""
        return CooperativeTask(self._describing(context, request))

    def _describing(self, context: RequestContext, request: DescribeShareGroupOffsetsRequest) -> TaskSteps:
        groups, places, calls = [], [], []
        for each in request.groups:
            group, names, partitions = self._without_lag(each)
            topics: dict[bytes, DescribeShareGroupOffsetsResponseTopic] = {}
            groups.append((group, topics))
            for first in range(0, len(partitions), SLICE_COSTLY_ITEMS):
                places.append((names, topics))
                part = partitions[first : first + SLICE_COSTLY_ITEMS]
                calls.append(partial(self.states.persister.read_summary, each.group_id, part))
            yield None

        def with_summaries(found: list[list[PartitionSummary]]) -> TaskSteps:
            read = [[(each.topic_id, each.partition) for each in part if _has_lag(each)] for part in found]
            asked = [partial(self.ends.ask, part) for part in read]
            return (yield from _gathered(context, asked, partial(with_ends, found)))

        def with_ends(found: list[list[PartitionSummary]], ends: list[EndOffsets]) -> TaskSteps:
            for (names, topics), summaries, part_ends in zip(places, found, ends, strict=True):
                _describe(topics, names, summaries, part_ends)
                yield None
            for group, topics in groups:  # first the topics that exist
                group.topics[:0] = topics.values()
            return DescribeShareGroupOffsetsResponse(groups=[group for group, _ in groups])

        return (yield from _gathered(context, calls, with_summaries))

    def _without_lag(
        self, request: DescribeShareGroupOffsetsRequestGroup
    ) -> tuple[DescribeShareGroupOffsetsResponseGroup, dict[bytes, str], list[TopicIdPartition]]:
        """Return the group's response without what the share coordinator has to add, and what it is asked for."""
        group = DescribeShareGroupOffsetsResponseGroup(request.group_id)
        names: dict[bytes, str] = {}
        partitions: list[TopicIdPartition] = []
        if request.topics is None:
            actor = self.coordinator.find(request.group_id)
            if isinstance(actor, ErrorCode):
                group.error_code, group.error_message = actor, message_of(actor)
                return group, names, partitions
            share = None if actor is None else actor.group.share
            state = None if share is None else share.partitions
            for topic_id, named in ({} if state is None else state.initialized).items():
                if (topic := self.topics.find_id(topic_id)) is not None:
                    names[topic_id] = topic.name
                    partitions += [(topic_id, each) for each in sorted(named.partitions)]
            return group, names, partitions
        for asked in request.topics:
            topic = self.topics.find(asked.topic_name)
            if topic is None:  # as in OffsetFetch, that is no error
                absent = [
                    DescribeShareGroupOffsetsResponsePartition(each, UNINITIALIZED_START_OFFSET)
                    for each in asked.partitions
                ]
                group.topics.append(DescribeShareGroupOffsetsResponseTopic(asked.topic_name, partitions=absent))
                continue
            names[topic.topic_id] = topic.name
            partitions += [(topic.topic_id, each) for each in asked.partitions]
        return group, names, partitions

    # AlterShareGroupOffsets

    def alter(self, context: RequestContext, request: AlterShareGroupOffsetsRequest) -> Any:
        """Set start offsets of a group without members. A group that does not exist is created."""
        actor = self._actor(request.group_id)
        if isinstance(actor, ErrorCode):
            return error_response(request, context.api_version, actor)
        answer = actor.tell(AlterShareOffsets(request))
        response: AlterShareGroupOffsetsResponse = answer.response
        # First the topics that are not there, as Kafka's broker answers for them before it asks its group coordinator.
        response.responses.sort(key=lambda topic: self.topics.find(topic.topic_name) is not None)
        if not answer.create:
            return actor.respond(context, response)
        self.states.alter(request.group_id, answer.create, partial(self._altered, context, actor, response))
        return None

    def _altered(
        self, context: RequestContext, actor: GroupActor, response: AlterShareGroupOffsetsResponse, errors: Errors
    ) -> None:
        failed = {(each.topic_id, each.partition): each for each in errors if each.error is not ErrorCode.NONE}
        for topic in response.responses:
            _add_errors(topic, failed)
        self._reply(context, actor, response)

    # DeleteShareGroupOffsets

    def delete(self, context: RequestContext, request: DeleteShareGroupOffsetsRequest) -> Any:
        """Delete the state of topics of a group without members."""
        if not request.group_id:
            return error_response(request, context.api_version, ErrorCode.INVALID_GROUP_ID)
        actor = self._actor(request.group_id)
        if isinstance(actor, ErrorCode):
            return error_response(request, context.api_version, actor)
        deletion = actor.tell(DeleteShareOffsets(request))
        response: DeleteShareGroupOffsetsResponse = deletion.response
        if not deletion.partitions:
            return actor.respond(context, response)
        done = partial(self._deleted, context, actor, response)
        self.states.delete(request.group_id, deletion.partitions, done)
        return None

    def _deleted(
        self, context: RequestContext, actor: GroupActor, response: DeleteShareGroupOffsetsResponse, errors: Errors
    ) -> None:
        topics = {each.topic_id: ErrorCode.NONE for each in errors}
        for each in errors:
            if each.error is not ErrorCode.NONE:
                topics[each.topic_id] = each.error
        deleted = frozenset(topic_id for topic_id, error in topics.items() if error is ErrorCode.NONE)
        current = self.states.actor(actor.id)
        if deleted and current is not None:
            current.tell(ShareOffsetsDeleted(deleted))
        named = [self._topic(topic_id, error) for topic_id, error in topics.items()]
        ok = [topic for topic in named if topic.error_code == ErrorCode.NONE]
        response.responses = [*ok, *response.responses, *(topic for topic in named if topic not in ok)]
        self._reply(context, current or actor, response)

    def _topic(self, topic_id: bytes, error: ErrorCode) -> DeleteShareGroupOffsetsResponseTopic:
        topic = self.topics.find_id(topic_id)
        text = None if error is ErrorCode.NONE else message_of(error)
        return DeleteShareGroupOffsetsResponseTopic("" if topic is None else topic.name, topic_id, error, text)

    # Internals

    def _actor(self, group_id: str) -> GroupActor | ErrorCode:
        if not group_id or len(group_id) > self.max_group_id_bytes:
            return ErrorCode.INVALID_GROUP_ID
        return self.coordinator.actor_for(group_id)

    def _reply(self, context: RequestContext, actor: GroupActor, response: Any) -> None:
        """Respond to a parked request when the group's records are durable."""
        self.coordinator.parked.answer_at(actor.epoch, [(context, response)])


def _gathered(
    context: RequestContext,
    calls: Sequence[Callable[[Callable[[Any], object]], object]],
    then: Callable[[list[Any]], TaskSteps],
) -> TaskSteps:
    """Make all calls, each of which takes a callback, and go on with `then` and their results, in the calls' order.

    If results are missing, which other nodes may owe for many seconds, the request is parked meanwhile: waiting tasks
    would take the places of other requests (MAX_RUNNING).
    """
    results: list[Any] = [None] * len(calls)
    missing = len(calls)
    is_parked = False

    def done(place: int, result: Any) -> None:
        nonlocal missing
        results[place] = result
        missing -= 1
        if not missing and is_parked:
            context.go_on(CooperativeTask(then(results)))

    for place, call in enumerate(calls):
        call(partial(done, place))
        yield None
    if missing:
        is_parked = True
        return None
    return (yield from then(results))


def _describe(
    topics: dict[bytes, DescribeShareGroupOffsetsResponseTopic],
    names: dict[bytes, str],
    summaries: list[PartitionSummary],
    ends: EndOffsets,
) -> None:
    """Add partitions to the topics of a group."""
    for each in summaries:
        topic = topics.get(each.topic_id)
        if topic is None:
            name = names[each.topic_id]
            topic = topics[each.topic_id] = DescribeShareGroupOffsetsResponseTopic(name, each.topic_id)
        topic.partitions.append(_partition(each, ends))


def _has_lag(summary: PartitionSummary) -> bool:
    """Return whether the lag of a partition can be counted: its state is known, and members have read it."""
    return (
        summary.error is ErrorCode.NONE
        and summary.start_offset != UNINITIALIZED_START_OFFSET
        and summary.delivery_complete_count != UNINITIALIZED_DELIVERY_COMPLETE_COUNT
    )


def _partition(summary: PartitionSummary, ends: EndOffsets) -> DescribeShareGroupOffsetsResponsePartition:
    """Return a partition's start offset and lag. An error of the share coordinator counts as no offset."""
    index, start = summary.partition, summary.start_offset
    if summary.error is not ErrorCode.NONE:
        return DescribeShareGroupOffsetsResponsePartition(index, UNINITIALIZED_START_OFFSET)
    if not _has_lag(summary):
        return DescribeShareGroupOffsetsResponsePartition(index, start, summary.leader_epoch, NO_LAG)
    end = ends[summary.topic_id, index]
    if isinstance(end, ErrorCode):
        return DescribeShareGroupOffsetsResponsePartition(index, error_code=end, error_message=message_of(end))
    lag = end - start - summary.delivery_complete_count
    return DescribeShareGroupOffsetsResponsePartition(index, start, summary.leader_epoch, lag)


def _add_errors(topic: AlterShareGroupOffsetsResponseTopic, failed: dict[tuple[bytes, int], Any]) -> None:
    for each in topic.partitions:
        found = failed.get((topic.topic_id, each.partition_index))
        if found is not None and each.error_code == ErrorCode.NONE:
            each.error_code = found.error
            each.error_message = found.message or message_of(found.error)
