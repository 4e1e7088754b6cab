"""One transactional id without anything around it, and what must hold after each of its steps."""

from __future__ import annotations

import copy
from typing import Any

from coordinatord.coordination.transactions import events
from coordinatord.coordination.transactions.replay import replay
from coordinatord.coordination.transactions.result import Result
from coordinatord.coordination.transactions.state import (
    DEAD,
    EMPTY,
    NEXT_STATES,
    ONGOING,
    Transaction,
    TransactionSettings,
    TransactionState,
)
from coordinatord.coordination.transactions.steps import markers_of, step
from kafka_wire.records.transactions import TransactionLogValue, decode_value, encode_value

P0, P1 = ("t", 0), ("t", 1)
TIMEOUT_MS = 60_000


class World:
    """`tell` events; look at `txn`, `log`, `answers`."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000
        self.ids = 0
        self.log: list[TransactionLogValue | None] = []
        self.parked: set[Any] = set()
        self.answers: dict[Any, Any] = {}
        self.results: list[Result] = []
        self.requests = 0
        self.txn = self.new()

    def new(self) -> Transaction:
        return Transaction("tx", TransactionSettings(), self.new_producer_id)

    def new_producer_id(self) -> int:
        self.ids += 1
        return self.ids

    def tell(self, event: Any) -> Any:
        """The reply, None when it is parked or there is none."""
        state = self.txn.state
        result = step(self.txn, event, self.now_ms)
        self.results.append(result)
        if result.record is not None:
            # What is logged is what the bytes say.
            self.log.append(decode_value(encode_value(copy.deepcopy(result.record))))
        if result.tombstone:
            self.log.append(None)
        for reply_to, response in result.replies:
            self.parked.remove(reply_to)
            self.answers[reply_to] = response
        if isinstance(event, events.End) and result.reply is None:
            self.parked.add(event.reply_to)
        self._check(state, result)
        return result.reply

    def _check(self, state: TransactionState, result: Result) -> None:
        txn = self.txn
        for transition in result.transitions:
            assert transition.old is state
            assert transition.new in NEXT_STATES[state]
            state = transition.new
        assert txn.state is state
        assert (result.markers is not None) == (result.record is not None and txn.is_completing)
        if result.markers is not None:
            assert result.markers == markers_of(txn)
        assert self.parked == ({txn.ended_by} - {None})
        assert txn.is_completing or txn.ended_by is None
        assert (txn.deadline_ms is not None) == (txn.state is ONGOING)
        if txn.state not in (ONGOING, DEAD) and not txn.is_completing:
            assert not txn.partitions
        if txn.exists:
            assert self.durable(self.replayed()) == self.durable(txn), "the log does not replay to the durable state"

    def replayed(self) -> Transaction:
        txn = self.new()
        for value in self.log:
            replay(txn, value)
        return txn

    @staticmethod
    def durable(txn: Transaction) -> tuple[Any, ...]:
        return (
            txn.exists, txn.state, txn.producer_id, txn.previous_producer_id, txn.next_producer_id, txn.producer_epoch,
            txn.timeout_ms, list(txn.partitions), txn.start_ms, txn.last_update_ms, txn.client_version,
        )  # fmt: skip

    def restart(self) -> None:
        """Everything but the log is lost."""
        self.parked.clear()
        replayed = self.replayed()
        self.txn = replayed if replayed.exists else self.new()

    # Requests, with what clients usually send

    def init(self, *expected: int, timeout_ms: int = TIMEOUT_MS) -> tuple[int, int, int]:
        """(error, producer id, epoch)."""
        reply = self.tell(events.Init(timeout_ms, (expected[0], expected[1]) if expected else None))
        return reply.error_code, reply.producer_id, reply.producer_epoch

    def add(self, *partitions: tuple[str, int], producer: tuple[int, int] | None = None, version: int = 0) -> int:
        producer_id, epoch = producer or self.producer
        error: int = self.tell(events.AddPartitions(producer_id, epoch, partitions or (P0,), version))
        return error

    def end(
        self, *, commit: bool = True, version: int = 0, producer: tuple[int, int] | None = None
    ) -> tuple[int, int, int] | None:
        """(error, producer id, epoch); None when it waits for the markers."""
        producer_id, epoch = producer or self.producer
        self.requests += 1
        reply = self.tell(events.End(producer_id, epoch, commit, self.requests, version))
        return None if reply is None else (reply.error_code, reply.producer_id, reply.producer_epoch)

    def markers(self) -> Any:
        """All markers are written; the answer of the EndTxn that has waited for them."""
        before = set(self.answers)
        self.tell(events.MarkersWritten())
        (answered,) = set(self.answers) - before or {None}
        reply = self.answers.get(answered)
        return None if reply is None else (reply.error_code, reply.producer_id, reply.producer_epoch)

    @property
    def producer(self) -> tuple[int, int]:
        return self.txn.producer_id, self.txn.producer_epoch

    # Ways into states

    def empty(self) -> World:
        self.init()
        return self

    def ongoing(self, version: int = 0) -> World:
        self.init()
        self.add(P0, version=version)
        return self

    def prepared(self, *, commit: bool = True, version: int = 0) -> World:
        self.ongoing(version)
        self.end(commit=commit, version=version)
        return self

    def complete(self, *, commit: bool = True, version: int = 0) -> World:
        self.prepared(commit=commit, version=version)
        self.markers()
        return self

    def at_epoch(self, epoch: int, state: TransactionState = EMPTY) -> World:
        """As a log would have it that knows of many producers."""
        value = TransactionLogValue(
            producer_id=self.new_producer_id(),
            previous_producer_id=self.ids,
            producer_epoch=epoch,
            transaction_timeout_ms=TIMEOUT_MS,
            transaction_status=state,
            transaction_last_update_timestamp_ms=self.now_ms,
            transaction_start_timestamp_ms=-1,
        )
        self.log.append(value)
        replay(self.txn, value)
        return self
