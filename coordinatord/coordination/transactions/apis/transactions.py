"""InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn, EndTxn, WriteTxnMarkers, DescribeTransactions, ListTransactions.

Producers whose version of a request has no PRODUCER_FENCED get INVALID_PRODUCER_EPOCH instead (KIP-588).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

from coordinatord.base.budget import BACKGROUND_SLICE_S, SLICE_COSTLY_ITEMS, Budget
from coordinatord.broker.topics.markers import Marker
from coordinatord.broker.topics.names import INTERNAL, OFFSETS_TOPIC
from coordinatord.coordination.group.consumer.expressions import Expression, InvalidExpression, compile_expression
from coordinatord.coordination.runtime.actors import later, respond_after
from coordinatord.coordination.runtime.partitions import Partitions
from coordinatord.coordination.transactions.coordinator import TransactionActor, Transactions
from coordinatord.coordination.transactions.events import AddPartitions, End, Init
from coordinatord.coordination.transactions.remote_transactions import NO_EPOCH
from coordinatord.coordination.transactions.state import TopicPartition, TransactionState
from coordinatord.coordination.transactions.steps import verify
from coordinatord.transport.cluster.peers import LISTENER
from coordinatord.transport.net.cooperative_tasks import CooperativeTask, TaskSteps, run_through
from coordinatord.transport.net.request import RequestContext
from kafka_wire.api import list_transactions
from kafka_wire.api.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from kafka_wire.api.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from kafka_wire.api.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
)
from kafka_wire.api.describe_transactions import TransactionState as Described
from kafka_wire.api.end_txn import EndTxnRequest, EndTxnResponse
from kafka_wire.api.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kafka_wire.api.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from kafka_wire.api.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from kafka_wire.api_key import ApiKey
from kafka_wire.errors import ErrorCode
from kafka_wire.registry import error_response

BUMPING_ADD_FROM = 4
"""From this version on, brokers send AddPartitionsToTxn for producers that follow transaction version 2."""
BUMPING_END_FROM = 5
"""From this version on, EndTxn is sent by producers that follow transaction version 2."""


class Topics(Protocol):
    """The topics' functions that the handlers use."""

    def exists(self, name: str, partition: int) -> bool: ...


class MarkerWriter(Protocol):
    """Writes one marker; see coordinatord/coordination/transactions/markers.py."""

    def write_one(self, partition: TopicPartition, marker: Marker) -> int | ErrorCode: ...


