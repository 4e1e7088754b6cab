"""Histories of groups with the truth beside them: consumers as they are (they poll, commit, heartbeat, close, crash,
hang, are deployed) around the real group core and its ledger, on a virtual clock.

What comes out is what a pipeline gets: rows of the log with their timestamps, and the ledger's records.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from typing import Any

from coordinatord.monitoring.analysis.generations import Commits, Generation, generation_of
from coordinatord.monitoring.offsets_log.decode.rows import decode_key, decode_value
from coordinatord.testing.member.assignors import ASSIGNORS
from coordinatord.testing.member.subscription import (
    decode_assignment,
    decode_subscription,
    encode_assignments,
    encode_subscription,
)
from kafka_wire.api.leave_group import MemberIdentity
from kafka_wire.records.offsets import OffsetCommitKey
from tests.coordination.group.world import World, commit_topic
from tests.monitoring.pipeline.logs import START_MS, encoded

UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION, REBALANCE_IN_PROGRESS, MEMBER_ID_REQUIRED = 25, 22, 27, 79
LATENCY_MS = 3
HEARTBEAT_MS = 3_000


class History(World):
    """A group's world with a heap of things that are going to happen, and the rows that its log would give."""

    def __init__(self, seed: int, **settings: int) -> None:
        super().__init__(now_ms=START_MS, check=False, **settings)
        self.rng = random.Random(seed)
        self.topics = {"orders": 6, "payments": 4}
        self.heap: list[tuple[int, int, Callable[[], None]]] = []
        self.number = 0
        self.waiting: dict[Any, Callable[[Any], None]] = {}
        self.times: list[int] = []
        self.end_offsets: dict[tuple[str, int], int] = {}

    def new_id(self) -> str:
        return f"{super().new_id():>04}"

    def after(self, delay_ms: float, what: Callable[[], None]) -> None:
        self.number += 1
        heapq.heappush(self.heap, (self.now_ms + max(1, round(delay_ms)), self.number, what))

    def apply(self, event: Any, result: Any) -> None:
        super().apply(event, result)
        self.times += [self.now_ms] * (len(self.log) - len(self.times))

    def answer(self, reply_to: Any, response: Any) -> None:
        super().answer(reply_to, response)
        self._pass_on(reply_to)

    def when_answered(self, reply_to: Any, then: Callable[[Any], None]) -> None:
        if isinstance(reply_to, int):
            self.waiting[reply_to] = then
            self._pass_on(reply_to)
        else:
            self.after(LATENCY_MS, lambda: then(reply_to))

    def _pass_on(self, reply_to: Any) -> None:
        if reply_to in self.waiting and reply_to in self.answers:
            then, response = self.waiting.pop(reply_to), self.answers.pop(reply_to)
            self.after(LATENCY_MS, lambda: then(response))

    def run(self, seconds: float) -> None:
        end_ms = self.now_ms + round(seconds * 1000)
        while True:
            deadline_ms = self.wheel.next_deadline_ms()
            next_ms = min(self.heap[0][0] if self.heap else end_ms, end_ms if deadline_ms is None else deadline_ms)
            if next_ms >= end_ms:
                break
            self.advance(max(0, next_ms - self.now_ms))
            while self.heap and self.heap[0][0] <= self.now_ms:
                heapq.heappop(self.heap)[2]()
        self.advance(end_ms - self.now_ms)

    def generations(self) -> list[Generation | None]:
        """As the pipeline reads them."""
        return generations_of(self.log, self.times)

    def commits(self) -> Commits:
        times: dict[tuple[str, int], list[int]] = {}
        for (key, _value), at_ms in zip(self.log, self.times, strict=True):
            if isinstance(key, OffsetCommitKey):
                times.setdefault((key.topic, key.partition), []).append(at_ms)
        return Commits(times)

    def rows(self) -> dict[str, list[dict[str, Any]]]:
        """Rows of offset_commits and group_generations, in the order of the log."""
        return rows_of(self.log, self.times)


def generations_of(log: list[Any], times: list[int]) -> list[Generation | None]:
    """As the pipeline reads them."""
    return [generation_of(row) for row in rows_of(log, times, commits=False)["group_generations"]]


def rows_of(log: list[Any], times: list[int], *, commits: bool = True) -> dict[str, list[dict[str, Any]]]:
    """Rows of offset_commits and group_generations of a core's records, in the order of the log."""
    found: dict[str, list[dict[str, Any]]] = {"offset_commits": [], "group_generations": []}
    for offset, ((key, value), at_ms) in enumerate(zip(log, times, strict=True)):
        is_commit = isinstance(key, OffsetCommitKey)
        if is_commit and not commits:
            continue
        record_type, version = (1, 3) if is_commit else (2, 3)
        key_bytes, value_bytes = encoded(record_type, version, key, value)
        row = {"log_offset": offset, "timestamp_ms": at_ms, "tombstone": value_bytes is None}
        row |= {"record_bytes": len(key_bytes) + len(value_bytes or b"")}
        row |= decode_key(record_type, key_bytes)
        if value_bytes is not None:
            row |= decode_value(record_type, value_bytes)[0]
        found["offset_commits" if is_commit else "group_generations"].append(row)
    return found


