"""One group and what its steps ask for, on the floor that all coordinators stand on (runtime/actor.py).

Every answer of a group waits until what the group wrote last is durable. The one exception is a heartbeat's: it shows
nothing of offsets, so it waits for `membership_epoch`, that of the last record about anything else, and a member that
commits all the time is not thought dead because the disk is busy.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from coordinatord.group.result import Cancel, Result
from coordinatord.group.state import Group
from coordinatord.net.request import RequestContext
from coordinatord.runtime.actor import Actor
from coordinatord.runtime.refusals import unavailable
from kafka_wire.records.batch import Bodies, KeyValues, Records
from kafka_wire.records.keys import encode_key, encode_offsets, encode_value

if TYPE_CHECKING:
    from coordinatord.coordinator.groups import Coordinator


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
