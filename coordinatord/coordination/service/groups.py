"""All groups of this node, on the runtime that all coordinators share (coordination/runtime/actors.py).

A group belongs to one partition of `__consumer_offsets` (see transport/cluster/partitioner.py). While a partition is
loaded, requests for its groups get COORDINATOR_LOAD_IN_PROGRESS and all others are served. Groups of other nodes'
partitions are not in this object.

Every response of a group waits until the group's last record is durable. The exception is the response to a heartbeat:
it does not depend on offsets, so it waits for `membership_epoch`, the flush epoch of the last record that is not a
committed offset. So a member that commits all the time does not expire because the disk is busy.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

from coordinatord.base.observe.logger import get_logger
from coordinatord.broker.log.errors import LogFailed
from coordinatord.broker.log.loader import ReplayedBatch
from coordinatord.coordination.group.classic.step import step
from coordinatord.coordination.group.consumer.state import GroupEnvironment
from coordinatord.coordination.group.events import EndTransaction, Expire, TimedOut, TopicDeleted, Unload
from coordinatord.coordination.group.result import Cancel, Dropped, Joined, Result, TimerKey
from coordinatord.coordination.group.state import MAX_ID_CHARACTERS, Group, GroupSettings
from coordinatord.coordination.group.states import STABLE, Cause
from coordinatord.coordination.runtime.actors import Actor, Actors
from coordinatord.coordination.runtime.log import Log
from coordinatord.coordination.runtime.partitions import Partitions
from coordinatord.coordination.runtime.runtime import Runtime
from coordinatord.coordination.runtime.versions import unavailable
from coordinatord.coordination.service.ledger import Ledger
from coordinatord.coordination.service.partition_load import PartitionLoad
from coordinatord.transport.net.request import RequestContext
from kafka_wire.api.delete_groups import DeletableGroupResult
from kafka_wire.api.offset_delete import OffsetDeleteResponse
from kafka_wire.api.txn_offset_commit import TxnOffsetCommitResponse
from kafka_wire.errors import ErrorCode
from kafka_wire.records.batch import Bodies, KeyValues, Records
from kafka_wire.records.keys import encode_key, encode_offsets, encode_value
from kafka_wire.records.offsets import OffsetCommitKey

MAX_PENDING_IDS = 20_000
"""Maximum number of pending member ids. An id has up to 8,000 characters, most of which the client chooses, and is kept
until its session would end: at most 175 MB, some 10 MB with usual names. Well-behaved clients use their ids at once.
"""


class GroupActor(Actor["Coordinator"]):
    """A group with its partition of the offsets log. `group` is another name of its `state`."""

    __slots__ = ("group", "membership_epoch", "pending_ids")

    def __init__(self, coordinator: Coordinator, group: Group, partition: int, epoch: int) -> None:
        super().__init__(coordinator, group, partition, epoch)
        self.group = group
        self.membership_epoch = epoch
        #: number of the coordinator's pending ids that are this group's
        self.pending_ids = 0

    @property
    def id(self) -> str:
        """The group id."""
        return self.group.group_id

    def apply(self, result: Result, now_ms: int) -> None:
        """Apply the result of a step. Records are appended first: the responses wait for them."""
        coordinator = self.coordinator
        pending_ids = len(self.group.pending_members)
        if pending_ids != self.pending_ids:
            coordinator.pending_ids += pending_ids - self.pending_ids
            self.pending_ids = pending_ids
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
            # The client has sent the request again, or its member was removed: as in Kafka, the earlier request never
            # gets a response.
            context.abandon()
        if result.transitions or result.changes or result.ended:
            coordinator.observe(self, result, now_ms)

    def _log_offsets(self, result: Result, now_ms: int) -> None:
        """Log a commit's offsets in one batch. Such a step has no other records."""
        assert not result.records
        group_id = self.group.group_id
        topics = result.offsets
        encoded = encode_offsets(group_id, *topics[0])
        for topic, values in topics[1:]:
            encoded += encode_offsets(group_id, topic, values)
        self.append_offsets(Bodies(encoded), now_ms)

    def append_offsets(self, records: Records, now_ms: int) -> None:
        """Log committed offsets, one per record."""
        coordinator = self.coordinator
        self.epoch = coordinator.log.append(self.partition, records, now_ms)
        coordinator.metrics.offset_commits += records.count

    @property
    def is_settled(self) -> bool:
        """True if all records about members are durable, so that heartbeats need not wait."""
        return self.membership_epoch <= self.coordinator.gate.flushed_epoch

    def respond_to_heartbeat(self, context: RequestContext, response: Any) -> Any:
        """Like `respond`, for a response that does not depend on offsets: see the module's docstring."""
        if self.membership_epoch > self.coordinator.gate.flushed_epoch:
            context.answer_at(self.membership_epoch, response, partial(unavailable, context.codec, context.keep()))
            return None
        return response


