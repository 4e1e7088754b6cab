"""Produce v3-v13.

One batch per partition: validated (kafka_wire.records.produced), held against its producer's sequence, appended; each
partition for itself. The response waits until the log has made the batches durable, with acks=1 as with acks=all,
since there is one replica; a retry of a batch waits for the batch. acks=0 gets no response, and, as in Kafka, an
error then closes the connection, which is all that such a producer can notice.

A transactional batch is taken when its partition takes part in the producer's transaction: the transaction coordinator
is asked when the producer has none open here (KIP-890, transaction.partition.verification.enable). From v12 on, it is
told to add the partition. What it has written of the transaction is durable before the batch is appended, so that the
batch has its marker whatever happens.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from coordinatord.cluster.nodes import Nodes
from coordinatord.log.errors import LogFailed
from coordinatord.log.writer import LogWriter
from coordinatord.topics.catalogue import Catalogue, Topic
from coordinatord.topics.partition import UNREADABLE, Partition
from coordinatord.topics.producers import Refused
from kafka_wire.api.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from kafka_wire.api_key import ApiKey
from kafka_wire.errors import ErrorCode
from kafka_wire.records.amend import recompress
from kafka_wire.records.batch import (
    HEADER,
    HEADER_BYTES,
    MAGIC,
    TRANSACTIONAL,
    BatchHeader,
    read_header,
)
from kafka_wire.records.produced import Rejected, validate_produced

if TYPE_CHECKING:
    from coordinatord.net.request import RequestContext

_ATTRIBUTES_AT = 21
"""Where a batch's attributes (int16) begin."""

TELLS_LEADER_FROM = 10
"""A response can say where a partition is led from this version on (KIP-951)."""

ABORTABLE_FROM = 11
"""Producers know TRANSACTION_ABORTABLE from this version on."""

ADDS_PARTITIONS_FROM = 12
"""Writing to a partition adds it to the transaction from this version on."""

UNREACHABLE = frozenset(
    {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR}
)
"""Errors of a transaction coordinator that cannot be asked now."""

_NO_LEADER = LeaderIdAndEpoch()
"""The default of a tagged field, shared by all responses and never changed."""


class _Done(NamedTuple):
    """What became of one partition's batch. `epoch`: what its response has to wait for, 0 for nothing."""

    response: PartitionProduceResponse
    epoch: int = 0


TopicPartition = tuple[str, int]


Errors = dict[TopicPartition, ErrorCode]


class Participation(NamedTuple):
    """Which partitions do not take part in a transaction, and why; and the log's epoch that has to be durable before
    anything is written to those that do. With `ask` another node has to be asked: it is given what to do with the
    errors, which come when all else is durable there.
    """

    errors: Errors
    epoch: int
    ask: Callable[[Callable[[Errors], object]], object] | None = None


class Told(NamedTuple):
    """What another node has said of partitions, and how many markers each had when it was asked: one that has got
    another one since may not take part any more.
    """

    errors: Errors
    markers: dict[TopicPartition, int]


class TransactionCoordinator(Protocol):
    """Who knows which partitions take part in a producer's transaction."""

    def participation(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
        *,
        add: bool,
    ) -> Participation:
        """`add`: those that do not take part yet are to do so from now on."""


class Nobody:
    """There is no transaction coordinator: nobody takes part in anything."""

    def participation(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
        *,
        add: bool,
    ) -> Participation:
        return Participation(dict.fromkeys(partitions, ErrorCode.COORDINATOR_NOT_AVAILABLE), 0)


class _Transactional(NamedTuple):
    """The transactional batches of a request: the first sequence of each, by partition."""

    producer_id: int
    producer_epoch: int
    partitions: dict[tuple[str | bytes, int], int]


