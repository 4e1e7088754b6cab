"""One transactional id and what its steps ask for, on the floor that all coordinators stand on (runtime/actor.py)."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

import structlog

from coordinatord.log.errors import LogFailed
from coordinatord.runtime.actor import Actor
from coordinatord.runtime.runtime import Alarm
from coordinatord.transactions import events
from coordinatord.transactions.result import Markers, Result
from coordinatord.transactions.state import PREPARE_ABORT, TopicPartition, Transaction
from coordinatord.transactions.steps import markers_of
from kafka_wire.records.batch import KeyValues
from kafka_wire.records.transactions import encode_key, encode_value

if TYPE_CHECKING:
    from coordinatord.transactions.coordinator import Transactions

log = structlog.get_logger("coordinatord.transactions")

RETRY_MS: Final = 1_000
"""When what could not be done is tried again: a marker for a partition that is being loaded, an abort that needs a
producer id on a full disk."""


class TransactionActor(Actor["Transactions"]):
    """A transactional id with its partition of the log. `transaction` is its state, by a name that says what it is."""

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
        """Do what a step has asked for."""
        durable_first = self.epoch  # what parked requests have waited for is what was written before
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
        """It has been loaded: do what was left undone."""
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

    # Its deadline

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

    # Its markers

    def _write_markers(self, markers: Markers) -> None:
        """What is decided is durable: tell the partitions."""
        if self.coordinator.draining:
            return  # the next start does it
        with suppress(LogFailed):
            self.coordinator.markers.write(markers, lambda epoch, left: self._markers_tried(markers, epoch, left))

    def _markers_tried(self, markers: Markers, epoch: int, left: tuple[TopicPartition, ...]) -> None:
        coordinator = self.coordinator
        if left:
            again = Markers(
                markers.producer_id, markers.producer_epoch, markers.committed, left, markers.transaction_version
            )
            coordinator.timers.alarm(coordinator.now_ms() + RETRY_MS, lambda: self._write_markers(again))
            return
        coordinator.gate.hold(epoch, self._markers_written)

    def _markers_written(self) -> None:
        if not self.coordinator.draining:
            self.tell(events.MarkersWritten())
