"""OffsetCommit, OffsetFetch and OffsetDelete: topics and ids are resolved here, the group decides the rest.

Commits for topics and partitions that do not exist are rejected here, partition by partition; the others go to the
group. In Kafka, KafkaApis does the same before the coordinator gets the request.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from coordinatord.base.budget import SLICE_ITEMS
from coordinatord.coordination.group.consumer.commits import fetch_refusal
from coordinatord.coordination.group.events import Commit
from coordinatord.coordination.group.offsets.committed import fetch_offsets
from coordinatord.coordination.group.state import Group
from coordinatord.coordination.runtime.versions import fetch_error, fetch_groups, fetch_response
from coordinatord.coordination.service.groups import GroupActor
from coordinatord.transport.net.batching import is_durable
from coordinatord.transport.net.cooperative_tasks import CooperativeTask, TaskSteps, run_through
from coordinatord.transport.net.request import RequestContext
from kafka_wire.api.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kafka_wire.api.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from kafka_wire.api.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from kafka_wire.api_key import ApiKey
from kafka_wire.errors import ErrorCode
from kafka_wire.registry import error_response
from kafka_wire.schema import ZERO_UUID

if TYPE_CHECKING:
    from coordinatord.coordination.service.groups import Coordinator

COMMITTED_AT_ONCE = 1_000
"""Number of partitions whose offsets are committed in one step, which takes some 5 ms. Kafka appends those of a request
as one batch: more than SLICE_ITEMS, so that of what a real member commits others see all or nothing.
"""

MANY_BYTES = 16 * 1024
"""A shorter request does not commit more than COMMITTED_AT_ONCE partitions."""

TOPIC_IDS_FROM = 10
"""OffsetCommit and OffsetFetch identify topics by id from this version on."""


T = TypeVar("T")


class TopicResponseMerger(Generic[T]):
    """Topics of a response that come from several places, each topic once: further partitions of a topic are added to
    the first entry of it, as Kafka's builders do.
    """

    def __init__(self) -> None:
        self.topics: list[T] = []
        self._known: dict[Any, Any] = {}

    def merge(self, more: Iterable[Any]) -> None:
        """Add response topics and their partitions. A topic without a name has an id where the API has ids.
        OffsetDelete has none, and a peer may send it a topic called "".
        """
        for topic in more:
            key = topic.name or getattr(topic, "topic_id", ZERO_UUID)
            if key in self._known:
                self._known[key].partitions.extend(topic.partitions)
            else:
                self._known[key] = topic
                self.topics.append(topic)


class TopicNames(Protocol):
    """The topics' functions that the handlers use, once per topic of a commit."""

    def topic_id(self, name: str) -> bytes | None: ...
    def topic_name(self, topic_id: bytes) -> str | None: ...
    def id_and_size(self, name: str) -> tuple[bytes, int] | None: ...
    def exists(self, name: str, partition: int) -> bool: ...


