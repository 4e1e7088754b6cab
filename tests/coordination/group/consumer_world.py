"""A group of the consumer protocol, its timers, topics and a virtual clock; and clients of both protocols.

Whatever a step must keep to is asserted after each one: a partition belongs to one member at most, targets are legal,
counts agree with what they count, somebody wakes up for each deadline, and the log replayed gives the durable state.
"""

from __future__ import annotations

import copy
import random
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from coordinatord.base.clocks.timer_wheel import TimerWheel
from coordinatord.coordination.group import events
from coordinatord.coordination.group.classic.step import restore, step
from coordinatord.coordination.group.consumer.epoch_record import Account
from coordinatord.coordination.group.consumer.metadata_hash import topic_hash
from coordinatord.coordination.group.consumer.state import NEVER, ConsumerGroup, ConsumerState, GroupEnvironment
from coordinatord.coordination.group.consumer.topics import Topic
from coordinatord.coordination.group.replay import drop_logged_members, replay
from coordinatord.coordination.group.result import Cancel, Record, Result, TimerKey
from coordinatord.coordination.group.state import Group, GroupSettings
from kafka_wire.api.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from kafka_wire.errors import ErrorCode
from kafka_wire.records.keys import encode_key

GROUP_ID = "g"


class Topics:
    """Topics that tests make."""

    def __init__(self) -> None:
        self.version = 0
        self.created_version = 0
        self.by_name: dict[str, Topic] = {}
        self.made = 0

    def put(self, name: str, partitions: int) -> None:
        """Make a topic, or let it grow."""
        self.version += 1
        known = self.by_name.get(name)
        if known is None:
            self.created_version = self.version
            self.made += 1
        topic_id = known.topic_id if known is not None else self.made.to_bytes(16)
        hashed = topic_hash(topic_id, name, [()] * partitions)
        self.by_name[name] = Topic(topic_id, name, partitions, hashed)

    def delete(self, name: str) -> None:
        self.version += 1
        del self.by_name[name]

    def find(self, name: str) -> Topic | None:
        return self.by_name.get(name)

    def find_id(self, topic_id: bytes) -> Topic | None:
        return next((topic for topic in self.by_name.values() if topic.topic_id == topic_id), None)

    def names(self) -> Iterable[str]:
        return self.by_name

    def num_partitions(self, topic_id: bytes) -> int:
        topic = self.find_id(topic_id)
        return -1 if topic is None else topic.partitions

    def racks(self, topic_id: bytes, partition: int) -> frozenset[str]:
        return frozenset()


@dataclass
class Limits:
    """See coordinatord.coordination.group.consumer.state.Limits."""

    assignors: tuple[str, ...] = ("uniform", "range")
    max_size: int = 100
    upgrades: bool = True
    downgrades: bool = True
    expression_refresh_ms: int = 600_000
    strict_commits: bool = False
    version: int = 0
    interval_ms: int = 1_000
    session_ms: int = 45_000

    def session_timeout_ms(self, group_id: str) -> int:
        return self.session_ms

    def heartbeat_interval_ms(self, group_id: str) -> int:
        return 5_000

    def assignment_interval_ms(self, group_id: str) -> int:
        return self.interval_ms


def durable(group: Group) -> tuple[Any, ...]:
    """What the log must give again."""
    drop_logged_members(group)
    consumer = group.consumer
    if consumer is None:
        return group.exists, group.metadata, group.offsets
    return (
        group.exists,
        group.metadata,
        group.offsets,
        (consumer.epoch, consumer.metadata_hash, consumer.assignment_epoch, consumer.assignment_timestamp_ms),
        consumer.members,
        consumer.target,
        consumer.resolved,
        (consumer.static_members, consumer.owners, consumer.unreconciled, consumer.classic_members),
        (consumer.subscriptions, consumer.expressions, consumer.assignors, consumer.protocols),
    )


def replayed(group: Group, log: Iterable[Record]) -> Group:
    """A group from a log."""
    for key, value in log:
        replay(group, key, value)
    return group


def compacted(log: list[Record], chance: random.Random) -> list[Record]:
    """A log as the cleaner may leave it: up to a random point only the last record of each key is left, and up to
    another one before that no tombstone.
    """
    dirty = chance.randint(0, len(log))
    horizon = chance.randint(0, dirty)
    last = {encode_key(key): number for number, (key, _) in enumerate(log[:dirty])}
    return [
        (key, value)
        for number, (key, value) in enumerate(log)
        if number >= dirty or (last[encode_key(key)] == number and (value is not None or number >= horizon))
    ]


