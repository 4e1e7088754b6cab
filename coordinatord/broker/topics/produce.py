"""Produce v3-v13.

One batch per partition is validated (produce_checks.py), checked against its producer's sequence, and
appended, independently of the other partitions. The response waits until the log has made the batches durable, with
acks=1 as with acks=all, since there is one replica; a retry waits for the original batch. acks=0 gets no response; as
in Kafka, an error then closes the connection, which is all that such a producer can notice.

A transactional batch is accepted when its partition is part of the producer's transaction. When the producer has no
open transaction in the partition, the broker verifies that with the transaction coordinator (KIP-890,
transaction.partition.verification.enable); since v12 it requests that the coordinator add the partition. The
coordinator's record of the transaction is durable before the batch is appended, so that the batch always gets a marker.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from coordinatord.broker.log.errors import LogFailed
from coordinatord.broker.log.writer import LogWriter
from coordinatord.broker.topics.catalogue import Catalogue, Topic
from coordinatord.broker.topics.partition import UNREADABLE, Partition
from coordinatord.broker.topics.partition_verification import (
    NoCoordinator,
    Participation,
    TopicPartition,
    TransactionCoordinator,
    VerificationResult,
)
from coordinatord.broker.topics.produce_checks import Checked, ToCheck, checked_aside, checked_now
from coordinatord.broker.topics.produce_responses import (
    ADDS_PARTITIONS_FROM,
    appended,
    led_elsewhere,
    not_written,
    refused_transactional,
    refused_with,
    rejected_records,
)
from coordinatord.broker.topics.producers import Refused
from coordinatord.broker.topics.repeated import Where, last_batches, repeats
from coordinatord.transport.cluster.nodes import Nodes
from kafka_wire.api.produce import (
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
    error_response,
)
from kafka_wire.api_key import ApiKey
from kafka_wire.errors import ErrorCode
from kafka_wire.records.batch import (
    HEADER,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    MAGIC,
    TRANSACTIONAL,
    BatchHeader,
)
from kafka_wire.records.produced import Rejected

if TYPE_CHECKING:
    from coordinatord.transport.net.request import RequestContext

_ATTRIBUTES_AT = 21
"""Position of the attributes (int16) in a batch."""

MAX_WAITING_BYTES = 64 * 1024 * 1024
"""Bytes of batches that wait for the log, of all connections. Above this limit a Produce request waits unhandled, and
its connection is not read. So a slow disk costs at most this memory and one request of each producer, and offset
commits do not wait for produced batches."""


MAX_PARTITIONS = 4_000
"""Maximum partitions of a Produce request: some 15 ms of work, and 400 KB of the smallest batches. A request with more
closes its connection.
"""

MANY_BYTES = 16 * 1024
"""Request size in bytes below which a request cannot list more than `MAX_PARTITIONS`."""


OWN_VERSION: Final = 13
"""The version of Produce whose rules apply to the broker's own batches."""


_Done = tuple[PartitionProduceResponse, int]
"""The result for one partition's batch: its response, and the flush epoch that the response waits for, 0 for none."""


Checks = dict[int, Checked]
"""The checked records of a request, by the id() of their part of the request."""


class _Transactional(NamedTuple):
    """The transactional batches of a request: partition -> base sequence."""

    producer_id: int
    producer_epoch: int
    partitions: dict[tuple[str | bytes, int], int]


