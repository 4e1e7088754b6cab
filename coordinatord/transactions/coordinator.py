"""All transactional ids of this node: which there are, where each one's records go, and how they come back.

An id lives in one partition of `__transaction_state`, which is made when the first transactional producer comes. As for
groups, every answer about an id waits until what was written of it is durable.

How a transaction ends, and what a crash leaves to do:

    PrepareCommit is logged      a crash before it is durable: nothing has happened, the transaction is still open
    … it is durable: markers go into all partitions (markers.py)
                                 a crash from here on: the next start finds PrepareCommit and writes all of them again
    … they are durable: CompleteCommit is logged, and EndTxn is answered
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Protocol

import structlog

from coordinatord.log.errors import LogFailed
from coordinatord.log.loader import ReplayedBatch
from coordinatord.net.request import RequestContext
from coordinatord.runtime.log import Log
from coordinatord.runtime.partitions import Partitions
from coordinatord.runtime.refusals import unavailable
from coordinatord.topics.produce import Participation
from coordinatord.transactions import events
from coordinatord.transactions.replay import is_understood, replay
from coordinatord.transactions.result import Markers, Result
from coordinatord.transactions.state import (
    PREPARE_ABORT,
    TopicPartition,
    Transaction,
    TransactionSettings,
)
from coordinatord.transactions.steps import markers_of, step, verify
from kafka_wire.errors import DecodeError, ErrorCode
from kafka_wire.records.batch import KeyValues
from kafka_wire.records.transactions import decode_key, decode_value, encode_key, encode_value

log = structlog.get_logger("coordinatord.transactions")

RETRY_MS = 1_000
"""When what could not be done is tried again: a marker for a partition that is being loaded, an abort that needs a
producer id on a full disk."""


class Cancellable(Protocol):
    """A timer that was set."""

    def cancel(self) -> object: ...


class MarkerWriter(Protocol):
    """Who writes markers; see markers.py."""

    def write(self, markers: Markers, done: Callable[[int, tuple[TopicPartition, ...]], object]) -> None: ...


class Topic(Protocol):
    """What is asked of `__transaction_state`."""

    @property
    def transaction_partitions(self) -> int | None: ...

    def create_transaction_topic(self) -> int: ...


class TransactionActor:
    """A transactional id with its partition of the log. `epoch` is that of its last record."""

    __slots__ = ("epoch", "partition", "timer", "transaction")

    def __init__(self, transaction: Transaction, partition: int) -> None:
        self.transaction = transaction
        self.partition = partition
        self.epoch = 0
        self.timer: Cancellable | None = None


class Transactions:
    """Actors by transactional id. It is also what the topics ask who takes part in a transaction."""

    def __init__(
        self,
        *,
        settings: TransactionSettings,
        max_ids: int,
        topic: Topic,
        partitions: Partitions,
        log: Log,
        markers: MarkerWriter,
        schedule_at: Callable[[int, Callable[[], object]], Cancellable],
        now_ms: Callable[[], int],
        new_producer_id: Callable[[], int],
    ) -> None:
        """`new_producer_id` may raise OSError."""
        self.settings = settings
        self.max_ids = max_ids
        self.topic = topic
        self.log = log
        self.gate = log.gate
        self.markers = markers
        self.schedule_at = schedule_at
        self.now_ms = now_ms
        self.new_producer_id = new_producer_id
        self.partitions = partitions
        self.actors: dict[str, TransactionActor] = {}
        self.draining = False
        self.unread: Counter[str] = Counter()

    # Look-up

    def ensure_topic(self) -> ErrorCode:
        """Make `__transaction_state` if nobody needed it before."""
        if not self.partitions:
            try:
                self.partitions.made(self.topic.create_transaction_topic())
            except OSError as error:
                log.error("__transaction_state cannot be made", error=str(error))
                return ErrorCode.COORDINATOR_NOT_AVAILABLE
        return ErrorCode.NONE

    def topic_made(self) -> None:
        """Another node has made `__transaction_state`: there is nothing in it yet."""
        if not self.partitions:
            self.partitions.made(self.topic.transaction_partitions or 0)

    def partition_for(self, transactional_id: str) -> int:
        """The partition of `__transaction_state` that an id lives in; there must be the topic."""
        return self.partitions.of(transactional_id)

    def find(self, transactional_id: str) -> TransactionActor | ErrorCode | None:
        """The id's actor; None where there is no such id, or why this node cannot tell."""
        if self.draining:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        actor = self.actors.get(transactional_id)
        if actor is not None:
            return actor
        if not self.partitions:
            return ErrorCode.NOT_COORDINATOR  # FindCoordinator makes the topic
        error = self.partitions.availability(self.partition_for(transactional_id))
        return None if error is ErrorCode.NONE else error

    def actor_for(self, transactional_id: str) -> TransactionActor | ErrorCode:
        """The id's actor, made when there is none; one that no producer is initialised for is forgotten after the
        step.
        """
        found = self.find(transactional_id)
        if found is not None:
            return found
        if len(self.actors) >= self.max_ids:
            log.warning("no room for another transactional id", ids=len(self.actors), limit="max.transactional.ids")
            return ErrorCode.POLICY_VIOLATION
        actor = self.actors[transactional_id] = self._new_actor(transactional_id)
        return actor

    def _new_actor(self, transactional_id: str) -> TransactionActor:
        transaction = Transaction(transactional_id, self.settings, self.new_producer_id)
        return TransactionActor(transaction, self.partition_for(transactional_id))

    @property
    def is_loading(self) -> bool:
        """Not all ids are known yet."""
        return self.partitions.is_loading

    # Steps

    def tell(self, actor: TransactionActor, event: Any) -> Any:
        """Let the event happen; returns the response to it, None when it is parked or has none. OSError when a
        producer id was needed and there is none.
        """
        transaction = actor.transaction
        try:
            now_ms = self.now_ms()
            result = step(transaction, event, now_ms)
            self._apply(actor, result, now_ms)
        finally:
            if not transaction.exists and self.actors.get(transaction.transactional_id) is actor:
                del self.actors[transaction.transactional_id]
        return result.reply

    def _apply(self, actor: TransactionActor, result: Result, now_ms: int) -> None:
        durable_first = actor.epoch  # what parked requests have waited for is what was written before
        if result.record is not None or result.tombstone:
            key = encode_key(actor.transaction.transactional_id)
            value = None if result.record is None else encode_value(result.record)
            actor.epoch = self.log.append(actor.partition, KeyValues([(key, value)]), now_ms)
            self._set_timer(actor)
        for context, response in result.replies:
            self._answer(context, response, durable_first)
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
            self.gate.hold(actor.epoch, lambda: self._write_markers(actor, markers))

    def respond(self, actor: TransactionActor | None, context: RequestContext, response: Any) -> Any:
        """Pass on the response of a request that is being handled: at once, or None and later when it must wait."""
        if response is None or actor is None or actor.epoch <= self.gate.flushed_epoch:
            return response
        self._answer(context, response, actor.epoch)
        return None

    def _answer(self, context: RequestContext, response: Any, epoch: int) -> None:
        if epoch <= self.gate.flushed_epoch:
            context.reply(response)
            return
        context.answer_at(epoch, response, partial(unavailable, context.codec, context.keep()))

    # What happens by itself

    def _set_timer(self, actor: TransactionActor) -> None:
        deadline_ms = actor.transaction.deadline_ms
        if deadline_ms is None:
            if actor.timer is not None:
                actor.timer.cancel()
                actor.timer = None
        elif actor.timer is None:
            actor.timer = self.schedule_at(deadline_ms, lambda: self._timed_out(actor))

    def _timed_out(self, actor: TransactionActor) -> None:
        actor.timer = None
        if self.draining:
            return
        transaction = actor.transaction
        deadline_ms = transaction.deadline_ms
        if deadline_ms is None:
            return
        if self.now_ms() < deadline_ms:
            self._set_timer(actor)
            return
        log.info(
            "transaction timed out",
            transactional_id=transaction.transactional_id,
            producer_id=transaction.producer_id,
            timeout_ms=transaction.timeout_ms,
        )
        try:
            self.tell(actor, events.TimedOut())
        except OSError as error:
            log.error("a transaction cannot be aborted now", error=str(error))
            actor.timer = self.schedule_at(self.now_ms() + RETRY_MS, lambda: self._timed_out(actor))

    def _write_markers(self, actor: TransactionActor, markers: Markers) -> None:
        """What is decided is durable: tell the partitions."""
        if self.draining:
            return  # the next start does it
        with suppress(LogFailed):
            self.markers.write(markers, lambda epoch, left: self._markers_tried(actor, markers, epoch, left))

    def _markers_tried(
        self, actor: TransactionActor, markers: Markers, epoch: int, left: tuple[TopicPartition, ...]
    ) -> None:
        if left:
            again = Markers(
                markers.producer_id, markers.producer_epoch, markers.committed, left, markers.transaction_version
            )
            self.schedule_at(self.now_ms() + RETRY_MS, lambda: self._write_markers(actor, again))
            return
        self.gate.hold(epoch, lambda: self._markers_written(actor))

    def _markers_written(self, actor: TransactionActor) -> None:
        if not self.draining:
            self.tell(actor, events.MarkersWritten())

    def expire_ids(self) -> int:
        """Forget ids that have been idle for transactional.id.expiration.ms; how many."""
        before = len(self.actors)
        for actor in list(self.actors.values()):
            self.tell(actor, events.Expire())
        return before - len(self.actors)

    def drain(self) -> None:
        """Answer what is parked and serve nobody any more."""
        for actor in list(self.actors.values()):
            if actor.transaction.ended_by is not None:
                self.tell(actor, events.Unload())
        self.draining = True

    # What the topics and the groups ask before they write

    def participation(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
        *,
        add: bool,
    ) -> Participation:
        """Whether partitions take part in the producer's transaction; with `add` those that do not do from now on."""
        if not transactional_id:
            return Participation(dict.fromkeys(partitions, ErrorCode.INVALID_REQUEST), 0)
        actor = self.find(transactional_id)
        if isinstance(actor, ErrorCode):
            return Participation(dict.fromkeys(partitions, actor), 0)
        if not add or actor is None:
            transaction = actor.transaction if actor is not None else None
            errors = verify(transaction, producer_id, producer_epoch, partitions)
        else:
            error = self.tell(actor, events.AddPartitions(producer_id, producer_epoch, partitions, 2))
            errors = dict.fromkeys(partitions, error) if error else {}
        return Participation(errors, actor.epoch if actor is not None else 0)

    # Loading

    def load(self, partition: int, batches: Iterable[ReplayedBatch]) -> Iterator[int]:
        """Replay a partition's batches and go on with what was left undone; yields the records of each batch."""
        loaded: dict[str, TransactionActor] = {}
        for batch in batches:
            if batch.control is None:
                for _, _, key, value in batch.records:
                    if key is not None:
                        self._load_one(partition, key, value, loaded)
            yield len(batch.records)
        self.partitions.loaded(partition)
        for transactional_id, actor in loaded.items():
            transaction = actor.transaction
            if not transaction.exists:
                continue
            self.actors[transactional_id] = actor
            self._set_timer(actor)
            if transaction.is_completing:
                log.info(
                    "a transaction is being completed after a restart",
                    transactional_id=transactional_id,
                    result="abort" if transaction.state is PREPARE_ABORT else "commit",
                    partitions=len(transaction.partitions),
                )
                self._write_markers(actor, markers_of(transaction))

    def _load_one(
        self, partition: int, key_bytes: bytes, value_bytes: bytes | None, loaded: dict[str, TransactionActor]
    ) -> None:
        try:
            transactional_id = decode_key(key_bytes)
            value = None if value_bytes is None else decode_value(value_bytes)
            if value is not None and not is_understood(value):
                raise DecodeError(f"transaction status {value.transaction_status}")
        except DecodeError as error:
            self.unread[type(error).__name__] += 1
            if self.unread[type(error).__name__] == 1:
                log.warning(
                    "records of the transaction log are kept and not read", partition=partition, what=str(error)
                )
            return
        actor = loaded.get(transactional_id)
        if actor is None:
            transaction = Transaction(transactional_id, self.settings, self.new_producer_id)
            actor = loaded[transactional_id] = TransactionActor(transaction, partition)
        replay(actor.transaction, value)
        if value is None:
            del loaded[transactional_id]

    # What people look at

    def state_counts(self) -> dict[str, float]:
        """Transactional ids by state; read by scrapes, from another thread."""
        return dict(Counter(actor.transaction.state.shown for actor in list(self.actors.values())))
