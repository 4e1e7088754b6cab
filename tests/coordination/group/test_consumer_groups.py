"""Groups of the consumer protocol, by random programs: see consumer_world.py for what holds after each step."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

import pytest

from coordinatord.base import budget
from coordinatord.coordination.group import events
from coordinatord.coordination.group.classic.step import HANDLERS
from coordinatord.coordination.group.consumer.assignors.spec import PartitionAssignorError, Slices
from coordinatord.coordination.group.consumer.expressions import Expression
from coordinatord.coordination.group.consumer.patterns import MATCH_WORK
from coordinatord.coordination.group.consumer.state import ConsumerState, MemberState
from coordinatord.coordination.group.consumer.step import HANDLERS as CONSUMER_HANDLERS
from kafka_wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafka_wire.errors import ErrorCode
from tests.coordination.group.consumer_world import Client, World, compacted, durable, replayed
from tests.support.rows import first_quick

TOPICS = ("a", "b", "c")


class Program:
    """A random history of a group, its clients and its topics."""

    def __init__(self, seed: int, interval_ms: int | None = None) -> None:
        self.chance = random.Random(seed)
        chosen = self.chance.choice([0, 1_000])
        self.world = World(interval_ms=chosen if interval_ms is None else interval_ms)
        self.clients: list[Client] = []
        self.away: list[Client] = []  # static members that have left for now
        self.made = 0
        self.world.topics.put("a", self.chance.randint(1, 8))

    def run(self, steps: int) -> None:
        what: list[Callable[[], object]] = [
            *[self.heartbeat] * 12, *[self.join] * 3, self.leave, self.die, self.static, self.topics, self.resubscribe,
            *[self.wait] * 3, self.restart, self.strange, self.limit,
        ]  # fmt: skip
        for _ in range(steps):
            self.chance.choice(what)()
            self.check()

    def check(self) -> None:
        """NoDoubleClientAssignment: no two clients that are members believe that they own a partition."""
        members = {} if self.world.group.consumer is None else self.world.consumer.members
        owned = [
            (topic_id, partition)
            for client in self.clients
            if client.member_id in members and client.epoch > 0
            for topic_id, partitions in client.owned.items()
            for partition in partitions
        ]
        assert len(owned) == len(set(owned)), "two clients own a partition"

    def converge(self) -> None:
        """EventuallyConverges: when everybody heartbeats, all is assigned and the group is stable."""
        for client in self.away:
            self.world.heartbeat(client.member_id, -1, instance_id=client.instance_id)
        self.away.clear()
        self.world.advance(120_000)  # whoever is not among the clients is out now, and they are, too
        for _ in range(40):
            for client in self.clients:
                client.send()
                self.check()
            self.world.advance(1_000)
        if not self.clients:
            return
        consumer = self.world.consumer
        assert consumer.state is ConsumerState.STABLE, consumer
        known = self.world.topics.by_name
        wanted = {
            (known[name].topic_id, partition)
            for client in self.clients
            for name in client.topics
            if name in known
            for partition in range(known[name].partitions)
        }
        owned = [(t, p) for client in self.clients for t, parts in client.owned.items() for p in parts]
        assert sorted(owned) == sorted(wanted)

    # What may happen

    def limit(self) -> None:
        """Somebody sets consumer.session.timeout.ms."""
        self.world.limits.session_ms = self.chance.choice((30_000, 45_000))
        self.world.limits.version += 1

    def heartbeat(self) -> None:
        if self.clients:
            lost, full = self.chance.random() < 0.1, self.chance.random() < 0.1
            self.chance.choice(self.clients).send(lost=lost, full=full)

    def join(self) -> None:
        if len(self.clients) >= 6:
            return
        self.made += 1
        instance_id = f"i{self.made}" if self.chance.random() < 0.3 else None
        client = Client(self.world, f"m{self.made}", self._topics(), instance_id)
        client.send(lost=self.chance.random() < 0.1)
        self.clients.append(client)

    def leave(self) -> None:
        if self.clients and self.chance.random() < 0.5:
            client = self._gone()
            self.world.heartbeat(client.member_id, -1, instance_id=client.instance_id)

    def die(self) -> None:
        if self.clients and self.chance.random() < 0.3:
            self._gone()

    def static(self) -> None:
        """A static member leaves for now, or comes back under another id."""
        if self.away and self.chance.random() < 0.7:
            old = self.away.pop()
            self.made += 1
            client = Client(self.world, f"m{self.made}", old.topics, old.instance_id)
            client.send()
            self.clients.append(client)
            return
        for client in self.clients:
            if client.instance_id is not None and client.epoch > 0:
                answer = self.world.heartbeat(client.member_id, -2, instance_id=client.instance_id)
                self.clients.remove(client)
                if not answer.error_code:
                    self.away.append(client)
                return

    def topics(self) -> None:
        topics, name = self.world.topics, self.chance.choice(TOPICS)
        known = topics.find(name)
        if known is None:
            topics.put(name, self.chance.randint(1, 8))
        elif self.chance.random() < 0.3:
            topics.delete(name)
        else:
            topics.put(name, known.partitions + 1)

    def resubscribe(self) -> None:
        if self.clients:
            client = self.chance.choice(self.clients)
            client.topics = self._topics()
            client.send(full=True)

    def wait(self) -> None:
        self.world.advance(self.chance.choice([10, 1_000, 5_000, 31_000]))

    def restart(self) -> None:
        self.world.restart(compacted(self.world.log, self.chance))

    def strange(self) -> None:
        """Somebody says what no client would."""
        members = ["nobody"] if self.world.group.consumer is None else [*self.world.consumer.members, "nobody"]
        member_id = self.chance.choice(members)
        answer = self.world.heartbeat(
            member_id,
            self.chance.randint(1, 30),
            instance_id=self.chance.choice([None, "i1", "i2"]),
            subscribed_topic_names=self.chance.choice([None, ["c"]]),
        )
        for client in self.clients:
            if client.member_id == member_id and not answer.error_code:
                client.topics = ("c",) if answer.member_epoch and "c" in self._subscribed(member_id) else client.topics
                client.owned, client.epoch = {}, 0  # it cannot know what was answered in its name
                client.send()

    # Within

    def _subscribed(self, member_id: str) -> frozenset[str]:
        return self.world.consumer.members[member_id].topics

    def _topics(self) -> tuple[str, ...]:
        return tuple(self.chance.sample(TOPICS, self.chance.randint(1, len(TOPICS))))

    def _gone(self) -> Client:
        client = self.chance.choice(self.clients)
        self.clients.remove(client)
        return client


@pytest.mark.parametrize("seed", first_quick(range(16), 4))
def test_random_programs(seed: int) -> None:
    program = Program(seed)
    program.run(150)
    program.converge()


@pytest.mark.parametrize("seed", first_quick(range(200, 212), 3))
def test_random_programs_while_assignments_are_under_way(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Members come, go, are replaced and lose their coordinator while a heartbeat waits for an assignment."""
    program = Program(seed, interval_ms=0)
    monkeypatch.setattr(budget, "SLICE_WORK", program.chance.choice([2, 5, 20]))
    quiet: list[Callable[[], object]] = [
        program.heartbeat, program.heartbeat, program.heartbeat, program.join, program.leave, program.static,
        program.topics, program.resubscribe, program.restart,
    ]  # fmt: skip
    program.world.meanwhile = lambda: program.chance.choice(quiet)() if program.chance.random() < 0.3 else None
    program.run(150)
    assert program.world.waited > 10
    program.world.meanwhile = lambda: None
    program.converge()


