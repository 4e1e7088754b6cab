"""What happens to groups on a real Kafka, and a record of it: who did what, between which two moments.

Groups of both protocols with members that crash again and again, are deployed anew, leave and expire; groups without
members that are stuck, go back, fall behind and catch up; transactions; a topic that is made anew.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic
from kafka.structs import OffsetAndMetadata

from tests.clients.librdkafka import admin_client
from tests.reference.broker import KafkaBroker
from tests.support.waiting import wait_until

ROOT = Path(__file__).parents[4]
PATIENCE_S = 400
"""For each event: far more than a busy machine takes."""
CRASH_SESSION_MS, MODERN_SESSION_MS, LONG_SESSION_MS = 10_000, 15_000, 300_000
OVERRIDES = {
    "group.initial.rebalance.delay.ms": "0",
    "group.max.session.timeout.ms": str(2 * LONG_SESSION_MS),
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "1",
    "auto.create.topics.enable": "false",
    "group.consumer.min.session.timeout.ms": str(MODERN_SESSION_MS),
    "group.consumer.session.timeout.ms": str(MODERN_SESSION_MS),
    # librdkafka gives a heartbeat up after so long, and is fenced when its answer had a new epoch
    "group.consumer.min.heartbeat.interval.ms": "3000",
    "group.consumer.heartbeat.interval.ms": "3000",
}
TOPICS = {"orders": 4, "bills": 2, "payments": 5, "small": 1, "anew": 1, "moved": 4, "misc": 8}
STOPPED, STUCK, BACK, FALLING, CATCHING, BEHIND, DONE, BEYOND = range(8)
"""Partitions of `misc`, each of the group of that name."""
NEVER = 4
"""The partition of `payments` that nobody commits."""
FIRST_RECORDS = {
    "orders": [100] * 4, "bills": [50] * 2, "payments": [40] * 5, "small": [20], "moved": [30] * 4,
    "misc": [20, 30, 40, 100, 100, 60, 5, 6],
}  # fmt: skip
MORE_RECORDS = {"misc": [0, 10, 0, 100, 100, 0, 0, 0], "payments": [10]}

Place = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Span:
    """Something happened at a time between these two, in epoch ms: it says of a value whether it may be that time."""

    low_ms: int
    high_ms: int

    def __call__(self, value: Any) -> bool:
        return isinstance(value, int) and self.low_ms <= value <= self.high_ms

    def to(self, other: Span) -> Span:
        """From the beginning of this one to the end of the other."""
        return Span(self.low_ms, other.high_ms)


@contextmanager
def timed() -> Iterator[list[Span]]:
    """A list that has the span of the block behind it."""
    found: list[Span] = []
    low_ms = int(time.time() * 1000)
    yield found
    found.append(Span(low_ms, int(time.time() * 1000) + 1))


@dataclass(frozen=True, slots=True)
class Written:
    """A commit, or with the offset None that it was deleted. `end` is of the marker of a transaction; `outcome` is how
    that ended: COMMIT, ABORT or open.
    """

    group: str
    place: Place
    offset: int | None
    at: Span
    by: str | None = None
    end: Span | None = None
    outcome: str = "plain"

    @property
    def counts(self) -> bool:
        return self.outcome in ("plain", "COMMIT")

    @property
    def effective(self) -> Span:
        return self.at if self.end is None else self.at.to(self.end)


@dataclass(frozen=True, slots=True)
class Made:
    """A generation or an epoch: who had what in it, by member id, and why it was made."""

    number: int
    at: Span
    owned: dict[str, tuple[Place, ...]]
    why: str | None = None
    """None for the state before the first one."""
    who: str | None = None


@dataclass(slots=True)
class Life:
    member_id: str
    client_id: str
    session_ms: int
    end: str | None = None


class Member:
    """A member in a process of its own."""

    def __init__(self, broker: KafkaBroker, kind: str, group: str, client: str, topic: str, session_ms: int) -> None:
        self.client_id, self.session_ms = client, session_ms
        self.told: list[dict[str, Any]] = []
        self.answers = 0
        command = [sys.executable, "-m", "tests.monitoring.pipeline.spark.kafka_member", kind]
        self.process = subprocess.Popen(
            [*command, broker.bootstrap, group, client, topic, str(session_ms)],
            cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "protocol")])},
        )  # fmt: skip
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            said = json.loads(line)
            if "done" in said:
                self.answers += 1
            else:
                self.told.append(said)

    def __repr__(self) -> str:
        return f"{self.client_id}: {self.told} {self.process.poll()}"

    @property
    def member_id(self) -> str:
        return str(self.told[-1]["member_id"])

    @property
    def owned(self) -> tuple[Place, ...]:
        return tuple((topic, number) for topic, number in self.told[-1]["assigned"]) if self.told else ()

    def ask(self, what: Any) -> None:
        """Have it commit [topic, partition, offset]s, or with None leave; wait until that is done."""
        assert self.process.stdin is not None
        before = self.answers
        self.process.stdin.write(json.dumps(what) + "\n")
        self.process.stdin.flush()
        wait(lambda: self.answers > before or self.process.poll() is not None, lambda: f"{self.client_id} to answer")
        assert self.answers > before, f"{self.client_id} has ended"

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(60)


def wait(done: Callable[[], bool], what: Callable[[], str]) -> None:
    wait_until(done, seen=what)


@dataclass(slots=True)
class Group:
    """A group with members while its story is made, and what it has been."""

    name: str
    kind: str
    topic: str
    present: list[Member] = field(default_factory=list)
    made: list[Made] = field(default_factory=list)
    lives: list[Life] = field(default_factory=list)

    @property
    def places(self) -> set[Place]:
        return {(self.topic, number) for number in range(TOPICS[self.topic])}


class Story:
    """`written` is in the order of the log for each group and place; `groups` are those that have or had members."""

    def __init__(self, broker: KafkaBroker, confluent: Any) -> None:
        self.broker, self.confluent = broker, confluent
        self.written: list[Written] = []
        self.groups: dict[str, Group] = {}
        self.records: dict[Place, list[tuple[Span, int]]] = {}
        self.members: list[Member] = []
        self.since_ms = 0
        """When the window of ten minutes begins at which the story is looked at in the end."""
        self.kept: list[Any] = []
        """A producer whose transaction stays open, as long as it lives."""
        self.admin = admin_client(broker.bootstrap)

    # What is done to the cluster

    def produce(self, counts: dict[str, list[int]]) -> None:
        with KafkaProducer(bootstrap_servers=self.broker.bootstrap) as producer:
            for topic, each in counts.items():
                for number, count in enumerate(each):
                    with timed() as span:
                        sent = [producer.send(topic, b"x", partition=number) for _ in range(count)]
                        for record in sent:
                            record.get(PATIENCE_S)
                    self.records.setdefault((topic, number), []).append((span[0], count))

    def commit(self, group: str, place: Place, *offsets: int) -> None:
        """By a consumer that is no member."""
        consumer = KafkaConsumer(group_id=group, bootstrap_servers=self.broker.bootstrap, enable_auto_commit=False)
        for offset in offsets:
            with timed() as span:
                consumer.commit({TopicPartition(*place): OffsetAndMetadata(offset, "", -1)})
            self.written.append(Written(group, place, offset, span[0]))
        consumer.close()

    def end(self, place: Place, at_ms: int) -> int:
        """The end offset of a partition that nobody wrote to about that time."""
        return sum(count for span, count in self.records.get(place, ()) if span.high_ms <= at_ms)

    # Groups with members

    def join(self, group: Group, client: str, session_ms: int = LONG_SESSION_MS) -> Member:
        with self._step(group, "new member") as step:
            member = Member(self.broker, group.kind, group.name, client, group.topic, session_ms)
            self.members.append(member)
            group.present.append(member)
            wait(lambda: bool(member.told), lambda: f"{client} to join")
            step.append(member.member_id)
        group.lives.append(Life(member.member_id, client, session_ms))
        return member

    def crash(self, group: Group, member: Member) -> None:
        """The coordinator notices when the session is over."""
        with self._step(group, "session expired") as step:
            step.append(member.member_id)
            member.kill()
            group.present.remove(member)
        self._over(group, member, "expired")

    def leave(self, group: Group, member: Member) -> None:
        with self._step(group, "member left") as step:
            step.append(member.member_id)
            group.present.remove(member)
            member.ask(None)
        member.process.wait(60)
        self._over(group, member, "left")

    @staticmethod
    def _over(group: Group, member: Member, how: str) -> None:
        (life,) = (each for each in group.lives if each.member_id == member.told[-1]["member_id"])
        life.end = how

    def does(self, group: Group, member: Member, *offsets: int, but: tuple[int, ...] = ()) -> None:
        """The member commits these, one after the other, for each of its partitions `but` those."""
        places = [place for place in member.owned if place[1] not in but]
        for offset in offsets:
            with timed() as span:
                member.ask([[*place, offset] for place in places])
            self.written += [Written(group.name, place, offset, span[0], member.member_id) for place in places]

    @contextmanager
    def _step(self, group: Group, why: str) -> Iterator[list[str]]:
        """Something that makes one generation or epoch; the list gets the member that did it."""
        who: list[str] = []
        with timed() as span:
            yield who
            wait(lambda: self._is_settled(group), lambda: f"{group}: {why} {who}")
        number = group.made[-1].number if group.made else {"classic": 0, "consumer": 1}[group.kind]
        owned = {each.member_id: each.owned for each in group.present}
        group.made.append(Made(number + 1, span[0], owned, why, who[0]))

    def _is_settled(self, group: Group) -> bool:
        """Whether the members have all partitions, and they and the coordinator know of it."""
        owned = [place for each in group.present for place in each.owned]
        if group.present and sorted(owned) != sorted(group.places):
            return False
        states = self.confluent.ConsumerGroupState
        described = self.admin.describe_consumer_groups([group.name])[group.name].result(PATIENCE_S)
        wanted = states.STABLE if group.present else states.EMPTY
        told = {
            each.member_id: sorted((place.topic, place.partition) for place in each.assignment.topic_partitions)
            for each in described.members
        }
        return described.state == wanted and told == {each.member_id: sorted(each.owned) for each in group.present}

    # The story

    def begin(self) -> None:
        """What is over when the window begins, and the first commit of the group that will be stuck."""
        admin = KafkaAdminClient(bootstrap_servers=self.broker.bootstrap)
        admin.create_topics([NewTopic(topic, count, 1) for topic, count in TOPICS.items()])
        self.produce(FIRST_RECORDS)
        self.commit("stopped", ("misc", STOPPED), 5)
        self.commit("deleted", ("orders", 1), 5)
        with timed() as span:
            admin.delete_groups(["deleted"])
        self.written.append(Written("deleted", ("orders", 1), None, span[0]))
        self._make_anew(admin)
        self.commit("stuck", ("misc", STUCK), 2, 5)
        admin.close()
        self.since_ms = self.written[-1].at.high_ms + 500
        wait(lambda: time.time() * 1000 > self.since_ms + 100, lambda: "the window")

    def _make_anew(self, admin: Any) -> None:
        """A topic that a group has read, and reads again. Kafka deletes its offset with the topic, some time later."""
        place = "anew", 0
        with KafkaProducer(bootstrap_servers=self.broker.bootstrap) as producer:
            for _ in range(10):
                producer.send("anew", b"x").get(PATIENCE_S)
        self.commit("anew", place, 7)
        with timed() as span:
            admin.delete_topics(["anew"])
            wait(lambda: not self._committed("anew"), lambda: "the offset to be deleted")
        self.written.append(Written("anew", place, None, span[0]))
        wait(lambda: "anew" not in admin.list_topics(), lambda: "the topic to be deleted")
        admin.create_topics([NewTopic("anew", 1, 1)])
        self.produce({"anew": [6]})
        self.commit("anew", place, 2)

    def _committed(self, group: str) -> set[int]:
        """The offsets that the coordinator has of it."""
        asked = self.confluent.ConsumerGroupTopicPartitions(group)
        told = self.admin.list_consumer_group_offsets([asked])[group].result(PATIENCE_S)
        return {each.offset for each in told.topic_partitions if each.offset >= 0}

    def play(self) -> None:
        """All groups with members, at once; of transactions one that aborts and one that nobody ends."""
        with ThreadPoolExecutor(5) as pool:
            scripts = (self._crash_loop, self._deployment, self._modern, self._empty, self._transactions)
            for each in [pool.submit(script) for script in scripts]:
                each.result()

    def _group(self, name: str, kind: str, topic: str) -> Group:
        self.groups[name] = group = Group(name, kind, topic)
        return group

    def _crash_loop(self) -> None:
        group = self._group("crashing", "classic", "orders")
        steady = self.join(group, "steady")
        self.does(group, steady, 10, 10)
        for number in (1, 2, 3):
            doomed = self.join(group, "doomed", CRASH_SESSION_MS)
            self.does(group, steady, 10 * number + 5)
            self.does(group, doomed, *(10 * number + step for step in range(1, 7)))
            self.crash(group, doomed)
            self.does(group, steady, 10 * number + 10)

    def _deployment(self) -> None:
        group = self._group("deployed", "classic", "bills")
        old = [self.join(group, client) for client in ("a", "b")]
        for number, member in enumerate(old):
            for each in group.present:
                self.does(group, each, 10 + number, 20 + number)
            self.leave(group, member)
            self.join(group, member.client_id)
        for each in group.present:
            self.does(group, each, 50)

    def _modern(self) -> None:
        group = self._group("modern", "consumer", "payments")
        stays = self.join(group, "stays", MODERN_SESSION_MS)
        self.does(group, stays, 1, 2, but=(NEVER,))
        dies = self.join(group, "dies", MODERN_SESSION_MS)
        self.does(group, dies, 3, 4, 5, 6, 7, 8, but=(NEVER,))
        self.crash(group, dies)
        self.does(group, stays, 9, 10, but=(NEVER,))
        leaves = self.join(group, "leaves", MODERN_SESSION_MS)
        self.does(group, leaves, 11, 12, 13, but=(NEVER,))
        self.leave(group, leaves)

    def _empty(self) -> None:
        group = self._group("empty", "classic", "small")
        only = self.join(group, "only")
        self.does(group, only, 3, 4)
        self.leave(group, only)

    def _transactions(self) -> None:
        for group, offsets in (("moving", (10, 11, 12)), ("open", (7,))):
            settings = {"transactional.id": group, "transaction.timeout.ms": 900_000, "log_level": 0}
            producer = self.confluent.Producer({"bootstrap.servers": self.broker.bootstrap, **settings})
            producer.init_transactions(PATIENCE_S)
            consumer = self.confluent.Consumer({"bootstrap.servers": self.broker.bootstrap, "group.id": group})
            for offset in offsets:
                outcome = {11: "ABORT", 7: "open"}.get(offset, "COMMIT")
                places = [("moved", number) for number in range(2)]
                wanted = [self.confluent.TopicPartition(*place, offset) for place in places]
                producer.begin_transaction()
                with timed() as span:
                    producer.send_offsets_to_transaction(wanted, consumer.consumer_group_metadata(), PATIENCE_S)
                with timed() as end:
                    if outcome == "COMMIT":
                        producer.commit_transaction(PATIENCE_S)
                        # Its marker is written later.
                        wait(lambda: self._committed(group) == {offset}, lambda: f"{group} to be at {offset}")  # noqa: B023
                    elif outcome == "ABORT":
                        producer.abort_transaction(PATIENCE_S)
                over = None if outcome == "open" else end[0]
                self.written += [
                    Written(group, place, offset, span[0], None, over, outcome=outcome) for place in places
                ]
            consumer.close()
            self.kept.append(producer)

    def finish(self) -> None:
        """What groups without members do in the end."""
        self.commit("falling", ("misc", FALLING), 60)
        self.commit("catching", ("misc", CATCHING), 10)
        self.produce(MORE_RECORDS)
        self.commit("falling", ("misc", FALLING), 70)
        self.commit("catching", ("misc", CATCHING), 190)
        self.commit("back", ("misc", BACK), 3, 9, 4)
        self.commit("behind", ("misc", BEHIND), 50)
        self.commit("done", ("misc", DONE), 5)
        self.commit("beyond", ("misc", BEYOND), 50)
        self.commit("stuck", ("misc", STUCK), 5, 5)

    def close(self) -> None:
        for member in self.members:
            if member.process.poll() is None:
                member.kill()
