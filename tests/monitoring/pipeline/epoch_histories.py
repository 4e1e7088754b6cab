"""Histories of a consumer group (KIP-848) with the truth beside them: consumers as they are (they poll, commit, close,
crash, hang, restart under the same instance id, change what they read) around the real group core, while topics come,
grow and go, on a virtual clock.

What comes out is what a pipeline gets, rows of the log with their timestamps and times of commits, and the ledger's
records.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from coordinatord.broker.log.checkpoint import uuid_text
from coordinatord.coordination.group import events
from coordinatord.coordination.group.consumer.state import LEAVING, LEAVING_FOR_NOW
from coordinatord.coordination.group.result import Result
from coordinatord.coordination.service.epoch_ledger import EndedEpoch
from coordinatord.monitoring.analysis.consumer_group import Row
from coordinatord.monitoring.analysis.generations import Commits
from coordinatord.monitoring.offsets_log.decode.row_types import KIND_OF_TYPE
from coordinatord.monitoring.offsets_log.decode.rows import decode_key, decode_value
from kafka_wire.api.consumer_group_heartbeat import TopicPartitions
from kafka_wire.api.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafka_wire.api.leave_group import LeaveGroupRequest, MemberIdentity
from kafka_wire.api.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kafka_wire.records.keys import encode_key, encode_value
from kafka_wire.records.record_types import RECORD_TYPES
from tests.coordination.group.consumer_world import GROUP_ID, World
from tests.coordination.group.world import subscription
from tests.monitoring.pipeline.logs import START_MS

HEARTBEAT_MS, COMMIT_MS, SESSION_MS, TICK_MS = 5_000, 5_000, 45_000, 500
TOPICS = ("orders", "payments", "payments-eu", "prices")
REBALANCE_TIMEOUT_MS = 60_000
CONSUMER_TYPES = frozenset(range(3, 9)) | {16}


class Consumer:
    """A client of the consumer protocol with automatic commits. It commits when it gives partitions up and when it
    closes; `manual_ms` is another rhythm.
    """

    def __init__(self, story: EpochHistory, member_id: str, topics: list[str], expression: str | None) -> None:
        self.story, self.member_id, self.topics, self.expression = story, member_id, topics, expression
        self.instance_id: str | None = None
        self.epoch = 0
        self.owned: dict[bytes, set[int]] = {}
        self.says_all, self.says_owned = True, True
        self.is_stuck = False  # it polls no more, so that it gives nothing up; its heartbeats go on
        self.stuck_until_ms = 0
        self.beat_ms = self.commit_ms = story.now_ms

    def act(self) -> None:
        now_ms = self.story.now_ms
        if now_ms >= self.beat_ms:
            self.beat()
        if now_ms >= self.commit_ms and not self.is_stuck:
            self.story.commit(self.owned)
            self.commit_ms = now_ms + self.story.rng.choice([COMMIT_MS, COMMIT_MS, COMMIT_MS + 500])

    def beat(self) -> None:
        fields: dict[str, Any] = {}
        if self.epoch == 0 or self.says_all:
            fields |= {"rebalance_timeout_ms": REBALANCE_TIMEOUT_MS, "subscribed_topic_names": self.topics}
            fields["subscribed_topic_regex"] = self.expression or ""
        if self.epoch == 0 or self.says_all or self.says_owned:
            fields["topic_partitions"] = [TopicPartitions(each, sorted(owned)) for each, owned in self.owned.items()]
        answer = self.story.heartbeat(self.member_id, self.epoch, instance_id=self.instance_id, **fields)
        self.beat_ms = self.story.now_ms + HEARTBEAT_MS
        if answer.error_code:
            self.epoch, self.owned, self.says_all = 0, {}, True
            self.beat_ms = self.story.now_ms + TICK_MS
            return
        self.says_all = self.says_owned = False
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            self._take({each.topic_id: set(each.partitions) for each in answer.assignment.topic_partitions})

    def _take(self, assigned: dict[bytes, set[int]]) -> None:
        if assigned == self.owned:
            return
        if self.is_stuck and any(not owned <= assigned.get(each, set()) for each, owned in self.owned.items()):
            return
        self.story.commit(self.owned)
        self.owned, self.says_owned = assigned, True
        self.beat_ms = self.story.now_ms  # it says at once what it has given up and got

    def close(self, epoch: int = LEAVING) -> None:
        self.story.commit(self.owned)
        self.story.heartbeat(self.member_id, epoch, instance_id=self.instance_id)


class EpochHistory(World):
    """A group with its consumers; `run` it, then read `rows`, `commits` and `records`."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.records: list[dict[str, Any]] = []
        self.times: list[int] = []
        self.committed: dict[tuple[str, int], list[int]] = {}
        self.consumers: list[Consumer] = []
        self.away: list[tuple[int, Consumer]] = []  # static ones, and when they come back
        self.made = 0
        self.names: dict[str, str] = {}
        super().__init__(interval_ms=self.rng.choice([0, 1_000, 1_000]))
        self.now_ms = START_MS
        self.wheel = type(self.wheel)(1, START_MS)
        for name in TOPICS[:2]:
            self.make_topic(name, self.rng.randint(2, 8))
        if self.rng.random() < 0.4:
            self._begin_as_classic()

    # What a shell does

    def apply(self, result: Result) -> None:
        super().apply(result)
        self.times += [self.now_ms] * (len(self.log) - len(self.times))
        self.records += [EndedEpoch(GROUP_ID, 0, account).whole() for account in result.ended]

    def check(self) -> None:
        """The core has tests of its own."""

    def _without_memory(self, event: Any) -> None:
        """As above."""

    def make_topic(self, name: str, partitions: int) -> None:
        self.topics.put(name, partitions)
        self.names[uuid_text(self.topics.by_name[name].topic_id)] = name

    def commit(self, owned: dict[bytes, set[int]]) -> None:
        for topic_id, partitions in owned.items():
            name = self.names[uuid_text(topic_id)]
            for partition in partitions:
                self.committed.setdefault((name, partition), []).append(self.now_ms)

    # What may happen

    def run(self, seconds: int) -> None:
        """Live through it; something happens every half a minute or so."""
        what: list[Callable[[], object]] = [
            *[self.join] * 5, *[self.leave] * 3, *[self.crash] * 3, *[self.restart_static] * 2, self.static_for_good,
            *[self.resubscribe] * 2, *[self.topic] * 3, *[self.stick] * 2, self.change_expression, self.deploy,
        ]  # fmt: skip
        next_ms = self.now_ms
        for _ in range(seconds * 1000 // TICK_MS):
            if self.now_ms >= next_ms:
                self.rng.choice(what)()
                next_ms = self.now_ms + round(self.rng.expovariate(1 / 40_000)) + 1
            self._tick()
        self.tell(events.Unload())

    def _tick(self) -> None:
        self.advance(TICK_MS)
        for due_ms, old in list(self.away):
            if self.now_ms >= due_ms:
                self.away.remove((due_ms, old))
                self._come_back(old)
        for each in list(self.consumers):
            if each.is_stuck and self.now_ms >= each.stuck_until_ms:
                each.is_stuck = False
            each.act()

    def join(self) -> None:
        if len(self.consumers) >= 8:
            return
        self.made += 1
        expression = self.rng.choice(["payments.*", "p.*"]) if self.rng.random() < 0.25 else None
        topics = [] if expression else self._some_topics()
        consumer = Consumer(self, f"m{self.made}-{self.rng.getrandbits(32):08x}", topics, expression)
        if self.rng.random() < 0.35:
            consumer.instance_id = f"till-{self.made}"
        self.consumers.append(consumer)

    def leave(self) -> None:
        if self.consumers:
            self._gone().close()

    def crash(self) -> None:
        if self.consumers:
            self._gone()

    def deploy(self) -> None:
        """Each dynamic consumer is replaced by another one, a few seconds apart."""
        for old in [each for each in self.consumers if each.instance_id is None][:3]:
            self.consumers.remove(old)
            old.close()
            for _ in range(self.rng.randint(1, 8)):
                self._tick()
            self.made += 1
            self.consumers.append(Consumer(self, f"m{self.made}-new", old.topics, old.expression))

    def restart_static(self) -> None:
        """It comes back in time, now and then with another subscription."""
        old = self._static()
        if old is not None:
            old.close(LEAVING_FOR_NOW)
            if self.rng.random() < 0.4 and old.expression is None:
                old.topics = self._some_topics()
            self.away.append((self.now_ms + self.rng.randint(1_000, 30_000), old))

    def static_for_good(self) -> None:
        old = self._static()
        if old is not None:
            old.close(LEAVING_FOR_NOW)

    def resubscribe(self) -> None:
        named = [each for each in self.consumers if each.expression is None]
        if named:
            consumer = self.rng.choice(named)
            consumer.topics, consumer.says_all = self._some_topics(), True
            consumer.beat_ms = self.now_ms

    def change_expression(self) -> None:
        found = [each for each in self.consumers if each.expression is not None]
        if found:
            consumer = self.rng.choice(found)
            consumer.expression, consumer.says_all = self.rng.choice(["payments.*", "p.*", "orders|prices"]), True

    def topic(self) -> None:
        name = self.rng.choice(TOPICS)
        known = self.topics.find(name)
        if known is None:
            self.make_topic(name, self.rng.randint(1, 4))
        elif self.rng.random() < 0.25 and name in TOPICS[2:]:
            self.topics.delete(name)
        elif known.partitions < 12:
            self.make_topic(name, known.partitions + self.rng.randint(1, 2))

    def stick(self) -> None:
        """It stays within a poll for a while: long enough to be fenced, if it has to give something up meanwhile."""
        if self.consumers:
            consumer = self.rng.choice(self.consumers)
            consumer.is_stuck = True
            consumer.stuck_until_ms = self.now_ms + self.rng.choice([20_000, 100_000, 150_000])

    # Within

    def _gone(self) -> Consumer:
        consumer = self.rng.choice(self.consumers)
        self.consumers.remove(consumer)
        return consumer

    def _static(self) -> Consumer | None:
        found = [each for each in self.consumers if each.instance_id is not None and each.epoch > 0]
        if not found:
            return None
        consumer = self.rng.choice(found)
        self.consumers.remove(consumer)
        return consumer

    def _come_back(self, old: Consumer) -> None:
        self.made += 1
        consumer = Consumer(self, f"m{self.made}-again", old.topics, old.expression)
        consumer.instance_id = old.instance_id
        self.consumers.append(consumer)

    def _some_topics(self) -> list[str]:
        return self.rng.sample(TOPICS, self.rng.randint(1, 2))

    def _begin_as_classic(self) -> None:
        """A classic consumer, which is restarted with the new protocol or dies once another one has come."""
        protocols = [JoinGroupRequestProtocol("range", subscription("orders"))]
        request = JoinGroupRequest(GROUP_ID, 30_000, 60_000, "", None, "consumer", protocols, "")
        self.tell(events.Join(request, "join", "old", "/127.0.0.1", require_known_member_id=False))
        [member_id] = self.group.members
        assigned = [SyncGroupRequestAssignment(member_id, b"")]
        self.tell(events.Sync(SyncGroupRequest(GROUP_ID, 1, member_id, None, "consumer", "range", assigned), "sync"))
        self.advance(2_000)
        self.join()
        for _ in range(4):
            self._tick()
        if self.rng.random() < 0.5:
            self.tell(events.Leave(LeaveGroupRequest(), [MemberIdentity(member_id)]))

    # What a pipeline gets

    def rows(self) -> list[tuple[str, Row]]:
        """Rows of the consumer protocol's kinds, in the order of the log."""
        found = []
        for (key, value), at_ms in zip(self.log, self.times, strict=True):
            key_bytes = encode_key(key)
            record_type = int.from_bytes(key_bytes[:2], "big")
            assert record_type in RECORD_TYPES
            if record_type not in CONSUMER_TYPES:
                continue
            row: dict[str, Any] = {"timestamp_ms": at_ms, "tombstone": value is None}
            row |= decode_key(record_type, key_bytes)
            if value is not None:
                row |= decode_value(record_type, encode_value(value))[0]
            found.append((KIND_OF_TYPE[record_type], row))
        return found

    def commits(self) -> Commits:
        return Commits({place: sorted(times) for place, times in self.committed.items()})
