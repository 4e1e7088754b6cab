"""Partition responses of Produce requests: success, or an error that exists in the request's version."""

from __future__ import annotations

from coordinatord.broker.topics.partition import Partition
from kafka_wire.api.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    PartitionProduceResponse,
    ProduceResponse,
)
from kafka_wire.errors import ErrorCode
from kafka_wire.records.produced import Rejected
from kafka_wire.schema import absent

TELLS_LEADER_FROM = 10
"""First version whose response can name a partition's leader (KIP-951)."""

ABORTABLE_FROM = 11
"""First version whose producers support TRANSACTION_ABORTABLE."""

ADDS_PARTITIONS_FROM = 12
"""First version in which writing to a partition adds it to the transaction."""

UNREACHABLE = frozenset(
    {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR}
)
"""Errors of a transaction coordinator that is currently unreachable."""

_FOUND_WHILE_APPENDING = (ErrorCode.INVALID_RECORD, ErrorCode.INVALID_TIMESTAMP, ErrorCode.UNKNOWN_SERVER_ERROR)
"""Errors of records with which Kafka returns the log start offset."""

_NO_LEADER = absent(LeaderIdAndEpoch)
"""The default of a tagged field, shared by all responses and never modified."""


def appended(index: int, base_offset: int, append_time_ms: int, log_start_offset: int) -> PartitionProduceResponse:
    return PartitionProduceResponse(index, 0, base_offset, append_time_ms, log_start_offset, [], None, _NO_LEADER)


def refused_with(index: int, error: ErrorCode, *, log_start_offset: int = -1) -> PartitionProduceResponse:
    return PartitionProduceResponse(index, error, -1, -1, log_start_offset, [], None, _NO_LEADER)


def led_elsewhere(index: int, partition: Partition, version: int) -> PartitionProduceResponse:
    """Return the response for a partition that another node leads; since v10 the response names the leader."""
    answer = refused_with(index, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    if version >= TELLS_LEADER_FROM:
        answer.current_leader = LeaderIdAndEpoch(partition.leader_id, partition.log.leader_epoch)
    return answer


def refused_transactional(partition: Partition, index: int, error: ErrorCode, version: int) -> PartitionProduceResponse:
    """Return the response for a rejected transactional batch, with an error that exists in the request's version."""
    message = None
    if error is ErrorCode.PRODUCER_FENCED:
        error = ErrorCode.INVALID_PRODUCER_EPOCH
    elif error is ErrorCode.TRANSACTION_ABORTABLE and version < ABORTABLE_FROM:
        error, message = ErrorCode.INVALID_TXN_STATE, "Partition was not added to the transaction"
    elif error in UNREACHABLE or (error is ErrorCode.CONCURRENT_TRANSACTIONS and version < ADDS_PARTITIONS_FROM):
        # The producer retries without refreshing its metadata.
        text = f"Unable to verify the partition has been added to the transaction. Underlying error: {error.name}"
        error, message = ErrorCode.NOT_ENOUGH_REPLICAS, text
    # Kafka finds this error while it appends, and returns the log start offset.
    start = partition.log.log_start_offset if error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER else -1
    return PartitionProduceResponse(index, error, -1, -1, start, [], message, _NO_LEADER)


def rejected_records(index: int, rejected: Rejected, partition: Partition) -> PartitionProduceResponse:
    """Return the response for invalid records. Since v8 the response names each invalid record (KIP-467)."""
    error, start = rejected.error, partition.log.log_start_offset
    if not rejected.faults:
        is_told = error in _FOUND_WHILE_APPENDING and not rejected.is_early
        return refused_with(index, error, log_start_offset=start if is_told else -1)
    where = f" in topic partition {partition.log.name}"
    faults = [
        BatchIndexAndErrorMessage(fault.record, fault.reason if fault.is_time else fault.reason + where)
        for fault in rejected.faults
    ]
    message = f"One or more records have been rejected due to {rejected.reason}"
    if error is ErrorCode.INVALID_RECORD:
        first = ", ".join(
            f"RecordError(batchIndex={each.batch_index}, message='{each.batch_index_error_message}')"
            for each in faults[:3]
        )
        message += f", and only showing the first three errors at most: [{first}]"
    return PartitionProduceResponse(index, error, -1, -1, start, faults, message, _NO_LEADER)


def not_written(response: ProduceResponse) -> ProduceResponse:
    """Change `response` to errors after the log has failed. This needs no reference to the request and its records."""
    for topic in response.responses:
        topic.partition_responses = [
            refused_with(each.index, ErrorCode.KAFKA_STORAGE_ERROR) for each in topic.partition_responses
        ]
    return response