@pytest.fixture
def waiting(monkeypatch: pytest.MonkeyPatch) -> World:
    """A group of two static members; the heartbeat of the second one, "x", waits for an assignment."""
    monkeypatch.setattr(budget, "SLICE_WORK", 1)
    world = World(interval_ms=0)
    world.topics.put("a", 8)
    world.meanwhile = lambda: None
    world.join("one", "a", instance_id="i1")
    world.join("two", "a", instance_id="i2")
    world.heartbeat("one", -2, instance_id="i1")
    fields = {"rebalance_timeout_ms": 30_000, "subscribed_topic_names": ["a"], "topic_partitions": []}
    request = ConsumerGroupHeartbeatRequest("g", "three", 0, **fields)
    assert world.tell(events.ConsumerHeartbeat(request, "client", "/127.0.0.1", reply_to="x")) is None
    assert world.consumer.assigning is not None
    assert world.consumer.state is ConsumerState.ASSIGNING
    return world


def test_others_see_the_old_target_while_a_heartbeat_waits(waiting: World) -> None:
    before = waiting.consumer.target
    assert waiting.heartbeat("two", waiting.consumer.members["two"].epoch).error_code == 0
    assert waiting.consumer.target == before
    assert "x" not in waiting.answers
    waiting.advance(100)
    assert waiting.answers["x"].member_epoch == waiting.consumer.assignment_epoch == waiting.consumer.epoch
    assert len(waiting.consumer.target) == 3


def test_who_leaves_while_its_heartbeat_waits_is_told_so(waiting: World) -> None:
    waiting.heartbeat("three", -1)
    waiting.advance(100)
    assert waiting.answers["x"].error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert "three" not in waiting.consumer.target
    assert waiting.consumer.assignment_epoch == waiting.consumer.epoch - 1


