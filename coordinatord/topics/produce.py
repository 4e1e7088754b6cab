"""Produce v3-v13 and InitProducerId v0-v5.

One batch per partition: validated (protocol.records.produced), held against its producer's sequence, appended; each
partition for itself. The response waits until the log has made the batches durable, with acks=1 as with acks=all,
since there is one replica; a retry of a batch waits for the batch. acks=0 gets no response, and, as in Kafka, an
error then closes the connection, which is all that such a producer can notice.

Transactional ids are refused with TRANSACTIONAL_ID_AUTHORIZATION_FAILED: Kafka's answer to one who may not use them,
and the one that every client takes for final. (COORDINATOR_NOT_AVAILABLE would be asked again for ever, others end in
"unexpected error".)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from coordinatord.log.errors import LogFailed
from coordinatord.log.writer import LogWriter
from coordinatord.topics.catalogue import Catalogue, Topic
from coordinatord.topics.partition import Partition
from coordinatord.topics.producer_ids import ProducerIds
from coordinatord.topics.producers import Refused
from protocol.api.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from protocol.api.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from protocol.errors import ErrorCode
from protocol.records.batch import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    TRANSACTIONAL,
    BatchHeader,
    read_header,
    recompress,
)
from protocol.records.produced import Rejected, validate_produced

if TYPE_CHECKING:
    from coordinatord.request import RequestContext

_ATTRIBUTES_AT = 21
"""Where a batch's attributes (int16) begin."""

_NO_LEADER = LeaderIdAndEpoch()
"""The default of a tagged field, shared by all responses and never changed."""


class _Done(NamedTuple):
    """What became of one partition's batch. `epoch`: what its response has to wait for, 0 for nothing."""

    response: PartitionProduceResponse
    epoch: int = 0