class Offsets:
    """Handlers of the three requests about offsets."""

    def __init__(self, coordinator: Coordinator, topics: TopicNames) -> None:
        self.coordinator = coordinator
        self.topics = topics

    def handlers(self) -> dict[int, Any]:
        """The handlers by API key."""
        return {ApiKey.OFFSET_COMMIT: self.commit, ApiKey.OFFSET_FETCH: self.fetch, ApiKey.OFFSET_DELETE: self.delete}

    # OffsetCommit

    def commit(self, context: RequestContext, request: OffsetCommitRequest) -> Any:
        """Commit offsets. The response is sent when they are durable."""
        version = context.api_version
        refused = self._resolve(request, version)
        if not request.topics:
            # No topic exists, or the commit is empty: the group is not involved.
            return OffsetCommitResponse(topics=refused.topics)
        actor = self.coordinator.actor_for(request.group_id)
        if isinstance(actor, ErrorCode):
            response = error_response(request, version, actor)
        elif context.where[2] - context.where[1] > MANY_BYTES and partition_count(request) > COMMITTED_AT_ONCE:
            return CooperativeTask(self._commit_in_slices(context, request, refused), is_change=True)
        else:
            response = actor.tell(Commit.of(request, version))
        if refused.topics:
            refused.merge(response.topics)
            response = OffsetCommitResponse(topics=refused.topics)
        return response if isinstance(actor, ErrorCode) else actor.respond(context, response)

    def _commit_in_slices(
        self,
        context: RequestContext,
        request: OffsetCommitRequest,
        answered: TopicResponseMerger[OffsetCommitResponseTopic],
    ) -> TaskSteps:
        """Commit very many partitions, as several commits: if the group changes in between, the later ones are
        rejected. The response is sent when all are durable.
        """
        version = context.api_version
        latest: GroupActor | None = None
        for topics in _some_at_a_time(request.topics, "partitions", COMMITTED_AT_ONCE):
            yield None
            request.topics = topics
            actor = self.coordinator.actor_for(request.group_id)
            if isinstance(actor, ErrorCode):
                answered.merge(error_response(request, version, actor).topics)
                continue
            latest = actor
            answered.merge(actor.tell(Commit.of(request, version)).topics)
        response = OffsetCommitResponse(topics=answered.topics)
        return response if latest is None else latest.respond(context, response)

    def _resolve(self, request: OffsetCommitRequest, version: int) -> TopicResponseMerger[OffsetCommitResponseTopic]:
        """Fill in names and ids, and remove unknown topics and partitions. Returns the errors of these."""
        refused = TopicResponseMerger[OffsetCommitResponseTopic]()
        known: list[OffsetCommitRequestTopic] = []
        topics = self.topics
        for topic in request.topics:
            if version >= TOPIC_IDS_FROM:
                name = topics.topic_name(topic.topic_id)
                if name is None:
                    _refuse(refused, topic, topic.partitions, ErrorCode.UNKNOWN_TOPIC_ID)
                    continue
                topic.name = name
            found = topics.id_and_size(topic.name)
            if found is None:
                _refuse(refused, topic, topic.partitions, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                continue
            topic.topic_id, size = found
            there = [p for p in topic.partitions if 0 <= p.partition_index < size]
            if len(there) < len(topic.partitions):
                absent = [p for p in topic.partitions if not 0 <= p.partition_index < size]
                _refuse(refused, topic, absent, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                topic.partitions = there
            if there:
                known.append(topic)
        request.topics = known
        return refused

    # OffsetFetch

    def fetch(self, context: RequestContext, request: OffsetFetchRequest) -> Any:
        """Fetch offsets. A read returns applied offsets, so its response waits until all of them are durable."""
        version = context.api_version
        groups = fetch_groups(request, version)
        if sum([self._partitions_of(asked) for asked in groups]) > SLICE_ITEMS:
            return CooperativeTask(self._fetch_in_slices(context, request, groups))
        answers = []
        latest: GroupActor | None = None
        for asked in groups:
            actor = self.coordinator.find(asked.group_id)
            answers.append(run_through(self._fetch_group(actor, asked, version, request.require_stable)))
            if isinstance(actor, GroupActor) and (latest is None or actor.epoch > latest.epoch):
                latest = actor
        response = fetch_response(answers, version)
        return response if latest is None else latest.respond(context, response)

    def _fetch_in_slices(
        self, context: RequestContext, request: OffsetFetchRequest, groups: list[OffsetFetchRequestGroup]
    ) -> TaskSteps:
        """Fetch the offsets of very many partitions. Commits may come in between: Kafka reads all at one moment,
        coordinatord `SLICE_ITEMS` at a time.
        """
        answers = []
        epoch = 0
        for asked in groups:
            yield None
            actor = self.coordinator.find(asked.group_id)
            answers.append((yield from self._fetch_group(actor, asked, context.api_version, request.require_stable)))
            if isinstance(actor, GroupActor):
                epoch = max(epoch, actor.epoch)
        if not (yield from is_durable(context, epoch)):
            return error_response(request, context.api_version, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return fetch_response(answers, context.api_version)

    def _partitions_of(self, asked: OffsetFetchRequest | OffsetFetchRequestGroup) -> int:
        """Return the number of requested partitions."""
        if asked.topics is not None:
            return sum([len(topic.partition_indexes) for topic in asked.topics])
        actor = self.coordinator.actors.get(asked.group_id)
        return 0 if actor is None else sum(map(len, actor.group.offsets.values()))

    def _fetch_group(
        self, actor: GroupActor | ErrorCode | None, asked: OffsetFetchRequestGroup, version: int, require_stable: bool
    ) -> TaskSteps:
        """Return the response for one group, some partitions at a time if there are many."""
        if isinstance(actor, ErrorCode):
            return fetch_error(asked, actor, version)
        refusal = self._fetch_refusal(actor, asked)
        if refusal is not None:
            return fetch_error(asked, refusal, version)
        by_id = version >= TOPIC_IDS_FROM
        unknown = self._name_topics(asked) if by_id and asked.topics is not None else []
        group = None if actor is None else actor.group
        if self._partitions_of(asked) <= SLICE_ITEMS:
            answer = fetch_offsets(group, asked, require_stable)
        else:
            answer = yield from _fetched_in_parts(group, asked, require_stable)
        if by_id and asked.topics is None:
            self._identify(answer)
        answer.topics.extend(unknown)
        return answer

    @staticmethod
    def _fetch_refusal(actor: GroupActor | None, asked: OffsetFetchRequestGroup) -> ErrorCode | None:
        """Return the error if the member of a consumer group or its member epoch (v9+) does not match; None
        otherwise.
        """
        if actor is None or actor.group.consumer is None:
            return None
        return fetch_refusal(actor.group.consumer, asked.member_id, asked.member_epoch)

    def _name_topics(self, asked: OffsetFetchRequestGroup) -> list[OffsetFetchResponseTopics]:
        """Fill in the names of topics requested by id, and remove unknown ids. Returns the errors of these."""
        unknown: list[OffsetFetchResponseTopics] = []
        known: list[OffsetFetchRequestTopics] = []
        for topic in asked.topics or ():
            name = self.topics.topic_name(topic.topic_id)
            if name is not None:
                topic.name = name
                known.append(topic)
                continue
            error = ErrorCode.UNKNOWN_TOPIC_ID
            partitions = [OffsetFetchResponsePartitions(p, -1, -1, "", error) for p in topic.partition_indexes]
            unknown.append(OffsetFetchResponseTopics(topic_id=topic.topic_id, partitions=partitions))
        asked.topics = known
        return unknown

    def _identify(self, found: OffsetFetchResponseGroup) -> None:
        """Fill in topic ids if all offsets of a group were requested; v10 cannot return a topic without an id."""
        for topic in found.topics:
            topic.topic_id = self.topics.topic_id(topic.name) or ZERO_UUID
        found.topics = [topic for topic in found.topics if topic.topic_id != ZERO_UUID]

    # OffsetDelete

    def delete(self, context: RequestContext, request: OffsetDeleteRequest) -> Any:
        """Delete offsets. Unknown topics and partitions are rejected here; the group handles the others."""
        refused = self._existing_only(request)
        actor = self.coordinator.actor_for(request.group_id)
        if isinstance(actor, ErrorCode):
            return error_response(request, context.api_version, actor)
        response: OffsetDeleteResponse = actor.tell(request)
        if refused.topics and response.error_code == ErrorCode.NONE:
            refused.merge(response.topics)
            response.topics = refused.topics
        return actor.respond(context, response)

    def _existing_only(self, request: OffsetDeleteRequest) -> TopicResponseMerger[OffsetDeleteResponseTopic]:
        refused = TopicResponseMerger[OffsetDeleteResponseTopic]()
        known: list[OffsetDeleteRequestTopic] = []
        for topic in request.topics:
            there, gone = [], []
            for each in topic.partitions:
                if self.topics.exists(topic.name, each.partition_index):
                    there.append(each)
                else:
                    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                    gone.append(OffsetDeleteResponsePartition(each.partition_index, error))
            if gone or self.topics.topic_id(topic.name) is None:
                refused.merge([OffsetDeleteResponseTopic(topic.name, gone)])
            if there:
                topic.partitions = there
                known.append(topic)
        request.topics = known
        return refused


def _fetched_in_parts(group: Group | None, asked: OffsetFetchRequestGroup, require_stable: bool) -> TaskSteps:
    """Call `fetch_offsets` for very many partitions, some at a time."""
    wanted = asked.topics
    if wanted is None:
        offsets = {} if group is None else group.offsets
        wanted = [OffsetFetchRequestTopics(name, ZERO_UUID, list(each)) for name, each in offsets.items()]
    found = TopicResponseMerger[OffsetFetchResponseTopics]()
    for topics in _some_at_a_time(wanted, "partition_indexes", SLICE_ITEMS):
        yield None
        some = fetch_offsets(group, OffsetFetchRequestGroup(asked.group_id, topics=topics), require_stable).topics
        if asked.topics is None:  # without offsets that were deleted meanwhile
            for topic in some:
                topic.partitions = [each for each in topic.partitions if each.committed_offset >= 0 or each.error_code]
            some = [topic for topic in some if topic.partitions]
        found.merge(some)
    return OffsetFetchResponseGroup(asked.group_id, topics=found.topics)


def partition_count(request: OffsetCommitRequest) -> int:
    """Return the number of committed partitions."""
    return sum([len(topic.partitions) for topic in request.topics])


def _some_at_a_time(topics: list[T], listed: str, most: int) -> Iterator[list[T]]:
    """Yield the same topics with the same partitions, which are in the list attribute `listed`, `most` at a time."""
    some: list[T] = []
    room = most
    for topic in topics:
        partitions, first = getattr(topic, listed), 0
        while True:
            part, taken = copy.copy(topic), partitions[first : first + room]
            setattr(part, listed, taken)
            some.append(part)
            first += len(taken)
            room -= len(taken)
            if room == 0:
                yield some
                some, room = [], most
            if first >= len(partitions):
                break
    if some:
        yield some


def _refuse(
    refused: TopicResponseMerger[OffsetCommitResponseTopic],
    topic: OffsetCommitRequestTopic,
    partitions: list[OffsetCommitRequestPartition],
    error: ErrorCode,
) -> None:
    answered = [OffsetCommitResponsePartition(partition.partition_index, error) for partition in partitions]
    refused.merge([OffsetCommitResponseTopic(topic.name, topic.topic_id, answered)])
