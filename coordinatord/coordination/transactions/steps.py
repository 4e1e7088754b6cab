"""The steps of a transactional id: pure functions, called with one event after the other.

    Empty ──partition added──▶ Ongoing ──EndTxn──▶ PrepareCommit ──markers written──▶ CompleteCommit ─┐
      ▲                          │                                                                    │
      │                          └─EndTxn, new producer, timeout──▶ PrepareAbort ──▶ CompleteAbort ───┤
      └───────────────────────────── InitProducerId ──────────────────────────────────────────────────┘

A transaction is committed once PrepareCommit is durable. No response confirms the commit earlier, and after a crash the
markers are written again. Kafka responds to EndTxn at that moment, and to requests before the markers are written with
CONCURRENT_TRANSACTIONS, which clients retry after 20 ms or more. Here EndTxn waits for the markers, which takes one
flush: when the producer gets its response, consumers can read the transaction.

Where Kafka first checks for a pending transition, these steps check `is_completing`. The order of the checks is that of
Kafka's TransactionCoordinator, so a request with several faults gets the same error as from Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from coordinatord.coordination.transactions import events
from coordinatord.coordination.transactions.replay import partitions_schema, replay, value_of, write
from coordinatord.coordination.transactions.result import NOTHING, Markers, Result, Transition
from coordinatord.coordination.transactions.state import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    DEAD,
    EMPTY,
    EXPIRES,
    MAX_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    SERVER_VERSION,
    TopicPartition,
    Transaction,
    is_exhausted,
)
from kafka_wire.api.end_txn import EndTxnResponse
from kafka_wire.api.init_producer_id import InitProducerIdResponse
from kafka_wire.errors import ErrorCode
from kafka_wire.records.transactions import TransactionLogValue


def step(txn: Transaction, event: Any, now_ms: int) -> Result:
    """Handle one event. Raises OSError if no producer id could be reserved; then nothing has changed."""
    return HANDLERS[type(event)](txn, event, now_ms)


# InitProducerId


def init(txn: Transaction, event: events.Init, now_ms: int) -> Result:
    """Handle an InitProducerId: the producer takes over the id with its own producer epoch, and an earlier producer's
    open transaction is aborted.
    """
    if not 0 < event.timeout_ms <= txn.settings.max_timeout_ms:
        return _init_error(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
    if txn.is_completing:
        return _init_error(ErrorCode.CONCURRENT_TRANSACTIONS)
    expected = event.expected
    if expected is not None and not _may_go_on(txn, *expected):
        return _init_error(ErrorCode.PRODUCER_FENCED)
    if txn.state is ONGOING:
        # No producer has the fencing epoch: the client retries and gets the next one.
        result = _fence(txn, "a new producer", now_ms)
        result.reply = _init_error(ErrorCode.CONCURRENT_TRANSACTIONS).reply
        return result
    return _take_over(txn, event, now_ms)


def _may_go_on(txn: Transaction, producer_id: int, producer_epoch: int) -> bool:
    """Return whether a producer with this id and epoch may get a new epoch: not
    after another producer has taken over (KIP-360).
    """
    return (
        txn.producer_epoch == NO_PRODUCER_EPOCH
        or producer_id == txn.producer_id
        or (producer_id == txn.previous_producer_id and is_exhausted(producer_epoch))
    )


def _take_over(txn: Transaction, event: events.Init, now_ms: int) -> Result:
    epoch = txn.producer_epoch
    expected_epoch = event.expected[1] if event.expected is not None else None
    value = value_of(txn, EMPTY, now_ms)
    if not txn.exists:
        value.producer_id = value.previous_producer_id = txn.new_producer_id()
    if is_exhausted(epoch) and expected_epoch in (None, epoch):
        value.producer_id = txn.new_producer_id()
        value.producer_epoch = 0
        last_epoch = epoch if expected_epoch is not None else NO_PRODUCER_EPOCH
    elif is_exhausted(epoch):
        # Kafka's coordinator throws an exception here, even for a repeated request.
        return _init_error(ErrorCode.UNKNOWN_SERVER_ERROR)
    elif expected_epoch is None:
        value.producer_epoch, last_epoch = epoch + 1, NO_PRODUCER_EPOCH
    elif epoch in (NO_PRODUCER_EPOCH, expected_epoch):
        value.producer_epoch, last_epoch = epoch + 1, epoch
    elif expected_epoch == txn.last_producer_epoch:
        last_epoch = txn.last_producer_epoch  # a repeated request: the response was lost
    else:
        return _init_error(ErrorCode.PRODUCER_FENCED)
    value.transaction_timeout_ms = event.timeout_ms
    value.transaction_partitions = None
    value.transaction_start_timestamp_ms = NO_TIMESTAMP
    result = Result(reply=InitProducerIdResponse(0, 0, value.producer_id, value.producer_epoch))
    write(txn, value, "a producer was initialised", result)
    txn.last_producer_epoch = last_epoch
    return result


def _init_error(error: ErrorCode) -> Result:
    return Result(reply=InitProducerIdResponse(0, error, NO_PRODUCER_ID, NO_PRODUCER_EPOCH))


# Partitions


def add_partitions(txn: Transaction, event: events.AddPartitions, now_ms: int) -> Result:
    """Add partitions; the first ones begin a transaction. The reply is an ErrorCode."""
    if not txn.exists:
        return Result(reply=ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if txn.is_completing:
        return Result(reply=ErrorCode.CONCURRENT_TRANSACTIONS)
    if txn.producer_id != event.producer_id:
        return Result(reply=ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if txn.producer_epoch != event.producer_epoch:
        return Result(reply=ErrorCode.PRODUCER_FENCED)
    if txn.state is ONGOING and all(partition in txn.partitions for partition in event.partitions):
        return Result(reply=ErrorCode.NONE)
    value = value_of(txn, ONGOING, now_ms)
    if txn.state is not ONGOING:
        value.transaction_start_timestamp_ms = now_ms
    value.transaction_partitions = partitions_schema({**txn.partitions, **dict.fromkeys(event.partitions)})
    value.client_transaction_version = event.client_version
    result = Result(reply=ErrorCode.NONE)
    write(txn, value, "partitions were added", result)
    return result


def verify(
    txn: Transaction | None, producer_id: int, producer_epoch: int, partitions: Sequence[TopicPartition]
) -> dict[TopicPartition, ErrorCode]:
    """Return the errors of the partitions that are not part of the producer's transaction (KIP-890)."""
    if txn is None or not txn.exists or txn.producer_id != producer_id:
        error = ErrorCode.INVALID_PRODUCER_ID_MAPPING
    elif txn.producer_epoch != producer_epoch:
        error = ErrorCode.PRODUCER_FENCED
    elif txn.is_completing:
        error = ErrorCode.CONCURRENT_TRANSACTIONS
    else:
        return {each: ErrorCode.TRANSACTION_ABORTABLE for each in partitions if each not in txn.partitions}
    return dict.fromkeys(partitions, error)


