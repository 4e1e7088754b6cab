"""DeleteRecords v0-v2: move a partition's start."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coordinatord.broker.log.errors import LogFailed
from coordinatord.broker.log.writer import LogWriter
from coordinatord.broker.topics.catalogue import Catalogue
from coordinatord.broker.topics.names import RESERVED
from coordinatord.broker.topics.partition import Partition
from kafka_wire.api.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from kafka_wire.api_key import ApiKey
from kafka_wire.errors import ErrorCode

if TYPE_CHECKING:
    from coordinatord.transport.net.request import RequestContext

HIGH_WATERMARK = -1
"""`offset` in DeleteRecords: delete up to the high watermark."""


class DeletingRecords:
    """The handler of DeleteRecords requests."""

    def __init__(self, catalogue: Catalogue, writer: LogWriter) -> None:
        self.catalogue = catalogue
        self.writer = writer

    def handlers(self) -> dict[int, Any]:
        """Return the handlers by API key."""
        return {ApiKey.DELETE_RECORDS: self.delete_records}

    def delete_records(self, context: RequestContext, request: DeleteRecordsRequest) -> DeleteRecordsResponse | None:
        """Move the start of each partition. The response waits until the deletion is durable: records reported as
        deleted must not come back. If a partition occurs more than once, the last offset counts
        (KafkaApis.handleDeleteRecordsRequest).
        """
        epoch = 0
        topics = []
        last: dict[str, dict[int, int]] = {}
        for topic in request.topics:
            last.setdefault(topic.name, {}).update((each.partition_index, each.offset) for each in topic.partitions)
        for name, offsets in last.items():
            results = []
            for index, offset in offsets.items():
                partition = self.catalogue.partition(name, index)
                error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                low_watermark = -1
                if partition is not None:
                    error, low_watermark, written = self._delete_before(name, partition, offset)
                    epoch = max(epoch, written)
                results.append(DeleteRecordsPartitionResult(index, low_watermark, error))
            topics.append(DeleteRecordsTopicResult(name, results))
        response = DeleteRecordsResponse(0, topics)
        if epoch <= self.writer.flushed_epoch:
            return response
        context.answer_at(epoch, response, lambda: _storage_error(response))
        return None

    def _delete_before(self, name: str, partition: Partition, offset: int) -> tuple[ErrorCode, int, int]:
        """Return (error, new low watermark, flush epoch that makes it durable)."""
        log = partition.log
        if name in RESERVED:
            return ErrorCode.INVALID_TOPIC_EXCEPTION, -1, 0
        if not partition.is_here:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER, -1, 0
        if log.config.compacts and not log.config.deletes:
            return ErrorCode.POLICY_VIOLATION, -1, 0
        before = log.high_watermark if offset == HIGH_WATERMARK else offset
        if not 0 <= before <= log.high_watermark:
            return ErrorCode.OFFSET_OUT_OF_RANGE, -1, 0
        if before <= log.log_start_offset:
            return ErrorCode.NONE, log.log_start_offset, 0
        try:
            return ErrorCode.NONE, before, self.writer.delete_records(log, before)
        except (OSError, LogFailed):
            return ErrorCode.KAFKA_STORAGE_ERROR, -1, 0


def _storage_error(response: DeleteRecordsResponse) -> DeleteRecordsResponse:
    """Return `response` with the error code of a failed log in all partitions."""
    for topic in response.topics:
        topic.partitions = [
            DeleteRecordsPartitionResult(each.partition_index, -1, ErrorCode.KAFKA_STORAGE_ERROR)
            for each in topic.partitions
        ]
    return response