class Producing:
    """The handler. `verifies`: transaction.partition.verification.enable."""

    def __init__(
        self,
        catalogue: Catalogue,
        writer: LogWriter,
        nodes: Nodes,
        now_ms: Callable[[], int],
        *,
        verifies: bool = True,
    ) -> None:
        self.catalogue = catalogue
        self.writer = writer
        self.nodes = nodes
        self.now_ms = now_ms
        self.verifies = verifies
        self.transactions: TransactionCoordinator = Nobody()

    def handlers(self) -> dict[int, Any]:
        """By api key."""
        return {ApiKey.PRODUCE: self.produce}

    # Produce

    def produce(
        self, context: RequestContext, request: ProduceRequest, told: Told | None = None
    ) -> ProduceResponse | None:
        """None when the response waits for the log, or there is none."""
        transactional = _transactional(request, context.api_version)
        if transactional is None:
            return self._append_all(context, request, {})
        if isinstance(transactional, ErrorCode):
            several = transactional is ErrorCode.INVALID_PRODUCER_ID_MAPPING
            message = "Transactional records contained more than one producer ID" if several else None
            return self._answer(context, request, _refuse_all(request, transactional, message), 0)
        participation = self._participation(request, context.api_version, transactional, told)
        if participation.ask is not None:
            markers = self._markers(transactional)
            participation.ask(lambda errors: self._resume(context, request, Told(errors, markers)))
            return None
        if participation.epoch <= self.writer.flushed_epoch:
            return self._append_all(context, request, participation.errors)
        # When it is durable that the partitions take part, ask again: it may be over by then.
        self.writer.hold(
            participation.epoch,
            lambda: self._resume(context, request),
            lambda: context.reply(_refuse_all(request, ErrorCode.KAFKA_STORAGE_ERROR)),
        )
        return None

    def _resume(self, context: RequestContext, request: ProduceRequest, told: Told | None = None) -> None:
        response = self.produce(context, request, told)
        if response is not None:
            context.reply(response)

    def _markers(self, transactional: _Transactional) -> dict[TopicPartition, int]:
        """How many markers the partitions have got so far."""
        markers = {}
        for topic_key, index in transactional.partitions:
            topic = self._topic(topic_key)
            if topic is not None and 0 <= index < len(topic.partitions):
                markers[topic.name, index] = topic.partitions[index].markers
        return markers

    def _participation(
        self, request: ProduceRequest, version: int, transactional: _Transactional, told: Told | None
    ) -> Participation:
        """The errors of transactional batches whose partitions are not known to take part."""
        adds = version >= ADDS_PARTITIONS_FROM
        if not adds and not self.verifies:
            return Participation({}, 0)
        producer_id, producer_epoch, partitions = transactional
        errors: dict[TopicPartition, ErrorCode] = {}
        unknown: dict[TopicPartition, tuple[Partition, int]] = {}
        for (topic_key, index), base_sequence in partitions.items():
            topic = self._topic(topic_key)
            if topic is None or not 0 <= index < len(topic.partitions):
                continue  # refused as that
            partition, key = topic.partitions[index], (topic.name, index)
            if not partition.is_here:
                continue  # this, too
            if partition.producers.check_epoch(producer_id, producer_epoch) is not None:
                errors[key] = ErrorCode.INVALID_PRODUCER_EPOCH
            elif not partition.producers.is_in_transaction(producer_id, producer_epoch):
                unknown[key] = partition, base_sequence
        if not unknown:
            return Participation(errors, 0)
        assert request.transactional_id is not None
        if told is not None and all(told.markers.get(key) == unknown[key][0].markers for key in unknown):
            answer = Participation(told.errors, 0)
        else:
            answer = self.transactions.participation(
                request.transactional_id, producer_id, producer_epoch, list(unknown), add=adds
            )
        if answer.ask is not None:
            return answer
        for key, (partition, base_sequence) in unknown.items():
            error = answer.errors.get(key)
            if error is not None:
                errors[key] = error
                partition.producers.unverified(producer_id, base_sequence)
            elif adds and base_sequence > 0 and partition.producers.last_sequence(producer_id) < 0:
                # With an epoch for each transaction, a transaction's first batch in a partition begins at 0.
                errors[key] = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        return Participation(errors, answer.epoch)

    def _topic(self, key: str | bytes) -> Topic | None:
        return self.catalogue.by_id.get(key) if isinstance(key, bytes) else self.catalogue.by_name.get(key)

    def _append_all(
        self, context: RequestContext, request: ProduceRequest, refused: dict[TopicPartition, ErrorCode]
    ) -> ProduceResponse | None:
        version = context.api_version
        now_ms = self.now_ms()
        highest_epoch = 0
        responses = []
        for produced in request.topic_data:
            topic = self._topic(produced.topic_id if version >= 13 else produced.name)
            unknown = ErrorCode.UNKNOWN_TOPIC_ID if version >= 13 else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            partitions = []
            for data in produced.partition_data:
                if topic is None:
                    partitions.append(_error(data.index, unknown))
                    continue
                error = refused.get((topic.name, data.index)) if refused else None
                if error is not None:
                    partitions.append(_refusal(topic.partitions[data.index], data.index, error, version))
                    continue
                done = self._partition(topic, data, version, request.acks, now_ms)
                partitions.append(done.response)
                highest_epoch = max(highest_epoch, done.epoch)
            responses.append(TopicProduceResponse(produced.name, produced.topic_id, partitions))
        response = ProduceResponse(responses)
        self._add_leaders(response, context)
        return self._answer(context, request, response, highest_epoch)

    def _add_leaders(self, response: ProduceResponse, context: RequestContext) -> None:
        """KIP-951: the addresses of nodes that lead what was refused here."""
        if self.nodes.workers == 1:
            return
        leaders = {
            partition.current_leader.leader_id
            for topic in response.responses
            for partition in topic.partition_responses
            if partition.current_leader.leader_id >= 0
        }
        if leaders:
            nodes = self.nodes.select(leaders, context.connection.listener)
            response.node_endpoints = [NodeEndpoint(node.node_id, node.host, node.port, node.rack) for node in nodes]

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
        if not partition.is_here:
            return _Done(_elsewhere(index, partition, version))
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
            try:
                producers = partition.producers
            except UNREADABLE as failure:  # they are learnt from the log
                return _Done(_error(index, partition.cannot_read(failure)))
            known = producers.check(header)
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
        partition.appended(header, base_offset)
        return _Done(_ok(index, base_offset, append_time, log.log_start_offset), epoch)


