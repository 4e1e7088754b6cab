"""Acknowledgements in ShareAcknowledge and ShareFetch: their checks, and the wait for their writes.

The errors and their order are those of KafkaApis.handleAcknowledgements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Protocol

from coordinatord.broker.topics.catalogue import Catalogue
from coordinatord.coordination.share.leader import ShareError, SharePartitionActor, SharePartitions
from coordinatord.coordination.share.partition import events
from coordinatord.coordination.share.partition.events import AcknowledgementBatch, AcknowledgeType
from coordinatord.coordination.share.sessions import PartitionKey
from coordinatord.transport.net.cooperative_tasks import CooperativeTask, TaskSteps
from kafka_wire.errors import ErrorCode, message_of

MAX_MEMBER_ID_CHARACTERS = 36

MAX_RECORDS: Final = 10_000
"""Maximum batches of acknowledgements of one partition, and of types in them: members can have acquired as many records
of it, the largest group.share.partition.max.record.locks. Kafka has no limit, and finds that the records are not
acquired.
"""

MAX_AT_ONCE: Final = 500
"""A request or a session with more partitions and batches is served in slices, a partition at a time. Clients
acknowledge up to 500 records at once (max.poll.records).
"""

RENEW_VERSION = 2
"""First version of both APIs with RENEW (KIP-1222)."""

Outcomes = dict[PartitionKey, ShareError]
"""The outcome of the acknowledgements of each partition."""

MayRead = Callable[[str | None, bytes], bool] | None
"""Returns whether the client may read a topic, by id; None without an authorizer."""


class AskedBatch(Protocol):
    """A batch of acknowledgements in a request."""

    first_offset: int
    last_offset: int
    acknowledge_types: list[int]


class Asked(Protocol):
    """A partition in either request."""

    partition_index: int
    acknowledgement_batches: Sequence[Any]


def refuses(group_id: str | None, member_id: str | None) -> bool:
    """Return whether a request with these ids is invalid."""
    return group_id is None or not member_id or len(member_id) > MAX_MEMBER_ID_CHARACTERS


def is_large(topics: Iterable[Any]) -> bool:
    """Return whether the acknowledgements of a request take more than one turn of the event loop."""
    count = 0
    for topic in topics:
        for asked in topic.partitions:
            batches = asked.acknowledgement_batches
            count += 1 + len(batches)
            if count > MAX_AT_ONCE or any(len(each.acknowledge_types) > MAX_AT_ONCE for each in batches):
                return True
    return False


def are_valid(batches: Sequence[AskedBatch], *, may_renew: bool, version: int) -> bool:
    """Return whether the batches of a partition are valid: in order, with types that exist, and no more than a share
    partition can have acquired.
    """
    if len(batches) > MAX_RECORDS or sum(len(each.acknowledge_types) for each in batches) > MAX_RECORDS:
        return False
    end = -1
    most = AcknowledgeType.RENEW if version >= RENEW_VERSION else AcknowledgeType.REJECT
    for batch in batches:
        first, last, types = batch.first_offset, batch.last_offset, batch.acknowledge_types
        if first > last or first < end or not types:
            return False
        if len(types) > 1 and last - first != len(types) - 1:
            return False
        if min(types) < 0 or max(types) > most or (AcknowledgeType.RENEW in types and not may_renew):
            return False
        end = last
    return True


def served(topics: Iterable[Any], steps: TaskSteps) -> CooperativeTask | None:
    """Run the steps of a request: now, or in slices if it is large."""
    if is_large(topics):
        return CooperativeTask(steps, is_change=True)
    for _ in steps:
        pass
    return None


class Acknowledging:
    """The acknowledgements of one request. `done` is called with the outcomes when all writes have ended: by the last
    of the `steps` if there are none.
    """

    __slots__ = ("_done", "_left", "outcomes")

    def __init__(self, done: Callable[[Outcomes], object]) -> None:
        self._done = done
        self.outcomes: Outcomes = {}
        self._left = 1

    def steps(
        self, partitions: SharePartitions, group_id: str, member_id: str,
        accepted: Sequence[tuple[PartitionKey, Sequence[AskedBatch]]],
    ) -> TaskSteps:  # fmt: skip
        """Apply acknowledgements that `sort` has accepted; yield before each partition."""
        for key, batches in accepted:
            yield None
            actor = partitions.find((group_id, *key))
            if actor is None:
                error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                self.outcomes[key] = ShareError(error, message_of(error))
            else:
                self._left += 1
                self._acknowledge(actor, key, member_id, batches)
        self._one_ended()

    def _acknowledge(
        self, actor: SharePartitionActor, key: PartitionKey, member_id: str, batches: Sequence[AskedBatch]
    ) -> None:
        def ended(outcome: ShareError) -> None:
            self.outcomes[key] = outcome
            self._one_ended()

        asked = tuple(
            AcknowledgementBatch(each.first_offset, each.last_offset, each.acknowledge_types) for each in batches
        )
        actor.tell(events.Acknowledge(member_id, asked), ended)

    def _one_ended(self) -> None:
        self._left -= 1
        if not self._left:
            self._done(self.outcomes)

    def sort(
        self, topics: Iterable[Any], catalogue: Catalogue, may_read: MayRead, version: int, *, may_renew: bool
    ) -> list[tuple[PartitionKey, Sequence[AskedBatch]]]:
        """Put the errors of the request's partitions into `outcomes`; return the others with their batches."""
        accepted: list[tuple[PartitionKey, Sequence[AskedBatch]]] = []
        empty: list[PartitionKey] = []
        for topic in topics:
            found = catalogue.by_id.get(topic.topic_id)
            count = len(found.partitions) if found is not None else 0
            is_denied = may_read is not None and not may_read(None, topic.topic_id)
            for asked in topic.partitions:
                key = topic.topic_id, asked.partition_index
                batches = asked.acknowledgement_batches
                if found is None:
                    self.outcomes[key] = ShareError(ErrorCode.UNKNOWN_TOPIC_ID)
                elif not are_valid(batches, may_renew=may_renew, version=version):
                    self.outcomes[key] = ShareError(ErrorCode.INVALID_REQUEST)
                elif is_denied:
                    self.outcomes[key] = ShareError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
                elif not 0 <= asked.partition_index < count:
                    self.outcomes[key] = ShareError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                elif not batches:
                    empty.append(key)
                else:
                    accepted.append((key, batches))
        if accepted:  # as in Kafka, which otherwise responds with the errors alone
            self.outcomes |= dict.fromkeys(empty, ShareError(ErrorCode.NONE))
        return accepted
