"""What a coordinator is, whatever it coordinates: actors by id, in the partitions of its log that this node serves.

Kafka's coordinators stand on a common runtime in the same way (its coordinator-common). Subclasses of `Actors` say what
an actor is, and what a partition's records make; subclasses of `Actor` say what becomes of what a step has decided.

An actor is one thing that is coordinated, a group or a transactional id: the shell around its steps. It is no task.
`tell` runs a step and applies its result before it returns: records to the log, timers to the wheel, answers to
connections. Steps never await, so nothing can come between, and nothing that is applied calls back into a step:
answering only writes into a connection's buffer.

The durability gate is here: `epoch` is that of the last record that was written for the actor. Until the log has
flushed it every answer that shows something of the actor waits, reads included, since each may show what that record
says. Answers of other actors do not wait.

What a step decides from is the actor's `state`. Nobody else keeps it, so a step may put something of another kind in
its place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from coordinatord.log.loader import ReplayedBatch
from coordinatord.net.request import RequestContext
from coordinatord.runtime.log import Log, Producer
from coordinatord.runtime.partitions import Partitions
from coordinatord.runtime.refusals import unavailable
from coordinatord.runtime.runtime import Runtime
from coordinatord.runtime.versions import for_version
from kafka_wire.errors import ErrorCode
from kafka_wire.records.batch import Records

C = TypeVar("C", bound="Actors[Any]")


class State(Protocol):
    """What is coordinated."""

    exists: bool
    """Whether there is anything to be found; what does not exist after a step is forgotten."""


class Actor(Generic[C]):
    """A state with its partition of the log. Subclasses say what becomes of what a step has decided."""

    __slots__ = ("coordinator", "epoch", "partition", "state")

    def __init__(self, coordinator: C, state: State, partition: int, epoch: int) -> None:
        """`epoch`: what somebody of the same id may have written before, and is not known to be durable."""
        self.coordinator = coordinator
        self.state = state
        self.partition = partition
        self.epoch = epoch

    @property
    def id(self) -> str:
        """By which it is found."""
        raise NotImplementedError

    def apply(self, result: Any, now_ms: int) -> None:
        """Do what a step has asked for. Records first: the answers wait for them."""
        raise NotImplementedError

    def tell(self, event: Any) -> Any:
        """Let the event happen; returns the response to it, None when it is parked or has none. A step that raises has
        done nothing.
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
        """Log what has been decided. From now on answers wait for that."""
        self.epoch = self.coordinator.log.append(self.partition, records, now_ms, producer)

    def respond(self, context: RequestContext, response: Any) -> Any:
        """Pass on the response of a request that is being handled: at once, or None and later when it must wait."""
        if response is None:
            return None
        if type(response) is not bytes:
            response = for_version(response, context.api_version)
        if self.epoch > self.coordinator.gate.flushed_epoch:
            context.answer_at(self.epoch, response, partial(unavailable, context.codec, context.keep()))
            return None
        return response

    def respond_with(self, context: RequestContext, response: bytes, failure: Callable[[], Any]) -> Any:
        """`respond`, for a caller that knows what to say if the log fails, and keeps nothing of the request."""
        if self.epoch > self.coordinator.gate.flushed_epoch:
            context.line.answer_at(context, self.epoch, response, failure)
            return None
        return response


A = TypeVar("A", bound=Actor[Any])


def later(one: A | None, other: A | None) -> A | None:
    """The actor whose records become durable later."""
    if one is None or other is None:
        return one or other
    return one if one.epoch >= other.epoch else other


def respond_after(latest: Actor[Any] | None, context: RequestContext, response: Any) -> Any:
    """What is told of several actors waits for the log of the last of them."""
    return response if latest is None else latest.respond(context, response)


