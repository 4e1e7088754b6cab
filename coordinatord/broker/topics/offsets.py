"""ListOffsets v1-v11 and OffsetForLeaderEpoch v2-v4: a partition's start, its end, and the offset of a timestamp.

Lookups by time read the log, on another thread: see broker/log/times.py.
"""

from __future__ import annotations

from collections.abc import Generator
from functools import partial
from typing import TYPE_CHECKING, Any

from coordinatord.base.budget import BACKGROUND_SLICE_S, Budget
from coordinatord.broker.log.times import Lookup, TimeLookups, TimestampOffset
from coordinatord.broker.topics.catalogue import Catalogue
from coordinatord.broker.topics.partition import UNREADABLE, Partition
from coordinatord.transport.net.batching import FEW
from coordinatord.transport.net.cooperative_tasks import CooperativeTask, TaskSteps, run_through
from kafka_wire.api.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kafka_wire.api.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from kafka_wire.api_key import ApiKey
from kafka_wire.errors import ErrorCode

if TYPE_CHECKING:
    from coordinatord.transport.net.request import RequestContext

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6

SINCE_VERSION = {
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
"""Special (negative) timestamp -> the first version that supports it; other negative timestamps mean nothing."""

READ_COMMITTED = 1
CONSUMER = -1
"""`replica_id` of a consumer; followers and tools read records up to the log end offset."""


READ_TOGETHER = 100
"""Lookups that begin together. Each begin takes a microsecond for each segment of the log."""
ATTEMPTS = 3
"""Number of times that a lookup is begun whose files are removed or replaced, as retention and the cleaner do."""


class _ToRead:
    """A lookup by time of one partition. `end`: the offset that the client may read up to."""

    __slots__ = ("end", "failure", "partition", "response", "timestamp")

    def __init__(self, index: int, partition: Partition, timestamp: int, end: int) -> None:
        self.partition = partition
        self.timestamp = timestamp
        self.end = end
        self.response = _nothing(index, ErrorCode.NONE)
        self.failure: Exception | None = None

    def found(self, record: TimestampOffset | None) -> None:
        """Store the result in the response."""
        self.failure = None
        if record is not None and record.offset < self.end:
            response = self.response
            response.timestamp, response.offset, response.leader_epoch = record


class Offsets:
    """The handlers of ListOffsets and OffsetForLeaderEpoch."""

    def __init__(self, catalogue: Catalogue) -> None:
        self.catalogue = catalogue
        self.lookups = TimeLookups()

    def handlers(self) -> dict[int, Any]:
        """Return the handlers by API key."""
        return {ApiKey.LIST_OFFSETS: self.list_offsets, ApiKey.OFFSET_FOR_LEADER_EPOCH: self.offset_for_leader_epoch}

    def list_offsets(
        self, context: RequestContext, request: ListOffsetsRequest
    ) -> ListOffsetsResponse | CooperativeTask:
        """Return the response or its steps. A partition that is named twice is rejected, as in Kafka."""
        steps = self._list(context.api_version, request)
        if len(request.topics) > FEW or any(
            len(topic.partitions) > FEW or any(_reads(asked.timestamp) for asked in topic.partitions)
            for topic in request.topics
        ):
            return CooperativeTask(steps)
        response: ListOffsetsResponse = run_through(steps)
        return response

    def _list(self, version: int, request: ListOffsetsRequest) -> TaskSteps:
        seen: set[tuple[str, int]] = set()
        twice: set[tuple[str, int]] = set()
        for topic in request.topics:
            for asked in topic.partitions:
                key = topic.name, asked.partition_index
                (twice if key in seen else seen).add(key)
                yield None
        answered: dict[str, dict[int, ListOffsetsPartitionResponse]] = {}
        to_read: list[_ToRead] = []
        for topic in request.topics:
            partitions = answered.setdefault(topic.name, {})
            for asked in topic.partitions:
                index = asked.partition_index
                if (topic.name, index) in twice:
                    partitions[index] = _nothing(index, ErrorCode.INVALID_REQUEST)
                else:
                    answer = self._list_one(topic.name, asked, request, version)
                    if isinstance(answer, _ToRead):
                        to_read.append(answer)
                        answer = answer.response
                    partitions[index] = answer
                yield None
        if to_read:
            yield from self._read(to_read)
        topics = []
        for name, partitions in answered.items():
            topics.append(ListOffsetsTopicResponse(name, list(partitions.values())))
            yield None
        return ListOffsetsResponse(0, topics)

    def _list_one(
        self, name: str, asked: ListOffsetsPartition, request: ListOffsetsRequest, version: int
    ) -> ListOffsetsPartitionResponse | _ToRead:
        index, timestamp = asked.partition_index, asked.timestamp
        if timestamp < 0 and version < SINCE_VERSION.get(timestamp, 1 << 15):
            return _nothing(index, ErrorCode.UNSUPPORTED_VERSION)
        partition = self.catalogue.partition(name, index)
        if partition is None:
            return _nothing(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if not partition.is_here:
            return _nothing(index, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        error = partition.epoch_error(asked.current_leader_epoch)
        if error is not None:
            return _nothing(index, error)
        if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
            # There is no tiered storage.
            return _nothing(index, ErrorCode.NONE)
        log = partition.log
        if timestamp in (EARLIEST, EARLIEST_LOCAL):
            epoch, first_offset = log.leader_epochs[0]
            known = epoch if first_offset <= log.log_start_offset else -1
            return ListOffsetsPartitionResponse(index, 0, -1, log.log_start_offset, known)
        end = log.end_offset
        if request.replica_id == CONSUMER:
            try:
                end = partition.last_stable_offset if request.isolation_level == READ_COMMITTED else log.high_watermark
            except UNREADABLE as failure:
                return _nothing(index, partition.cannot_read(failure))
        if timestamp == LATEST:
            return ListOffsetsPartitionResponse(index, 0, -1, end, log.leader_epoch)
        return _ToRead(index, partition, timestamp, end)

    def _read(self, to_read: list[_ToRead]) -> TaskSteps:
        """Complete the responses for which the log must be read. If its files have changed meanwhile, begin again."""
        for first in range(0, len(to_read), READ_TOGETHER):
            together = some = to_read[first : first + READ_TOGETHER]
            for _ in range(ATTEMPTS):
                reading = _reading([(each, self._lookup(each)) for each in some])
                while (yield partial(_advance, reading)):
                    pass
                some = [each for each in some if isinstance(each.failure, FileNotFoundError)]
                if not some:
                    break
            for each in together:
                if each.failure is not None:
                    each.response.error_code = _error(each.partition, each.failure)

    def _lookup(self, asked: _ToRead) -> Lookup:
        log = asked.partition.log
        if asked.timestamp == MAX_TIMESTAMP:
            return self.lookups.greatest(log)
        return self.lookups.first_at(log, asked.timestamp)

    def offset_for_leader_epoch(
        self, _context: RequestContext, request: OffsetForLeaderEpochRequest
    ) -> OffsetForLeaderEpochResponse:
        """Return the end of a leader epoch. After a change of the leader, consumers request it before they continue
        (KIP-320).
        """
        return OffsetForLeaderEpochResponse(
            0,
            [
                OffsetForLeaderTopicResult(
                    topic.topic, [self._end_of(topic.topic, asked) for asked in topic.partitions]
                )
                for topic in request.topics
            ],
        )

    def _end_of(self, name: str, asked: OffsetForLeaderPartition) -> EpochEndOffset:
        partition = self.catalogue.partition(name, asked.partition)
        if partition is None:
            return EpochEndOffset(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, asked.partition)
        if not partition.is_here:
            return EpochEndOffset(ErrorCode.NOT_LEADER_OR_FOLLOWER, asked.partition)
        error = partition.epoch_error(asked.current_leader_epoch)
        if error is not None:
            return EpochEndOffset(error, asked.partition)
        found = partition.end_of(asked.leader_epoch)
        return EpochEndOffset(ErrorCode.NONE, asked.partition, *(found or ()))


def _reads(timestamp: int) -> bool:
    """Return whether the lookup must read the log."""
    return timestamp >= 0 or timestamp == MAX_TIMESTAMP


def _reading(lookups: list[tuple[_ToRead, Lookup]]) -> Generator[None, None, None]:
    """Run lookups one after the other."""
    for asked, lookup in lookups:
        try:
            asked.found((yield from lookup))
        except UNREADABLE as failure:
            asked.failure = failure
        yield None


def _advance(reading: Generator[None, None, None]) -> bool:
    """Run lookups for a slice of the background thread; return whether some are left."""
    budget = Budget(BACKGROUND_SLICE_S)
    return any(budget.is_spent() for _ in reading)


def _error(partition: Partition, failure: Exception) -> ErrorCode:
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if partition.log.deleted else partition.cannot_read(failure)


def _nothing(index: int, error: ErrorCode) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(index, error)