class ProduceRequestHandler:
    """The handler of Produce requests. `verifies`: transaction.partition.verification.enable."""

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
        self.max_waiting_bytes = MAX_WAITING_BYTES
        self.transactions: TransactionCoordinator = NoCoordinator()

    def handlers(self) -> dict[int, Any]:
        """Return the handlers by API key."""
        return {ApiKey.PRODUCE: self.produce}

    # Produce

    def produce(
        self,
        context: RequestContext,
        request: ProduceRequest,
        told: VerificationResult | None = None,
        checks: Checks | None = None,
    ) -> ProduceResponse | None:
        """Return None when the response waits for the log, for another node, or for the checks of many records, or when
        acks=0. While more than `MAX_WAITING_BYTES` wait for the log, the request waits, too, and its connection is not
        read.
        """
        if context.admitted is not None:
            request = _admitted(context, request)
        if self.writer.waiting_bytes > self.max_waiting_bytes and told is None:
            self._wait_for_room(context, request, checks)
            return None
        if checks is None:
            _, start, end = context.where
            if end - start > MANY_BYTES and _lists_too_many(context, request):
                return None
            checks = self._check(context, request)
            if checks is None:
                return None
        transactional = _transactional(request, context.api_version)
        if transactional is None:
            return self._append_all(context, request, {}, checks)
        if isinstance(transactional, ErrorCode):
            several = transactional is ErrorCode.INVALID_PRODUCER_ID_MAPPING
            message = "Transactional records contained more than one producer ID" if several else None
            response = error_response(request, context.api_version, transactional, message)
            return self._answer(context, request, response, 0)
        participation = self._participation(request, context.api_version, transactional, told)
        if participation.ask is not None:
            markers = self._markers(transactional)
            participation.ask(
                lambda errors: self._resume(context, request, VerificationResult(errors, markers), checks)
            )
            return None
        if participation.epoch <= self.writer.flushed_epoch:
            return self._append_all(context, request, participation.errors, checks)
        # When the added partitions are durable, check again: the transaction may have ended by then.
        self.writer.hold(
            participation.epoch,
            lambda: self._resume(context, request, None, checks),
            lambda: self._give_up(context, request),
        )
        return None

    def _wait_for_room(self, context: RequestContext, request: ProduceRequest, checks: Checks | None) -> None:
        if checks is None:  # the decoded request is not kept, its bytes are
            self.writer.hold(
                self.writer.epoch,
                lambda: self._resume(context, context.request),
                lambda: self._give_up(context, context.request),
            )
        else:
            self.writer.hold(
                self.writer.epoch,
                lambda: self._resume(context, request, None, checks),
                lambda: self._give_up(context, request),
            )

    def _give_up(self, context: RequestContext, request: ProduceRequest) -> None:
        """Respond with an error after the log has failed."""
        failed = error_response(request, context.api_version, ErrorCode.KAFKA_STORAGE_ERROR)
        response = self._answer(context, request, failed, 0)
        if response is not None:
            context.reply(response)

    def _check(self, context: RequestContext, request: ProduceRequest) -> Checks | None:
        """Return the checked records; None if another thread checks them, which resumes the request afterwards."""
        version, now_ms = context.api_version, self.now_ms()
        keys: list[int] = []
        batches: list[ToCheck] = []
        for produced in request.topic_data:
            topic = self._topic(produced.topic_id if version >= 13 else produced.name)
            if topic is None or topic.internal or not -1 <= request.acks <= 1:
                continue
            for data in produced.partition_data:
                if 0 <= data.index < len(topic.partitions) and topic.partitions[data.index].is_here:
                    keys.append(id(data))
                    batches.append((data.records, topic.configs))
        checked = checked_now(batches, version, now_ms)
        if checked is not None:
            return dict(zip(keys, checked, strict=True))

        def aside() -> Callable[[], object]:
            try:
                checks = dict(zip(keys, checked_aside(batches, version, now_ms), strict=True))
            except Exception as error:  # a bug, or no memory: the client must not wait for ever
                failure = repr(error)
                return lambda: context.connection.refuse("failed", failure, api="Produce")
            return lambda: self._resume(context, request, None, checks)

        self.writer.aside(aside)
        return None

    def _resume(
        self,
        context: RequestContext,
        request: ProduceRequest,
        told: VerificationResult | None = None,
        checks: Checks | None = None,
    ) -> None:
        response = self.produce(context, request, told, checks)
        if response is not None:
            context.reply(response)

    def _markers(self, transactional: _Transactional) -> dict[TopicPartition, int]:
        """Return the number of markers appended to each partition so far."""
        markers = {}
        for topic_key, index in transactional.partitions:
            topic = self._topic(topic_key)
            if topic is not None and 0 <= index < len(topic.partitions):
                markers[topic.name, index] = topic.partitions[index].markers
        return markers

    def _participation(
        self, request: ProduceRequest, version: int, transactional: _Transactional, told: VerificationResult | None
    ) -> Participation:
        """Return the errors of transactional batches whose partitions are not verified as part of the transaction."""
        adds = version >= ADDS_PARTITIONS_FROM
        if not adds and not self.verifies:
            return Participation({}, 0)
        producer_id, producer_epoch, partitions = transactional
        errors: dict[TopicPartition, ErrorCode] = {}
        unknown: dict[TopicPartition, tuple[Partition, int]] = {}
        for (topic_key, index), base_sequence in partitions.items():
            topic = self._topic(topic_key)
            if topic is None or not 0 <= index < len(topic.partitions):
                continue  # refused later, as unknown
            partition, key = topic.partitions[index], (topic.name, index)
            if not partition.is_here:
                continue  # refused later, as led by another node
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
                # Each transaction has its own producer epoch, so its first batch in a partition has sequence 0.
                errors[key] = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        return Participation(errors, answer.epoch)

    def _topic(self, key: str | bytes) -> Topic | None:
        return self.catalogue.by_id.get(key) if isinstance(key, bytes) else self.catalogue.by_name.get(key)

    def _append_all(
        self,
        context: RequestContext,
        request: ProduceRequest,
        refused: dict[TopicPartition, ErrorCode],
        checks: Checks,
    ) -> ProduceResponse | None:
        version = context.api_version
        highest_epoch = 0
        responses = []
        early: dict[Where, Rejected] = {}
        if repeats(request):
            request, early = last_batches(request, checks)
        for produced in request.topic_data:
            topic = self._topic(produced.topic_id if version >= 13 else produced.name)
            unknown = ErrorCode.UNKNOWN_TOPIC_ID if version >= 13 else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            partitions = []
            for data in produced.partition_data:
                if topic is None:
                    partitions.append(refused_with(data.index, unknown))
                    continue
                error = refused.get((topic.name, data.index)) if refused else None
                if error is not None:
                    partitions.append(refused_transactional(topic.partitions[data.index], data.index, error, version))
                    continue
                answer, epoch = self._partition(topic, data, version, request.acks, checks.get(id(data)))
                rejected = early.get((produced.name, produced.topic_id, data.index)) if early else None
                if rejected is not None:
                    answer = rejected_records(data.index, rejected, topic.partitions[data.index])
                partitions.append(answer)
                highest_epoch = max(highest_epoch, epoch)
            responses.append(TopicProduceResponse(produced.name, produced.topic_id, partitions))
        response = ProduceResponse(responses)
        if self.nodes.workers > 1:
            self._add_leaders(response, context)
        return self._answer(context, request, response, highest_epoch)

    def _add_leaders(self, response: ProduceResponse, context: RequestContext) -> None:
        """Add the addresses of the nodes that lead the partitions rejected here (KIP-951)."""
        leaders = {
            partition.current_leader.leader_id
            for topic in response.responses
            for partition in topic.partition_responses
            if partition.current_leader.leader_id >= 0
        }
        if leaders:
            nodes = self.nodes.select(leaders, context.listener)
            response.node_endpoints = [NodeEndpoint(node.node_id, node.host, node.port, node.rack) for node in nodes]

    def _answer(
        self, context: RequestContext, request: ProduceRequest, response: ProduceResponse, epoch: int
    ) -> ProduceResponse | None:
        if context.admitted is not None:
            response.responses += context.admitted.refused
        if request.acks == 0:
            errors = {
                ErrorCode(partition.error_code).name
                for topic in response.responses
                for partition in topic.partition_responses
                if partition.error_code
            }
            if epoch <= self.writer.flushed_epoch or self.writer.has_flushed(epoch):
                context.drop()
            else:
                context.drop_at(epoch)
            if errors:
                context.connection.refuse("refused", f"error with acks=0: {', '.join(sorted(errors))}", api="Produce")
            return None
        if epoch <= self.writer.flushed_epoch or self.writer.has_flushed(epoch):
            return response
        # Patient: the producer has a timeout of its own, and after an error it may send the records once more.
        context.answer_at(epoch, response, lambda: not_written(response), is_patient=True)
        return None

    def _partition(
        self, topic: Topic, data: PartitionProduceData, version: int, acks: int, checked: Checked | None
    ) -> _Done:
        index = data.index
        if not 0 <= index < len(topic.partitions):
            return refused_with(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), 0
        if not -1 <= acks <= 1:
            return refused_with(index, ErrorCode.INVALID_REQUIRED_ACKS), 0
        if topic.internal:
            # Kafka accepts the client id __admin_client; here the coordinator would not read that client's records.
            return refused_with(index, ErrorCode.INVALID_TOPIC_EXCEPTION), 0
        partition = topic.partitions[index]
        if not partition.is_here:
            return led_elsewhere(index, partition, version), 0
        if checked is None:  # the topic was made while others were checked
            return led_elsewhere(index, partition, version), 0
        if isinstance(checked, Rejected):
            return rejected_records(index, checked, partition), 0
        header, batch = checked
        if len(batch) > topic.configs.segment_bytes:
            return refused_with(index, ErrorCode.RECORD_LIST_TOO_LARGE), 0
        return self._append(partition, index, header, batch)

    def append_own(self, topic: Topic, index: int, records: bytearray) -> _Done:
        """Append a batch that the broker itself has made, as if a client had produced it. Return the response for the
        partition, and the flush epoch after which the records are durable.
        """
        [checked] = checked_aside([(records, topic.configs)], OWN_VERSION, self.now_ms())
        return self._partition(topic, PartitionProduceData(index, None), OWN_VERSION, -1, checked)

    def _append(self, partition: Partition, index: int, header: BatchHeader, batch: bytearray) -> _Done:
        log = partition.log
        append_time = header.max_timestamp if header.attributes & LOG_APPEND_TIME else -1
        if header.producer_id >= 0:
            try:
                producers = partition.producers
            except UNREADABLE as failure:  # producer state is loaded from the log
                return refused_with(index, partition.cannot_read(failure)), 0
            known = producers.check(header)
            if isinstance(known, Refused):
                return refused_with(index, known.error, log_start_offset=log.log_start_offset), 0
            if known is not None:
                # As in Kafka, the time is that of the batch, whatever the topic's timestamp type.
                response = appended(index, known.first_offset, known.timestamp, log.log_start_offset)
                return response, partition.last_epoch
        try:
            base_offset, epoch = self.writer.append(log, batch, header=header, may_wait=True)
        except LogFailed:
            return refused_with(index, ErrorCode.KAFKA_STORAGE_ERROR), 0
        partition.last_epoch = epoch
        partition.appended(header, base_offset)
        return appended(index, base_offset, append_time, log.log_start_offset), epoch


