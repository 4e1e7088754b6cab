"""Node of the coordinator: the real group and its timers in a minimal shell with the same rules as the real shell.

As in `coordinatord.coordination.service.groups`: records are written first, responses wait until the records are
flushed (the durability gate), timers go to the wheel, parked requests are found by their key, and the rebalance ledger
observes every step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from coordinatord.base.clocks.timer_wheel import TimerWheel
from coordinatord.base.clocks.timers import TICK_MS
from coordinatord.coordination.group import events
from coordinatord.coordination.group.classic.step import step
from coordinatord.coordination.group.consumer.metadata_hash import topic_hash
from coordinatord.coordination.group.consumer.state import GroupEnvironment
from coordinatord.coordination.group.consumer.topics import Topic
from coordinatord.coordination.group.result import Cancel, Result, TimerKey
from coordinatord.coordination.group.state import Group, GroupSettings
from coordinatord.coordination.service.ledger import Ledger
from coordinatord.testing.member.cluster import Cluster, TopicInfo
from coordinatord.testing.simulation.engine import START_MS, Engine
from kafka_wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafka_wire.api.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from kafka_wire.api.heartbeat import HeartbeatRequest
from kafka_wire.api.join_group import JoinGroupRequest
from kafka_wire.api.leave_group import LeaveGroupRequest
from kafka_wire.api.metadata import MetadataRequest
from kafka_wire.api.offset_commit import OffsetCommitRequest
from kafka_wire.api.sync_group import SyncGroupRequest

NODE_ID = 0
HOST, PORT = "localhost", 9092
GROUP_ID = "simulated"
TOPIC = "topic"

Answer = Callable[[int, Any], object]
"""Callback with the time at which the response leaves, and the response."""

JOIN, HEARTBEAT, LEAVE, SYNC, COMMIT, CONSUMER_HEARTBEAT = 9, 4, 5, 5, 9, 1
"""Request versions of the simulated members."""


@dataclass(slots=True)
class ConsumerSettings:
    """Settings of the coordinator for groups of the consumer protocol. Times are milliseconds."""

    session_ms: int
    heartbeat_ms: int
    assignment_ms: int
    assignors: tuple[str, ...] = ("uniform", "range")
    max_size: int = 2_147_483_647
    upgrades: bool = True
    downgrades: bool = True
    expression_refresh_ms: int = 600_000
    strict_commits: bool = False
    version: int = 0  # they do not change

    def session_timeout_ms(self, _group_id: str) -> int:
        """Return the session timeout; see coordinatord.coordination.group.consumer.state.Limits."""
        return self.session_ms

    def heartbeat_interval_ms(self, _group_id: str) -> int:
        """Return the heartbeat interval."""
        return self.heartbeat_ms

    def assignment_interval_ms(self, _group_id: str) -> int:
        """Return the assignment interval."""
        return self.assignment_ms


class OneTopic:
    """Topics of the group: one. See coordinatord.coordination.group.consumer.topics.Topics."""

    version = created_version = 1

    def __init__(self, topic_id: bytes, partitions: int) -> None:
        self._topic = Topic(topic_id, TOPIC, partitions, topic_hash(topic_id, TOPIC, [()] * partitions))

    def find(self, name: str) -> Topic | None:
        """Return a topic by name; None if there is none."""
        return self._topic if name == TOPIC else None

    def find_id(self, topic_id: bytes) -> Topic | None:
        """Return a topic by id; None if there is none."""
        return self._topic if topic_id == self._topic.topic_id else None

    def names(self) -> Iterable[str]:
        """Return all names."""
        return (TOPIC,)

    def num_partitions(self, topic_id: bytes) -> int:
        """Return the number of partitions; -1 if there is no such topic."""
        return self._topic.partitions if topic_id == self._topic.topic_id else -1

    def racks(self, _topic_id: bytes, _partition: int) -> frozenset[str]:
        """Return no racks."""
        return frozenset()


class Node:
    """Node of the coordinator; see the module's docstring. `on_step(result)` is called after each step that changed
    states or members.
    """

    def __init__(
        self,
        engine: Engine,
        settings: GroupSettings,
        partitions: int,
        flush_ms: int,
        on_record: Callable[[dict[str, Any]], object],
        on_step: Callable[[Result], object],
        consumer_settings: ConsumerSettings,
    ) -> None:
        self.engine = engine
        ids = engine.chance("member ids")
        info = TopicInfo(bytes(range(16)), (NODE_ID,) * partitions, (0,) * partitions, (frozenset(),) * partitions)
        surroundings = GroupEnvironment(OneTopic(info.topic_id, partitions), consumer_settings)
        self.group = Group(GROUP_ID, settings, lambda: f"{ids.getrandbits(128):032x}", surroundings)
        self.wheel: TimerWheel[TimerKey] = TimerWheel(TICK_MS, START_MS)
        self.ledger = Ledger(NODE_ID, lambda _group, make: make(), lambda rebalance: on_record(rebalance.head()))
        self.flush_ms = flush_ms
        self.on_step = on_step
        self.flushed_ms = 0  # time of the flush of the group's last record
        self.parked: dict[int, Answer] = {}
        self._asked = 0
        self._armed_ms = 1 << 62
        self.cluster = Cluster({NODE_ID: (HOST, PORT)}, {TOPIC: info}, {info.topic_id: TOPIC}, frozenset({TOPIC}))
        found = Coordinator(GROUP_ID, NODE_ID, HOST, PORT, 0)
        self._found = FindCoordinatorResponse(coordinators=[found])

    def serve(self, client_id: str, request: Any, answer: Answer) -> bool:
        """Handle a request. Return True if `answer` has been called, False if the request is parked and may never get a
        response.
        """
        kind = type(request)
        now_ms = self.engine.now_ms
        if kind is HeartbeatRequest:
            result = step(self.group, request, now_ms)
            if result.timers:
                self.apply(result)
            answer(max(now_ms, self.flushed_ms), result.reply)
            return True
        if kind is ConsumerGroupHeartbeatRequest:
            event = events.ConsumerHeartbeat.of(request, CONSUMER_HEARTBEAT, client_id, "/127.0.0.1")
            answer(max(now_ms, self.flushed_ms), self.tell(event).reply)
            return True
        if kind is FindCoordinatorRequest:
            answer(now_ms, self._found)
            return True
        if kind is MetadataRequest:
            answer(now_ms, self.cluster)
            return True
        self._asked += 1
        result = self.tell(self._event(kind, request, client_id))
        if result.reply is None:
            self.parked[self._asked] = answer
            return False
        answer(max(now_ms, self.flushed_ms), result.reply)
        return True

    @property
    def generation_id(self) -> int:
        """Generation of the group; with the consumer protocol its group epoch."""
        consumer = self.group.consumer
        return self.group.generation_id if consumer is None else consumer.epoch

    def _event(self, kind: type[Any], request: Any, client_id: str) -> Any:
        if kind is JoinGroupRequest:
            return events.Join.of(request, JOIN, self._asked, client_id, "/127.0.0.1")
        if kind is SyncGroupRequest:
            return events.Sync.of(request, SYNC, self._asked)
        if kind is LeaveGroupRequest:
            return events.Leave.of(request, LEAVE)
        assert kind is OffsetCommitRequest, f"the node does not serve {kind.__name__}"
        return events.Commit.of(request, COMMIT)

    def tell(self, event: Any) -> Result:
        """Run one step and apply its result."""
        result = step(self.group, event, self.engine.now_ms)
        self.apply(result)
        return result

    def apply(self, result: Result) -> None:
        """Apply a step's records, timers, responses, and ledger entries."""
        now_ms = self.engine.now_ms
        if result.records or result.offsets:
            self.flushed_ms = now_ms + self.flush_ms
        for timer in result.timers:
            if isinstance(timer, Cancel):
                self.wheel.cancel(timer.key)
            else:
                self.wheel.schedule(timer.key, timer.deadline_ms)
        for key, response in result.replies:
            self.parked.pop(key)(max(now_ms, self.flushed_ms), response)
        for key in result.dropped:
            self.parked.pop(key, None)
        if result.transitions or result.changes or result.ended:
            self.ledger.observe(self.group, result, now_ms)
            self.on_step(result)
        if result.timers:
            self._arm()

    def _arm(self) -> None:
        deadline_ms = self.wheel.next_deadline_ms()
        if deadline_ms is not None and deadline_ms < self._armed_ms:
            self._armed_ms = deadline_ms
            self.engine.at(deadline_ms, self._tick, deadline_ms)

    def _tick(self, armed_ms: int) -> None:
        if armed_ms != self._armed_ms:
            return  # rearmed for an earlier time
        self._armed_ms = 1 << 62
        for key in self.wheel.advance(self.engine.now_ms):
            self.tell(events.TimedOut(key))
        self._arm()
