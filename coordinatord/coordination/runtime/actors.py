"""The base of every coordinator: actors by id, in the partitions of its log that this node serves.

Kafka's coordinators share a runtime in the same way (coordinator-common). Subclasses of `Actors` define the actor and
the replay of a partition's records; subclasses of `Actor` define how the result of a step is applied.

An actor is one coordinated object, a group or a transactional id: the shell around its steps. An actor is not a task.
`tell` runs a step and applies its result before it returns: records go to the log, timers to the timer wheel, responses
to connections. Steps never await, so no other code runs in between, and applying a result never calls back into a step:
a response is only written into a connection's buffer.

Every actor has a durability gate: `epoch` is the flush epoch of the last record written for the actor. Until the log
has flushed that epoch, every response that depends on the actor waits, including responses to reads, since each may
show the content of that record. Responses of other actors do not wait.

A step decides from the actor's `state`. Only the actor refers to the state, so
a step may replace it by one of another kind.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Final, Generic, Protocol, TypeVar

from coordinatord.base.bounds.mapping import text_bytes
from coordinatord.broker.log.loader import ReplayedBatch
from coordinatord.coordination.runtime.log import Log, Producer
from coordinatord.coordination.runtime.partitions import Partitions
from coordinatord.coordination.runtime.runtime import Runtime
from coordinatord.coordination.runtime.versions import for_version, unavailable
from coordinatord.transport.net.request import RequestContext
from kafka_wire.errors import ErrorCode
from kafka_wire.records.batch import Records

MAX_ID_BYTES: Final = 64 * 1024 * 1024
"""Maximum bytes of all ids: five times the size of a hundred thousand ids of usual length. Clients choose the ids, of
up to 8,000 characters each.
"""

C = TypeVar("C", bound="Actors[Any]")


class State(Protocol):
    """The state of one coordinated object."""

    exists: bool
    """False if the object does not exist: the actor is removed after the step."""


class Actor(Generic[C]):
    """A state with its partition of the log. Subclasses apply the results of steps."""

    __slots__ = ("coordinator", "epoch", "partition", "state")

    def __init__(self, coordinator: C, state: State, partition: int, epoch: int) -> None:
        """`epoch` is the flush epoch of records of an earlier actor of the same id, which may not be durable yet."""
        self.coordinator = coordinator
        self.state = state
        self.partition = partition
        self.epoch = epoch

    @property
    def id(self) -> str:
        """The id under which the actor is registered."""
        raise NotImplementedError

    def apply(self, result: Any, now_ms: int) -> None:
        """Apply the result of a step. Records are appended first: the responses wait for them."""
        raise NotImplementedError

    def tell(self, event: Any) -> Any:
        """Run the step of an event and apply its result. Return the response; None if the request is parked or gets no
        response. A step that raises has changed nothing.
        """
        coordinator = self.coordinator
        now_ms = coordinator.now_ms()
        try:
            result = coordinator.step(self.state, event, now_ms)
            self.apply(result, now_ms)
        finally:
            if not self.state.exists:
                coordinator.forget(self)
        return result.reply

    def append(self, records: Records, now_ms: int, producer: Producer | None = None) -> None:
        """Append records to the log. From then on the actor's responses wait for these records."""
        self.epoch = self.coordinator.log.append(self.partition, records, now_ms, producer)

    def respond(self, context: RequestContext, response: Any) -> Any:
        """Return the response if it can be sent at once; None if it waits for the log and is sent later."""
        if response is None:
            return None
        response = for_version(response, context.api_version)
        gate = self.coordinator.gate
        if self.epoch > gate.flushed_epoch and not gate.has_flushed(self.epoch):
            context.answer_at(self.epoch, response, partial(unavailable, context.codec, context.keep()))
            return None
        return response

    def respond_together(self, context: RequestContext, response: Any) -> Any:
        """Like `respond`, for a request whose client usually sends no other request before the response. If the client
        has sent none, the request is parked, and all responses that wait for the same records are sent together.
        """
        if response is None:
            return None
        gate = self.coordinator.gate
        is_waiting = self.epoch > gate.flushed_epoch and not gate.has_flushed(self.epoch)
        if is_waiting and context.connection.waiting_count <= 1:
            self.coordinator.parked.answer_at(self.epoch, [(context, response)])
            return None
        return self.respond(context, response)

    def respond_with(self, context: RequestContext, response: bytes, failure: Callable[[], Any]) -> Any:
        """Like `respond`, for a caller that provides the response for a failed log; no part of the request is kept."""
        gate = self.coordinator.gate
        if self.epoch > gate.flushed_epoch and not gate.has_flushed(self.epoch):
            context.line.answer_at(context, self.epoch, response, failure)
            return None
        return response


A = TypeVar("A", bound=Actor[Any])


def later(one: A | None, other: A | None) -> A | None:
    """Return the actor whose records become durable later."""
    if one is None or other is None:
        return one or other
    return one if one.epoch >= other.epoch else other


def respond_after(latest: Actor[Any] | None, context: RequestContext, response: Any) -> Any:
    """Return or delay a response about several actors: it waits for the actor whose records become durable last."""
    return response if latest is None else latest.respond(context, response)