class Producing:
    """The handlers."""

    def __init__(
        self, catalogue: Catalogue, writer: LogWriter, producer_ids: ProducerIds, now_ms: Callable[[], int]
    ) -> None:
        self.catalogue = catalogue
        self.writer = writer
        self.producer_ids = producer_ids
        self.now_ms = now_ms

    def handlers(self) -> dict[int, Any]:
        """By api key."""
        return {0: self.produce, 22: self.init_producer_id}

    # InitProducerId

    def init_producer_id(self, _context: RequestContext, request: InitProducerIdRequest) -> InitProducerIdResponse:
        """An idempotent producer gets a new id. v3+ may tell the id and epoch it has, which only transactions use."""
        if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH):
            return _no_producer_id(ErrorCode.INVALID_REQUEST)
        if request.transactional_id is not None:
            if not request.transactional_id:
                return _no_producer_id(ErrorCode.INVALID_REQUEST)
            return _no_producer_id(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        try:
            return InitProducerIdResponse(0, 0, self.producer_ids.next(), 0)
        except OSError:
            return _no_producer_id(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    # Produce

    def produce(self, context: RequestContext, request: ProduceRequest) -> ProduceResponse | None:
        """None when the response waits for the log, or there is none."""
        if _has_transactional(request):
            refused = _refuse_all(request, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
            return self._answer(context, request, refused, 0)
        version = context.api_version
        now_ms = self.now_ms()
        highest_epoch = 0
        responses = []
        for produced in request.topic_data:
            if version >= 13:
                topic = self.catalogue.by_id.get(produced.topic_id)
                unknown = ErrorCode.UNKNOWN_TOPIC_ID
            else:
                topic = self.catalogue.by_name.get(produced.name)
                unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            partitions = []
            for data in produced.partition_data:
                if topic is None:
                    partitions.append(_error(data.index, unknown))
                    continue
                done = self._partition(topic, data, version, request.acks, now_ms)
                partitions.append(done.response)
                highest_epoch = max(highest_epoch, done.epoch)
            responses.append(TopicProduceResponse(produced.name, produced.topic_id, partitions))
        return self._answer(context, request, ProduceResponse(responses), highest_epoch)

    def _answer(
        self, context: RequestContext, request: ProduceRequest, response: ProduceResponse, epoch: int
    ) -> ProduceResponse | None:
        if request.acks == 0:
            errors = {
                ErrorCode(partition.error_code).name
                for topic in response.responses
                for partition in topic.partition_responses
                if partition.error_code
            }
            context.drop()
            if errors:
                context.connection.refuse("refused", f"error with acks=0: {', '.join(sorted(errors))}", api="Produce")
            return None
        if epoch <= self.writer.flushed_epoch:
            return response
        context.answer_at(epoch, response, lambda: _refuse_all(request, ErrorCode.KAFKA_STORAGE_ERROR))
        return None

    def _partition(self, topic: Topic, data: PartitionProduceData, version: int, acks: int, now_ms: int) -> _Done:
        index = data.index
        if not 0 <= index < len(topic.partitions):
            return _Done(_error(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        if not -1 <= acks <= 1:
            return _Done(_error(index, ErrorCode.INVALID_REQUIRED_ACKS))
        if topic.internal:
            # Kafka lets a client by that calls itself __admin_client; the coordinator would not know what it wrote.
            return _Done(_error(index, ErrorCode.INVALID_TOPIC_EXCEPTION))
        partition = topic.partitions[index]
        configs = topic.configs
        checked = validate_produced(data.records, version, configs.limits, now_ms)
        if isinstance(checked, Rejected):
            return _Done(_rejected(index, checked, partition))
        header, batch = checked
        if configs.compression is not None and header.codec != configs.compression:
            batch = recompress(batch, configs.compression)
            header = read_header(batch)
            if len(batch) > configs.limits.max_message_bytes:
                return _Done(_error(index, ErrorCode.MESSAGE_TOO_LARGE))
        if len(batch) > configs.segment_bytes:
            return _Done(_error(index, ErrorCode.RECORD_LIST_TOO_LARGE))
        return self._append(partition, index, header, batch)

    def _append(self, partition: Partition, index: int, header: BatchHeader, batch: bytearray) -> _Done:
        log = partition.log
        append_time = header.max_timestamp if header.is_log_append_time else -1
        if header.producer_id >= 0:
            known = partition.producers.check(header)
            if isinstance(known, Refused):
                return _Done(_error(index, known.error, log_start_offset=log.log_start_offset))
            if known is not None:
                # As Kafka: the time is that of the batch, whatever the topic's timestamps are.
                response = _ok(index, known.first_offset, known.timestamp, log.log_start_offset)
                return _Done(response, partition.last_epoch)
        try:
            base_offset, epoch = self.writer.append(log, batch)
        except LogFailed:
            return _Done(_error(index, ErrorCode.KAFKA_STORAGE_ERROR))
        partition.last_epoch = epoch
        if header.producer_id >= 0:
            partition.appended(header, base_offset)
        return _Done(_ok(index, base_offset, append_time, log.log_start_offset), epoch)


def _ok(index: int, base_offset: int, append_time_ms: int, log_start_offset: int) -> PartitionProduceResponse:
    return PartitionProduceResponse(index, 0, base_offset, append_time_ms, log_start_offset, [], None, _NO_LEADER)


def _error(index: int, error: ErrorCode, *, log_start_offset: int = -1) -> PartitionProduceResponse:
    return PartitionProduceResponse(index, error, -1, -1, log_start_offset, [], None, _NO_LEADER)


def _rejected(index: int, rejected: Rejected, partition: Partition) -> PartitionProduceResponse:
    if rejected.record_index < 0:
        known_start = rejected.error in (ErrorCode.INVALID_RECORD, ErrorCode.INVALID_TIMESTAMP)
        return _error(index, rejected.error, log_start_offset=partition.log.log_start_offset if known_start else -1)
    # KIP-467: which record it was, and one sentence for the whole batch.
    if rejected.error is ErrorCode.INVALID_TIMESTAMP:
        message = "One or more records have been rejected due to invalid timestamp"
    else:
        message = f"One or more records have been rejected: {rejected.reason}"
    fault = BatchIndexAndErrorMessage(rejected.record_index, rejected.reason)
    start = partition.log.log_start_offset
    return PartitionProduceResponse(index, rejected.error, -1, -1, start, [fault], message, _NO_LEADER)


def _refuse_all(request: ProduceRequest, error: ErrorCode) -> ProduceResponse:
    return ProduceResponse(
        [
            TopicProduceResponse(
                topic.name, topic.topic_id, [_error(data.index, error) for data in topic.partition_data]
            )
            for topic in request.topic_data
        ]
    )


def _has_transactional(request: ProduceRequest) -> bool:
    """Whether a batch is part of a transaction; told by its attributes, whatever else is wrong with it."""
    for topic in request.topic_data:
        for data in topic.partition_data:
            records = data.records
            if records and len(records) > _ATTRIBUTES_AT + 1 and records[_ATTRIBUTES_AT + 1] & TRANSACTIONAL:
                return True
    return False


def _no_producer_id(error: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(0, error, NO_PRODUCER_ID, NO_PRODUCER_EPOCH)
