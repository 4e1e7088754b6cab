"""The persister of a process that is its own share coordinator: it calls the coordinator directly.

As Kafka's persister, it creates `__share_group_state` if needed, and tries again while the coordinator cannot serve a
share partition: up to ATTEMPTS times, later each time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, Protocol

from coordinatord.broker.log.errors import LogFailed
from coordinatord.coordination.runtime.runtime import Timers
from coordinatord.coordination.share.coordinator import events
from coordinatord.coordination.share.coordinator.coordinator import ShareCoordinator, coordinator_key
from coordinatord.coordination.share.coordinator.result import Reply
from coordinatord.coordination.share.persister import (
    ErrorsDone,
    InitializePartition,
    PartitionError,
    PartitionState,
    PartitionSummary,
    ReadPartition,
    StatesDone,
    SummariesDone,
    TopicIdPartition,
    WritePartition,
)
from kafka_wire.errors import ErrorCode, message_of

ATTEMPTS: Final = 5
BACKOFF_MS: Final = 1_000
"""Milliseconds before the second attempt; each later one waits twice as long (Kafka: PersisterStateManager)."""

RETRIED: Final = frozenset(
    {ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR}
)

Kind = type[PartitionError] | type[PartitionState] | type[PartitionSummary]


class Topics(Protocol):
    """The topics, as the persister uses them."""

    def has_partition(self, topic_id: bytes, partition: int) -> bool: ...


class LocalPersister:
    """See `Persister`."""

    def __init__(
        self,
        coordinator: ShareCoordinator,
        topics: Topics,
        timers: Timers,
        call_soon: Callable[[Callable[[], object]], object],
    ) -> None:
        """`call_soon` is the event loop's."""
        self.coordinator = coordinator
        self.topics = topics
        self._timers = timers
        self._call_soon = call_soon

    def initialize(self, group_id: str, partitions: Sequence[InitializePartition], done: ErrorsDone) -> None:
        """See `Persister`."""

        def event_of(part: InitializePartition) -> events.Initialize:
            return events.Initialize(part.state_epoch, part.start_offset, self._exists(part))

        _Call(self, PartitionError, group_id, partitions, event_of, done).start()

    def read(self, group_id: str, partitions: Sequence[ReadPartition], done: StatesDone) -> None:
        """See `Persister`."""

        def event_of(part: ReadPartition) -> events.Read:
            return events.Read(part.leader_epoch, self._exists(part))

        _Call(self, PartitionState, group_id, partitions, event_of, done).start()

    def write(self, group_id: str, partitions: Sequence[WritePartition], done: ErrorsDone) -> None:
        """See `Persister`."""

        def event_of(part: WritePartition) -> events.Write:
            return events.Write(*part[2:], self._exists(part))

        _Call(self, PartitionError, group_id, partitions, event_of, done).start()

    def delete(self, group_id: str, partitions: Sequence[TopicIdPartition], done: ErrorsDone) -> None:
        """See `Persister`."""
        _Call(self, PartitionError, group_id, partitions, lambda part: events.Delete(self._exists(part)), done).start()

    def read_summary(self, group_id: str, partitions: Sequence[TopicIdPartition], done: SummariesDone) -> None:
        """See `Persister`."""

        def event_of(part: TopicIdPartition) -> events.ReadSummary:
            return events.ReadSummary(self._exists(part))

        _Call(self, PartitionSummary, group_id, partitions, event_of, done).start()

    def _exists(self, part: tuple[Any, ...]) -> bool:
        return self.topics.has_partition(part[0], part[1])


class _Call:
    """One call of a method: its results so far, and the attempts for partitions without one."""

    def __init__(
        self,
        persister: LocalPersister,
        kind: Kind,
        group_id: str,
        partitions: Sequence[Any],
        event_of: Callable[[Any], events.Event],
        done: Callable[[list[Any]], object],
    ) -> None:
        self._persister = persister
        self._kind = kind
        self._group_id = group_id
        self._partitions = partitions
        self._event_of = event_of
        self._done = done
        self._results: dict[int, Reply] = {}
        self._epoch = 0
        self._attempts = ATTEMPTS

    def start(self) -> None:
        """Run the steps now; call `done` later."""
        self._attempt(1)

    def _attempt(self, number: int) -> None:
        error = self._persister.coordinator.ensure_topic()
        for index, part in enumerate(self._partitions):
            last = self._results.get(index)
            if last is None or last.error in RETRIED:
                self._results[index] = self._run(part, error)
        coordinator = self._persister.coordinator
        is_last = number >= self._attempts or coordinator.draining
        if not is_last and any(each.error in RETRIED for each in self._results.values()):
            due_ms = coordinator.now_ms() + (BACKOFF_MS << number - 1)
            self._persister._timers.alarm(due_ms, partial(self._attempt, number + 1))
        else:
            self._finish()

    def _run(self, part: Any, error: ErrorCode) -> Reply:
        coordinator = self._persister.coordinator
        topic_id, partition = part[:2]
        if error is ErrorCode.NONE:
            event = self._event_of(part)
            actor = coordinator.actor_of(coordinator_key(self._group_id, topic_id, partition), event)
            if not isinstance(actor, ErrorCode):
                try:
                    reply: Reply = actor.tell(event)
                except LogFailed:
                    self._attempts = 0
                    return self._refused(part, ErrorCode.COORDINATOR_NOT_AVAILABLE)
                self._epoch = max(self._epoch, actor.epoch)
                return reply
            error = actor
        return self._refused(part, error)

    def _refused(self, part: Any, error: ErrorCode) -> Reply:
        return self._kind(part[0], part[1], error, message_of(error))

    def _finish(self) -> None:
        results = [self._results[index] for index in range(len(self._partitions))]
        failed = [self._refused(part, ErrorCode.COORDINATOR_NOT_AVAILABLE) for part in self._partitions]
        self._persister._call_soon(
            lambda: self._persister.coordinator.gate.hold(
                self._epoch, lambda: self._done(results), lambda: self._done(failed)
            )
        )
