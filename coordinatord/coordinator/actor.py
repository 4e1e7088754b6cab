"""One group and what its steps ask for: the shell around `step`.

An actor is no task. `tell` runs a step and applies its result before it returns: records to the log, timers to the
wheel, answers to connections. Steps never await, so nothing can come between, and nothing that is applied calls back
into a step: answering only writes into a connection's buffer.

The durability gate is here: `epoch` is that of the last record that the group wrote, and until the log has flushed it
every answer of this group waits, reads included, since each may show what that record says. Answers of other groups do
not wait. The one exception is a heartbeat's: it shows nothing of offsets, so it waits for `membership_epoch`, that of
the last record about anything else, and a member that commits all the time is not thought dead because the disk is
busy.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from coordinatord.group.classic import step
from coordinatord.group.result import Cancel, Result
from coordinatord.group.state import Group
from coordinatord.net.request import RequestContext
from coordinatord.runtime.refusals import unavailable
from coordinatord.runtime.versions import for_version
from kafka_wire.records.batch import Bodies, KeyValues, Records
from kafka_wire.records.keys import encode_key, encode_offsets, encode_value

if TYPE_CHECKING:
    from coordinatord.coordinator.groups import Coordinator


class GroupActor:
    """A group with its partition of the offsets log."""

    __slots__ = ("coordinator", "epoch", "group", "membership_epoch", "partition")

    def __init__(self, coordinator: Coordinator, group: Group, partition: int) -> None:
        self.coordinator = coordinator
        self.group = group
        self.partition = partition
        self.epoch = 0
        self.membership_epoch = 0

    def tell(self, event: Any) -> Any:
        """Let the event happen; returns the response to it, None when it is parked or has none."""
        now_ms = self.coordinator.now_ms()
        result = step(self.group, event, now_ms)
        if result.offsets:
            self._log_offsets(result, now_ms)
        if result.records or result.replies or result.timers or result.transitions or result.dropped:
            self.apply(result, now_ms)
        elif result.changes:  # a member is here again, for whom others wait
            self.coordinator.observe(self, result, now_ms)
        if not self.group.exists:
            self.coordinator.forget(self)
        return result.reply

    @property
    def is_settled(self) -> bool:
        """What was logged of its members is durable: heartbeats have nothing to wait for."""
        return self.membership_epoch <= self.coordinator.gate.flushed_epoch

    def append_offsets(self, records: Records, now_ms: int) -> None:
        """Log offsets that have been committed, one a record."""
        coordinator = self.coordinator
        self.epoch = coordinator.log.append(self.partition, records, now_ms)
        coordinator.metrics.offset_commits += records.count

    def _log_offsets(self, result: Result, now_ms: int) -> None:
        """Log what a commit has set, all of it in one batch. Such a step has no other records."""
        assert not result.records
        group_id = self.group.group_id
        topics = result.offsets
        encoded = encode_offsets(group_id, *topics[0])
        for topic, values in topics[1:]:
            encoded += encode_offsets(group_id, topic, values)
        self.append_offsets(Bodies(encoded), now_ms)

    def apply(self, result: Result, now_ms: int) -> None:
        """Do what else a step has asked for. Records first: the answers wait for them."""
        coordinator = self.coordinator
        if result.records:
            encoded = [
                (encode_key(key), None if value is None else encode_value(value)) for key, value in result.records
            ]
            producer = result.producer
            if producer is not None:
                coordinator.note_pending(self, producer[0])
            self.epoch = coordinator.log.append(self.partition, KeyValues(encoded), now_ms, producer)
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

    def respond_to_heartbeat(self, context: RequestContext, response: Any) -> Any:
        """The same for a response that shows nothing of offsets: see the module's docstring."""
        if self.membership_epoch > self.coordinator.gate.flushed_epoch:
            context.answer_at(self.membership_epoch, response, partial(unavailable, context.codec, context.keep()))
            return None
        return response

    def respond_with(self, context: RequestContext, response: bytes, failure: Callable[[], Any]) -> Any:
        """`respond`, where what is said if the log fails is known already."""
        if self.epoch > self.coordinator.gate.flushed_epoch:
            context.answer_at(self.epoch, response, failure)
            return None
        return response