def test_an_assignment_begins_again_when_a_static_member_has_another_id(waiting: World) -> None:
    begun = waiting.consumer.assigning
    waiting.join("another", "a", instance_id="i1")
    waiting.advance(1)
    assert waiting.consumer.assigning is not begun
    waiting.advance(100)
    assert waiting.consumer.target.keys() == {"another", "two", "three"}
    assert sum(len(each) for target in waiting.consumer.target.values() for each in target.values()) == 8


def test_who_waits_is_sent_elsewhere_when_the_group_is_no_longer_served(waiting: World) -> None:
    waiting.tell(events.Unload(ErrorCode.NOT_COORDINATOR))
    assert waiting.answers["x"].error_code == ErrorCode.NOT_COORDINATOR


def test_a_restart_forgets_an_assignment_that_is_under_way_and_nothing_else(waiting: World) -> None:
    epoch = waiting.consumer.epoch
    waiting.restart()
    assert waiting.consumer.assigning is None
    waiting.advance(100)
    assert (waiting.consumer.epoch, waiting.consumer.state) == (epoch, ConsumerState.ASSIGNING)
    waiting.heartbeat("two", waiting.consumer.members["two"].epoch)
    assert waiting.consumer.assignment_epoch == epoch


def test_an_assignor_that_fails_is_told_to_who_waits(waiting: World) -> None:
    def failing() -> Slices:
        yield
        raise PartitionAssignorError("no")

    assert waiting.consumer.assigning is not None
    waiting.consumer.assigning.slices = failing()
    waiting.advance(10)
    assert waiting.answers["x"].error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert waiting.consumer.assigning is None


@pytest.mark.parametrize("seed", range(100, 104))
def test_a_log_is_read_alike_wherever_it_is_cut_and_however_it_was_compacted(seed: int) -> None:
    program = Program(seed)
    program.run(100)
    world, chance = program.world, random.Random(seed)
    for cut in range(len(world.log) + 1):
        log = world.log[:cut]
        whole = durable(replayed(world.new_group(), log))
        for _ in range(3):
            assert durable(replayed(world.new_group(), compacted(log, chance))) == whole, f"cut at {cut}"


def test_every_kind_of_event_has_a_handler() -> None:
    assert CONSUMER_HANDLERS.keys() == HANDLERS.keys()


def test_what_a_member_gives_up_goes_to_another_only_then() -> None:
    world = World(interval_ms=0)
    world.topics.put("a", 4)
    one, two = Client(world, "one", ("a",)), Client(world, "two", ("a",))
    one.send()
    two.send()
    assert not two.owned
    assert world.consumer.members["two"].state is MemberState.UNRELEASED_PARTITIONS
    one.send()
    assert world.consumer.members["one"].state is MemberState.UNREVOKED_PARTITIONS
    two.send()
    assert not two.owned
    one.send()  # it says that it has given up two of them
    two.send()
    assert [sum(map(len, client.owned.values())) for client in (one, two)] == [2, 2]
    assert world.consumer.state is ConsumerState.STABLE


def test_a_member_that_gives_nothing_up_is_fenced() -> None:
    world = World(interval_ms=0)
    world.topics.put("a", 4)
    one, two = Client(world, "one", ("a",)), Client(world, "two", ("a",))
    one.send()
    two.send()
    for _ in range(7):
        world.advance(5_000)
        one.says_owned = False
        if not world.heartbeat("one", one.epoch).error_code:
            continue
        break
    assert "one" not in world.consumer.members
    two.send()
    assert sum(map(len, two.owned.values())) == 4


def test_a_burst_of_joins_costs_two_assignments() -> None:
    world = World()
    world.topics.put("a", 10)
    clients = [Client(world, f"m{number}", ("a",)) for number in range(20)]
    epochs = set()
    for client in clients:
        client.send()
        world.advance(20)
        epochs.add(world.consumer.assignment_epoch)
    world.advance(1_000)
    for _ in range(3):
        for client in clients:
            client.send()
            epochs.add(world.consumer.assignment_epoch)
    assert len(epochs) == 2
    assert world.consumer.state is ConsumerState.STABLE


def test_a_member_that_changes_its_instance_id_leaves_the_old_one_to_others() -> None:
    world = World(interval_ms=0)
    world.topics.put("a", 2)
    said = {"rebalance_timeout_ms": 1_000, "topic_partitions": [], "subscribed_topic_names": ["a"]}
    assert not world.heartbeat("one", 0, instance_id="i", **said).error_code
    assert not world.heartbeat("one", 0, instance_id="j", **said).error_code
    assert world.consumer.static_members == {"j": "one"}
    assert not world.heartbeat("one", -1, instance_id="j").error_code
    assert not world.heartbeat("two", 0, instance_id="i", **said).error_code
    assert world.consumer.static_members == {"i": "two"}