class World:
    """`tell` events, `advance` time; look at `group` and `log`."""

    def __init__(self, **limits: Any) -> None:
        self.topics = Topics()
        self.limits = Limits(**limits)
        self.now_ms = 1_000_000
        self.ids = 0
        self.log: list[Record] = []
        self.accounts: list[Account] = []  # of epochs that are over
        self.answers: dict[Any, Any] = {}
        self.due: list[TimerKey] = []  # taken from the wheel and not told yet
        self.wheel: TimerWheel[TimerKey] = TimerWheel(1, self.now_ms)
        self.group = self.new_group()
        # Heartbeats may wait for an assignment; this happens while one waits.
        self.meanwhile: Callable[[], object] | None = None
        self.asked = 0
        self.waited = 0

    def new_group(self) -> Group:
        settings = GroupSettings(initial_rebalance_delay_ms=0)
        return Group(GROUP_ID, settings, self.new_id, GroupEnvironment(self.topics, self.limits))

    def new_id(self) -> str:
        self.ids += 1
        return f"id-{self.ids}"

    @property
    def consumer(self) -> ConsumerGroup:
        assert self.group.consumer is not None
        return self.group.consumer

    def tell(self, event: Any) -> Any:
        """One step; returns the reply."""
        if isinstance(event, events.TimedOut):
            self.wheel.cancel(event.key)
        version = self.group.version
        expected = self._without_memory(event)
        result = step(self.group, event, self.now_ms)
        assert self.group.version > version or not result.records, "a record moves the version"
        self.apply(result)
        assert expected is None or expected == (result.reply, result.records)
        own = getattr(event, "reply_to", None)
        if own is not None and result.reply is not None:
            self.answers[own] = result.reply
        if not self.group.exists:
            self.group = self.new_group()
        else:
            self.check()
        if isinstance(event, events.ConsumerHeartbeat) and result.reply is not None:
            self._check_alive(result.reply)
        return result.reply

    def _check_alive(self, answer: Any) -> None:
        """Whoever gets an answer has the whole session timeout from now."""
        consumer = self.group.consumer
        if answer.error_code == ErrorCode.NONE and answer.member_epoch >= 0 and consumer is not None:
            session = consumer.sessions[answer.member_id]
            assert session.deadline_ms == self.now_ms + self.limits.session_ms

    def _without_memory(self, event: Any) -> Any:
        """What a heartbeat would be answered by a group that remembers nothing of earlier ones."""
        consumer = self.group.consumer
        if not isinstance(event, events.ConsumerHeartbeat) or consumer is None or consumer.assigning is not None:
            return None
        twin = replayed(self.new_group(), self.log)
        if twin.consumer is not None:
            twin.consumer.topics_version = consumer.topics_version
            twin.consumer.is_resolving = consumer.is_resolving
        result = step(twin, event, self.now_ms)
        return result.reply, result.records

    def apply(self, result: Result) -> None:
        self.log += copy.deepcopy(result.all_records(GROUP_ID))
        self.accounts += result.ended
        for timer in result.timers:
            if isinstance(timer, Cancel):
                self.wheel.cancel(timer.key)
            else:
                self.wheel.schedule(timer.key, timer.deadline_ms)
        self.answers.update(result.replies)

    def advance(self, by_ms: int) -> None:
        end_ms = self.now_ms + by_ms
        while (deadline_ms := self.wheel.next_deadline_ms()) is not None and deadline_ms <= end_ms:
            self.now_ms = max(self.now_ms, deadline_ms)
            self.due = self.wheel.advance(self.now_ms)
            while self.due:
                self.tell(events.TimedOut(self.due.pop(0)))
        self.now_ms = end_ms
        self.wheel.advance(end_ms)

    def restart(self, log: list[Record] | None = None) -> None:
        """Lose everything but the log, and load it."""
        before = durable(self.group)
        self.group = replayed(self.new_group(), self.log if log is None else log)
        if self.group.consumer is not None:
            assert durable(self.group) == before
        self.wheel = TimerWheel(1, self.now_ms)
        self.answers.clear()
        self.apply(restore(self.group, self.now_ms))
        self.check()

    def heartbeat(self, member_id: str, epoch: int, **fields: Any) -> Any:
        """Send a ConsumerGroupHeartbeat."""
        request = ConsumerGroupHeartbeatRequest(GROUP_ID, member_id, epoch, **fields)
        if self.meanwhile is None:
            return self.tell(events.ConsumerHeartbeat(request, "client", "/127.0.0.1"))
        self.asked += 1
        reply_to = f"heartbeat {self.asked}"
        answer = self.tell(events.ConsumerHeartbeat(request, "client", "/127.0.0.1", reply_to=reply_to))
        return self._waited(reply_to) if answer is None else answer

    def _waited(self, reply_to: str) -> Any:
        """The answer to a heartbeat that waits for an assignment."""
        self.waited += 1
        meanwhile, self.meanwhile = self.meanwhile, lambda: None
        while reply_to not in self.answers:
            if self.group.consumer is None or self.group.consumer.assigning is None:
                self.answers[reply_to] = ConsumerGroupHeartbeatResponse(error_code=ErrorCode.NOT_COORDINATOR)
                break  # the coordinator has been started again
            assert meanwhile is not None
            meanwhile()
            self.advance(1)
        self.meanwhile = meanwhile
        return self.answers[reply_to]

    def join(self, member_id: str, *topics: str, **fields: Any) -> Any:
        """Join with epoch 0."""
        fields = {"rebalance_timeout_ms": 30_000, "subscribed_topic_names": list(topics), **fields}
        return self.heartbeat(member_id, 0, topic_partitions=[], **fields)

    # What must always hold

    def check(self) -> None:
        again = replayed(self.new_group(), self.log)
        assert durable(again) == durable(self.group), "the log does not replay to the durable state"
        if self.group.consumer is None:
            return
        assert not self.group.members
        self._check_members(self.consumer)
        self._check_counts(self.consumer)
        self._check_timers(self.consumer)

    def _check_members(self, consumer: ConsumerGroup) -> None:
        owners: dict[tuple[bytes, int], str] = {}
        for member_id, member in consumer.members.items():
            for part in (member.assigned, member.revoking):
                for topic_id, epochs in part.items():
                    for partition, epoch in epochs.items():
                        assert owners.setdefault((topic_id, partition), member_id) == member_id, "two own a partition"
                        assert epoch <= consumer.epoch
            assert member.epoch <= consumer.epoch
            assert member.classic is not None or member.epoch <= consumer.assignment_epoch or member.epoch < 0
        told = {(t, p): owner for t, of_topic in consumer.owners.items() for p, owner in of_topic.items()}
        assert told == owners
        targets = [(t, p) for target in consumer.target.values() for t, parts in target.items() for p in parts]
        assert len(targets) == len(set(targets)), "a partition is in two targets"
        assert consumer.target.keys() <= consumer.members.keys()

    def _check_counts(self, consumer: ConsumerGroup) -> None:
        members = consumer.members.values()
        assert consumer.subscriptions == Counter(member.topics for member in members)
        assert consumer.expressions == Counter(member.expression for member in members if member.expression)
        assert consumer.classic_members == sum(member.classic is not None for member in members)
        behind = {each.member_id for each in members if not each.is_reconciled_to(consumer.assignment_epoch)}
        assert consumer.unreconciled == behind
        assert consumer.resolved.keys() <= consumer.expressions.keys()
        assert (consumer.state is ConsumerState.EMPTY) == (not members)
        account = consumer.account
        assert account is not None or consumer.state is not ConsumerState.ASSIGNING, "nobody accounts for the epoch"
        assert account is None or (account.epoch == consumer.epoch and consumer.state is not ConsumerState.STABLE)
        if members and consumer.are_all_classic_without(()):
            assert not self.limits.downgrades, "only classic members are left"

    def _check_timers(self, consumer: ConsumerGroup) -> None:
        assert consumer.sessions.keys() == consumer.members.keys()
        for member_id, session in consumer.sessions.items():
            assert self._is_set(TimerKey(GROUP_ID, "session", member_id))
            assert session.timer_ms <= session.deadline_ms
            for kind in ("revoke", "join", "sync"):
                if getattr(session, f"{kind}_deadline_ms") != NEVER:
                    assert self._is_set(TimerKey(GROUP_ID, kind, member_id))
        assert (consumer.assigning is not None) == self._is_set(TimerKey(GROUP_ID, "assignment"))
        assert consumer.is_resolving == self._is_set(TimerKey(GROUP_ID, "expressions"))

    def _is_set(self, key: TimerKey) -> bool:
        return key in self.wheel or key in self.due


