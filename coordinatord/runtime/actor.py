"""One thing that is coordinated, a group or a transactional id, and what its steps ask for: the shell around a step.

An actor is no task. `tell` runs a step and applies its result before it returns: records to the log, timers to the
wheel, answers to connections. Steps never await, so nothing can come between, and nothing that is applied calls back
into a step: answering only writes into a connection's buffer.

The durability gate is here: `epoch` is that of the last record that was written for the actor, and until the log has
flushed it every answer that shows something of it waits, reads included, since each may show what that record says.
Answers of other actors do not wait.

What a step decides from is the actor's `state`. Nobody else keeps it, so that a step may put something of another kind
in its place.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from coordinatord.net.request import RequestContext
from coordinatord.runtime.log import Producer
from coordinatord.runtime.refusals import unavailable
from coordinatord.runtime.versions import for_version
from kafka_wire.records.batch import Records

if TYPE_CHECKING:
    from coordinatord.runtime.actors import Actors

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
        """`respond`, where what is said if the log fails is known already."""
        if self.epoch > self.coordinator.gate.flushed_epoch:
            context.answer_at(self.epoch, response, failure)
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
