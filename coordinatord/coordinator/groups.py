"""All groups of this node, on the floor that all coordinators stand on (runtime/actors.py).

A group lives in one partition of `__consumer_offsets` (see cluster/placement.py). While a partition is being loaded its
groups answer COORDINATOR_LOAD_IN_PROGRESS and all others are served; a partition of another node's has none.

Every answer of a group waits until what the group wrote last is durable. The one exception is a heartbeat's: it shows
nothing of offsets, so it waits for `membership_epoch`, that of the last record about anything else, and a member that
commits all the time is not thought dead because the disk is busy.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import structlog

from coordinatord.coordinator.partition_load import PartitionLoad
from coordinatord.group.classic.step import step
from coordinatord.group.events import EndTransaction, Expire, TimedOut, TopicDeleted, Unload
from coordinatord.group.result import Cancel, Dropped, Result, TimerKey
from coordinatord.group.state import MAX_ID_CHARACTERS, Group, GroupSettings
from coordinatord.group.states import STABLE
from coordinatord.log.loader import ReplayedBatch
from coordinatord.net.request import RequestContext
from coordinatord.observe.ledger import Ledger
from coordinatord.observe.logs import Teller
from coordinatord.runtime.actors import Actor, Actors
from coordinatord.runtime.log import Log
from coordinatord.runtime.partitions import Partitions
from coordinatord.runtime.refusals import unavailable
from coordinatord.runtime.runtime import Runtime
from kafka_wire.api.delete_groups import DeletableGroupResult
from kafka_wire.api.offset_delete import OffsetDeleteResponse
from kafka_wire.api.txn_offset_commit import TxnOffsetCommitResponse
from kafka_wire.errors import ErrorCode
from kafka_wire.records.batch import Bodies, KeyValues, Records
from kafka_wire.records.keys import encode_key, encode_offsets, encode_value
from kafka_wire.records.offsets import OffsetCommitKey


class GroupActor(Actor["Coordinator"]):
    """A group with its partition of the offsets log. `group` is its state, by a name that says what it is."""

    __slots__ = ("group", "membership_epoch")

    def __init__(self, coordinator: Coordinator, group: Group, partition: int, epoch: int) -> None:
        super().__init__(coordinator, group, partition, epoch)
        self.group = group
        self.membership_epoch = epoch

    @property
    def id(self) -> str:
        """The group's."""
        return self.group.group_id

    def apply(self, result: Result, now_ms: int) -> None:
        """Do what a step has asked for. Records first: the answers wait for them."""
        coordinator = self.coordinator
        if result.offsets:
            self._log_offsets(result, now_ms)
        if result.records:
            encoded = [
                (encode_key(key), None if value is None else encode_value(value)) for key, value in result.records
            ]
            producer = result.producer
            if producer is not None:
                coordinator.note_pending(self, producer[0])
            self.append(KeyValues(encoded), now_ms, producer)
            self.membership_epoch = self.epoch
            coordinator.count(result)
        timers = coordinator.timers
        for timer in result.timers:
            if isinstance(timer, Cancel):
                timers.cancel(timer.key)
            else:
                timers.schedule(timer.key, timer.deadline_ms)
        if result.replies:
            coordinator.parked.answer_at(self.epoch, result.replies)
        for context in result.dropped:
            # The client asked again, or its member is gone: the earlier request is never answered, in Kafka neither.
            context.abandon()
        if result.transitions or result.changes:
            coordinator.observe(self, result, now_ms)

    def _log_offsets(self, result: Result, now_ms: int) -> None:
        """Log what a commit has set, all of it in one batch. Such a step has no other records."""
        assert not result.records
        group_id = self.group.group_id
        topics = result.offsets
        encoded = encode_offsets(group_id, *topics[0])
        for topic, values in topics[1:]:
            encoded += encode_offsets(group_id, topic, values)
        self.append_offsets(Bodies(encoded), now_ms)

    def append_offsets(self, records: Records, now_ms: int) -> None:
        """Log offsets that have been committed, one a record."""
        coordinator = self.coordinator
        self.epoch = coordinator.log.append(self.partition, records, now_ms)
        coordinator.metrics.offset_commits += records.count

    @property
    def is_settled(self) -> bool:
        """What was logged of its members is durable: heartbeats have nothing to wait for."""
        return self.membership_epoch <= self.coordinator.gate.flushed_epoch

    def respond_to_heartbeat(self, context: RequestContext, response: Any) -> Any:
        """`respond`, for a response that shows nothing of offsets: see the module's docstring."""
        if self.membership_epoch > self.coordinator.gate.flushed_epoch:
            context.answer_at(self.membership_epoch, response, partial(unavailable, context.codec, context.keep()))
            return None
        return response


log = structlog.get_logger("coordinatord.coordinator")


