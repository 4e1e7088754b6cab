"""All transactional ids of this node, on the runtime that all coordinators share (coordination/runtime/actors.py).

An id belongs to one partition of `__transaction_state`, a topic that the first transactional producer creates. As for
groups, every response about an id waits until its records are durable.

The end of a transaction, and recovery after a crash:

    PrepareCommit is logged      crash before it is durable: no effect, the transaction is still open
    … it is durable: markers are written to all partitions (markers.py)
                                 crash from here on: the next start finds PrepareCommit and writes all markers again
    … they are durable: CompleteCommit is logged, and the response to EndTxn is sent
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Final, Protocol

from coordinatord.base.observe.logger import get_logger
from coordinatord.broker.log.errors import LogFailed
from coordinatord.broker.log.loader import ReplayedBatch
from coordinatord.broker.topics.partition_verification import Participation
from coordinatord.coordination.runtime.actors import Actor, Actors
from coordinatord.coordination.runtime.log import Log
from coordinatord.coordination.runtime.partitions import Partitions
from coordinatord.coordination.runtime.runtime import Alarm, Runtime
from coordinatord.coordination.transactions import events
from coordinatord.coordination.transactions.replay import is_understood, replay
from coordinatord.coordination.transactions.result import Markers, Result
from coordinatord.coordination.transactions.state import PREPARE_ABORT, TopicPartition, Transaction, TransactionSettings
from coordinatord.coordination.transactions.steps import markers_of, step, verify
from kafka_wire.errors import DecodeError, ErrorCode
from kafka_wire.records.batch import KeyValues
from kafka_wire.records.transactions import decode_key, decode_value, encode_key, encode_value

log = get_logger("coordinatord.coordination.transactions")

RETRY_MS: Final = 1_000
"""Milliseconds before a retry: of a marker for a partition that is being loaded, or of an abort that needs a producer
id while the disk is full.
"""


class TransactionActor(Actor["Transactions"]):
    """A transactional id with its partition of the log. `transaction` is another name of its `state`."""

    __slots__ = ("timer", "transaction")

    def __init__(self, coordinator: Transactions, transaction: Transaction, partition: int, epoch: int) -> None:
        super().__init__(coordinator, transaction, partition, epoch)
        self.transaction = transaction
        self.timer: Alarm | None = None

    @property
    def id(self) -> str:
        """The transactional id."""
        return self.transaction.transactional_id

    def apply(self, result: Result, now_ms: int) -> None:
        """Apply the result of a step."""
        durable_first = self.epoch  # parked requests have waited for the records before this one
        if result.record is not None or result.tombstone:
            value = None if result.record is None else encode_value(result.record)
            self.append(KeyValues([(encode_key(self.id), value)]), now_ms)
            self._set_timer()
        if result.replies:
            self.coordinator.parked.answer_at(durable_first, result.replies)
        for transition in result.transitions:
            log.debug(
                "transaction transition",
                transactional_id=transition.transactional_id,
                old=transition.old.shown,
                new=transition.new.shown,
                producer_id=transition.producer_id,
                producer_epoch=transition.producer_epoch,
                reason=transition.reason,
            )
        if result.markers is not None:
            markers = result.markers
            self.coordinator.gate.hold(self.epoch, lambda: self._write_markers(markers))

    def go_on(self) -> None:
        """Complete the transaction of a loaded id if its end was decided before."""
        transaction = self.transaction
        self._set_timer()
        if transaction.is_completing:
            log.info(
                "a transaction is being completed after a restart",
                transactional_id=transaction.transactional_id,
                result="abort" if transaction.state is PREPARE_ABORT else "commit",
                partitions=len(transaction.partitions),
            )
            self._write_markers(markers_of(transaction))

    # The deadline

    def _set_timer(self) -> None:
        deadline_ms = self.transaction.deadline_ms
        if deadline_ms is None:
            if self.timer is not None:
                self.timer.cancel()
                self.timer = None
        elif self.timer is None:
            self.timer = self.coordinator.timers.alarm(deadline_ms, self._timed_out)

    def _timed_out(self) -> None:
        self.timer = None
        coordinator, transaction = self.coordinator, self.transaction
        deadline_ms = transaction.deadline_ms
        if coordinator.draining or deadline_ms is None:
            return
        if coordinator.now_ms() < deadline_ms:
            self._set_timer()
            return
        log.info(
            "transaction timed out",
            transactional_id=transaction.transactional_id,
            producer_id=transaction.producer_id,
            timeout_ms=transaction.timeout_ms,
        )
        try:
            self.tell(events.TimedOut())
        except OSError as error:
            log.error("a transaction cannot be aborted now", error=str(error))
            self.timer = coordinator.timers.alarm(coordinator.now_ms() + RETRY_MS, self._timed_out)

    # The markers

    def _write_markers(self, markers: Markers) -> None:
        """Write the markers of a decision that is durable."""
        if self.coordinator.draining:
            return  # the next start writes them
        with suppress(LogFailed):
            self.coordinator.markers.write(markers, lambda epoch, left: self._markers_tried(markers, epoch, left))

    def _markers_tried(self, markers: Markers, epoch: int, left: tuple[TopicPartition, ...]) -> None:
        coordinator = self.coordinator
        if left:
            remaining = Markers(
                markers.producer_id, markers.producer_epoch, markers.committed, left, markers.transaction_version
            )

            def again() -> None:
                coordinator.timers.alarm(coordinator.now_ms() + RETRY_MS, lambda: self._write_markers(remaining))

            coordinator.gate.hold(epoch, again)  # the written ones may wait longer than the remaining ones
            return
        coordinator.gate.hold(epoch, self._markers_written)

    def _markers_written(self) -> None:
        if not self.coordinator.draining:
            self.tell(events.MarkersWritten())


class MarkerWriter(Protocol):
    """A writer of markers; see markers.py."""

    def write(self, markers: Markers, done: Callable[[int, tuple[TopicPartition, ...]], object]) -> None: ...


class Transactions(Actors[TransactionActor]):
    """Actors by transactional id. Topics call it to check that a partition is part of a transaction."""

    def __init__(
        self,
        runtime: Runtime,
        log: Log,
        partitions: Partitions,
        *,
        settings: TransactionSettings,
        max_ids: int,
        markers: MarkerWriter,
        new_producer_id: Callable[[], int],
    ) -> None:
        """`new_producer_id` may raise OSError."""
        super().__init__(runtime, log, partitions, max_ids, step)
        self.settings = settings
        self.markers = markers
        self.new_producer_id = new_producer_id

    # Defined by Actors

    def new_actor(self, id_: str, partition: int) -> TransactionActor:
        """Create the actor of a transactional id."""
        transaction = Transaction(id_, self.settings, self.new_producer_id)
        return TransactionActor(self, transaction, partition, self.forgotten_epoch)

    def log_limit(self) -> None:
        """Write one log line for each rejected id."""
        log.warning(
            "no room for another transactional id",
            ids=len(self.actors),
            limit=self.reached_limit("max.transactional.ids"),
        )

    def unloading(self) -> events.Unload:
        """Return the event that makes an id respond to its waiting EndTxn;
        the id's next coordinator writes the markers.
        """
        return events.Unload()

    def replay(self, partition: int, batches: Iterable[ReplayedBatch]) -> Iterator[int]:
        """Restore transactional ids from a partition's records, and complete decided transactions."""
        loaded: dict[str, TransactionActor] = {}
        for batch in batches:
            if batch.control is None:
                for _, _, key, value in batch.records:
                    if key is not None:
                        self._replay_one(partition, key, value, loaded)
            yield len(batch.records)
        for actor in loaded.values():
            if actor.transaction.exists:
                self.keep(actor)
                actor.go_on()

    def _replay_one(
        self, partition: int, key_bytes: bytes, value_bytes: bytes | None, loaded: dict[str, TransactionActor]
    ) -> None:
        try:
            id_ = decode_key(key_bytes)
            value = None if value_bytes is None else decode_value(value_bytes)
            if value is not None and not is_understood(value):
                raise DecodeError(f"transaction status {value.transaction_status}")
        except DecodeError as error:
            if self.count_unread(type(error).__name__):
                log.warning(
                    "unsupported records of the transaction log are kept, not loaded",
                    partition=partition,
                    what=str(error),
                )
            return
        actor = loaded.get(id_)
        if actor is None:
            actor = loaded[id_] = self.new_actor(id_, partition)
        replay(actor.transaction, value)
        if value is None:
            del loaded[id_]

    # Events that no request causes

    def expire_ids(self) -> int:
        """Remove ids that have been idle for transactional.id.expiration.ms. Return their number."""
        before = len(self.actors)
        for actor in list(self.actors.values()):
            actor.tell(events.Expire())
        return before - len(self.actors)

    # Called by topics and groups before they write

    def participation(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
        *,
        add: bool,
    ) -> Participation:
        """Check whether partitions are part of the producer's transaction; `add` adds those that are not."""
        if not transactional_id:
            return Participation(dict.fromkeys(partitions, ErrorCode.INVALID_REQUEST), 0)
        actor = self.find(transactional_id)
        if isinstance(actor, ErrorCode):
            return Participation(dict.fromkeys(partitions, actor), 0)
        if not add or actor is None:
            transaction = actor.transaction if actor is not None else None
            errors = verify(transaction, producer_id, producer_epoch, partitions)
        else:
            error = actor.tell(events.AddPartitions(producer_id, producer_epoch, partitions, 2))
            errors = dict.fromkeys(partitions, error) if error else {}
        return Participation(errors, actor.epoch if actor is not None else 0)