@dataclass
class Client:
    """A consumer that does as KIP-848 says: it gives up what it is not assigned, then says so."""

    world: World
    member_id: str
    topics: tuple[str, ...]
    instance_id: str | None = None
    epoch: int = 0
    owned: dict[bytes, set[int]] = field(default_factory=dict)
    says_owned: bool = True
    waits: bool = False

    def send(self, *, lost: bool = False, full: bool = False) -> Any:
        """Heartbeat, unless one waits for its answer; the answer may get `lost`."""
        if self.waits:
            return None
        fields: dict[str, Any] = {}
        if self.epoch == 0 or full:
            fields = {"rebalance_timeout_ms": 30_000, "subscribed_topic_names": list(self.topics)}
        if self.epoch == 0 or full or self.says_owned:
            fields["topic_partitions"] = [TopicPartitions(each, sorted(owned)) for each, owned in self.owned.items()]
        self.waits = True
        answer = self.world.heartbeat(self.member_id, self.epoch, instance_id=self.instance_id, **fields)
        self.waits = False
        if not lost:
            self.hear(answer)
        return answer

    def hear(self, answer: Any) -> None:
        if answer.error_code:
            self.epoch, self.owned, self.says_owned = 0, {}, True
            return
        self.says_owned = False
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            assigned = {each.topic_id: set(each.partitions) for each in answer.assignment.topic_partitions}
            self.says_owned = assigned != self.owned
            self.owned = assigned