class Actors(Generic[A]):
    """Actors by id, and the partitions that they live in."""

    def __init__(
        self,
        runtime: Runtime,
        log: Log,
        partitions: Partitions,
        limit: int,
        step: Callable[[Any, Any, int], Any],
    ) -> None:
        """There are `limit` actors at most. `step(state, event, now_ms)` decides; the `reply` of its result answers the
        event's own request.
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
        self.draining = False
        # Until this epoch is durable somebody who is not here may have been deleted, and may be back after a crash.
        self.forgotten_epoch = 0
        # Records that could not be read, by kind.
        self.unread: Counter[str] = Counter()

    # What a subclass says

    def new_actor(self, id_: str, partition: int) -> A:
        """An actor that nobody knows yet. Another one of the id may have left records that are not durable: its epoch
        is `forgotten_epoch`.
        """
        raise NotImplementedError

    def is_allowed(self, id_: str) -> ErrorCode:
        """NONE, or why nobody may have this id."""
        return ErrorCode.NONE

    def tell_limit(self) -> None:
        """Log that there is no room for another actor."""
        raise NotImplementedError

    def unloading(self) -> Any:
        """The event of an actor that is served no more: it answers what is parked."""
        raise NotImplementedError

    def replay(self, partition: int, batches: Iterable[ReplayedBatch]) -> Iterator[int]:
        """Make actors of a partition's records and serve them; see `load`."""
        raise NotImplementedError

    # Look-up

    def actor_for(self, id_: str) -> A | ErrorCode:
        """The actor of an id, made when there is none; or why this node cannot serve it now.

        One that is made for a request, and by it does not come to exist, is forgotten after the step.
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
        if len(self.actors) >= self.limit:
            self.tell_limit()
            return ErrorCode.POLICY_VIOLATION
        actor = self.actors[id_] = self.new_actor(id_, self.partitions.of(id_))
        return actor

    def find(self, id_: str) -> A | ErrorCode | None:
        """The actor for a reader; None where there is none, or why this node cannot tell."""
        if self.draining:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        actor = self.actors.get(id_)
        if actor is not None:
            return actor
        error = self.availability_of(id_)
        return self.absent(id_) if error is ErrorCode.NONE else error

    def absent(self, id_: str = "") -> A | None:
        """Stands for somebody who is not here while one has to wait to be told so: until that is durable."""
        if self.forgotten_epoch <= self.gate.flushed_epoch:
            return None
        return self.new_actor(id_, self.partitions.of(id_))

    def availability(self, partition: int) -> ErrorCode:
        """NONE when what lives in the partition is served here."""
        if self.draining:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        return self.partitions.availability(partition)

    def availability_of(self, id_: str) -> ErrorCode:
        """The same for what has this id."""
        partitions = self.partitions
        return self.availability(partitions.of(id_)) if partitions else ErrorCode.NOT_COORDINATOR

    @property
    def is_loading(self) -> bool:
        """Not all that live here are known yet."""
        return self.partitions.is_loading

    def forget(self, actor: A) -> None:
        """Nobody has come to exist, or it has been deleted."""
        self.forgotten_epoch = max(self.forgotten_epoch, actor.epoch)
        if self.actors.get(actor.id) is actor:
            del self.actors[actor.id]

    # Loading and unloading

    def load(self, partition: int, batches: Iterable[ReplayedBatch]) -> Iterator[int]:
        """Replay a partition's batches and serve what lives in it; yields how many records have been read since the
        last time, for the caller to let others run in between.

        What cannot be read stays in the log and is stepped over: counted, and logged once a kind.
        """
        try:
            yield from self.replay(partition, batches)
        except Exception:
            self.partitions.failed(partition)
            raise
        self.loaded(partition)

    def loaded(self, partition: int) -> None:
        """All that live in the partition are here."""
        self.partitions.loaded(partition)

    def count_unread(self, kind: str) -> bool:
        """A record could not be read. True for the first of its kind: that is told of."""
        self.unread[kind] += 1
        return self.unread[kind] == 1

    def drain(self) -> None:
        """Answer whatever is parked and serve nobody any more: clients look for a coordinator again."""
        self.draining = True
        for actor in list(self.actors.values()):
            actor.tell(self.unloading())