class Coordinator(Actors[GroupActor]):
    """Actors by group id."""

    def __init__(
        self,
        runtime: Runtime,
        log: Log,
        partitions: Partitions,
        *,
        group_settings: GroupSettings,
        max_groups: int,
        new_id: Callable[[], str],
        ledger: Ledger | None = None,
    ) -> None:
        super().__init__(runtime, log, partitions, max_groups, step)
        self.group_settings = group_settings
        self.new_id = new_id
        self.ledger = ledger
        self._tell_transition = Teller("coordinatord.coordinator", "group transition")
        # Groups with offsets pending, by partition and producer id: those that a marker is about.
        self.pending: dict[tuple[int, int], set[str]] = {}
        # While loading: strings and topic ids that many offsets share; topics that were deleted.
        self.names: dict[str, str] = {}
        self.topic_ids: dict[bytes, bytes] = {}
        self.missed_deletions: list[TopicDeleted] = []

    # As Actors has it

    def new_actor(self, id_: str, partition: int) -> GroupActor:
        """An actor of a group."""
        return GroupActor(self, Group(id_, self.group_settings, self.new_id), partition, self.forgotten_epoch)

    def is_allowed(self, id_: str) -> ErrorCode:
        """Longer ids cannot be written to the log."""
        return ErrorCode.INVALID_GROUP_ID if len(id_) > MAX_ID_CHARACTERS else ErrorCode.NONE

    def tell_limit(self) -> None:
        """Once for each that is refused."""
        log.warning("no room for another group", groups=len(self.actors), limit="max.groups")

    def unloading(self) -> Unload:
        """Its members look for a coordinator again."""
        return Unload(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def replay(self, partition: int, batches: Iterable[ReplayedBatch]) -> Iterator[int]:
        """Make groups of a partition's records."""
        return PartitionLoad(self, partition).run(batches)

    def loaded(self, partition: int) -> None:
        """All groups of the partition are here."""
        super().loaded(partition)
        if not self.is_loading:
            self.names.clear()
            self.topic_ids.clear()
            self.missed_deletions.clear()

    # What happens by itself

    def timed_out(self, key: TimerKey) -> None:
        """A group's timer has gone off."""
        actor = self.actors.get(key.group_id)
        if actor is not None:
            actor.tell(TimedOut(key))

    def topic_deleted(self, topic: str, topic_id: bytes) -> None:
        """What was committed for a topic goes with it; groups that are being loaded hear of it when they are."""
        event = TopicDeleted(topic, topic_id)
        if self.is_loading:
            self.missed_deletions.append(event)
        for actor in list(self.actors.values()):
            self.tell_of_deletion(actor, event)

    def tell_of_deletion(self, actor: GroupActor, event: TopicDeleted) -> None:
        """Let a group take back what was committed for a topic, if there is anything."""
        topic, pending = event.topic, actor.group.pending
        if topic in actor.group.offsets or (pending is not None and any(topic == name for name, _ in pending)):
            actor.tell(event)

    def expire_offsets(self, retention_ms: Callable[[str], int]) -> Iterator[None]:
        """Have one group after the other forget what nobody has needed for its `retention_ms`, at the caller's pace."""
        for actor in list(self.actors.values()):
            # Since the last one it may have ended, or its partition may have gone.
            is_here = self.actors.get(actor.group.group_id) is actor
            if is_here and self.availability(actor.partition) is ErrorCode.NONE:
                before = _offset_count(actor)
                actor.tell(Expire(retention_ms(actor.group.group_id)))
                self.metrics.offset_expirations += before - _offset_count(actor)
            yield

    # Transactions

    def note_pending(self, actor: GroupActor, producer_id: int) -> None:
        """A transaction commits offsets of a group: remember whom its marker is about."""
        self.pending.setdefault((actor.partition, producer_id), set()).add(actor.group.group_id)

    def end_transaction(self, partition: int, producer_id: int, *, committed: bool, epoch: int) -> None:
        """A marker is in the partition; `epoch` makes it durable, and what groups show from now on waits for that."""
        for group_id in self.pending.pop((partition, producer_id), ()):
            actor = self.actors.get(group_id)
            if actor is not None and actor.group.pending is not None:
                actor.tell(EndTransaction(producer_id, committed))
                actor.epoch = max(actor.epoch, epoch)

    # What people look at

    def count(self, result: Result) -> None:
        """Count what a step has logged: offsets committed by transactions, and deleted."""
        if type(result.reply) is TxnOffsetCommitResponse:
            self.metrics.offset_commits += len(result.records)
        elif type(result.reply) in (OffsetDeleteResponse, DeletableGroupResult):
            self.metrics.offset_deletions += sum(type(key) is OffsetCommitKey for key, _ in result.records)

    def observe(self, actor: GroupActor, result: Result, now_ms: int) -> None:
        """One log line per transition, with what brought it about; and the ledger."""
        if self.ledger is not None:
            self.ledger.observe(actor.group, result, now_ms)
        for change in result.changes:
            if type(change) is Dropped:
                self.metrics.members_removed[change.cause] += 1
        if self.draining:
            return  # every group becomes Dead; one line says that the daemon stops
        for transition in result.transitions:
            old, new = transition.old.shown, transition.new.shown
            self.metrics.transition(old, new)
            if transition.new is STABLE:
                self.metrics.completed_rebalances += 1
            self._tell_transition(
                {
                    "group": transition.group_id,
                    "old": old,
                    "new": new,
                    "generation": transition.generation_id,
                    "reason": transition.reason,
                }
            )

    def state_counts(self) -> dict[str, float]:
        """Groups by state; read by scrapes, from another thread."""
        return dict(Counter(actor.group.state.value for actor in list(self.actors.values())))

    def member_count(self) -> int:
        """Members of all groups; read by scrapes, from another thread."""
        return sum(len(actor.group.members) for actor in list(self.actors.values()))

    def offset_count(self) -> int:
        """Committed offsets of all groups; read by scrapes, from another thread."""
        return sum(map(_offset_count, list(self.actors.values())))


def _offset_count(actor: GroupActor) -> int:
    return sum(len(partitions) for partitions in list(actor.group.offsets.values()))
