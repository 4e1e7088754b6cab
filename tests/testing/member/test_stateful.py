"""Random histories of members and the real group on one clock. It is checked all the time that

no two members of a generation own the same partition (as eager and cooperative members see it: what is assigned to one
has been given up, or lost, by the other) · the group's own invariants · nobody who polls and heartbeats in time is
expelled, however long the history. And at the end, when the network works: everybody has the latest generation, every
partition has an owner, and every record was read or is read then.
"""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from coordinatord.coordination.group.states import Cause
from coordinatord.testing.member.events import Close, Commit, Rejoin, Subscribe
from coordinatord.testing.member.state import UNJOINED
from kafka_wire.errors import ErrorCode
from tests.testing.member.world import Consumer, World

SESSION_MS = 10_000
MAX_POLL_MS = 30_000
TOPICS = {"t": 4, "u": 3}
STRATEGIES = [("range",), ("cooperative-sticky",), ("sticky", "range"), ("roundrobin",)]
PICK = st.integers(0, 20)
TIMES_MS = st.sampled_from([1, 50, 500, 3_000, 5_000, 12_000, 31_000, 60_000])


class Histories(RuleBasedStateMachine):
    @initialize(
        strategy=st.sampled_from(STRATEGIES),
        delay_ms=st.sampled_from([0, 3_000]),
        latency_ms=st.sampled_from([0, 1, 40]),
        auto_commit=st.booleans(),
    )
    def begin(self, strategy: tuple[str, ...], delay_ms: int, latency_ms: int, auto_commit: bool) -> None:
        self.world = World(TOPICS, latency_ms=latency_ms, initial_rebalance_delay_ms=delay_ms, tick_ms=1)
        self.strategy = strategy
        self.auto_commit = auto_commit
        self.names = 0
        self.disturbed = False  # somebody may be expelled and not be to blame

    def alive(self) -> list[Consumer]:
        return [each for each in self.world.consumers if each.alive and not each.member.closed]

    def one(self, pick: int) -> Consumer:
        return self.alive()[pick % len(self.alive())]

    @rule(static=st.booleans(), topics=st.sampled_from([["t"], ["t", "u"]]), work_ms=st.sampled_from([1, 200, 2_000]))
    def starts(self, static: bool, topics: list[str], work_ms: int) -> None:
        if len(self.alive()) >= 4:
            return
        self.names += 1
        consumer = self.world.consumer(
            f"c{self.names}",
            topics,
            group_instance_id=f"i{self.names}" if static else None,
            partition_assignment_strategy=self.strategy,
            session_timeout_ms=SESSION_MS,
            max_poll_interval_ms=MAX_POLL_MS,
            enable_auto_commit=self.auto_commit,
            auto_offset_reset="earliest",
        )
        consumer.work_ms = work_ms

    @rule(by_ms=TIMES_MS)
    def time_passes(self, by_ms: int) -> None:
        self.world.run(by_ms)

    @rule(topic=st.sampled_from(list(TOPICS)), count=st.integers(1, 30))
    def written(self, topic: str, count: int) -> None:
        for number in range(TOPICS[topic]):
            self.world.written[topic, number] = self.world.written.get((topic, number), 0) + count

    @precondition(lambda self: self.alive())
    @rule(pick=PICK, leave=st.sampled_from([None, True]))
    def closes(self, pick: int, leave: bool | None) -> None:
        consumer = self.one(pick)
        if consumer.member.sync_commit is None and consumer.member.closing is None:
            consumer.tell(Close(5_000, leave))

    @precondition(lambda self: self.alive())
    @rule(pick=PICK)
    def dies(self, pick: int) -> None:
        self.one(pick).kill()

    @precondition(lambda self: self.alive())
    @rule(pick=PICK, for_ms=st.sampled_from([5_000, 40_000]))
    def works_for_too_long(self, pick: int, for_ms: int) -> None:
        consumer = self.one(pick)
        if consumer.member.in_poll:
            return
        self.disturbed = self.disturbed or for_ms > MAX_POLL_MS
        consumer.polls = False
        self.world.run(for_ms)
        consumer.polls = True
        consumer.poll()

    @precondition(lambda self: self.alive())
    @rule(pick=PICK, for_ms=st.sampled_from([100, 8_000, 30_000]))
    def is_cut_off(self, pick: int, for_ms: int) -> None:
        consumer = self.one(pick)
        self.disturbed = True
        consumer.cut = True
        self.world.run(for_ms)
        consumer.cut = False

    @rule(
        error=st.sampled_from(
            [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
        ),
        for_ms=st.sampled_from([500, 6_000]),
    )
    def the_coordinator_is_away(self, error: ErrorCode, for_ms: int) -> None:
        self.disturbed = True
        self.world.coordinator_error = error
        self.world.run(for_ms)
        self.world.coordinator_error = ErrorCode.NONE

    @precondition(lambda self: self.alive())
    @rule(pick=PICK, what=st.sampled_from(["rejoin", "subscribe", "commit", "commit sync"]))
    def calls(self, pick: int, what: str) -> None:
        consumer = self.one(pick)
        events: dict[str, Any] = {
            "rejoin": Rejoin(),
            "subscribe": Subscribe(["t"] if consumer.member.subscription == {"t", "u"} else ["t", "u"]),
            "commit": Commit(),
            "commit sync": Commit(timeout_ms=2_000),
        }
        member = consumer.member
        if not member.in_poll and member.sync_commit is None and member.closing is None:
            consumer.tell(events[what])

    def check(self) -> None:
        assert not self.world.overlaps, "a partition was given to a second owner"
        if not self.disturbed:
            expelled = {
                change.member_id
                for result in self.world.group.results
                for change in result.changes
                if getattr(change, "cause", None) in (Cause.SESSION_EXPIRED, Cause.NOT_REJOINED, Cause.NOT_SYNCED)
            }
            assert not {each.member.generation.member_id for each in self.alive()} & expelled

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        self.check()
        world = self.world
        for consumer in self.alive():
            consumer.polls = True
            consumer.poll()
        if self.alive():
            world.run_until_stable()
            self.check()
            world.run(40_000)  # requests that were cut off are given up after 30 s, static members that left after 10 s
            world.run_until_stable()
            self.check()
            owned = [each for consumer in self.alive() for each in consumer.owned]
            subscribed = {topic for consumer in self.alive() for topic in consumer.member.subscription}
            assert sorted(owned) == sorted((topic, n) for topic in subscribed for n in range(TOPICS[topic]))
            world.run(5_000)
            for partition in owned:
                [owner] = [each for each in self.alive() if partition in each.owned]
                assert owner.member.partitions[partition].position == world.written.get(partition, 0)
            read = {record for consumer in world.consumers for record in consumer.records}
            for partition in owned:
                assert {(partition, offset) for offset in range(world.written.get(partition, 0))} <= read
        for consumer in self.alive():
            if consumer.member.closing is None:
                consumer.tell(Close(1_000, leave=True))
        world.run(2_000)
        for consumer in world.consumers:
            if consumer.alive:
                assert consumer.closed_at_ms is not None
                assert consumer.member.state is UNJOINED
        world.run(SESSION_MS + MAX_POLL_MS + 10_000)
        assert not world.group.group.members


Histories.TestCase.settings = settings(
    max_examples=40,
    stateful_step_count=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestHistories = Histories.TestCase
