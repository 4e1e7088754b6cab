"""State of a partition's idempotent producers: pure, one thread.

A producer numbers its records per partition. The state per producer id is: its producer epoch, the sequence ranges and
offsets of its last five batches (a client has at most five requests in flight), and the time of its last write. A batch
that is one of the five is a retry: the response has the offset of the first attempt. Any other batch must continue
where the last one ended, or begin at 0 with a newer producer epoch. From an unknown producer (expired, or its records
deleted) any sequence number is accepted: rejecting it would stop a producer without a fault of its own (KAFKA-14359,
earlier KIP-360).

The rules are those of Kafka's ProducerAppendInfo and ProducerStateManager, in their order. Rebuilding after a restart
(`replay`) uses the same update and skips the checks.

A producer's transaction begins in a partition with its first transactional batch and ends with a marker from the
transaction coordinator. The *first unstable offset* is that of the first record whose outcome is not readable yet: its
transaction is open, or its marker is not yet readable. Records before it are stable.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from kafka_wire.errors import ErrorCode
from kafka_wire.records.batch import NO_PRODUCER_EPOCH, NO_SEQUENCE, NO_TIMESTAMP, BatchHeader

MAX_UNVERIFIED = 1_000
"""Limit of producers whose first batch of a transaction was rejected: their later batches must not precede it."""

BATCHES_REMEMBERED = 5
"""Kafka's `NUM_BATCHES_TO_RETAIN`: max.in.flight.requests.per.connection of an idempotent producer is 5 at most."""

MAX_PRODUCERS = 5_000
"""Limit of producers that a partition keeps, about 500 bytes each. Kafka keeps all until they expire; any client can
get ids for free, so here the producer that has been idle longest is dropped early."""

MAX_SEQUENCE = 0x7FFF_FFFF
MAX_EPOCH = 0x7FFF


class RememberedBatch(NamedTuple):
    """One of a producer's last batches. Sequences wrap at 2^31."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_sequence(self) -> int:
        """Sequence number of its first record."""
        return (self.last_sequence - self.offset_delta) & MAX_SEQUENCE

    @property
    def first_offset(self) -> int:
        """Base offset in the response to its producer."""
        return self.last_offset - self.offset_delta


@dataclass(slots=True)
class Producer:
    """State of one producer id. `last_timestamp` is that of its last batch, in ms."""

    producer_id: int
    epoch: int = NO_PRODUCER_EPOCH
    coordinator_epoch: int = -1
    last_timestamp: int = NO_TIMESTAMP
    current_txn_first_offset: int = -1
    batches: list[RememberedBatch] = field(default_factory=list)

    @property
    def last_sequence(self) -> int:
        """Sequence number of the last record; NO_SEQUENCE if no batch is kept."""
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    def add(self, epoch: int, batch: RememberedBatch) -> None:
        """Store an appended batch."""
        if epoch != self.epoch:
            self.batches.clear()
            self.epoch = epoch
        elif len(self.batches) == BATCHES_REMEMBERED:
            del self.batches[0]
        self.batches.append(batch)
        self.last_timestamp = batch.timestamp


class Aborted(NamedTuple):
    """An aborted transaction as in the transaction index, from its first record to its marker. Every transaction that
    begins below `last_stable_offset` is ended by this marker or an earlier one.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class Refused(NamedTuple):
    """Rejection of a producer's batch: the error, and the reason for the response."""

    error: ErrorCode
    reason: str