def _ok(index: int, base_offset: int, append_time_ms: int, log_start_offset: int) -> PartitionProduceResponse:
    return PartitionProduceResponse(index, 0, base_offset, append_time_ms, log_start_offset, [], None, _NO_LEADER)


def _error(index: int, error: ErrorCode, *, log_start_offset: int = -1) -> PartitionProduceResponse:
    return PartitionProduceResponse(index, error, -1, -1, log_start_offset, [], None, _NO_LEADER)


def _elsewhere(index: int, partition: Partition, version: int) -> PartitionProduceResponse:
    """Another node leads the partition; which one can be told since v10."""
    answer = _error(index, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    if version >= TELLS_LEADER_FROM:
        answer.current_leader = LeaderIdAndEpoch(partition.leader_id, partition.log.leader_epoch)
    return answer


def _refusal(partition: Partition, index: int, error: ErrorCode, version: int) -> PartitionProduceResponse:
    """What a producer hears of the refusal of a transactional batch: errors that its version knows what to do with."""
    message = None
    if error is ErrorCode.PRODUCER_FENCED:
        error = ErrorCode.INVALID_PRODUCER_EPOCH
    elif error is ErrorCode.TRANSACTION_ABORTABLE and version < ABORTABLE_FROM:
        error, message = ErrorCode.INVALID_TXN_STATE, "Partition was not added to the transaction"
    elif error in UNREACHABLE or (error is ErrorCode.CONCURRENT_TRANSACTIONS and version < ADDS_PARTITIONS_FROM):
        # Tried again, without a look at the metadata.
        text = f"Unable to verify the partition has been added to the transaction. Underlying error: {error.name}"
        error, message = ErrorCode.NOT_ENOUGH_REPLICAS, text
    # Kafka finds this one while it appends, and tells where the log begins.
    start = partition.log.log_start_offset if error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER else -1
    return PartitionProduceResponse(index, error, -1, -1, start, [], message, _NO_LEADER)


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


def _refuse_all(request: ProduceRequest, error: ErrorCode, message: str | None = None) -> ProduceResponse:
    return ProduceResponse(
        [
            TopicProduceResponse(
                topic.name,
                topic.topic_id,
                [
                    PartitionProduceResponse(data.index, error, -1, -1, -1, [], message, _NO_LEADER)
                    for data in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
    )


def _transactional(request: ProduceRequest, version: int) -> _Transactional | ErrorCode | None:
    """The request's transactional batches, None when it has none; told by their headers, whatever else is wrong with
    them. They need a transactional id, and one producer.
    """
    found: dict[tuple[str | bytes, int], int] = {}
    producer: tuple[int, int] | None = None
    for topic in request.topic_data:
        for data in topic.partition_data:
            records = data.records
            if not records or len(records) < HEADER_BYTES or not records[_ATTRIBUTES_AT + 1] & TRANSACTIONAL:
                continue
            if request.transactional_id is None:
                return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            header = BatchHeader._make(HEADER.unpack_from(records))
            if header.magic != MAGIC or header.producer_id < 0:
                continue  # refused as that
            if producer not in (None, (header.producer_id, header.producer_epoch)):
                return ErrorCode.INVALID_PRODUCER_ID_MAPPING
            producer = header.producer_id, header.producer_epoch
            found[topic.topic_id if version >= 13 else topic.name, data.index] = header.base_sequence
    return _Transactional(*producer, found) if producer is not None else None