log = get_logger("coordinatord.coordination.service")


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
        max_pending_ids: int = MAX_PENDING_IDS,
        ledger: Ledger | None = None,
        surroundings: GroupEnvironment | None = None,
    ) -> None:
        """`max_pending_ids`: max.pending.members. `surroundings`: the node's topics and settings for groups of the
        consumer protocol; None on a node without such groups.
        """
        super().__init__(runtime, log, partitions, max_groups, step)
        self.group_settings = group_settings
        self.new_id = new_id
        self.max_pending_ids = max_pending_ids
        #: member ids of all groups that were sent to clients (KIP-394) and not used yet
        self.pending_ids = 0
        self._has_told_of_ids = False
        self.ledger = ledger
        self.surroundings = surroundings
        # Groups with pending offsets, by partition and producer id: a marker applies to them.
        self.pending: dict[tuple[int, int], set[str]] = {}
        # While loading: strings and topic ids that many offsets share; deleted topics.
        self.names: dict[str, str] = {}
        self.topic_ids: dict[bytes, bytes] = {}
        self.missed_deletions: list[TopicDeleted] = []

    # Defined by Actors

    def new_actor(self, id_: str, partition: int) -> GroupActor:
        """Create the actor of a group."""
        return GroupActor(
            self, Group(id_, self.group_settings, self.new_id, self.surroundings), partition, self.forgotten_epoch
        )

    def is_allowed(self, id_: str) -> ErrorCode:
        """Reject ids that are too long for the log."""
        return ErrorCode.INVALID_GROUP_ID if len(id_) > MAX_ID_CHARACTERS else ErrorCode.NONE

    def availability_of(self, id_: str) -> ErrorCode:
        """Create `__consumer_offsets` for the first group. Kafka does so for a FindCoordinator only, and until then
        responds to requests of groups with NOT_COORDINATOR.
        """
        error = self.partitions.ensure()
        return super().availability_of(id_) if error is ErrorCode.NONE else error

    def log_limit(self) -> None:
        """Write one log line for each rejected group."""
        log.warning("no room for another group", groups=len(self.actors), limit=self.reached_limit("max.groups"))

    def has_room_for_id(self) -> bool:
        """Return whether another member id may be created. Writes one log line when the limit is reached."""
        has_room = self.pending_ids < self.max_pending_ids
        if not has_room and not self._has_told_of_ids:
            log.warning("no room for another pending member", pending=self.pending_ids, limit="max.pending.members")
        self._has_told_of_ids = not has_room
        return has_room

    def unloading(self) -> Unload:
        """Return the event that makes the group's members look up the coordinator again."""
        return Unload(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def replay(self, partition: int, batches: Iterable[ReplayedBatch]) -> Iterator[int]:
        """Restore groups from a partition's records."""
        return PartitionLoad(self, partition).run(batches)

    def loaded(self, partition: int) -> None:
        """Mark the partition as loaded; after the last one, drop the data that only loads need."""
        super().loaded(partition)
        if not self.is_loading:
            self.names.clear()
            self.topic_ids.clear()
            self.missed_deletions.clear()

    # Events that no request causes

    def timed_out(self, key: TimerKey) -> None:
        """Handle a group's timer that has fired."""
        actor = self.actors.get(key.group_id)
        if actor is not None:
            with suppress(LogFailed):  # the daemon stops
                actor.tell(TimedOut(key))

    def topic_deleted(self, topic: str, topic_id: bytes) -> None:
        """Delete the offsets committed for a deleted topic; in groups that are being loaded, when they are loaded."""
        event = TopicDeleted(topic, topic_id)
        if self.is_loading:
            self.missed_deletions.append(event)
        for actor in list(self.actors.values()):
            self.apply_deletion(actor, event)

    def apply_deletion(self, actor: GroupActor, event: TopicDeleted) -> None:
        """Make a group delete the offsets committed for a topic, if it has any; a share group forgets the topic."""
        topic, pending = event.topic, actor.group.pending
        is_pending = pending is not None and any(topic == name for name, _ in pending)
        if is_pending or topic in actor.group.offsets or actor.group.share is not None:
            actor.tell(event)

    def expire_offsets(
        self, retention_ms: Callable[[str], int], spared: Callable[[Group], bool] = lambda group: False
    ) -> Iterator[None]:
        """Expire offsets unused for the group's `retention_ms`, one group per iteration, except in groups for which
        `spared` returns True.
        """
        for actor in list(self.actors.values()):
            if spared(actor.group):
                continue
            # Since the last yield the group may have ended, or its partition may have moved.
            is_here = self.actors.get(actor.group.group_id) is actor
            if is_here and self.availability(actor.partition) is ErrorCode.NONE:
                before = _offset_count(actor)
                actor.tell(Expire(retention_ms(actor.group.group_id)))
                self.metrics.offset_expirations += before - _offset_count(actor)
            yield

    # Transactions

    def note_pending(self, actor: GroupActor, producer_id: int) -> None:
        """Record that a transaction commits offsets of a group: the transaction's marker applies to the group."""
        self.pending.setdefault((actor.partition, producer_id), set()).add(actor.group.group_id)

    def end_transaction(self, partition: int, producer_id: int, *, committed: bool, epoch: int) -> None:
        """Apply a marker written to the partition. Responses of its
        groups wait until flush epoch `epoch` is durable.
        """
        for group_id in self.pending.pop((partition, producer_id), ()):
            actor = self.actors.get(group_id)
            if actor is not None and actor.group.pending is not None:
                actor.tell(EndTransaction(producer_id, committed))
                actor.epoch = max(actor.epoch, epoch)

    # Metrics, log lines, ledger

    def count(self, result: Result) -> None:
        """Count the logged offsets: those that transactions committed, and deleted ones."""
        if type(result.reply) is TxnOffsetCommitResponse:
            self.metrics.offset_commits += len(result.records)
        elif type(result.reply) in (OffsetDeleteResponse, DeletableGroupResult):
            self.metrics.offset_deletions += sum(type(key) is OffsetCommitKey for key, _ in result.records)

    def observe(self, actor: GroupActor, result: Result, now_ms: int) -> None:
        """Write one log line per transition with its reason, and the ledger."""
        changes, group = result.changes, actor.group
        if self.ledger is not None and group.share is None:
            if not (result.transitions or result.ended) and len(changes) == 1 and group.consumer is None:
                change = changes[0]
                if type(change) is Joined and not change.is_new:  # still waiting for members: nearly every join
                    self.ledger.rejoined(group.group_id, change, now_ms)
                    return
            self.ledger.observe(group, result, now_ms)
        has_lost_members = False
        for change in changes:
            if type(change) is Dropped:
                self.metrics.members_removed[change.cause] += 1
                has_lost_members = has_lost_members or change.cause != Cause.REPLACED
        if result.trigger is not None:
            kind = "share" if group.share is not None else "classic" if group.consumer is None else "consumer"
            self.metrics.rebalance(kind, result.trigger.kind)
            if kind == "consumer" and not has_lost_members:
                self.metrics.consumer_group_rebalances += 1
        if self.draining:
            return  # every group becomes Dead; one line says that the daemon stops
        for transition in result.transitions:
            old, new = transition.old.shown, transition.new.shown
            self.metrics.transition(old, new)
            if transition.new is STABLE:
                self.metrics.completed_rebalances += 1
            log.info(
                "group transition",
                group=transition.group_id,
                old=old,
                new=new,
                generation=transition.generation_id,
                reason=transition.reason,
            )

    def state_counts(self) -> dict[str, float]:
        """Return the number of classic groups by state. Scrapes call this from another thread."""
        groups = [actor.group for actor in list(self.actors.values())]
        return dict(Counter(group.state.value for group in groups if group.consumer is None and group.share is None))

    def consumer_state_counts(self) -> dict[str, float]:
        """Return the number of consumer groups by state. Scrapes call this from another thread."""
        consumers = [actor.group.consumer for actor in list(self.actors.values())]
        return dict(Counter(each.state.value for each in consumers if each is not None))

    def share_state_counts(self) -> dict[str, float]:
        """Return the number of share groups by state. Scrapes call this from another thread."""
        shares = [actor.group.share for actor in list(self.actors.values())]
        return dict(Counter(each.state.value for each in shares if each is not None))

    def member_counts(self) -> dict[str, float]:
        """Return the number of members of all groups by protocol. Scrapes call this from another thread."""
        classic = consumer = share = 0
        for actor in list(self.actors.values()):
            classic += len(actor.group.members)
            consumers = actor.group.consumer
            if consumers is not None:
                classic += consumers.classic_members
                consumer += len(consumers.members) - consumers.classic_members
            shares = actor.group.share
            if shares is not None:
                share += len(shares.members)
        return {"classic": classic, "consumer": consumer, **({"share": share} if share else {})}

    def offset_count(self) -> int:
        """Return the number of committed offsets of all groups. Scrapes call this from another thread."""
        return sum(map(_offset_count, list(self.actors.values())))


def _offset_count(actor: GroupActor) -> int:
    return sum(len(partitions) for partitions in list(actor.group.offsets.values()))