def test_expressions_are_resolved_in_a_step_of_their_own() -> None:
    world = World(interval_ms=0)
    world.topics.put("a", 2)
    world.topics.put("ab", 1)
    fields = {"rebalance_timeout_ms": 1_000, "topic_partitions": [], "subscribed_topic_regex": "a.*"}
    assert world.heartbeat("one", 0, **fields).assignment.topic_partitions == []
    world.advance(1)
    assert world.consumer.resolved["a.*"].topics == {"a", "ab"}
    answer = world.heartbeat("one", 1)
    assert len(answer.assignment.topic_partitions) == 2
    world.topics.put("abc", 1)
    world.heartbeat("one", answer.member_epoch)
    assert not world.consumer.is_resolving, "not more often than every ten seconds"
    world.advance(10_001)
    world.heartbeat("one", answer.member_epoch)
    world.advance(1)
    assert world.consumer.resolved["a.*"].topics == {"a", "ab", "abc"}
    assert world.heartbeat("two", 0, **{**fields, "subscribed_topic_regex": "("}).error_code == (
        ErrorCode.INVALID_REGULAR_EXPRESSION
    )
    world.restart()
    world.tell(events.Delete())
    world.heartbeat("one", -1)
    assert not world.consumer.resolved


def test_many_expressions_are_resolved_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others are served in between; and as in Kafka what was begun with counts, but for members who have left."""
    world = World(interval_ms=0)
    for number in range(400):
        world.topics.put(f"t-{number:03}", 1)
    matches, asked = Expression.matches, Counter[int]()

    def counted(self: Expression, topic: str) -> bool:
        asked[world.now_ms] += 1
        return matches(self, topic)

    monkeypatch.setattr(Expression, "matches", counted)
    fields = {"rebalance_timeout_ms": 1_000, "topic_partitions": []}
    for number in range(40):
        world.heartbeat(f"m{number}", 0, subscribed_topic_regex=f"t-{number:02}.", **fields)
    epoch = world.consumer.epoch
    for _ in range(3):
        world.advance(1)
    assert world.consumer.is_resolving
    assert not world.consumer.resolved
    world.heartbeat("m7", -1)
    world.heartbeat("late", 0, subscribed_topic_regex="t-9.*", **fields)
    assert not world.heartbeat("m8", world.consumer.members["m8"].epoch).error_code
    began_ms = world.now_ms
    while world.consumer.is_resolving:
        world.advance(1)
        assert world.now_ms < began_ms + 1_000
    assert max(asked.values()) <= budget.SLICE_WORK // MATCH_WORK
    assert asked.total() == 40 * 400
    assert len(asked) >= 8
    resolved = world.consumer.resolved
    assert resolved.keys() == {f"t-{number:02}." for number in range(40) if number != 7}
    assert resolved["t-11."].topics == {f"t-11{digit}" for digit in range(10)}
    assert {each.timestamp_ms for each in resolved.values()} == {min(asked)}
    assert world.consumer.epoch > epoch
    world.advance(10_001)
    world.heartbeat("late", world.consumer.members["late"].epoch)
    world.advance(100)
    assert len(resolved["t-9.*"].topics) == 0
    assert len(world.consumer.resolved) == 40


def test_a_group_that_goes_ends_what_it_was_resolving() -> None:
    world = World(interval_ms=0)
    for number in range(4_000):
        world.topics.put(f"t-{number:03}", 1)
    fields = {"rebalance_timeout_ms": 1_000, "topic_partitions": [], "subscribed_topic_regex": "t.*"}
    world.heartbeat("one", 0, **fields)
    world.advance(1)
    consumer = world.consumer
    assert consumer.resolving is not None
    world.tell(events.Unload())
    assert (consumer.is_resolving, consumer.resolving) == (False, None)
    assert world.wheel.next_deadline_ms() is None


def test_a_step_that_is_refused_changes_nothing() -> None:
    world = World(max_size=1)
    world.topics.put("a", 2)
    world.join("one", "a")
    before, version = durable(world.group), world.group.version
    for answer in (
        world.join("two", "a"),
        world.heartbeat("one", 9),
        world.heartbeat("one", 1, instance_id="i"),
        world.heartbeat("one", 2, subscribed_topic_regex="("),
        world.heartbeat("one", -2),
        world.heartbeat("two", -1),
        world.heartbeat("one", 2, server_assignor="none"),
    ):
        assert answer.error_code
    assert (durable(world.group), world.group.version) == (before, version)
