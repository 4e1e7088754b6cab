"""All groups of this node: which there are, where each one's records go, and how they come back from the log.

A group lives in one partition of `__consumer_offsets` (see handlers/find.py). While a partition is being loaded its
groups answer COORDINATOR_LOAD_IN_PROGRESS and all others are served; a partition of another node's has none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

import structlog

from coordinatord.coordinator.actor import GroupActor
from coordinatord.coordinator.partition_load import PartitionLoad
from coordinatord.group.events import EndTransaction, Expire, TimedOut, TopicDeleted, Unload
from coordinatord.group.result import Dropped, Result, TimerKey
from coordinatord.group.state import MAX_ID_CHARACTERS, Group, GroupSettings
from coordinatord.group.states import STABLE
from coordinatord.log.loader import ReplayedBatch
from coordinatord.observe.ledger import Ledger
from coordinatord.observe.logs import Teller
from coordinatord.observe.metrics import Metrics
from coordinatord.runtime.log import Log
from coordinatord.runtime.parked import ParkedReplies
from coordinatord.runtime.partitions import Partitions
from kafka_wire.api.delete_groups import DeletableGroupResult
from kafka_wire.api.offset_delete import OffsetDeleteResponse
from kafka_wire.api.txn_offset_commit import TxnOffsetCommitResponse
from kafka_wire.errors import ErrorCode
from kafka_wire.records.offsets import OffsetCommitKey

log = structlog.get_logger("coordinatord.coordinator")


class GroupTimers(Protocol):
    """What groups need of `timers.Timers`."""

    def schedule(self, key: TimerKey, deadline_ms: int) -> None: ...
    def cancel(self, key: TimerKey) -> None: ...


class Coordinator:
    """Actors by group id, and the partitions that they live in."""

    def __init__(
        self,
        *,
        group_settings: GroupSettings,
        partitions: Partitions,
        max_groups: int,
        log: Log,
        timers: GroupTimers,
        now_ms: Callable[[], int],
        new_id: Callable[[], str],
        metrics: Metrics,
        ledger: Ledger | None = None,
    ) -> None:
        self.group_settings = group_settings
        self.partitions = partitions
        self.max_groups = max_groups
        self.log = log
        self.gate = log.gate
        self.parked = ParkedReplies(log.gate, metrics)
        self.timers = timers
        self.now_ms = now_ms
        self.new_id = new_id
        self.metrics = metrics
        self.ledger = ledger
        self._tell_transition = Teller("coordinatord.coordinator", "group transition")
        self.actors: dict[str, GroupActor] = {}
        # Groups with offsets pending, by partition and producer id: those that a marker is about.
        self.pending: dict[tuple[int, int], set[str]] = {}
        self.draining = False
        # Until this epoch is durable a group that is not here may have been deleted, and may be back after a crash.
        self.forgotten_epoch = 0
        # While loading: records that could not be read, by kind; strings and topic ids that many offsets share; topics
        # that were deleted.
        self.unread: Counter[str] = Counter()
        self.names: dict[str, str] = {}
        self.topic_ids: dict[bytes, bytes] = {}
        self.missed_deletions: list[TopicDeleted] = []

    # Look-up

    def actor_for(self, group_id: str) -> GroupActor | ErrorCode:
        """The group's actor, made when there is none; or why this node cannot serve it now.

        A group that is made for a request and not created by it is forgotten after the step.
        """
        actor = self.actors.get(group_id)
        if actor is not None:
            return actor
        partition = self.partitions.of(group_id)
        error = self.availability(partition)
        if error is not ErrorCode.NONE:
            return error
        if len(group_id) > MAX_ID_CHARACTERS:
            return ErrorCode.INVALID_GROUP_ID
        if len(self.actors) >= self.max_groups:
            log.warning("no room for another group", groups=len(self.actors), limit="max.groups")
            return ErrorCode.POLICY_VIOLATION
        actor = self.actors[group_id] = self.new_actor(group_id, partition)
        return actor

    def find(self, group_id: str) -> GroupActor | ErrorCode | None:
        """The group's actor for a reader; None where there is no such group, or why this node cannot tell."""
        actor = self.actors.get(group_id)
        if actor is not None:
            return actor
        partition = self.partitions.of(group_id)
        error = self.availability(partition)
        return self.absent(group_id, partition) if error is ErrorCode.NONE else error

    def absent(self, group_id: str, partition: int) -> GroupActor | None:
        """Stands for a group that is not here while somebody has to wait to be told so: until that is durable."""
        return self.new_actor(group_id, partition) if self.forgotten_epoch > self.gate.flushed_epoch else None

    @property
    def is_loading(self) -> bool:
        """Not all groups are known yet."""
        return self.partitions.is_loading

    def availability(self, partition: int) -> ErrorCode:
        """NONE when the partition's groups are served here."""
        if self.draining:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        return self.partitions.availability(partition)

    def forget(self, actor: GroupActor) -> None:
        """Nobody created the group, or it has been deleted."""
        self.forgotten_epoch = max(self.forgotten_epoch, actor.epoch)
        if self.actors.get(actor.group.group_id) is actor:
            del self.actors[actor.group.group_id]

    def new_actor(self, group_id: str, partition: int) -> GroupActor:
        """An actor that nobody knows yet. Another one of the group may have left records that are not durable."""
        actor = GroupActor(self, Group(group_id, self.group_settings, self.new_id), partition)
        actor.epoch = actor.membership_epoch = self.forgotten_epoch
        return actor

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

    def drain(self) -> None:
        """Answer whatever is parked and serve no group any more: its members look for a coordinator again."""
        self.draining = True
        for actor in list(self.actors.values()):
            actor.tell(Unload(ErrorCode.COORDINATOR_NOT_AVAILABLE))

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

    # Loading

    def load(self, partition: int, batches: Iterable[ReplayedBatch]) -> Iterator[int]:
        """Replay a partition's batches; yields the records of each, for the caller to let others run in between.

        What cannot be read stays in the log and is stepped over: counted, and logged once a kind.
        """
        return PartitionLoad(self, partition).run(batches)

    def loaded(self, partition: int) -> None:
        """All groups of the partition are here."""
        self.partitions.loaded(partition)
        if not self.is_loading:
            self.names.clear()
            self.topic_ids.clear()
            self.missed_deletions.clear()

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
