"""Durable state and its only writer: one record of `__transaction_state` has the whole state of a transactional id."""

from __future__ import annotations

from coordinatord.coordination.transactions.result import Result, Transition
from coordinatord.coordination.transactions.state import DEAD, EMPTY, NEXT_STATES, Transaction, TransactionState
from kafka_wire.records.transactions import PartitionsSchema, TransactionLogValue


def replay(txn: Transaction, value: TransactionLogValue | None) -> None:
    """Apply one record; None is a tombstone."""
    if value is None:
        txn.exists = False
        txn.state = DEAD
        txn.partitions = {}
        return
    txn.exists = True
    txn.state = TransactionState(value.transaction_status)
    txn.producer_id = value.producer_id
    txn.previous_producer_id = value.previous_producer_id
    txn.next_producer_id = value.next_producer_id
    txn.producer_epoch = value.producer_epoch
    txn.timeout_ms = value.transaction_timeout_ms
    txn.partitions = {
        (topic.topic, partition): None
        for topic in value.transaction_partitions or ()
        for partition in topic.partition_ids
    }
    txn.start_ms = value.transaction_start_timestamp_ms
    txn.last_update_ms = value.transaction_last_update_timestamp_ms
    txn.client_version = value.client_transaction_version


def is_understood(value: TransactionLogValue) -> bool:
    """Return whether a record has a state that a log can hold."""
    return EMPTY <= value.transaction_status < DEAD


def value_of(txn: Transaction, state: TransactionState, now_ms: int) -> TransactionLogValue:
    """Return a record of the current state, with another `state` and time, for steps to change and write.

    As in Kafka, each record has the producer id of the record before.
    """
    return TransactionLogValue(
        producer_id=txn.producer_id,
        previous_producer_id=txn.producer_id,
        next_producer_id=txn.next_producer_id,
        producer_epoch=txn.producer_epoch,
        transaction_timeout_ms=txn.timeout_ms,
        transaction_status=state,
        transaction_partitions=partitions_schema(txn.partitions),
        transaction_last_update_timestamp_ms=now_ms,
        transaction_start_timestamp_ms=txn.start_ms,
        client_transaction_version=txn.client_version,
    )


def partitions_schema(partitions: dict[tuple[str, int], None]) -> list[PartitionsSchema]:
    """Return partitions by topic, as in records."""
    by_topic: dict[str, list[int]] = {}
    for topic, partition in partitions:
        by_topic.setdefault(topic, []).append(partition)
    return [PartitionsSchema(topic, ids) for topic, ids in by_topic.items()]


def write(txn: Transaction, value: TransactionLogValue, reason: str, result: Result) -> None:
    """Apply a record and add it to the step's result: steps change
    durable state in no other way. One record per step.
    """
    old, new = txn.state, TransactionState(value.transaction_status)
    assert new in NEXT_STATES[old], f"transactional id {txn.transactional_id}: no way from {old.name} to {new.name}"
    assert result.record is None, "a step writes one record"
    replay(txn, value)
    result.record = value
    result.transitions.append(
        Transition(txn.transactional_id, old, new, value.producer_id, value.producer_epoch, reason)
    )