class Consumer:
    """A consumer process. `commits_ms` is its auto commit interval; with `closes_clean` it commits when it closes."""

    def __init__(
        self,
        world: History,
        client_id: str,
        *,
        instance: str | None = None,
        protocol: str = "range",
        tells_generation: bool = True,
        session_ms: int = 45_000,
        rebalance_ms: int = 300_000,
        commits_ms: int = 5_000,
        closes_clean: bool = True,
        topics: tuple[str, ...] = ("orders", "payments"),
    ) -> None:
        self.world = world
        self.client_id, self.instance = client_id, instance
        self.protocol, self.tells_generation = protocol, tells_generation
        self.session_ms, self.rebalance_ms, self.commits_ms = session_ms, rebalance_ms, commits_ms
        self.closes_clean = closes_clean
        self.topics = topics
        self.assignor = ASSIGNORS[protocol]()
        self.member_id = ""
        self.generation = -1
        self.owned: list[tuple[str, int]] = []
        self.life = 0
        """Rises when it stops, so that what was going to happen to it does not."""
        self.is_in = False
        self.is_stopped = True
        self.busy_until_ms = 0
        self.syncs = True

    # What its owner does

    def start(self) -> None:
        self.life += 1
        self.member_id, self.generation, self.owned, self.is_in = "", -1, [], False
        self.is_stopped = False
        self.busy_until_ms = 0
        life = self.life
        self._join()
        self._later(HEARTBEAT_MS, self._heartbeat, life)
        self._later(self.commits_ms, self._commit_regularly, life)

    def stop(self) -> None:
        """Close: commit, leave; a static member does not leave."""
        if self.closes_clean and self.is_in:
            self._commit()
        if self.instance is None and self.member_id:
            self.world.leave(self.member_id)
        self.crash()

    def crash(self) -> None:
        self.life += 1
        self.is_in, self.is_stopped = False, True

    def hang(self, seconds: float) -> None:
        """A record takes long: heartbeats go on; when that is longer than max.poll.interval.ms, the client leaves."""
        self.busy_until_ms = self.world.now_ms + round(seconds * 1000)
        if seconds * 1000 > self.rebalance_ms:
            self._later(self.rebalance_ms, self._leave_and_come_back, self.life)

    def _leave_and_come_back(self, life: int) -> None:
        if self.member_id:
            self.world.leave(identities=(MemberIdentity(self.member_id, self.instance),))
        self.is_in = False
        self.member_id, self.generation, self.owned = "", -1, []
        self._later(max(1, self.busy_until_ms - self.world.now_ms), lambda _life: self._join(), life)

    def subscribe(self, *topics: str) -> None:
        self.topics = topics
        self._rejoin()

    def refresh(self) -> None:
        """The metadata tell of other partitions than before: the leader asks for another assignment."""
        if self.is_in and self.world.group.leader_id == self.member_id:
            self._rejoin()

    # What it does

    def _later(self, delay_ms: float, what: Callable[[int], None], life: int) -> None:
        self.world.after(delay_ms, lambda: what(life) if life == self.life else None)

    def _rejoin(self) -> None:
        """Before it joins an eager consumer gives everything back, and commits; a cooperative one keeps all."""
        if not self.assignor.cooperative:
            if self.is_in:
                self._commit()
            self.owned = []
        self.is_in = False
        self._join()

    def _join(self) -> None:
        life = self.life
        data = encode_subscription(
            self.topics,
            self.assignor.subscription_user_data(()),
            self.owned,
            self.generation if self.tells_generation else -1,
            None,
        )
        reply = self.world.join(
            self.member_id,
            client_id=self.client_id,
            group_instance_id=self.instance,
            session_timeout_ms=self.session_ms,
            rebalance_timeout_ms=self.rebalance_ms,
            protocols={self.protocol: data},
        )
        self.world.when_answered(reply, lambda response: self._joined(response) if life == self.life else None)

    def _joined(self, response: Any) -> None:
        if response.error_code == MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
            self._join()
            return
        if response.error_code:
            self._again(response.error_code)
            return
        self.member_id, self.generation = response.member_id, response.generation_id
        assignments = None
        if response.leader == response.member_id and not response.skip_assignment:
            topics = {name: [frozenset[str]()] * count for name, count in self.world.topics.items()}
            subscriptions = {each.member_id: decode_subscription(each.metadata) for each in response.members}
            assignments = encode_assignments(self.assignor.assign(topics, subscriptions))
        if self.syncs:
            life = self.life
            generation = response.generation_id
            self._later(self.world.rng.uniform(1, 60), lambda _life: self._sync(assignments, generation), life)

    def _sync(self, assignments: dict[str, bytes] | None, generation: int) -> None:
        life = self.life
        reply = self.world.sync(
            self.member_id,
            assignments,
            generation_id=generation,
            protocol_type="consumer",
            protocol_name=self.protocol,
            group_instance_id=self.instance,
        )
        self.world.when_answered(reply, lambda response: self._synced(response) if life == self.life else None)

    def _synced(self, response: Any) -> None:
        if response.error_code:
            self._again(response.error_code)
            return
        had, self.owned = set(self.owned), decode_assignment(response.assignment) if response.assignment else []
        self.assignor.on_assignment(self.owned, self.generation)
        self.is_in = True
        if self.assignor.cooperative and had - set(self.owned):
            self._commit(had - set(self.owned))
            self._rejoin()

    def _again(self, error_code: int) -> None:
        if error_code == UNKNOWN_MEMBER_ID:
            self.member_id, self.generation, self.owned = "", -1, []
        self.is_in = False
        self._later(100, lambda _life: self._join(), self.life)

    def _heartbeat(self, life: int) -> None:
        self._later(HEARTBEAT_MS, self._heartbeat, life)
        if not self.member_id or self.generation < 0:
            return
        error = self.world.heartbeat(self.member_id, self.generation, self.instance)
        if not self.is_in:
            return
        if error == REBALANCE_IN_PROGRESS:
            self.is_in = False
            busy_ms = max(0, self.busy_until_ms - self.world.now_ms)
            self._later(busy_ms + self.world.rng.uniform(0, 500), lambda _life: self._heard(), life)
        elif error:
            self._again(error)

    def _heard(self) -> None:
        self.is_in = True
        self._rejoin()

    def _commit_regularly(self, life: int) -> None:
        self._later(self.commits_ms, self._commit_regularly, life)
        if self.is_in and self.world.now_ms >= self.busy_until_ms:
            self._commit()

    def _commit(self, partitions: Any = None) -> None:
        world = self.world
        by_topic: dict[str, dict[int, int]] = {}
        for topic, partition in sorted(self.owned if partitions is None else partitions):
            offset = world.end_offsets.get((topic, partition), 0) + world.rng.randrange(100)
            world.end_offsets[topic, partition] = offset
            by_topic.setdefault(topic, {})[partition] = offset
        if by_topic:
            topics = [commit_topic(name, offsets) for name, offsets in by_topic.items()]
            fields = {"group_instance_id": self.instance, "topics": topics}
            world.commit(self.member_id, self.generation, **fields)