class TransactionApis:
    """Handlers of the requests about transactions."""

    def __init__(
        self,
        transactions: Transactions,
        topics: Topics,
        markers: MarkerWriter,
        groups: Partitions,
        new_producer_id: Callable[[], int],
    ) -> None:
        self.transactions = transactions
        self.topics = topics
        self.markers = markers
        self.groups = groups
        self.new_producer_id = new_producer_id

    def handlers(self) -> dict[int, Any]:
        """The handlers by API key."""
        return {
            ApiKey.INIT_PRODUCER_ID: self.init_producer_id,
            ApiKey.ADD_PARTITIONS_TO_TXN: self.add_partitions,
            ApiKey.ADD_OFFSETS_TO_TXN: self.add_offsets,
            ApiKey.END_TXN: self.end,
            ApiKey.WRITE_TXN_MARKERS: self.write_markers,
            ApiKey.DESCRIBE_TRANSACTIONS: self.describe,
            ApiKey.LIST_TRANSACTIONS: self.list,
        }

    # InitProducerId

    def init_producer_id(self, context: RequestContext, request: InitProducerIdRequest) -> Any:
        """Return a new id to an idempotent producer, or the id and epoch of its transactional id to a transactional
        one.
        """
        version = context.api_version
        if (request.producer_id == -1) != (request.producer_epoch == -1):
            return error_response(request, version, ErrorCode.INVALID_REQUEST)
        if request.transactional_id is None:
            try:
                return InitProducerIdResponse(0, 0, self.new_producer_id(), 0)
            except OSError:
                return error_response(request, version, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if not request.transactional_id:
            return error_response(request, version, ErrorCode.INVALID_REQUEST)
        actor = self.transactions.actor_for(request.transactional_id)
        if isinstance(actor, ErrorCode):
            return error_response(request, version, actor)
        expected = (request.producer_id, request.producer_epoch) if request.producer_id != -1 else None
        try:
            response = actor.tell(Init(request.transaction_timeout_ms, expected))
        except OSError:
            return error_response(request, version, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if version < 4:
            response.error_code = _as_known(ErrorCode(response.error_code))
        return actor.respond(context, response)

    # AddPartitionsToTxn and AddOffsetsToTxn

    def add_partitions(self, context: RequestContext, request: AddPartitionsToTxnRequest) -> Any:
        """Add partitions to one transaction before v4; brokers send several transactions, and may only verify
        (KIP-890).
        """
        version = context.api_version
        if version >= BUMPING_ADD_FROM:
            asked = request.transactions
        else:
            asked = [
                AddPartitionsToTxnTransaction(
                    request.v3_and_below_transactional_id,
                    request.v3_and_below_producer_id,
                    request.v3_and_below_producer_epoch,
                    False,
                    request.v3_and_below_topics,
                )
            ]
        results: dict[str, AddPartitionsToTxnResult] = {}
        latest: TransactionActor | None = None
        for transaction in asked:
            topics, errors = transaction.topics, self._unknown(transaction, version)
            if errors:
                topics = _distinct(topics)  # Kafka uses a map by partition here, otherwise the request's list
            else:
                errors, actor = self._add(transaction, version)
                latest = later(latest, actor)
            results.setdefault(
                transaction.transactional_id,
                AddPartitionsToTxnResult(transaction.transactional_id, _topic_results(topics, errors)),
            )
        if version >= BUMPING_ADD_FROM:
            response = AddPartitionsToTxnResponse(results_by_transaction=list(results.values()))
        else:
            (result,) = results.values()
            response = AddPartitionsToTxnResponse(results_by_topic_v3_and_below=result.topic_results)
        return respond_after(latest, context, response)

    def _unknown(self, asked: AddPartitionsToTxnTransaction, version: int) -> dict[TopicPartition, ErrorCode]:
        """Return the error of each partition if one of them cannot be added, which fails all others; otherwise
        nothing.
        """
        partitions = [(topic.name, partition) for topic in asked.topics for partition in topic.partitions]
        errors: dict[TopicPartition, ErrorCode] = {}
        for topic, partition in partitions:
            if version < BUMPING_ADD_FROM and topic in INTERNAL:
                errors[topic, partition] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif not self.topics.exists(topic, partition):
                errors[topic, partition] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if not errors:
            return {}
        return {each: errors.get(each, ErrorCode.OPERATION_NOT_ATTEMPTED) for each in partitions}

    def _add(
        self, asked: AddPartitionsToTxnTransaction, version: int
    ) -> tuple[dict[TopicPartition, ErrorCode], TransactionActor | None]:
        """Return the error of each partition, all of which exist, and the transaction's actor."""
        partitions = [(topic.name, partition) for topic in asked.topics for partition in topic.partitions]
        actor, error = self._find(asked.transactional_id)
        if error is not None and error is not ErrorCode.INVALID_PRODUCER_ID_MAPPING:
            return dict.fromkeys(partitions, error), None
        if asked.verify_only:
            transaction = actor.transaction if actor is not None else None
            unverified = verify(transaction, asked.producer_id, asked.producer_epoch, partitions)
            return {each: unverified.get(each, ErrorCode.NONE) for each in partitions}, actor
        if actor is None:
            return dict.fromkeys(partitions, ErrorCode.INVALID_PRODUCER_ID_MAPPING), None
        transaction_version = 2 if version >= BUMPING_ADD_FROM else 0
        event = AddPartitions(asked.producer_id, asked.producer_epoch, partitions, transaction_version)
        added: ErrorCode = actor.tell(event)
        return dict.fromkeys(partitions, _as_known(added) if version < 2 else added), actor

    def add_offsets(self, context: RequestContext, request: AddOffsetsToTxnRequest) -> Any:
        """Add the group's partition of `__consumer_offsets` to the transaction."""
        actor, error = self._find(request.transactional_id)
        if actor is None:
            return AddOffsetsToTxnResponse(error_code=error or ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        unavailable = self.groups.ensure()  # a producer looks the group's coordinator up only afterwards
        if unavailable is not ErrorCode.NONE:
            return AddOffsetsToTxnResponse(error_code=unavailable)
        partition = OFFSETS_TOPIC, self.groups.of(request.group_id)
        event = AddPartitions(request.producer_id, request.producer_epoch, [partition])
        added: ErrorCode = actor.tell(event)
        response = AddOffsetsToTxnResponse(error_code=_as_known(added) if context.api_version < 2 else added)
        return actor.respond(context, response)

    # EndTxn and WriteTxnMarkers

    def end(self, context: RequestContext, request: EndTxnRequest) -> Any:
        """End a transaction. The request is parked until the markers are written, unless it is rejected."""
        actor, error = self._find(request.transactional_id)
        if actor is None:
            return EndTxnResponse(error_code=error or ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        version = context.api_version
        event = End(
            request.producer_id,
            request.producer_epoch,
            request.committed,
            context,
            2 if version >= BUMPING_END_FROM else 0,
        )
        try:
            response = actor.tell(event)
        except OSError:
            return EndTxnResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if response is not None and version < 2:
            response.error_code = _as_known(ErrorCode(response.error_code))
        return actor.respond(context, response)

    def write_markers(self, context: RequestContext, request: WriteTxnMarkersRequest) -> Any:
        """Write markers for another broker's transaction coordinator, or for an admin that ends a hanging
        transaction.
        """
        partitions = sum([len(topic.partition_indexes) for asked in request.markers for topic in asked.topics])
        steps = self._write_markers(context, request)
        return CooperativeTask(steps, is_change=True) if partitions > SLICE_COSTLY_ITEMS else run_through(steps)

    def _write_markers(self, context: RequestContext, request: WriteTxnMarkersRequest) -> TaskSteps:
        from_worker = context.listener == LISTENER
        results: dict[int, WritableTxnMarkerResult] = {}
        epoch = 0
        for asked in request.markers:
            yield None
            marker = Marker(
                asked.producer_id,
                asked.producer_epoch,
                asked.transaction_result,
                asked.transaction_version,
                None if from_worker and asked.coordinator_epoch == NO_EPOCH else asked.coordinator_epoch,
            )
            result = results.setdefault(asked.producer_id, WritableTxnMarkerResult(asked.producer_id))
            epoch = max(epoch, (yield from self._write_one(asked, marker, result)))
        response = WriteTxnMarkersResponse(markers=list(results.values()))
        if epoch <= self.transactions.gate.flushed_epoch:
            return response
        context.answer_at(
            epoch, response, lambda: error_response(request, context.api_version, ErrorCode.KAFKA_STORAGE_ERROR)
        )
        return None

    def _write_one(self, asked: WritableTxnMarker, marker: Marker, result: WritableTxnMarkerResult) -> TaskSteps:
        """Write one marker. Returns the flush epoch of its record."""
        epoch = count = 0
        for topic in asked.topics:
            answered: list[WritableTxnMarkerPartitionResult] = []
            for partition in topic.partition_indexes:
                count += 1
                if count % SLICE_COSTLY_ITEMS == 0:
                    yield None
                written = self._write_to((topic.name, partition), marker)
                error = written if isinstance(written, ErrorCode) else ErrorCode.NONE
                epoch = max(epoch, 0 if error else written)
                answered.append(WritableTxnMarkerPartitionResult(partition, error))
            result.topics.append(WritableTxnMarkerTopicResult(topic.name, answered))
        return epoch

    def _write_to(self, partition: TopicPartition, marker: Marker) -> int | ErrorCode:
        if not self.topics.exists(*partition):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if marker.producer_id < 0 or marker.producer_epoch < 0:
            return ErrorCode.UNKNOWN_SERVER_ERROR  # as in Kafka, which cannot build a batch from it
        return self.markers.write_one(partition, marker)

    # DescribeTransactions and ListTransactions

    def describe(self, context: RequestContext, request: DescribeTransactionsRequest) -> Any:
        """Describe transactions; each id has its own error."""
        described = []
        latest: TransactionActor | None = None
        for transactional_id in request.transactional_ids:
            actor, error = self._find(transactional_id)
            latest = later(latest, actor)
            if actor is None or not actor.transaction.exists:
                if error in (None, ErrorCode.INVALID_PRODUCER_ID_MAPPING):
                    error = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
                described.append(Described(error_code=error, transactional_id=transactional_id))
                continue
            described.append(_described(actor))
        return respond_after(latest, context, DescribeTransactionsResponse(transaction_states=described))

    def list(self, context: RequestContext, request: ListTransactionsRequest) -> Any:
        """List all ids of this node that pass the filters and that the client may describe. Responds with an error
        until all ids are loaded.
        """
        transactions = self.transactions
        if transactions.draining:
            return ListTransactionsResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if transactions.is_loading:
            return ListTransactionsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return CooperativeTask(self._list(context, request))

    def _list(self, context: RequestContext, request: ListTransactionsRequest) -> TaskSteps:
        """List ids. The pattern is matched last and on another thread: it may need a second for one id."""
        transactions = self.transactions
        expression: Expression | None = None
        if request.transactional_id_pattern:
            try:
                expression = yield partial(compile_expression, request.transactional_id_pattern)
            except InvalidExpression:
                return ListTransactionsResponse(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION)
        by_name = {state.shown: state for state in TransactionState}
        states = {by_name[name] for name in request.state_filters if name in by_name}
        producer_ids = set(request.producer_id_filters)
        may_describe, now_ms = context.may_describe, transactions.now_ms()
        found: list[TransactionActor] = []
        for actor in list(transactions.actors.values()):
            transaction = actor.transaction
            if (
                (not producer_ids or transaction.producer_id in producer_ids)
                and (not request.state_filters or transaction.state in states)
                and (request.duration_filter < 0 or now_ms - transaction.start_ms > request.duration_filter)
                and (may_describe is None or may_describe(transaction.transactional_id))
            ):
                found.append(actor)
            yield None
        if expression is not None:
            found = yield from _matching(expression, found)
        listed = []
        # The expiry of an id that is not listed may not be durable yet.
        latest = transactions.absent()
        for actor in found:
            transaction = actor.transaction
            if transaction.exists:
                listed.append(
                    list_transactions.TransactionState(
                        transaction.transactional_id, transaction.producer_id, transaction.state.shown
                    )
                )
                latest = later(latest, actor)
            yield None
        known = {*by_name, "PrepareEpochFence"}
        unknown = [name for name in dict.fromkeys(request.state_filters) if name not in known]
        return respond_after(latest, context, ListTransactionsResponse(0, 0, unknown, listed))

    def _find(self, transactional_id: str) -> tuple[TransactionActor | None, ErrorCode | None]:
        """Return the id's actor, or the error for a request about it."""
        if not transactional_id:
            return None, ErrorCode.INVALID_REQUEST
        found = self.transactions.find(transactional_id)
        if found is None:
            return None, ErrorCode.INVALID_PRODUCER_ID_MAPPING
        return (None, found) if isinstance(found, ErrorCode) else (found, None)


def _matching(expression: Expression, actors: Sequence[TransactionActor]) -> TaskSteps:
    """Return the actors whose ids match."""
    found: list[TransactionActor] = []
    waiting = iter(actors)

    def match_some() -> bool:
        budget = Budget(BACKGROUND_SLICE_S)
        for actor in waiting:
            if expression.matches(actor.id):
                found.append(actor)
            if budget.is_spent():
                return True
        return False

    while (yield match_some):
        pass
    return found


def _as_known(error: ErrorCode) -> ErrorCode:
    return ErrorCode.INVALID_PRODUCER_EPOCH if error is ErrorCode.PRODUCER_FENCED else error


def _distinct(topics: Sequence[AddPartitionsToTxnTopic]) -> list[AddPartitionsToTxnTopic]:
    """Return each topic once, with each of its partitions once."""
    found: dict[str, dict[int, None]] = {}
    for topic in topics:
        found.setdefault(topic.name, {}).update(dict.fromkeys(topic.partitions))
    return [AddPartitionsToTxnTopic(name, list(partitions)) for name, partitions in found.items()]


def _topic_results(
    topics: Sequence[AddPartitionsToTxnTopic], errors: dict[TopicPartition, ErrorCode]
) -> list[AddPartitionsToTxnTopicResult]:
    return [
        AddPartitionsToTxnTopicResult(
            topic.name,
            [AddPartitionsToTxnPartitionResult(each, errors[topic.name, each]) for each in topic.partitions],
        )
        for topic in topics
    ]


def _described(actor: TransactionActor) -> Described:
    transaction = actor.transaction
    by_topic: dict[str, list[int]] = {}
    for topic, partition in transaction.partitions:
        by_topic.setdefault(topic, []).append(partition)
    return Described(
        ErrorCode.NONE,
        transaction.transactional_id,
        transaction.state.shown,
        transaction.timeout_ms,
        transaction.start_ms,
        transaction.producer_id,
        transaction.producer_epoch,
        [TopicData(topic, partitions) for topic, partitions in by_topic.items()],
    )
