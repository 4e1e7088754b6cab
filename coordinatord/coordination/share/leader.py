"""The share partitions of this node: the shell around their pure core (Kafka's SharePartitionManager).

A share partition is created by the first fetch of a group, and reads its state from the persister. It is removed when
another node takes over, when its group or topic is deleted, or when the group has no session any more; the next fetch
reads the state again. `tell` runs a step and applies its result before it returns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple, Protocol

from coordinatord.base.observe.logger import get_logger
from coordinatord.broker.log.times import TimeLookups
from coordinatord.broker.topics.partition import UNREADABLE, Partition
from coordinatord.coordination.runtime.runtime import Alarm, Timers
from coordinatord.coordination.share.partition import events
from coordinatord.coordination.share.partition.result import Result, Write
from coordinatord.coordination.share.partition.state import DeadLetters, Limits, SharePartition, Status
from coordinatord.coordination.share.partition.step import step
from coordinatord.coordination.share.persister import (
    UNINITIALIZED_START_OFFSET,
    PartitionError,
    PartitionState,
    Persister,
    ReadPartition,
    StateBatch,
    WritePartition,
)
from kafka_wire.errors import ErrorCode

log = get_logger("coordinatord.coordination.share")

ShareKey = tuple[str, bytes, int]
"""A group, a topic's id, and a partition."""


class ShareError(NamedTuple):
    """An error with the message for the client, None for the default."""

    error: ErrorCode
    message: str | None = None


LATEST: Final = -1
EARLIEST: Final = -2
"""Special timestamps of `reset_timestamp`."""

Acknowledged = Callable[[ShareError], object]


class Observer(Protocol):
    """Something that follows the steps of share partitions."""

    def before(self, actor: SharePartitionActor, event: events.Event) -> None:
        """See a share partition before a step."""

    def after(self, actor: SharePartitionActor, event: events.Event, result: Result) -> None:
        """See a share partition after a step, whose result has been applied."""


GONE: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
"""Errors after which the share partition is removed: its state must be read again."""

_TOLD: Final = {
    ErrorCode.NOT_COORDINATOR: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.GROUP_ID_NOT_FOUND: ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.FENCED_LEADER_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_STATE_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
}
"""Error of the persister -> error for the client (SharePartition.fetchPersisterError); UNKNOWN_SERVER_ERROR for others.
"""


def _share_error(error: ErrorCode, message: str | None) -> ShareError:
    return ShareError(_TOLD.get(error, ErrorCode.UNKNOWN_SERVER_ERROR), message)


def _joined(batches: Sequence[StateBatch]) -> Sequence[StateBatch]:
    """Return the batches, with equal neighbours as one: the share coordinator would join those of single records."""
    if len(batches) < 2:
        return batches
    joined: list[StateBatch] = []
    first, last, state, count = batches[0]
    for next_first, next_last, next_state, next_count in batches[1:]:
        if next_first == last + 1 and next_state == state and next_count == count:
            last = next_last
        else:
            joined.append(StateBatch(first, last, state, count))
            first, last, state, count = next_first, next_last, next_state, next_count
    joined.append(StateBatch(first, last, state, count))
    return joined


class ShareSettings(Protocol):
    """The settings of share groups."""

    def limits(self, group_id: str) -> Limits:
        """Return the limits of the group's share partitions."""

    def reset_timestamp(self, group_id: str, now_ms: int) -> int:
        """Return the start that share.auto.offset.reset asks for: LATEST, EARLIEST, or a time in ms."""

    def reads_committed(self, group_id: str) -> bool:
        """Return whether share.isolation.level is read_committed."""


class DeadLetterWriter(Protocol):
    """The queue of dead letters (dead_letters.DeadLetterQueue)."""

    def add(
        self,
        key: ShareKey,
        source: Partition,
        letters: Sequence[DeadLetters],
        done: Callable[[Sequence[DeadLetters]], object],
    ) -> None:
        """Write letters; `done` is called later, on the event loop's thread."""


