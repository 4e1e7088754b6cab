"""The persister of a node. The share coordinator of a share partition is the leader of its key's partition of
`__share_group_state`: the persister calls the node's own share coordinator directly, and sends those of other nodes the
requests of Kafka's brokers (state_requests.py).

As Kafka's persister, it creates `__share_group_state` if needed, and tries again while a coordinator cannot serve a
share partition: up to ATTEMPTS times, later each time. A request to another node without a response may have been
executed. To execute it again, also after later ones, changes nothing: of two deliveries of a record the later one
counts, whatever their order, and no start offset moves back (coordinator/step.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, Protocol

from coordinatord.broker.log.errors import LogFailed
from coordinatord.broker.topics.names import SHARE_TOPIC
from coordinatord.coordination.runtime.runtime import Runtime
from coordinatord.coordination.share.coordinator.coordinator import ShareCoordinator, coordinator_key
from coordinatord.coordination.share.coordinator.result import Reply
from coordinatord.coordination.share.persister import (
    ErrorsDone,
    InitializePartition,
    ReadPartition,
    StatesDone,
    SummariesDone,
    TopicIdPartition,
    WritePartition,
)
from coordinatord.coordination.share.state_requests import DELETE, INITIALIZE, READ, READ_SUMMARY, WRITE, Method
from coordinatord.transport.cluster.nodes import Nodes
from kafka_wire.errors import ErrorCode, message_of

AT_ONCE: Final = 200
"""Share partitions whose steps run in one turn of the event loop: some 4 ms."""

ATTEMPTS: Final = 5
BACKOFF_MS: Final = 1_000
"""Milliseconds before the second attempt; each later one waits twice as long (Kafka: PersisterStateManager)."""

RETRY_MS: Final = 16_000
"""Milliseconds after which no attempt begins: less than group.share.initialize.retry.interval.ms by default, so that an
initialisation is not repeated when the next one has ended.
"""

RETRIED: Final = frozenset(
    {ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR}
)


class Topics(Protocol):
    """The topics, as the persister uses them."""

    def has_partition(self, topic_id: bytes, partition: int) -> bool: ...


class Peers(Protocol):
    """A client for requests to other nodes (transport/cluster/peers.py)."""

    def ask(self, worker: int, api_version: int, request: Any, answered: Callable[[Any], object]) -> None: ...


class StatePersister:
    """See `Persister`."""

    def __init__(
        self,
        coordinator: ShareCoordinator,
        topics: Topics,
        runtime: Runtime,
        call_soon: Callable[[Callable[[], object]], object],
        others: tuple[Nodes, Peers] | None = None,
    ) -> None:
        """`call_soon` is the event loop's. `others`: None if there is no other node."""
        self.coordinator = coordinator
        self.topics = topics
        self.runtime = runtime
        self.call_soon = call_soon
        self._others = others
        #: by group: attempts that wait for one that takes several turns, such as a deletion for an initialisation
        self.in_turns: dict[str, list[Callable[[], object]]] = {}

    def initialize(self, group_id: str, partitions: Sequence[InitializePartition], done: ErrorsDone) -> None:
        """See `Persister`."""
        _Call(self, INITIALIZE, group_id, partitions, done).attempt(1)

    def read(self, group_id: str, partitions: Sequence[ReadPartition], done: StatesDone) -> None:
        """See `Persister`."""
        _Call(self, READ, group_id, partitions, done).attempt(1)

    def write(self, group_id: str, partitions: Sequence[WritePartition], done: ErrorsDone) -> None:
        """See `Persister`."""
        _Call(self, WRITE, group_id, partitions, done).attempt(1)

    def delete(self, group_id: str, partitions: Sequence[TopicIdPartition], done: ErrorsDone) -> None:
        """See `Persister`."""
        _Call(self, DELETE, group_id, partitions, done).attempt(1)

    def read_summary(self, group_id: str, partitions: Sequence[TopicIdPartition], done: SummariesDone) -> None:
        """See `Persister`."""
        _Call(self, READ_SUMMARY, group_id, partitions, done).attempt(1)

    def exists(self, part: tuple[Any, ...]) -> bool:
        """Return whether the partition of a call exists."""
        return self.topics.has_partition(part[0], part[1])

    def elsewhere(self, key: str) -> tuple[Peers, int] | None:
        """Return the other node that coordinates a share partition; None if this node does. The topic must exist."""
        if self._others is None:
            return None
        nodes, peers = self._others
        worker = nodes.worker_of(SHARE_TOPIC, self.coordinator.partitions.of(key))
        return None if worker == nodes.worker else (peers, worker)