def history(seed: int, minutes: int = 40) -> History:
    """A group in which something happens every minute or so: which, and to whom, by the seed."""
    world = History(seed)
    rng = world.rng
    protocol, tells = rng.choice((("range", True), ("range", False), ("cooperative-sticky", True)))
    fields: dict[str, Any] = {
        "protocol": protocol,
        "tells_generation": tells,
        "session_ms": rng.choice((10_000, 30_000, 45_000)),
        "rebalance_ms": rng.choice((60_000, 300_000)),
        "commits_ms": rng.choice((1_000, 5_000, 5_000, 15_000)),
        "closes_clean": rng.random() < 0.8,
    }
    names, statics = rng.random() < 0.5, rng.random() < 0.2

    def new() -> Consumer:
        number = len(consumers)
        client_id = f"c{number}" if names else "app"
        return Consumer(world, client_id, instance=f"i{number}" if statics else None, **fields)

    consumers: list[Consumer] = []
    for _ in range(rng.randint(2, 6)):
        consumers.append(new())
    for consumer in consumers:
        world.after(rng.uniform(0, 2_000), consumer.start)
    world.run(60)
    for _ in range(minutes):
        _something(world, consumers, new)
        world.run(rng.uniform(20, 100))
    world.run(120)
    return world


def _something(world: History, consumers: list[Consumer], new: Callable[[], Consumer]) -> None:
    rng = world.rng
    running = [each for each in consumers if each.is_in]
    stopped = [each for each in consumers if each.is_stopped]
    what = rng.choices(
        ("start", "stop", "crash", "restart", "crash loop", "topics", "partitions", "hang", "no sync", "nothing"),
        (4, 4, 4, 3, 2, 2, 2, 1, 1, 3),
    )[0]
    one = rng.choice(running) if running else None
    if what == "start" or one is None:
        if stopped and rng.random() < 0.5:
            rng.choice(stopped).start()
        else:
            consumers.append(new())
            consumers[-1].start()
    elif what == "stop":
        one.stop()
    elif what == "crash":
        one.crash()
    elif what == "restart":
        one.stop()
        world.after(rng.uniform(500, 20_000), one.start)
    elif what == "crash loop":
        one.crash()
        world.after(rng.uniform(500, 8_000), one.start)
    elif what == "topics":
        one.subscribe(*(("orders",) if len(one.topics) > 1 else ("orders", "payments")))
    elif what == "partitions":
        world.topics["orders"] += 1
        for each in running:
            each.refresh()
    elif what == "hang":
        one.hang(rng.uniform(5, 90))
    elif what == "no sync":
        one.syncs = False
        rng.choice(running).subscribe("orders")
        world.run(one.rebalance_ms / 1000 + 10)
        one.syncs = True