class Producers:
    """Producers of one partition. `end_offset`: all batches below it in the log are included."""

    __slots__ = ("_by_id", "_completed", "_open", "_unverified", "end_offset")

    def __init__(self, end_offset: int = 0) -> None:
        # Ordered by last batch, the longest idle first.
        self._by_id: dict[int, Producer] = {}
        # Open transactions: first offset -> producer id, ascending.
        self._open: dict[int, int] = {}
        # Ended transactions whose marker may not be readable yet: first offset -> the marker's offset.
        self._completed: dict[int, int] = {}
        self._unverified: dict[int, int] = {}
        self.end_offset = end_offset

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[Producer]:
        return iter(self._by_id.values())

    def get(self, producer_id: int) -> Producer | None:
        """Return the state of a producer id; None if unknown."""
        return self._by_id.get(producer_id)

    def load(self, producers: Iterable[Producer], end_offset: int) -> None:
        """Add the producers of a snapshot."""
        known = sorted(producers, key=lambda each: each.last_timestamp)
        for producer in known[-MAX_PRODUCERS:]:
            self._by_id[producer.producer_id] = producer
        for producer in sorted(known, key=lambda each: each.current_txn_first_offset):
            if producer.current_txn_first_offset >= 0:
                self._by_id[producer.producer_id] = producer
                self._open[producer.current_txn_first_offset] = producer.producer_id
        self.end_offset = end_offset

    def check(self, batch: BatchHeader) -> RememberedBatch | Refused | None:
        """Check a client's batch. Return the batch that it retries, or the reason for a rejection, or None if it is in
        order.
        """
        producer = self._by_id.get(batch.producer_id)
        if self._unverified and batch.is_transactional:
            lowest = self._unverified.get(batch.producer_id, batch.base_sequence)
            if batch.base_sequence > lowest:
                return Refused(
                    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                    f"Out of order sequence number for producer {batch.producer_id}: {batch.base_sequence} (incoming "
                    f"seq. number), {lowest} (earliest seen sequence)",
                )
        if producer is None:
            return None
        epoch, first_sequence = batch.producer_epoch, batch.base_sequence
        if epoch == producer.epoch:
            last_sequence = batch.last_sequence
            for known in producer.batches:
                if known.last_sequence == last_sequence and known.first_sequence == first_sequence:
                    return known
        elif epoch < producer.epoch:
            return Refused(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"Epoch of producer {batch.producer_id} is {epoch}, which is smaller than the last seen epoch "
                f"{producer.epoch}",
            )
        elif first_sequence != 0 and producer.epoch != NO_PRODUCER_EPOCH:
            return Refused(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"Invalid sequence number for new epoch of producer {batch.producer_id}: {epoch} (request epoch), "
                f"{first_sequence} (seq. number), {producer.epoch} (current producer epoch)",
            )
        else:
            return self._outside_transaction(producer, batch)
        last_sequence = producer.last_sequence
        if first_sequence == last_sequence + 1 or (first_sequence == 0 and last_sequence == MAX_SEQUENCE):
            return self._outside_transaction(producer, batch)
        return Refused(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"Out of order sequence number for producer {batch.producer_id}: {first_sequence} (incoming seq. number), "
            f"{last_sequence} (current end sequence number)",
        )

    @staticmethod
    def _outside_transaction(producer: Producer, batch: BatchHeader) -> Refused | None:
        if producer.current_txn_first_offset < 0 or batch.is_transactional:
            return None
        return Refused(ErrorCode.INVALID_TXN_STATE, f"Expected transactional write from producer {batch.producer_id}")

    def appended(self, batch: BatchHeader, base_offset: int) -> None:
        """Update the state after a producer's batch was appended at `base_offset`."""
        delta = batch.last_offset_delta
        self.end_offset = base_offset + delta + 1
        producer = self._latest(batch.producer_id)
        producer.add(
            batch.producer_epoch,
            RememberedBatch(batch.last_sequence, base_offset + delta, delta, batch.max_timestamp),
        )
        if batch.is_transactional:
            self._unverified.pop(batch.producer_id, None)
            if producer.current_txn_first_offset < 0:
                producer.current_txn_first_offset = base_offset
                self._open[base_offset] = batch.producer_id

    def _latest(self, producer_id: int) -> Producer:
        """Return the state of a producer that has just written; created if unknown."""
        producer = self._by_id.pop(producer_id, None)
        if producer is None:
            producer = Producer(producer_id)
            if len(self._by_id) >= MAX_PRODUCERS:
                self._forget_one()
        self._by_id[producer_id] = producer
        return producer

    def _forget_one(self) -> None:
        """Drop the longest idle producer without an open transaction: readers would treat a dropped transaction as
        committed.
        """
        for producer in self._by_id.values():
            if producer.current_txn_first_offset < 0:
                del self._by_id[producer.producer_id]
                return

    # Transactions

    def is_in_transaction(self, producer_id: int, producer_epoch: int) -> bool:
        """Return whether the producer has an open transaction in this partition, which the coordinator has then
        registered.
        """
        producer = self._by_id.get(producer_id)
        return producer is not None and producer.current_txn_first_offset >= 0 and producer.epoch == producer_epoch

    def last_sequence(self, producer_id: int) -> int:
        """Return the sequence number of a producer's last record; NO_SEQUENCE if none is kept."""
        producer = self._by_id.get(producer_id)
        return NO_SEQUENCE if producer is None else producer.last_sequence

    def unverified(self, producer_id: int, base_sequence: int) -> None:
        """Remember that a transactional batch was rejected before `check`; later batches must not be appended before
        it.
        """
        lowest = self._unverified.pop(producer_id, base_sequence)
        while len(self._unverified) >= MAX_UNVERIFIED:
            del self._unverified[next(iter(self._unverified))]
        self._unverified[producer_id] = min(lowest, base_sequence)

    def check_epoch(self, producer_id: int, producer_epoch: int) -> Refused | None:
        """Check a write without sequence numbers: a group's offsets."""
        producer = self._by_id.get(producer_id)
        if producer is None or producer_epoch >= producer.epoch:
            return None
        return Refused(
            ErrorCode.INVALID_PRODUCER_EPOCH,
            f"Epoch of producer {producer_id} is {producer_epoch}, which is smaller than the last seen epoch "
            f"{producer.epoch}",
        )

    def check_marker(
        self, producer_id: int, producer_epoch: int, coordinator_epoch: int, transaction_version: int
    ) -> Refused | None:
        """Check whether a marker may end the producer's transaction. Return None if it may.

        With transaction version 2 the marker's producer epoch is above that of the records it ends. A marker with the
        current producer epoch is a repetition, and allowed, unless another transaction is open.
        """
        producer = self._by_id.get(producer_id)
        if producer is None:
            return None
        late = producer_epoch < producer.epoch
        if transaction_version >= 2 and producer_epoch == producer.epoch and producer_epoch != MAX_EPOCH:
            late = producer.current_txn_first_offset >= 0
        if late:
            return Refused(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"Epoch {producer_epoch} of a marker for producer {producer_id}, whose last seen epoch is "
                f"{producer.epoch}",
            )
        if producer.coordinator_epoch > coordinator_epoch:
            return Refused(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"Coordinator epoch {coordinator_epoch} of a marker for producer {producer_id}, known is "
                f"{producer.coordinator_epoch}",
            )
        return None

    def marked(self, batch: BatchHeader, offset: int, *, aborted: bool, coordinator_epoch: int) -> Aborted | None:
        """Update the state after a marker was appended at `offset`. Return the transaction that the marker aborted, if
        any.
        """
        self.end_offset = offset + 1
        producer = self._latest(batch.producer_id)
        if batch.producer_epoch != producer.epoch:
            producer.batches.clear()
            producer.epoch = batch.producer_epoch
        producer.coordinator_epoch = coordinator_epoch
        producer.last_timestamp = batch.max_timestamp
        self._unverified.pop(batch.producer_id, None)
        first_offset = producer.current_txn_first_offset
        if first_offset < 0:
            return None
        producer.current_txn_first_offset = -1
        del self._open[first_offset]
        self._completed[first_offset] = offset
        if not aborted:
            return None
        return Aborted(batch.producer_id, first_offset, offset, next(iter(self._open), offset + 1))

    def first_unstable_offset(self, high_watermark: int) -> int | None:
        """Return the first unstable offset (see the module's docstring); None if all readable
        transactions are decided.
        """
        if self._completed:
            self._completed = {first: last for first, last in self._completed.items() if last >= high_watermark}
        first = next(iter(self._open), None)
        return min(self._completed.keys() | ({first} if first is not None else set()), default=None)

    @property
    def has_unstable(self) -> bool:
        """True if `first_unstable_offset` may be other than None."""
        return bool(self._open or self._completed)

    # After a restart

    def replay(self, batch: BatchHeader) -> None:
        """Apply a batch found in the log after a restart. Markers go to `marked`."""
        if batch.producer_id >= 0 and not batch.is_control:
            self.appended(batch, batch.base_offset)
        self.end_offset = batch.next_offset

    def expire(self, now_ms: int, idle_ms: int) -> int:
        """Drop producers that have been idle for producer.id.expiration.ms (`idle_ms`). Return their number."""
        expired = [
            producer.producer_id
            for producer in self._by_id.values()
            if producer.current_txn_first_offset < 0 and now_ms - producer.last_timestamp >= idle_ms
        ]
        for producer_id in expired:
            del self._by_id[producer_id]
        return len(expired)
