"""One group and what its steps ask for: the shell around `step`.

An actor is no task. `tell` runs a step and applies its result before it returns: records to the log, timers to the
wheel, answers to connections. Steps never await, so nothing can come between, and nothing that is applied calls back
into a step: answering only writes into a connection's buffer.

The durability gate is here: `epoch` is that of the last record that the group wrote, and until the log has flushed it
every answer of this group waits, reads included, since each may show what that record says. Answers of other groups do
not wait. The one exception is a heartbeat's: it shows nothing of offsets, so it waits for `membership_epoch`, that of
the last record about anything else, and a member that commits all the time is not thought dead because the disk is
busy. Members in good standing (group/standing.py) need not ask: they lose it when such a record is written, and get it
back with the first heartbeat that does not have to wait.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from coordinatord.group.classic import step
from coordinatord.group.joining import rejoin
from coordinatord.group.offsets import commit_again
from coordinatord.group.result import Cancel, Joined, Result
from coordinatord.group.state import Group, Member
from coordinatord.group.syncing import sync_again
from coordinatord.net.request import RequestContext
from coordinatord.runtime.refusals import unavailable
from coordinatord.runtime.versions import for_version
from kafka_wire.commit_shape import CommitShape
from kafka_wire.records.batch import Numbers
from kafka_wire.records.keys import encode_key, encode_offsets, encode_value

if TYPE_CHECKING:
    from coordinatord.coordinator.groups import Coordinator


class GroupActor:
    """A group with its partition of the offsets log."""

    __slots__ = ("coordinator", "epoch", "group", "last_fetch", "membership_epoch", "partition")

    def __init__(self, coordinator: Coordinator, group: Group, partition: int) -> None:
        self.coordinator = coordinator
        self.group = group
        self.partition = partition
        self.epoch = 0
        self.membership_epoch = 0
        #: the last fetch of offsets, while it is right: (offsets_version of the group, api version, request, answer)
        self.last_fetch: tuple[int, int, bytes, bytes] | None = None

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

    def commit_again(self, shape: CommitShape, numbers: Numbers) -> bool:
        """A commit like one before; False where it has to be told of as a `Commit`."""
        coordinator = self.coordinator
        now_ms = coordinator.now_ms()
        if not commit_again(self.group, shape, numbers, now_ms):
            return False
        self.epoch = coordinator.append_alike(self.partition, shape, numbers, now_ms)
        coordinator.metrics.offset_commits += len(numbers)
        return True

    def rejoin(
        self,
        member: Member,
        protocols: tuple[tuple[str, bytes], ...],
        session_timeout_ms: int,
        rebalance_timeout_ms: int,
        context: RequestContext,
        joined: Joined,
        now_ms: int,
    ) -> bool:
        """A JoinGroup like one before, of a member that waits for others; False where it has to be told of as a
        `Join`.
        """
        group = self.group
        if not rejoin(group, member, protocols, rebalance_timeout_ms, session_timeout_ms, context):
            return False
        ledger = self.coordinator.ledger
        if ledger is not None:
            ledger.rejoined(group.group_id, joined, now_ms)
        return True

    def sync_again(
        self, member: Member, generation_id: int, protocol: tuple[str | None, str | None], context: RequestContext
    ) -> Any:
        """A SyncGroup like one before: its response, None where it is parked, False where it has to be told of as a
        `Sync`.
        """
        response = sync_again(self.group, member, generation_id, protocol, context)
        if response is True:
            return None
        return False if response is False else self.respond(context, response)

    def _log_offsets(self, result: Result, now_ms: int) -> None:
        """Log what a commit has set, all of it in one batch. Such a step has no other records."""
        assert not result.records
        group_id = self.group.group_id
        topics = result.offsets
        encoded = encode_offsets(group_id, *topics[0])
        for topic, values in topics[1:]:
            encoded += encode_offsets(group_id, topic, values)
        coordinator = self.coordinator
        self.epoch = coordinator.append_offsets(self.partition, encoded, now_ms)
        coordinator.metrics.offset_commits += len(encoded)

    def apply(self, result: Result, now_ms: int) -> None:
        """Do what else a step has asked for. Records first: the answers wait for them."""
        coordinator = self.coordinator
        if result.records:
            encoded = [
                (encode_key(key), None if value is None else encode_value(value)) for key, value in result.records
            ]
            if result.producer is None:
                self.epoch = coordinator.append(self.partition, encoded, now_ms)
            else:
                self.epoch = coordinator.append_pending(self, encoded, *result.producer)
            self.membership_epoch = self.epoch
            self.group.lose_standing()
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

    def respond_at(self, context: RequestContext, response: bytes, failure: Callable[[], Any]) -> Any:
        """`respond`, where there is something to say if the log fails."""
        if self.epoch > self.coordinator.writer.flushed_epoch:
            context.answer_at(self.epoch, response, failure)
            return None
        return response

    def respond(self, context: RequestContext, response: Any) -> Any:
        """Pass on the response of a request that is being handled: at once, or None and later when it must wait."""
        if response is None:
            return None
        if type(response) is not bytes:
            response = for_version(response, context.api_version)
        if self.epoch > self.coordinator.writer.flushed_epoch:
            context.answer_at(self.epoch, response, partial(unavailable, context.codec, context.keep()))
            return None
        return response