# The end


def end(txn: Transaction, event: events.End, now_ms: int) -> Result:
    """Commit or abort a transaction. The request is parked until the markers are written."""
    if not txn.exists:
        return _end_error(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if event.client_version >= 2:
        return _end_bumping(txn, event, now_ms)
    if txn.producer_id != event.producer_id:
        return _end_error(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if txn.producer_epoch != event.producer_epoch:
        return _end_error(ErrorCode.PRODUCER_FENCED)
    if txn.is_completing:
        return _end_error(ErrorCode.CONCURRENT_TRANSACTIONS)
    if txn.state is ONGOING:
        return _decided(txn, event, _prepared(txn, event.committed, now_ms), now_ms)
    if txn.state is (COMPLETE_COMMIT if event.committed else COMPLETE_ABORT):
        return _end_error(ErrorCode.NONE)  # a repeated request: the response was lost
    return _end_error(ErrorCode.INVALID_TXN_STATE)


def _end_bumping(txn: Transaction, event: events.End, now_ms: int) -> Result:
    """Handle an EndTxn with transaction version 2, where a producer epoch lasts for one transaction.

    A repeated request has the epoch before the current one: the current epoch belongs to a transaction that has not
    begun. That one cannot be committed; but a producer that does not know whether it has begun may abort it.
    """
    epoch, own_epoch = event.producer_epoch, txn.producer_epoch
    is_old_id = txn.previous_producer_id == event.producer_id and epoch == MAX_EPOCH - 1 and own_epoch == 0
    is_repeated = is_old_id or own_epoch == epoch + 1
    if txn.is_completing:
        return _end_error(ErrorCode.CONCURRENT_TRANSACTIONS)
    if txn.producer_id != event.producer_id and not is_old_id:
        return _end_error(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    is_complete = txn.state is COMPLETE_COMMIT or txn.state is COMPLETE_ABORT
    if epoch != own_epoch and not (is_complete and is_repeated):
        return _end_error(ErrorCode.PRODUCER_FENCED)
    if txn.state is not ONGOING:
        if is_repeated:
            if txn.state is (COMPLETE_COMMIT if event.committed else COMPLETE_ABORT):
                return Result(reply=EndTxnResponse(0, ErrorCode.NONE, txn.producer_id, own_epoch))
            return _end_error(ErrorCode.INVALID_TXN_STATE)
        if event.committed:
            return _end_error(ErrorCode.INVALID_TXN_STATE)
    value = _prepared(txn, event.committed, now_ms)
    _bump(txn, value, event.client_version)
    if txn.state is not ONGOING:
        value.transaction_start_timestamp_ms = now_ms
    return _decided(txn, event, value, now_ms)


def _prepared(txn: Transaction, committed: bool, now_ms: int) -> TransactionLogValue:
    value = value_of(txn, PREPARE_COMMIT if committed else PREPARE_ABORT, now_ms)
    value.next_producer_id = NO_PRODUCER_ID
    value.client_transaction_version = 0
    return value


def _bump(txn: Transaction, value: TransactionLogValue, version: int) -> None:
    """Raise the producer epoch, which the markers contain and the client uses
    next; use a new producer id after the last epoch.
    """
    if is_exhausted(txn.producer_epoch):
        value.next_producer_id = txn.new_producer_id()
    value.producer_epoch = min(txn.producer_epoch + 1, MAX_EPOCH)
    value.client_transaction_version = version


def _decided(txn: Transaction, event: events.End, value: TransactionLogValue, now_ms: int) -> Result:
    result = Result()
    _prepare(txn, value, "committed" if event.committed else "aborted", result)
    txn.ended_by = event.reply_to
    return result


def _fence(txn: Transaction, reason: str, now_ms: int) -> Result:
    """Abort the ongoing transaction without its producer: the epoch rises, so
    that all requests of the producer are rejected.
    """
    value = _prepared(txn, False, now_ms)
    _bump(txn, value, SERVER_VERSION)
    result = Result()
    _prepare(txn, value, reason, result)
    return result


def _prepare(txn: Transaction, value: TransactionLogValue, reason: str, result: Result) -> None:
    bumped = value.client_transaction_version >= 2
    epoch = txn.producer_epoch
    write(txn, value, reason, result)
    if bumped:
        txn.last_producer_epoch = epoch
    result.markers = markers_of(txn)


def markers_of(txn: Transaction) -> Markers:
    """Return the markers of a decided transaction; also used after a restart."""
    return Markers(
        txn.producer_id,
        txn.producer_epoch,
        txn.state is PREPARE_COMMIT,
        tuple(txn.partitions),
        txn.client_version,
    )


def markers_written(txn: Transaction, event: events.MarkersWritten, now_ms: int) -> Result:
    """Complete the transaction; the next one may begin."""
    if not txn.is_completing:
        return NOTHING
    value = value_of(txn, COMPLETE_COMMIT if txn.state is PREPARE_COMMIT else COMPLETE_ABORT, now_ms)
    version = txn.client_version
    if version >= 2 and txn.next_producer_id != NO_PRODUCER_ID:
        value.producer_id, value.producer_epoch = txn.next_producer_id, 0
    value.next_producer_id = NO_PRODUCER_ID
    value.transaction_partitions = []
    result = Result()
    write(txn, value, "all markers are written", result)
    _answer_end(txn, result)
    return result


def _answer_end(txn: Transaction, result: Result) -> None:
    """Respond to the waiting EndTxn, with the producer id and epoch to continue with."""
    if txn.ended_by is None:
        return
    if txn.client_version >= 2:
        producer_id, epoch = txn.producer_id, txn.producer_epoch
        if txn.is_completing and txn.next_producer_id != NO_PRODUCER_ID:
            producer_id, epoch = txn.next_producer_id, 0
        response = EndTxnResponse(0, ErrorCode.NONE, producer_id, epoch)
    else:
        response = EndTxnResponse(0, ErrorCode.NONE)
    result.replies.append((txn.ended_by, response))
    txn.ended_by = None


def _end_error(error: ErrorCode) -> Result:
    return Result(reply=EndTxnResponse(0, error))


# Events that no request causes


def timed_out(txn: Transaction, event: events.TimedOut, now_ms: int) -> Result:
    """Abort a transaction that has been open for longer than its producer's timeout."""
    deadline_ms = txn.deadline_ms
    if deadline_ms is None or now_ms < deadline_ms:
        return NOTHING
    return _fence(txn, f"open for more than {txn.timeout_ms} ms", now_ms)


def expire(txn: Transaction, event: events.Expire, now_ms: int) -> Result:
    """Remove an id that has been idle for longer than the expiration time."""
    if not txn.exists or txn.state not in EXPIRES or txn.last_update_ms > now_ms - txn.settings.id_expiration_ms:
        return NOTHING
    old = txn.state
    replay(txn, None)
    transition = Transition(txn.transactional_id, old, DEAD, txn.producer_id, txn.producer_epoch, "expired")
    return Result(tombstone=True, transitions=[transition])


def unload(txn: Transaction, event: events.Unload, now_ms: int) -> Result:
    """Stop serving the id. A decided transaction stays decided: the next coordinator writes its markers."""
    result = Result()
    _answer_end(txn, result)
    return result


HANDLERS: dict[type[Any], Callable[[Transaction, Any, int], Result]] = {
    events.Init: init,
    events.AddPartitions: add_partitions,
    events.End: end,
    events.TimedOut: timed_out,
    events.MarkersWritten: markers_written,
    events.Expire: expire,
    events.Unload: unload,
}
