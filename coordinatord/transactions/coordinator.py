"""All transactional ids of this node, on the floor that all coordinators stand on (runtime/actors.py).

An id lives in one partition of `__transaction_state`, which is made when the first transactional producer comes. As for
groups, every answer about an id waits until what was written of it is durable.

How a transaction ends, and what a crash leaves to do:

    PrepareCommit is logged      a crash before it is durable: nothing has happened, the transaction is still open
    … it is durable: markers go into all partitions (markers.py)
                                 a crash from here on: the next start finds PrepareCommit and writes all of them again
    … they are durable: CompleteCommit is logged, and EndTxn is answered
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

import structlog

from coordinatord.log.loader import ReplayedBatch
from coordinatord.runtime.actors import Actors
from coordinatord.runtime.log import Log
from coordinatord.runtime.partitions import Partitions
from coordinatord.runtime.runtime import Runtime
from coordinatord.topics.produce import Participation
from coordinatord.transactions import events
from coordinatord.transactions.actor import TransactionActor
from coordinatord.transactions.replay import is_understood, replay
from coordinatord.transactions.result import Markers
from coordinatord.transactions.state import TopicPartition, Transaction, TransactionSettings
from coordinatord.transactions.steps import step, verify
from kafka_wire.errors import DecodeError, ErrorCode
from kafka_wire.records.transactions import decode_key, decode_value

log = structlog.get_logger("coordinatord.transactions")


class MarkerWriter(Protocol):
    """Who writes markers; see markers.py."""

    def write(self, markers: Markers, done: Callable[[int, tuple[TopicPartition, ...]], object]) -> None: ...


class Topic(Protocol):
    """What is asked of `__transaction_state`."""

    @property
    def transaction_partitions(self) -> int | None: ...

    def create_transaction_topic(self) -> int: ...


class Transactions(Actors[TransactionActor]):
    """Actors by transactional id. It is also what the topics ask who takes part in a transaction."""

    def __init__(
        self,
        runtime: Runtime,
        log: Log,
        partitions: Partitions,
        *,
        settings: TransactionSettings,
        max_ids: int,
        topic: Topic,
        markers: MarkerWriter,
        new_producer_id: Callable[[], int],
    ) -> None:
        """`new_producer_id` may raise OSError."""
        super().__init__(runtime, log, partitions, max_ids, step)
        self.settings = settings
        self.topic = topic
        self.markers = markers
        self.new_producer_id = new_producer_id

    # Its topic

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

    # As Actors has it

    def new_actor(self, id_: str, partition: int) -> TransactionActor:
        """An actor of a transactional id."""
        transaction = Transaction(id_, self.settings, self.new_producer_id)
        return TransactionActor(self, transaction, partition, self.forgotten_epoch)

    def tell_limit(self) -> None:
        """Once for each that is refused."""
        log.warning("no room for another transactional id", ids=len(self.actors), limit="max.transactional.ids")

    def unloading(self) -> events.Unload:
        """Who has ended a transaction is told so; whoever serves the id next writes the markers."""
        return events.Unload()

    def replay(self, partition: int, batches: Iterable[ReplayedBatch]) -> Iterator[int]:
        """Make transactional ids of a partition's records, and go on with what was left undone."""
        loaded: dict[str, TransactionActor] = {}
        for batch in batches:
            if batch.control is None:
                for _, _, key, value in batch.records:
                    if key is not None:
                        self._replay_one(partition, key, value, loaded)
            yield len(batch.records)
        for id_, actor in loaded.items():
            if actor.transaction.exists:
                self.actors[id_] = actor
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
                    "records of the transaction log are kept and not read", partition=partition, what=str(error)
                )
            return
        actor = loaded.get(id_)
        if actor is None:
            actor = loaded[id_] = self.new_actor(id_, partition)
        replay(actor.transaction, value)
        if value is None:
            del loaded[id_]

    # What happens by itself

    def expire_ids(self) -> int:
        """Forget ids that have been idle for transactional.id.expiration.ms; how many."""
        before = len(self.actors)
        for actor in list(self.actors.values()):
            actor.tell(events.Expire())
        return before - len(self.actors)

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
            error = actor.tell(events.AddPartitions(producer_id, producer_epoch, partitions, 2))
            errors = dict.fromkeys(partitions, error) if error else {}
        return Participation(errors, actor.epoch if actor is not None else 0)
