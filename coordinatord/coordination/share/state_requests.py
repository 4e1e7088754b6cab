"""The methods of the persister as events of a share coordinator, and as requests to one on another node: keys 83 to 87.

Requests have the newest version that Kafka 4.4 serves. A request has partitions of one group, by topic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from coordinatord.coordination.share.coordinator import events
from coordinatord.coordination.share.coordinator.result import Reply
from coordinatord.coordination.share.persister import (
    InitializePartition,
    PartitionError,
    PartitionState,
    PartitionSummary,
    ReadPartition,
    StateBatch,
    TopicIdPartition,
    WritePartition,
)
from kafka_wire.api import delete_share_group_state as delete
from kafka_wire.api import initialize_share_group_state as initialize
from kafka_wire.api import read_share_group_state as read
from kafka_wire.api import read_share_group_state_summary as summary
from kafka_wire.api import write_share_group_state as write
from kafka_wire.errors import ErrorCode

Kind = type[PartitionError] | type[PartitionState] | type[PartitionSummary]


class Method(NamedTuple):
    """A method of the persister. `event_of(part, exists)` returns the event of a partition; `kind` is the type of its
    result; `request(group id, parts)` and `replies(response)` are for another node.
    """

    api_version: int
    kind: Kind
    event_of: Callable[[Any, bool], events.Event]
    request: Callable[[str, Sequence[Any]], Any]
    replies: Callable[[Any], Iterator[Reply]]


def _requests(
    request: Callable[[str, list[Any]], Any],
    topic: Callable[[bytes, list[Any]], Any],
    partition: Callable[[Any], Any],
) -> Callable[[str, Sequence[Any]], Any]:
    """Return a function that makes a request of these parts of it."""

    def make(group_id: str, parts: Sequence[Any]) -> Any:
        topics: dict[bytes, list[Any]] = {}
        for part in parts:
            topics.setdefault(part[0], []).append(partition(part))
        return request(group_id, [topic(topic_id, partitions) for topic_id, partitions in topics.items()])

    return make


def _replies(reply: Callable[[bytes, Any], Reply]) -> Callable[[Any], Iterator[Reply]]:
    """Return a function that reads a response whose partitions `reply` reads."""

    def read_all(response: Any) -> Iterator[Reply]:
        return (reply(topic.topic_id, each) for topic in response.results for each in topic.partitions)

    return read_all


def _written(part: WritePartition) -> write.PartitionData:
    batches = [write.StateBatch(*each) for each in part.state_batches]
    return write.PartitionData(*part[1:6], batches)


def _error(topic_id: bytes, found: Any) -> PartitionError:
    return PartitionError(topic_id, found.partition, ErrorCode(found.error_code), found.error_message)


def _state(topic_id: bytes, found: read.PartitionResult) -> PartitionState:
    batches = [
        StateBatch(each.first_offset, each.last_offset, each.delivery_state, each.delivery_count)
        for each in found.state_batches
    ]
    return PartitionState(*_error(topic_id, found), found.state_epoch, found.start_offset, batches)


def _summary(topic_id: bytes, found: summary.PartitionResult) -> PartitionSummary:
    return PartitionSummary(
        *_error(topic_id, found),
        found.state_epoch,
        found.leader_epoch,
        found.start_offset,
        found.delivery_complete_count,
    )


def _initialize_event(part: InitializePartition, exists: bool) -> events.Initialize:
    return events.Initialize(part.state_epoch, part.start_offset, exists)


def _read_event(part: ReadPartition, exists: bool) -> events.Read:
    return events.Read(part.leader_epoch, exists)


def _write_event(part: WritePartition, exists: bool) -> events.Write:
    return events.Write(*part[2:], exists)


def _delete_event(_part: TopicIdPartition, exists: bool) -> events.Delete:
    return events.Delete(exists)


def _summary_event(_part: TopicIdPartition, exists: bool) -> events.ReadSummary:
    return events.ReadSummary(exists)


INITIALIZE: Final = Method(
    0,
    PartitionError,
    _initialize_event,
    _requests(
        initialize.InitializeShareGroupStateRequest,
        initialize.InitializeStateData,
        lambda part: initialize.PartitionData(*part[1:]),
    ),
    _replies(_error),
)
READ: Final = Method(
    0,
    PartitionState,
    _read_event,
    _requests(read.ReadShareGroupStateRequest, read.ReadStateData, lambda part: read.PartitionData(*part[1:])),
    _replies(_state),
)
WRITE: Final = Method(
    1,
    PartitionError,
    _write_event,
    _requests(write.WriteShareGroupStateRequest, write.WriteStateData, _written),
    _replies(_error),
)
DELETE: Final = Method(
    0,
    PartitionError,
    _delete_event,
    _requests(delete.DeleteShareGroupStateRequest, delete.DeleteStateData, lambda part: delete.PartitionData(part[1])),
    _replies(_error),
)
READ_SUMMARY: Final = Method(
    1,
    PartitionSummary,
    _summary_event,
    _requests(
        summary.ReadShareGroupStateSummaryRequest,
        summary.ReadStateSummaryData,
        lambda part: summary.PartitionData(part[1]),
    ),
    _replies(_summary),
)