def _admitted(context: RequestContext, request: ProduceRequest) -> ProduceRequest:
    """Return the request without the topics that the client may not write; `Admitted.refused` gets their responses. The
    request may have been decoded again since its first authorization.
    """
    admitted = context.admitted
    assert admitted is not None
    may = admitted.may
    if may is None:
        return request
    denied = [topic for topic in request.topic_data if not may(topic.name, topic.topic_id)]
    if not denied:
        return request
    refused = ProduceRequest(topic_data=denied)
    admitted.refused = error_response(refused, context.api_version, ErrorCode.TOPIC_AUTHORIZATION_FAILED).responses
    allowed = [topic for topic in request.topic_data if may(topic.name, topic.topic_id)]
    return ProduceRequest(request.transactional_id, request.acks, request.timeout_ms, allowed)


def _transactional(request: ProduceRequest, version: int) -> _Transactional | ErrorCode | None:
    """Return the request's transactional batches, None when it has none, recognised by their headers even if they are
    invalid otherwise. Without a transactional id or with several producers, an error is returned.
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
                continue  # refused later, as invalid records
            if producer not in (None, (header.producer_id, header.producer_epoch)):
                return ErrorCode.INVALID_PRODUCER_ID_MAPPING
            producer = header.producer_id, header.producer_epoch
            found[topic.topic_id if version >= 13 else topic.name, data.index] = header.base_sequence
    return _Transactional(*producer, found) if producer is not None else None


def _lists_too_many(context: RequestContext, request: ProduceRequest) -> bool:
    """Close the connection if the request has more than `MAX_PARTITIONS`."""
    count = sum([len(topic.partition_data) for topic in request.topic_data])
    if count > MAX_PARTITIONS:
        reason = f"a Produce request of {count} partitions, more than {MAX_PARTITIONS}"
        context.connection.refuse("oversized", reason, api="Produce")
    return count > MAX_PARTITIONS