class Actors(Generic[A]):
    """Actors by id, and the partitions of their log."""

    def __init__(
        self,
        runtime: Runtime,
        log: Log,
        partitions: Partitions,
        limit: int,
        step: Callable[[Any, Any, int], Any],
    ) -> None:
        """At most `limit` actors exist, with ids of `MAX_ID_BYTES` in all. `step(state, event, now_ms)` handles an
        event; the `reply` in its result is the response to the event's own request.
        """
        self.step = step
        self.log = log
        self.gate = log.gate
        self.partitions = partitions
        self.limit = limit
        self.timers = runtime.timers
        self.parked = runtime.parked
        self.now_ms = runtime.now_ms
        self.metrics = runtime.metrics
        self.actors: dict[str, A] = {}
        #: total size of the actors' ids in bytes
        self.id_bytes = 0
        self.draining = False
        # Until this flush epoch is durable, a missing actor may have been deleted, and after a crash it may exist
        # again.
        self.forgotten_epoch = 0
        # Number of unreadable records, by kind.
        self.unread: Counter[str] = Counter()

    # Defined by subclasses

    def new_actor(self, id_: str, partition: int) -> A:
        """Create an actor. Its flush epoch is `forgotten_epoch`: an earlier actor of this id may have left records that
        are not durable yet.
        """
        raise NotImplementedError

    def is_allowed(self, id_: str) -> ErrorCode:
        """Return NONE, or the error if no actor may have this id."""
        return ErrorCode.NONE

    def reached_limit(self, setting: str) -> str:
        """Return the name of the reached limit for a log line: the setting, unless it is the bytes of the ids."""
        return setting if len(self.actors) >= self.limit else f"{MAX_ID_BYTES} bytes of ids"

    def log_limit(self) -> None:
        """Write a log line: the limit of actors is reached."""
        raise NotImplementedError

    def unloading(self) -> Any:
        """Return the event for an actor that is no longer served: its step responds to the parked requests."""
        raise NotImplementedError

    def replay(self, partition: int, batches: Iterable[ReplayedBatch]) -> Iterator[int]:
        """Create actors from a partition's records and serve them; see `load`."""
        raise NotImplementedError

    # Look-up

    def actor_for(self, id_: str) -> A | ErrorCode:
        """Return the actor of an id, created if there is none; or the error if this node cannot serve it now.

        An actor created for a request that does not create its object is removed after the step.
        """
        if self.draining:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        actor = self.actors.get(id_)
        if actor is not None:
            return actor
        error = self.availability_of(id_)
        if error is ErrorCode.NONE:
            error = self.is_allowed(id_)
        if error is not ErrorCode.NONE:
            return error
        if len(self.actors) >= self.limit or self.id_bytes > MAX_ID_BYTES:
            self.log_limit()
            return ErrorCode.POLICY_VIOLATION
        actor = self.new_actor(id_, self.partitions.of(id_))
        self.keep(actor)
        return actor

    def find(self, id_: str) -> A | ErrorCode | None:
        """Return the actor for a read-only request; None if there is none; or
        the error if this node does not serve it now.
        """
        if self.draining:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        actor = self.actors.get(id_)
        if actor is not None:
            return actor
        error = self.availability_of(id_)
        return self.absent(id_) if error is ErrorCode.NONE else error

    def absent(self, id_: str = "") -> A | None:
        """Return a placeholder for a missing actor, if the response saying so must wait for the log; else None."""
        if self.forgotten_epoch <= self.gate.flushed_epoch:
            return None
        return self.new_actor(id_, self.partitions.of(id_))

    def availability(self, partition: int) -> ErrorCode:
        """Return NONE if this node serves the partition's actors; else the error."""
        if self.draining:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        return self.partitions.availability(partition)

    def availability_of(self, id_: str) -> ErrorCode:
        """Return NONE if this node serves the partition of an id; else the error."""
        partitions = self.partitions
        return self.availability(partitions.of(id_)) if partitions.exist() else ErrorCode.NOT_COORDINATOR

    @property
    def is_loading(self) -> bool:
        """True while some partitions are not loaded yet."""
        return self.partitions.is_loading

    def keep(self, actor: A) -> None:
        """Register an actor: it is served from then on."""
        self.actors[actor.id] = actor
        self.id_bytes += text_bytes(actor.id)

    def forget(self, actor: A) -> None:
        """Remove an actor that was deleted, or whose object was never created."""
        self.forgotten_epoch = max(self.forgotten_epoch, actor.epoch)
        if self.actors.get(actor.id) is actor:
            del self.actors[actor.id]
            self.id_bytes -= text_bytes(actor.id)

    # Loading and unloading

    def load(self, partition: int, batches: Iterable[ReplayedBatch]) -> Iterator[int]:
        """Replay a partition's batches and serve its actors. Yields the number of records read since the last yield, so
        that the caller can let other work run in between.

        Unreadable records stay in the log and are skipped: they are counted, and logged once per kind.
        """
        try:
            yield from self.replay(partition, batches)
        except Exception:
            self.partitions.failed(partition)
            raise
        self.loaded(partition)

    def loaded(self, partition: int) -> None:
        """Mark the partition as loaded."""
        self.partitions.loaded(partition)

    def count_unread(self, kind: str) -> bool:
        """Count an unreadable record. Return True for the first of its kind, which the caller logs."""
        self.unread[kind] += 1
        return self.unread[kind] == 1

    def drain(self) -> None:
        """Respond to all parked requests and stop serving: clients then look up the coordinator again."""
        self.draining = True
        for actor in list(self.actors.values()):
            actor.tell(self.unloading())
