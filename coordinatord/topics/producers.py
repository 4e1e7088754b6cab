"""What a partition remembers of its idempotent producers: pure, one thread.

A producer numbers its records per partition. The state is, per producer id: its epoch, the sequence ranges and offsets
of its last five batches (a client has five requests in flight at most), and when it last wrote. A batch that is among
the five is a retry: its producer gets the offset that the first attempt got. Any other batch must go on where the last
one ended, or begin at 0 with a newer epoch. Of a producer that is not known (expired, or its records deleted) any
sequence number is taken: refusing it would stop a producer that did nothing wrong (KAFKA-14359 and before it KIP-360).

The rules are those of Kafka's ProducerAppendInfo and ProducerStateManager, in their order. Rebuilding after a restart
(`replay`) uses the same update and skips the checks. `current_txn_first_offset` and `coordinator_epoch` are carried
from and to snapshots; transactions move them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from protocol.errors import ErrorCode
from protocol.records.batch import NO_PRODUCER_EPOCH, NO_SEQUENCE, NO_TIMESTAMP, BatchHeader

BATCHES_REMEMBERED = 5
"""Kafka's `NUM_BATCHES_TO_RETAIN`: max.in.flight.requests.per.connection of an idempotent producer is 5 at most."""

MAX_PRODUCERS = 5_000
"""Producers that a partition remembers, some 500 bytes each. Kafka keeps all until they expire; ids are free to every
client, so here the one that has been silent for longest is forgotten early."""

MAX_SEQUENCE = 0x7FFF_FFFF


class RememberedBatch(NamedTuple):
    """One of a producer's last batches. Sequences wrap at 2^31."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_sequence(self) -> int:
        """Of its first record."""
        return (self.last_sequence - self.offset_delta) & MAX_SEQUENCE

    @property
    def first_offset(self) -> int:
        """The base offset that its producer was told."""
        return self.last_offset - self.offset_delta


@dataclass(slots=True)
class Producer:
    """One producer id's state. `last_timestamp` is that of its last batch, in ms."""

    producer_id: int
    epoch: int = NO_PRODUCER_EPOCH
    coordinator_epoch: int = -1
    last_timestamp: int = NO_TIMESTAMP
    current_txn_first_offset: int = -1
    batches: list[RememberedBatch] = field(default_factory=list)

    @property
    def last_sequence(self) -> int:
        """Of the last record, NO_SEQUENCE when no batch is remembered."""
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    def add(self, epoch: int, batch: RememberedBatch) -> None:
        """Remember a batch that has been appended."""
        if epoch != self.epoch:
            self.batches.clear()
            self.epoch = epoch
        elif len(self.batches) == BATCHES_REMEMBERED:
            del self.batches[0]
        self.batches.append(batch)
        self.last_timestamp = batch.timestamp


class Refused(NamedTuple):
    """Why a producer's batch is not appended."""

    error: ErrorCode
    reason: str


class Producers:
    """The producers of one partition. `end_offset`: what lies below it in the log is accounted for."""

    __slots__ = ("_by_id", "end_offset")

    def __init__(self, end_offset: int = 0) -> None:
        # In the order of their last batch, the longest silent first.
        self._by_id: dict[int, Producer] = {}
        self.end_offset = end_offset

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[Producer]:
        return iter(self._by_id.values())

    def get(self, producer_id: int) -> Producer | None:
        """What is known of a producer id."""
        return self._by_id.get(producer_id)

    def load(self, producers: Iterable[Producer], end_offset: int) -> None:
        """Take over a snapshot."""
        for producer in sorted(producers, key=lambda each: each.last_timestamp)[-MAX_PRODUCERS:]:
            self._by_id[producer.producer_id] = producer
        self.end_offset = end_offset

    def check(self, batch: BatchHeader) -> RememberedBatch | Refused | None:
        """What a client's batch is: a retry of the one returned, not to be appended, or in order (None)."""
        producer = self._by_id.get(batch.producer_id)
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
            return None
        last_sequence = producer.last_sequence
        if first_sequence == last_sequence + 1 or (first_sequence == 0 and last_sequence == MAX_SEQUENCE):
            return None
        return Refused(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"Out of order sequence number for producer {batch.producer_id}: {first_sequence} (incoming seq. number), "
            f"{last_sequence} (current end sequence number)",
        )

    def appended(self, batch: BatchHeader, base_offset: int) -> None:
        """A producer's batch went into the log at `base_offset`."""
        delta = batch.last_offset_delta
        self.end_offset = base_offset + delta + 1
        producer_id = batch.producer_id
        producer = self._by_id.pop(producer_id, None)
        if producer is None:
            producer = Producer(producer_id)
            if len(self._by_id) >= MAX_PRODUCERS:
                del self._by_id[next(iter(self._by_id))]
        self._by_id[producer_id] = producer
        producer.add(
            batch.producer_epoch,
            RememberedBatch(batch.last_sequence, base_offset + delta, delta, batch.max_timestamp),
        )

    def replay(self, batch: BatchHeader) -> None:
        """A batch as it is found in the log after a restart."""
        if batch.producer_id >= 0 and not batch.is_control:
            self.appended(batch, batch.base_offset)
        self.end_offset = batch.next_offset

    def expire(self, now_ms: int, idle_ms: int) -> int:
        """Forget producers that have been silent for producer.id.expiration.ms; how many they were."""
        expired = [
            producer.producer_id
            for producer in self._by_id.values()
            if producer.current_txn_first_offset < 0 and now_ms - producer.last_timestamp >= idle_ms
        ]
        for producer_id in expired:
            del self._by_id[producer_id]
        return len(expired)
