"""TxnOffsetCommit: a transaction commits its group's offsets.

Unknown topics and partitions are rejected here, as for OffsetCommit. Then the transaction coordinator checks that the
group's partition of `__consumer_offsets` is part of the producer's transaction, or adds it from v5 on (KIP-890). The
offsets are appended when that is durable; the group makes the other checks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from coordinatord.base.config import Settings
from coordinatord.broker.topics.names import OFFSETS_TOPIC
from coordinatord.broker.topics.partition import Partition
from coordinatord.broker.topics.partition_verification import TransactionCoordinator, VerificationResult
from coordinatord.coordination.group.events import TxnCommit
from coordinatord.coordination.service.apis.offsets import TopicResponseMerger
from coordinatord.transport.net.request import RequestContext
from kafka_wire.api.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from kafka_wire.api_key import ApiKey
from kafka_wire.errors import ErrorCode
from kafka_wire.registry import error_response
from kafka_wire.schema import ZERO_UUID

if TYPE_CHECKING:
    from coordinatord.coordination.service.groups import Coordinator

ABORTABLE_FROM = 4
"""First version in which producers support TRANSACTION_ABORTABLE."""
ADDS_GROUP_FROM = 5
"""First version in which a commit adds the group to the transaction."""
TOPIC_IDS_FROM = 6
"""First version with topic ids in place of names, and with more errors of groups (KIP-1319)."""
LOADING_KNOWN_FROM = 2
"""First version in which producers support COORDINATOR_LOAD_IN_PROGRESS (KAFKA-7296)."""


Ask = Callable[[Callable[[VerificationResult], object]], object]
"""Function that sends a request to another node, and passes the result to a callback."""


class Topics(Protocol):
    """The topics, as the handler uses them."""

    def exists(self, name: str, partition: int) -> bool: ...
    def topic_id(self, name: str) -> bytes | None: ...
    def topic_name(self, topic_id: bytes) -> str | None: ...


class TransactionalOffsets:
    """The handler. `verifies`: transaction.partition.verification.enable."""

    def __init__(
        self,
        coordinator: Coordinator,
        transactions: TransactionCoordinator,
        topics: Topics,
        find_partition: Callable[[str, int], Partition | None],
        *,
        verifies: bool = True,
    ) -> None:
        self.coordinator = coordinator
        self.transactions = transactions
        self.topics = topics
        self.find_partition = find_partition
        self.verifies = verifies

    def use(self, settings: Settings) -> None:
        """Apply broker settings that were changed while the broker runs."""
        self.verifies = settings.transaction_partition_verification_enable

    def handlers(self) -> dict[int, Any]:
        """Return the handler by API key."""
        return {ApiKey.TXN_OFFSET_COMMIT: self.commit}

    def commit(self, context: RequestContext, request: TxnOffsetCommitRequest) -> Any:
        """Handle a TxnOffsetCommit. The response is sent when the offsets are durable."""
        refused = self._take_out_unknown(request, context.api_version)
        if not request.topics:
            return TxnOffsetCommitResponse(topics=refused.topics)
        if not request.group_id:
            return self._answer(
                error_response(request, context.api_version, ErrorCode.INVALID_GROUP_ID), refused, context
            )
        return self._commit(context, request, refused)

    def _commit(
        self,
        context: RequestContext,
        request: TxnOffsetCommitRequest,
        refused: TopicResponseMerger[TxnOffsetCommitResponseTopic],
        told: VerificationResult | None = None,
    ) -> Any:
        error, epoch, ask = self._participation(request, context.api_version, told)
        if ask is not None:
            ask(lambda answer: self._resume(context, request, refused, answer))
            return None
        if error is not ErrorCode.NONE:
            return self._answer(error_response(request, context.api_version, error), refused, context)
        if epoch > self.coordinator.gate.flushed_epoch:
            # Check again when the participation is durable: the transaction may have ended by then.
            self.coordinator.gate.hold(
                epoch,
                lambda: self._resume(context, request, refused),
                lambda: context.reply(
                    error_response(request, context.api_version, ErrorCode.COORDINATOR_NOT_AVAILABLE)
                ),
            )
            return None
        actor = self.coordinator.actor_for(request.group_id)
        if isinstance(actor, ErrorCode):
            return self._answer(error_response(request, context.api_version, actor), refused, context)
        topic_ids = {}
        if actor.group.consumer is not None:
            topic_ids = {topic.name: self.topics.topic_id(topic.name) or ZERO_UUID for topic in request.topics}
        event = TxnCommit(request, topic_ids, context.api_version >= TOPIC_IDS_FROM)
        return actor.respond(context, self._answer(actor.tell(event), refused, context))

    def _resume(
        self,
        context: RequestContext,
        request: TxnOffsetCommitRequest,
        refused: TopicResponseMerger[TxnOffsetCommitResponseTopic],
        told: VerificationResult | None = None,
    ) -> None:
        response = self._commit(context, request, refused, told)
        if response is not None:
            context.reply(response)

    def _participation(
        self, request: TxnOffsetCommitRequest, version: int, told: VerificationResult | None
    ) -> tuple[ErrorCode, int, Ask | None]:
        """Return the error if the producer may not commit for the group; or NONE, and the flush epoch that must be
        durable first; or a function that sends the check to another node.
        """
        availability = self.coordinator.availability_of(request.group_id)
        if availability is not ErrorCode.NONE:
            return availability, 0, None
        index = self.coordinator.partitions.of(request.group_id)
        partition = self.find_partition(OFFSETS_TOPIC, index)
        assert partition is not None, "the offsets topic has all its partitions"
        producer_id, producer_epoch = request.producer_id, request.producer_epoch
        if partition.producers.check_epoch(producer_id, producer_epoch) is not None:
            return ErrorCode.INVALID_PRODUCER_EPOCH, 0, None
        adds = version >= ADDS_GROUP_FROM
        if partition.producers.is_in_transaction(producer_id, producer_epoch) or not (adds or self.verifies):
            return ErrorCode.NONE, 0, None
        key = OFFSETS_TOPIC, index
        markers = {key: partition.markers}
        if told is not None and told.markers == markers:
            return _as_commit_error(told.errors.get(key, ErrorCode.NONE), version), 0, None
        answer = self.transactions.participation(request.transactional_id, producer_id, producer_epoch, [key], add=adds)
        elsewhere = answer.ask
        if elsewhere is not None:
            return ErrorCode.NONE, 0, lambda told: elsewhere(lambda errors: told(VerificationResult(errors, markers)))
        return _as_commit_error(answer.errors.get(key, ErrorCode.NONE), version), answer.epoch, None

    def _take_out_unknown(
        self, request: TxnOffsetCommitRequest, version: int
    ) -> TopicResponseMerger[TxnOffsetCommitResponseTopic]:
        """Remove unknown topics and partitions from the request, and set the names of the others. Return the errors."""
        refused = TopicResponseMerger[TxnOffsetCommitResponseTopic]()
        known: list[TxnOffsetCommitRequestTopic] = []
        for topic in request.topics:
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if version >= TOPIC_IDS_FROM:
                topic.name = self.topics.topic_name(topic.topic_id) or ""
                error = error if topic.name else ErrorCode.UNKNOWN_TOPIC_ID
            there = [each for each in topic.partitions if self.topics.exists(topic.name, each.partition_index)]
            gone = [each for each in topic.partitions if not self.topics.exists(topic.name, each.partition_index)]
            if gone:
                answered = [TxnOffsetCommitResponsePartition(each.partition_index, error) for each in gone]
                refused.merge([TxnOffsetCommitResponseTopic(topic.name, topic.topic_id, answered)])
            if there:
                topic.partitions = there
                known.append(topic)
        request.topics = known
        return refused

    @staticmethod
    def _answer(
        response: TxnOffsetCommitResponse,
        refused: TopicResponseMerger[TxnOffsetCommitResponseTopic],
        context: RequestContext,
    ) -> TxnOffsetCommitResponse:
        if refused.topics:
            refused.merge(response.topics)
            response.topics = refused.topics
        if context.api_version < LOADING_KNOWN_FROM:
            for topic in response.topics:
                for partition in topic.partitions:
                    if partition.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                        partition.error_code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        return response


def _as_commit_error(error: ErrorCode, version: int) -> ErrorCode:
    """Return the producer's error for an error of the transaction coordinator."""
    if error is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if error is ErrorCode.TRANSACTION_ABORTABLE and version < ABORTABLE_FROM:
        return ErrorCode.INVALID_TXN_STATE
    return error
