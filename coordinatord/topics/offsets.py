"""ListOffsets v1-v11 and OffsetForLeaderEpoch v2-v4: a partition's start, its end, and the offset of a timestamp."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coordinatord.log import epochs
from coordinatord.net.slices import Slices, Steps, run_through
from coordinatord.net.split import FEW
from coordinatord.topics.catalogue import Catalogue
from coordinatord.topics.partition import UNREADABLE, Partition
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
    from coordinatord.net.request import RequestContext

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
"""Special (negative) timestamp -> the first version that knows it; other negative timestamps mean nothing."""

READ_COMMITTED = 1
CONSUMER = -1
"""`replica_id` of a consumer; followers and tools see records up to the log's end."""


class Offsets:
    """The handlers."""

    def __init__(self, catalogue: Catalogue) -> None:
        self.catalogue = catalogue

    def handlers(self) -> dict[int, Any]:
        """By api key."""
        return {ApiKey.LIST_OFFSETS: self.list_offsets, ApiKey.OFFSET_FOR_LEADER_EPOCH: self.offset_for_leader_epoch}

    def list_offsets(self, context: RequestContext, request: ListOffsetsRequest) -> ListOffsetsResponse | Slices:
        """A partition that is named twice is rejected, as in Kafka."""
        steps = self._list(context.api_version, request)
        count = sum(len(topic.partitions) for topic in request.topics)
        if len(request.topics) > FEW or count > FEW:
            return Slices(steps)
        response: ListOffsetsResponse = run_through(steps)
        return response

    def _list(self, version: int, request: ListOffsetsRequest) -> Steps:
        seen: set[tuple[str, int]] = set()
        twice: set[tuple[str, int]] = set()
        for topic in request.topics:
            for asked in topic.partitions:
                key = topic.name, asked.partition_index
                (twice if key in seen else seen).add(key)
                yield None
        answered: dict[str, dict[int, ListOffsetsPartitionResponse]] = {}
        for topic in request.topics:
            partitions = answered.setdefault(topic.name, {})
            for asked in topic.partitions:
                index = asked.partition_index
                if (topic.name, index) in twice:
                    partitions[index] = _nothing(index, ErrorCode.INVALID_REQUEST)
                else:
                    partitions[index] = self._list_one(topic.name, asked, request, version)
                yield None
        topics = []
        for name, partitions in answered.items():
            topics.append(ListOffsetsTopicResponse(name, list(partitions.values())))
            yield None
        return ListOffsetsResponse(0, topics)

    def _list_one(
        self, name: str, asked: ListOffsetsPartition, request: ListOffsetsRequest, version: int
    ) -> ListOffsetsPartitionResponse:
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
        try:
            return self._found(partition, asked, request, version)
        except UNREADABLE as failure:
            return _nothing(index, partition.cannot_read(failure))

    @staticmethod
    def _found(
        partition: Partition, asked: ListOffsetsPartition, request: ListOffsetsRequest, version: int
    ) -> ListOffsetsPartitionResponse:
        index, timestamp, log = asked.partition_index, asked.timestamp, partition.log
        end = log.end_offset
        if request.replica_id == CONSUMER:
            end = partition.last_stable_offset if request.isolation_level == READ_COMMITTED else log.high_watermark
        epoch = log.leader_epoch if version >= 4 else -1
        if timestamp == LATEST:
            return ListOffsetsPartitionResponse(index, 0, -1, end, epoch)
        if timestamp in (EARLIEST, EARLIEST_LOCAL):
            return ListOffsetsPartitionResponse(index, 0, -1, log.log_start_offset, epoch)
        found = log.max_timestamp() if timestamp == MAX_TIMESTAMP else log.offset_for_timestamp(timestamp)
        if found is None or found.offset >= end:
            return _nothing(index, ErrorCode.NONE)
        return ListOffsetsPartitionResponse(index, 0, found.timestamp, found.offset, epoch)

    def offset_for_leader_epoch(
        self, _context: RequestContext, request: OffsetForLeaderEpochRequest
    ) -> OffsetForLeaderEpochResponse:
        """Consumers send it after a leader change, before they continue. Our logs have one epoch, Kafka's more."""
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
        log = partition.log
        found = epochs.end_of(log.leader_epochs, asked.leader_epoch, log.end_offset)
        return EpochEndOffset(ErrorCode.NONE, asked.partition, *(found or ()))


def _nothing(index: int, error: ErrorCode) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(index, error)