class _Call:
    """One call of a method: its results so far, and the attempts for partitions without one."""

    def __init__(
        self,
        persister: StatePersister,
        method: Method,
        group_id: str,
        partitions: Sequence[Any],
        done: Callable[[list[Any]], object],
    ) -> None:
        self._persister = persister
        self._coordinator = persister.coordinator
        self._method = method
        self._group_id = group_id
        self._partitions = partitions
        self._done = done
        self._results: dict[int, Reply] = {}
        self._epoch = 0
        self._attempts = ATTEMPTS
        self._last_ms = self._coordinator.now_ms() + RETRY_MS
        self._awaited = 0
        self._peers: Peers | None = None

    def attempt(self, number: int) -> None:
        """Run the steps of this node's share partitions, and send requests for the others; call `done` later."""
        waiting = self._persister.in_turns.get(self._group_id)
        if waiting is not None:
            waiting.append(partial(self.attempt, number))
        else:
            self._attempt_from(0, number, {})

    def _attempt_from(self, begin: int, number: int, sent: dict[int, list[int]]) -> None:
        """Begin with this index: a group may subscribe to thousands of partitions, AT_ONCE of which have a turn of the
        event loop. `sent` are the indexes for the requests to other nodes.
        """
        error = self._coordinator.partitions.ensure()
        end = min(begin + AT_ONCE, len(self._partitions))
        for index in range(begin, end):
            part = self._partitions[index]
            if index in self._results and not self._is_retried(index):
                continue
            key = coordinator_key(self._group_id, *part[:2])
            elsewhere = None if error else self._persister.elsewhere(key)
            if error:
                self._results[index] = self._refused(part, error)
            elif elsewhere is None:
                self._results[index] = self._run(key, part)
            else:
                self._peers, worker = elsewhere
                sent.setdefault(worker, []).append(index)
        if end < len(self._partitions):
            self._persister.in_turns.setdefault(self._group_id, [])
            self._persister.call_soon(partial(self._attempt_from, end, number, sent))
            return
        self._awaited = 1
        for worker, indexes in sent.items():
            self._awaited += 1
            self._send(worker, indexes, number)
        waiting = self._persister.in_turns.pop(self._group_id, ())
        self._ended(number)
        for attempt in waiting:
            attempt()

    def _ended(self, number: int) -> None:
        """Note the end of one node's part in an attempt; the last one ends the attempt."""
        self._awaited -= 1
        if self._awaited:
            return
        due_ms = self._coordinator.now_ms() + (BACKOFF_MS << number - 1)
        is_last = number >= self._attempts or due_ms > self._last_ms or self._coordinator.draining
        if not is_last and any(self._is_retried(index) for index in self._results):
            self._persister.runtime.timers.alarm(due_ms, partial(self.attempt, number + 1))
        else:
            self._finish()

    def _is_retried(self, index: int) -> bool:
        """Return whether the partition has an error that may pass: another node may not have read about a topic."""
        error, part = self._results[index].error, self._partitions[index]
        return error in RETRIED or (error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and self._persister.exists(part))

    def _run(self, key: str, part: Any) -> Reply:
        event = self._method.event_of(part, self._persister.exists(part))
        actor = self._coordinator.actor_of(key, event)
        if isinstance(actor, ErrorCode):
            return self._refused(part, actor)
        try:
            reply: Reply = actor.tell(event)
        except LogFailed:
            self._attempts = 0
            return self._refused(part, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        self._epoch = max(self._epoch, actor.epoch)
        return reply

    def _send(self, worker: int, indexes: list[int], number: int) -> None:
        method = self._method

        def answered(response: Any) -> None:
            found = {} if response is None else {reply[:2]: reply for reply in method.replies(response)}
            for index in indexes:
                part = self._partitions[index]
                reply = found.get(part[:2])
                self._results[index] = reply or self._refused(part, ErrorCode.COORDINATOR_NOT_AVAILABLE)
            self._ended(number)

        request = method.request(self._group_id, [self._partitions[index] for index in indexes])
        assert self._peers is not None
        self._peers.ask(worker, method.api_version, request, answered)

    def _refused(self, part: Any, error: ErrorCode) -> Reply:
        return self._method.kind(part[0], part[1], error, message_of(error))

    def _finish(self) -> None:
        results = [self._results[index] for index in range(len(self._partitions))]
        failed = [self._refused(part, ErrorCode.COORDINATOR_NOT_AVAILABLE) for part in self._partitions]
        gate = self._persister.runtime.gate
        self._persister.call_soon(
            lambda: gate.hold(self._epoch, lambda: self._done(results), lambda: self._done(failed))
        )