class SharePartitionActor:
    """A share partition with its waiting fetches, its timer and its writes."""

    __slots__ = ("_acknowledgements", "_alarm", "_alarm_ms", "error", "key", "partition", "share", "topics", "waiters")

    def __init__(self, topics: SharePartitions, key: ShareKey, partition: Partition) -> None:
        self.topics = topics
        self.key = key
        self.partition = partition
        self.share = SharePartition(topics.settings.limits(key[0]))
        #: why the state could not be read
        self.error: ShareError | None = None
        self.waiters: dict[object, Callable[[], object]] = {}
        #: by write id: what to call when the write has ended
        self._acknowledgements: dict[int, Acknowledged] = {}
        self._alarm: Alarm | None = None
        self._alarm_ms = 0

    @property
    def is_active(self) -> bool:
        """True once the state has been read, until the share partition is removed."""
        return self.share.status is Status.ACTIVE

    # Steps

    def tell(self, event: events.Event, done: Acknowledged | None = None) -> Result:
        """Run a step and apply its result. `done` gets the outcome of an acknowledgement: when its write has ended, or
        before `tell` returns if there is none.
        """
        topics = self.topics
        share = self.share
        share.limits = topics.settings.limits(self.key[0])
        for observer in topics.observers:
            observer.before(self, event)
        result = step(share, event, topics.now_ms())
        if result.write is not None:
            if done is not None:
                self._acknowledgements[result.write.write_id] = done
            self._write(result.write)
        elif done is not None:
            done(ShareError(result.error, result.message))
        self._set_alarm()
        for observer in topics.observers:
            observer.after(self, event, result)
        if result.letters:
            topics.write_letters(self, result.letters)
        if result.wakes:
            self.wake()
        return result

    def letters_done(self, letters: Sequence[DeadLetters]) -> None:
        """Archive records whose dead letters have ended; also if the share partition was removed meanwhile, since the
        next member may come much later.
        """
        self.tell(events.LettersDone(letters))

    def wake(self) -> None:
        """Call the fetches that wait for this share partition."""
        for wake in list(self.waiters.values()):
            wake()

    def _set_alarm(self) -> None:
        deadline_ms = self.share.deadline_ms
        alarm = self._alarm
        if deadline_ms is None or (alarm is not None and self._alarm_ms <= deadline_ms):
            return
        if alarm is not None:
            alarm.cancel()
        self._alarm_ms = deadline_ms
        self._alarm = self.topics.timers.alarm(deadline_ms, self._locks_timed_out)

    def _locks_timed_out(self) -> None:
        self._alarm = None
        if self.is_active:
            self.tell(events.LockTimeout())

    def end(self) -> None:
        """End the share partition, which has been removed."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        self.tell(events.Fence() if self.error is None else events.InitializeFailed())

    # The persisted state

    def load(self) -> None:
        """Read the persisted state; waiting fetches are called when it is there."""
        self.share.status = Status.INITIALIZING
        group_id, topic_id, index = self.key
        asked = ReadPartition(topic_id, index, self.partition.log.leader_epoch)
        self.topics.persister.read(group_id, [asked], self._read)

    def _read(self, states: list[PartitionState]) -> None:
        if self.share.status is not Status.INITIALIZING:
            return
        state = states[0]
        if state.error:
            self._failed(_share_error(state.error, state.message))
            return
        start_offset = state.start_offset
        if start_offset == UNINITIALIZED_START_OFFSET:
            try:
                found = self.topics.offset_for_reset(self.key[0], self.partition)
            except UNREADABLE as failure:
                self._failed(ShareError(self.partition.cannot_read(failure)))
                return
            if found is None:
                self._failed(ShareError(ErrorCode.OFFSET_NOT_AVAILABLE))
                return
            start_offset = found
        self.tell(events.Initialize(start_offset, state.state_epoch, state.state_batches))
        if not self.is_active:
            log.error("the state of a share partition contradicts itself", group=self.key[0], partition=self.key[2])
            self._failed(ShareError(ErrorCode.UNKNOWN_SERVER_ERROR))

    def _failed(self, error: ShareError) -> None:
        self.error = error
        self.topics.remove(self.key)

    def _write(self, write: Write) -> None:
        group_id, topic_id, index = self.key
        change = WritePartition(
            topic_id, index, write.state_epoch, self.partition.log.leader_epoch, write.start_offset,
            write.delivery_complete_count, _joined(write.batches),
        )  # fmt: skip
        self.topics.persister.write(group_id, [change], partial(self._written, write.write_id))

    def _written(self, write_id: int, errors: list[PartitionError]) -> None:
        found = errors[0]
        self.tell(events.Written(write_id, not found.error))
        outcome = _share_error(found.error, found.message) if found.error else ShareError(ErrorCode.NONE)
        if outcome.error in GONE and self.topics.find(self.key) is self:
            self.topics.remove(self.key)
        done = self._acknowledgements.pop(write_id, None)
        if done is not None:
            done(outcome)


class SharePartitions:
    """The share partitions that this node leads, by group, topic id and partition."""

    def __init__(
        self, settings: ShareSettings, persister: Persister, timers: Timers, now_ms: Callable[[], int]
    ) -> None:
        self.settings = settings
        self.persister = persister
        self.timers = timers
        self.now_ms = now_ms
        self._actors: dict[ShareKey, SharePartitionActor] = {}
        self._lookups = TimeLookups()
        self.observers: list[Observer] = []
        #: None: groups have no dead letters
        self.dead_letters: DeadLetterWriter | None = None

    def __len__(self) -> int:
        return len(self._actors)

    def of_group(self, group_id: str) -> list[SharePartitionActor]:
        """Return the share partitions of a group."""
        return [actor for key, actor in self._actors.items() if key[0] == group_id]

    def find(self, key: ShareKey) -> SharePartitionActor | None:
        """Return a share partition that exists."""
        return self._actors.get(key)

    def find_or_load(self, key: ShareKey, partition: Partition) -> SharePartitionActor:
        """Return a share partition; a new one reads its state."""
        actor = self._actors.get(key)
        if actor is None:
            actor = self._actors[key] = SharePartitionActor(self, key, partition)
            actor.load()
        return actor

    def write_letters(self, actor: SharePartitionActor, letters: Sequence[DeadLetters]) -> None:
        """Write dead letters; their end is an event for the actor."""
        if self.dead_letters is None:
            actor.letters_done(letters)
        else:
            self.dead_letters.add(actor.key, actor.partition, letters, actor.letters_done)

    def release(self, group_id: str, member_id: str, partitions: list[tuple[bytes, int]]) -> None:
        """Release what a member has acquired."""
        for topic_id, index in partitions:
            actor = self._actors.get((group_id, topic_id, index))
            if actor is not None:
                actor.tell(events.Release(member_id))

    def remove(self, key: ShareKey) -> None:
        """Remove a share partition, if it exists. Its waiting fetches are called."""
        actor = self._actors.pop(key, None)
        if actor is not None:
            actor.end()

    def remove_group(self, group_id: str) -> None:
        """Remove the share partitions of a group."""
        for key in [key for key in self._actors if key[0] == group_id]:
            self.remove(key)

    def remove_topic(self, _name: str, topic_id: bytes) -> None:
        """Remove the share partitions of a deleted topic."""
        for key in [key for key in self._actors if key[1] == topic_id]:
            self.remove(key)

    def offset_for_reset(self, group_id: str, partition: Partition) -> int | None:
        """Return the offset for share.auto.offset.reset; None if no record is as new as it asks for."""
        timestamp = self.settings.reset_timestamp(group_id, self.now_ms())
        if timestamp < 0:
            return partition.log.high_watermark if timestamp == LATEST else partition.log.log_start_offset
        lookup = self._lookups.first_at(partition.log, timestamp)
        while True:
            try:
                next(lookup)
            except StopIteration as end:
                return None if end.value is None else int(end.value.offset)
