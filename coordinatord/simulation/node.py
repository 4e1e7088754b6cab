"""The coordinator's node: the real group and its timers in a minimal shell that keeps the rules of the real shell.

As in `coordinatord.coordinator.groups`: records come first, responses wait until the records are flushed (the
durability gate), timers go to the wheel, parked requests are found by their key, and the rebalance ledger follows every
step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from coordinatord.clocks.timer_wheel import TimerWheel
from coordinatord.clocks.timers import TICK_MS
from coordinatord.group import events
from coordinatord.group.classic.step import step
from coordinatord.group.offsets.commit_answers import written_out
from coordinatord.group.result import Cancel, Result, TimerKey
from coordinatord.group.state import Group, GroupSettings
from coordinatord.member.cluster import Cluster, TopicInfo
from coordinatord.observe.ledger import Ledger
from coordinatord.simulation.engine import START_MS, Engine
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
"""Called with the time at which the response leaves, and the response."""

JOIN, HEARTBEAT, LEAVE, SYNC, COMMIT = 9, 4, 5, 5, 9
"""The request versions that members are assumed to use."""


class Node:
    """See the module. `on_step(result)` is called after each step that changed states or members."""

    def __init__(
        self,
        engine: Engine,
        settings: GroupSettings,
        partitions: int,
        flush_ms: int,
        on_record: Callable[[dict[str, Any]], object],
        on_step: Callable[[Result], object],
    ) -> None:
        self.engine = engine
        ids = engine.chance("member ids")
        self.group = Group(GROUP_ID, settings, lambda: f"{ids.getrandbits(128):032x}")
        self.wheel: TimerWheel[TimerKey] = TimerWheel(TICK_MS, START_MS)
        self.ledger = Ledger(NODE_ID, lambda _group, make: make(), lambda rebalance: on_record(rebalance.head()))
        self.flush_ms = flush_ms
        self.on_step = on_step
        self.flushed_ms = 0  # when the group's last record is flushed
        self.parked: dict[int, Answer] = {}
        self._asked = 0
        self._armed_ms = 1 << 62
        info = TopicInfo(bytes(range(16)), (NODE_ID,) * partitions, (0,) * partitions, (frozenset(),) * partitions)
        self.cluster = Cluster({NODE_ID: (HOST, PORT)}, {TOPIC: info}, {info.topic_id: TOPIC}, frozenset({TOPIC}))
        found = Coordinator(GROUP_ID, NODE_ID, HOST, PORT, 0)
        self._found = FindCoordinatorResponse(coordinators=[found])

    def serve(self, client_id: str, request: Any, answer: Answer) -> bool:
        """Handle a request. True: `answer` has been called; False: the request is parked and may never be answered."""
        kind = type(request)
        now_ms = self.engine.now_ms
        if kind is HeartbeatRequest:
            result = step(self.group, request, now_ms)
            if result.timers:
                self.apply(result)
            answer(max(now_ms, self.flushed_ms), result.reply)
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
        reply = written_out(request, result.reply) if kind is OffsetCommitRequest else result.reply
        answer(max(now_ms, self.flushed_ms), reply)
        return True

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
        if result.transitions or result.changes:
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
