"""Members of the consumer protocol and the group's own core on one clock: stories, migrations, random histories."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from coordinatord.testing.member.consumer.state import JOINING, STABLE, STALE
from coordinatord.testing.member.events import Close, Commit, Subscribe
from coordinatord.testing.member.result import Revoked
from kafka_wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafka_wire.api.offset_commit import OffsetCommitRequest
from kafka_wire.errors import ErrorCode
from tests.testing.member.consumer_world import ConsumerWorld
from tests.testing.member.world import Consumer

SESSION_MS = 45_000
INTERVAL_MS = 5_000
TOPICS = {"t": 6}


def took(consumer: Consumer) -> list[str]:
    """What it was told of its partitions, without changes of nothing."""
    return [type(change).__name__ for change in consumer.changes if change.partitions]


def heartbeats(consumer: Consumer) -> list[ConsumerGroupHeartbeatRequest]:
    return [each for each in consumer.sent if isinstance(each, ConsumerGroupHeartbeatRequest)]


def test_one_has_all_then_two_share() -> None:
    world = ConsumerWorld(TOPICS)
    one = world.consumer("one")
    world.run_until_stable()
    assert len(one.owned) == 6
    two = world.consumer("two")
    world.run_until_stable()
    assert (len(one.owned), len(two.owned)) == (3, 3)
    assert took(one) == ["Assigned", "Revoked"]
    assert took(two) == ["Assigned"]
    assert world.doubles == []
    epochs = [each.member_epoch for each in heartbeats(one)]
    assert epochs == sorted(epochs)


def test_what_is_kept_is_read_without_a_pause() -> None:
    world = ConsumerWorld(TOPICS)
    one = world.consumer("one")
    world.run_until_stable()
    had = set(one.owned)
    world.consumer("two")
    world.consumer("three")
    world.run_until_stable()
    given_up = {each for change in one.changes if isinstance(change, Revoked) for each in change.partitions}
    assert had - given_up == one.owned


def test_the_next_owner_continues_where_the_last_one_has_committed() -> None:
    world = ConsumerWorld(TOPICS)
    for number in range(6):
        world.written["t", number] = 100
    one = world.consumer("one", auto_commit_interval_ms=10**8)
    world.run_until_stable()
    world.run(1_000)
    two = world.consumer("two", auto_commit_interval_ms=10**8)
    world.run_until_stable()
    world.run(1_000)
    assert sorted(one.records + two.records) == [(("t", n), offset) for n in range(6) for offset in range(100)]
    assert any(isinstance(each, OffsetCommitRequest) for each in one.sent), "before it gave up its partitions"


def test_one_leaves_and_its_partitions_are_taken_at_the_next_heartbeat() -> None:
    world = ConsumerWorld(TOPICS)
    one, two = world.consumer("one"), world.consumer("two")
    world.run_until_stable()
    two.tell(Close())
    began_ms = world.now_ms
    world.run(100)
    world.run_until_stable()
    assert len(one.owned) == 6
    assert world.now_ms - began_ms <= 2 * INTERVAL_MS
    assert heartbeats(two)[-1].member_epoch == -1


def test_a_dead_member_is_missed_when_its_session_ends() -> None:
    world = ConsumerWorld(TOPICS)
    one, two = world.consumer("one"), world.consumer("two")
    world.run_until_stable()
    two.kill()
    world.run(SESSION_MS - INTERVAL_MS)
    assert len(one.owned) == 3
    world.run(3 * INTERVAL_MS)
    assert len(one.owned) == 6


def test_a_static_member_comes_back_to_its_partitions() -> None:
    world = ConsumerWorld(TOPICS)
    one = world.consumer("one", group_instance_id="i1")
    two = world.consumer("two", group_instance_id="i2")
    world.run_until_stable()
    had, changes, epoch = two.owned, len(one.changes), world.group.consumer.epoch
    two.tell(Close())
    world.run(2 * INTERVAL_MS)
    assert heartbeats(two)[-1].member_epoch == -2
    again = world.consumer("two", group_instance_id="i2")
    world.run_until_stable()
    assert again.owned == had
    assert (len(one.changes), world.group.consumer.epoch) == (changes, epoch)


def test_a_second_member_with_the_same_instance_id_is_refused() -> None:
    world = ConsumerWorld(TOPICS)
    world.consumer("one", group_instance_id="i")
    world.run_until_stable()
    other = world.consumer("other", group_instance_id="i")
    world.run(2 * INTERVAL_MS)
    assert [each.error for each in other.polled if each.error] == [ErrorCode.UNRELEASED_INSTANCE_ID]
    assert len(heartbeats(other)) == 1


def test_a_member_that_is_cut_off_is_fenced_and_comes_back() -> None:
    world = ConsumerWorld(TOPICS)
    one, two = world.consumer("one"), world.consumer("two")
    world.run_until_stable()
    two.cut = True
    world.run(SESSION_MS + 3 * INTERVAL_MS)
    assert len(one.owned) == 6
    assert len(two.owned) == 3, "it does not know"
    two.cut = False
    world.run_until_stable()
    assert "Lost" in took(two)
    assert (len(one.owned), len(two.owned)) == (3, 3)


def test_an_application_that_works_for_too_long_leaves_and_comes_back() -> None:
    world = ConsumerWorld(TOPICS)
    one, two = world.consumer("one", max_poll_interval_ms=30_000), world.consumer("two", max_poll_interval_ms=30_000)
    world.run_until_stable()
    two.polls = False
    world.run(29_000)
    assert len(one.owned) == 3
    world.run(3 * INTERVAL_MS)
    assert two.member.membership is not None
    assert two.member.membership.state is STALE
    assert len(one.owned) == 6
    two.polls = True
    two.poll()
    world.run(100)
    world.run_until_stable()
    assert took(two)[-2:] == ["Lost", "Assigned"]


def test_who_does_not_give_up_in_time_is_fenced() -> None:
    """An application that works for the whole rebalance timeout cannot be told; the others wait for it no longer."""
    world = ConsumerWorld(TOPICS)
    one = world.consumer("one", max_poll_interval_ms=20_000)
    world.run_until_stable()
    one.polls = False
    world.run(1_000)
    two = world.consumer("two")
    world.run(17_000)
    assert len(two.owned) == 0
    world.run(SESSION_MS)
    assert len(two.owned) == 6
    assert world.doubles == []


def test_topics_grow_and_come() -> None:
    world = ConsumerWorld(TOPICS)
    one = world.consumer("one", ["t", "new"], metadata_max_age_ms=2_000)
    world.run(INTERVAL_MS)
    assert len(one.owned) == 6
    world.put("t", 8)
    world.run_until_stable()
    assert len(one.owned) == 8
    world.put("new", 3)
    world.run_until_stable()
    assert len(one.owned) == 11


def test_an_expression_finds_topics_that_the_member_never_heard_of() -> None:
    world = ConsumerWorld(TOPICS)
    one = world.consumer("one")
    one.tell(Subscribe((), ".*"))
    world.run_until_stable()
    assert len(one.owned) == 6
    world.put("later", 2)
    world.run(10 * INTERVAL_MS)
    world.run_until_stable()
    assert ("later", 1) in one.owned


def test_unsubscribed_members_may_come_back() -> None:
    world = ConsumerWorld(TOPICS)
    one = world.consumer("one")
    world.run_until_stable()
    one.polls = False
    world.run(2_000)
    one.tell(Subscribe(()))
    world.run(INTERVAL_MS)
    assert world.group.group.consumer is None or not world.group.consumer.members
    one.tell(Subscribe(["t"]))
    one.polls = True
    one.poll()
    world.run_until_stable()
    assert [each.new for each in one.transitions].count(JOINING.value) == 2


def test_the_server_assignor_is_the_members_choice() -> None:
    world = ConsumerWorld(TOPICS)
    one = world.consumer("one", group_remote_assignor="range")
    two = world.consumer("two", group_remote_assignor="range")
    world.run_until_stable()
    assert sorted(number for _, number in min(one.owned, two.owned)) == [0, 1, 2]


def test_a_group_migrates_one_by_one_and_back() -> None:
    """Classic members and members of the consumer protocol in one group: a rolling restart, there and back."""
    world = ConsumerWorld(TOPICS)
    strategy = ("cooperative-sticky",)
    old = [
        world.consumer(f"old{n}", group_protocol="classic", partition_assignment_strategy=strategy) for n in range(3)
    ]
    world.run_until_stable()
    new = []
    for each in old:
        each.tell(Close())
        world.run(2_000)
        new.append(world.consumer(f"new of {each.name}"))
        world.run_until_stable()
        assert world.group.group.consumer is not None
    assert world.doubles == []
    assert world.group.consumer.classic_members == 0
    for each in new:
        each.tell(Close())
        world.run(2_000)
        world.consumer(f"old of {each.name}", group_protocol="classic", partition_assignment_strategy=strategy)
        world.run_until_stable()
    assert world.group.group.consumer is None
    assert world.doubles == []


# Random histories


class Histories(RuleBasedStateMachine):
    """Whatever happens: no two members of the group hold a partition; when nothing happens any more, all converge."""

    @initialize(
        latency_ms=st.sampled_from([0, 1, 40]), auto_commit=st.booleans(), interval_ms=st.sampled_from([0, 1_000])
    )
    def begin(self, latency_ms: int, auto_commit: bool, interval_ms: int) -> None:
        self.world = ConsumerWorld({"t": 4, "u": 3}, latency_ms=latency_ms, interval_ms=interval_ms)
        self.auto_commit = auto_commit
        self.names = 0

    def alive(self) -> list[Consumer]:
        return [each for each in self.world.consumers if each.alive and not each.member.closed]

    def one(self, pick: int) -> Consumer:
        return self.alive()[pick % len(self.alive())]

    @rule(
        kind=st.sampled_from(["dynamic", "dynamic", "static", "pattern", "classic"]),
        topics=st.sampled_from([["t"], ["t", "u"]]),
        work_ms=st.sampled_from([1, 200, 2_000]),
    )
    def starts(self, kind: str, topics: list[str], work_ms: int) -> None:
        if len(self.alive()) >= 4:
            return
        self.names += 1
        more: dict[str, Any] = {"group_instance_id": f"i{self.names}"} if kind == "static" else {}
        if kind == "classic":
            more = {"group_protocol": "classic", "partition_assignment_strategy": ("cooperative-sticky",)}
        consumer = self.world.consumer(
            f"c{self.names}", topics, max_poll_interval_ms=30_000, enable_auto_commit=self.auto_commit, **more
        )
        consumer.work_ms = work_ms
        if kind == "pattern":
            consumer.tell(Subscribe((), ".*"))

    @rule(by_ms=st.sampled_from([1, 50, 500, 3_000, 5_000, 12_000, 60_000]))
    def time_passes(self, by_ms: int) -> None:
        self.world.run(by_ms)

    @rule(topic=st.sampled_from(["t", "u", "new"]))
    def a_topic_grows(self, topic: str) -> None:
        if self.world.topics.get(topic, 0) < 8:
            self.world.put(topic, self.world.topics.get(topic, 0) + 1)

    @precondition(lambda self: self.alive())
    @rule(pick=st.integers(0, 20), leave=st.sampled_from([None, True, False]))
    def closes(self, pick: int, leave: bool | None) -> None:
        consumer = self.one(pick)
        if consumer.member.sync_commit is None and consumer.member.closing is None:
            consumer.tell(Close(5_000, leave))

    @precondition(lambda self: self.alive())
    @rule(pick=st.integers(0, 20))
    def dies(self, pick: int) -> None:
        self.one(pick).kill()

    @precondition(lambda self: self.alive())
    @rule(pick=st.integers(0, 20), for_ms=st.sampled_from([5_000, 40_000]))
    def works_for_too_long(self, pick: int, for_ms: int) -> None:
        consumer = self.one(pick)
        if consumer.member.in_poll:
            return
        consumer.polls = False
        self.world.run(for_ms)
        consumer.polls = True
        consumer.poll()

    @precondition(lambda self: self.alive())
    @rule(pick=st.integers(0, 20), for_ms=st.sampled_from([100, 8_000, 60_000]))
    def is_cut_off(self, pick: int, for_ms: int) -> None:
        consumer = self.one(pick)
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
        self.world.coordinator_error = error
        self.world.run(for_ms)
        self.world.coordinator_error = ErrorCode.NONE

    @rule()
    def the_coordinator_restarts(self) -> None:
        if self.world.group.group.consumer is not None:
            self.world.group.restart()

    @precondition(lambda self: self.alive())
    @rule(pick=st.integers(0, 20), topics=st.sampled_from([["t"], ["u"], ["t", "u"]]))
    def subscribes(self, pick: int, topics: list[str]) -> None:
        self.one(pick).tell(Subscribe(topics))

    @precondition(lambda self: self.alive())
    @rule(pick=st.integers(0, 20))
    def commits(self, pick: int) -> None:
        self.one(pick).tell(Commit())

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        try:
            self.world.run_until_stable(limit_ms=900_000)
            assert self.world.doubles == []
            raised = {
                (each.member.membership is not None, polled.error)
                for each in self.world.consumers
                for polled in each.polled
                if polled.error
            }
            # As with Kafka: who was cut off while its group became a classic one is told that there is no such group,
            # and the leader of a group that just became one fails to assign until it has heard that a topic has grown.
            assert raised <= {(True, ErrorCode.GROUP_ID_NOT_FOUND), (False, ErrorCode.UNKNOWN_SERVER_ERROR)}
            for consumer in self.alive():
                states = [each for each in (consumer.member.membership,) if each is not None]
                assert all(each.state is STABLE for each in states)
        finally:
            self.world.queue.clear()


Histories.TestCase.settings = settings(
    max_examples=40, stateful_step_count=30, deadline=None, derandomize=True, database=None,
    suppress_health_check=list(HealthCheck), phases=(Phase.generate,),
)  # fmt: skip
TestHistories = Histories.TestCase
