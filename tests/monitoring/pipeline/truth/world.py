"""A generated history of which everything is known: topics that grow, groups that read them in every way, and the log
that a coordinator would have written of them.

    world = World(seed); world.write(directory)

What happens is decided here, second by second, and kept as it was decided; model.py says from that what each column of
each table has to be. Nothing of the pipeline is used.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path

from kafka_wire.codecs import encode_message
from kafka_wire.records.batch import TRANSACTIONAL, BatchBuilder, build_batch, build_control_batch
from kafka_wire.records.consumer import ConsumerProtocolAssignment, TopicPartition
from kafka_wire.records.control import ControlType
from kafka_wire.records.offsets import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)
from tests.coordination.group.world import subscription
from tests.monitoring.offsets_log.source.test_end_offsets import write as write_topic
from tests.monitoring.pipeline.logs import START_MS, encoded

SECONDS = 2_700
LOG_PARTITIONS = 2
SESSION_MS, REBALANCE_MS = 10_000, 36_000_000
PARTITIONS = (("a", 0), ("a", 1), ("b", 0))
Place = tuple[str, int]


@dataclass(slots=True)
class Topic:
    """A partition. `batches` are (time, first offset, records); `indexed` those of them in its time index."""

    start: int
    batches: list[tuple[int, int, int]] = field(default_factory=list)
    indexed: list[tuple[int, int]] = field(default_factory=list)

    @property
    def end(self) -> int:
        return self.batches[-1][1] + self.batches[-1][2]

    def end_at(self, at_ms: int) -> int:
        return max((first + count for time_ms, first, count in self.batches if time_ms <= at_ms), default=0)

    def appended_ms(self, offset: int) -> int:
        return next(time_ms for time_ms, first, count in self.batches if first <= offset < first + count)


@dataclass(slots=True)
class Life:
    """A member, and how it ended: `left`, `expired`, `replaced`; None while it lives."""

    member_id: str
    client_id: str
    instance: str | None
    since_ms: int = 0
    until_ms: int | None = None
    end: str | None = None
    is_dead: bool = False
    """It does nothing more, and the coordinator has not noticed yet."""


@dataclass(frozen=True, slots=True)
class Made:
    """A generation, and why it was made."""

    number: int
    at_ms: int
    owned: dict[str, tuple[Place, ...]]
    why: str | None
    who: str | None


@dataclass(frozen=True, slots=True)
class Written:
    """A record of the log. `place` is None for a generation, `offset` None for a tombstone. A transaction's commit has
    a producer, and the time and kind of its marker, if one came.
    """

    log: int
    at_ms: int
    group: str
    place: Place | None
    offset: int | None
    by: str | None = None
    producer: int | None = None
    marker_ms: int | None = None
    is_committed: bool = True
    generation: Made | None = None
    size: list[int] = field(default_factory=list)
    """Bytes of key and value, once written."""


@dataclass(slots=True)
class Group:
    """A group's state while its story is made, and what it has been."""

    name: str
    log: int
    places: tuple[Place, ...]
    every_s: int
    has_members: bool
    position: dict[Place, int] = field(default_factory=dict)
    mode: str = "read"
    mode_until_s: int = 0
    busy_until_s: int = 0
    due: tuple[int, Life] | None = None
    """When the coordinator will notice that a member is dead."""
    members: list[Life] = field(default_factory=list)
    lives: list[Life] = field(default_factory=list)
    made: list[Made] = field(default_factory=list)
    producer: int = 0


class World:
    """One history. The present is `now_ms`."""

    def __init__(self, seed: int, groups: int = 10, seconds: int = SECONDS) -> None:
        self.rng = random.Random(seed)
        self.seconds = seconds
        self.now_ms = START_MS + seconds * 1000
        self.topics = {place: self._topic() for place in PARTITIONS}
        self.written: list[Written] = []
        self.groups = [self._group(number) for number in range(groups)]
        self.loop, self.deploy = self._scripted("looping"), self._scripted("deployed")
        for second in range(seconds):
            for group in self.groups:
                self._live(group, second)
            self._script(second)

    # Topics

    def _topic(self) -> Topic:
        rng = self.rng
        topic = Topic(start=0)
        offset, pause_until = 0, 0
        # Records are appended half-way between two seconds, in which groups act.
        for second in range(-60, self.seconds, 5):
            if second < pause_until and second > -60:
                continue
            count = rng.randint(1, 120)
            at_ms = START_MS + second * 1000 + 500
            topic.batches.append((at_ms, offset, count))
            offset += count
            if rng.random() < 0.4 or second == -60:
                topic.indexed.append((at_ms, offset - 1))
            if rng.random() < 0.02:
                pause_until = second + rng.choice((60, 300, 900))
        if topic.indexed[-1][1] != offset - 1:
            topic.indexed.append((topic.batches[-1][0], offset - 1))
        if rng.random() < 0.5:  # retention has removed the first segment
            topic.start = topic.batches[rng.randint(1, 20)][1]
        return topic

    # Groups

    def _group(self, number: int) -> Group:
        rng = self.rng
        has_members = rng.random() < 0.7
        places = tuple(sorted(rng.sample(PARTITIONS, rng.randint(1, 3))))
        every_s = rng.choice((2, 3, 5) if has_members else (5, 10, 60, 300))
        return Group(f"group-{number}", number % LOG_PARTITIONS, places, every_s, has_members)

    def _live(self, group: Group, second: int) -> None:
        rng = self.rng
        if second >= group.mode_until_s:
            modes = ("read", "read", "read", "stand", "silent", "back", "slow", "transactions", "forget")
            group.mode = rng.choice(modes)
            group.mode_until_s = second + rng.choice((30, 120, 400, 900))
            if group.mode == "forget":
                self._forget(group, second)
                group.mode = "silent"
        if group.due is not None and second >= group.due[0]:
            self._expired(group, group.due[1], second)
        if group.has_members and second >= group.busy_until_s:
            self._change_members(group, second)
        if second % group.every_s == 0 and group.mode != "silent":
            self._commit_all(group, second)

    def _commit_all(self, group: Group, second: int) -> None:
        owners = self._owners(group)
        for place in group.places:
            owner = owners.get(place)
            if group.has_members and (owner is None or owner.is_dead):
                continue
            self._commit(group, place, START_MS + second * 1000, None if owner is None else owner.member_id)
        if group.mode == "back":
            group.mode = "read"

    def _commit(self, group: Group, place: Place, at_ms: int, by: str | None) -> None:
        rng = self.rng
        end = self.topics[place].end_at(at_ms)
        before = group.position.get(place, min(end, rng.randint(0, 500)))
        step = {"stand": 0, "slow": rng.randint(0, 20), "back": -rng.randint(1, 900)}.get(
            group.mode, rng.randint(0, 400)
        )
        offset = max(0, min(end, before + step))
        producer = marker_ms = None
        is_committed = True
        if group.mode == "transactions":
            group.producer += 1
            producer = group.producer * 100 + int(group.name.rpartition("-")[2])
            marker_ms = at_ms + 300 if rng.random() < 0.9 else None
            is_committed = marker_ms is not None and rng.random() < 0.8
        if is_committed:
            group.position[place] = offset
        self.written.append(Written(group.log, at_ms, group.name, place, offset, by, producer, marker_ms, is_committed))

    def _forget(self, group: Group, second: int) -> None:
        place = self.rng.choice(group.places)
        if group.position.pop(place, None) is not None:
            self.written.append(Written(group.log, START_MS + second * 1000 + 700, group.name, place, None))

    # Members

    def _owners(self, group: Group) -> dict[Place, Life]:
        if not group.made:
            return {}
        by_id = {life.member_id: life for life in group.members}
        return {place: by_id[who] for who, owned in group.made[-1].owned.items() if who in by_id for place in owned}

    def _change_members(self, group: Group, second: int) -> None:
        rng = self.rng
        group.busy_until_s = second + rng.choice((20, 60, 200, 500))
        alive = [life for life in group.members if not life.is_dead]
        if not alive:
            self._join(group, second)
            return
        what = rng.choice(("join", "leave", "expire", "replace", "nothing"))
        if what == "join" and len(alive) < 4:
            self._join(group, second)
        elif what == "leave":
            self._leave(group, rng.choice(alive), second)
        elif what == "expire" and len(alive) > 1:
            self._expire(group, rng.choice(alive), second)
        elif what == "replace":
            statics = [life for life in alive if life.instance is not None]
            if statics and all(life.end != "replaced" for life in group.lives):  # more would be a deployment
                self._replace(group, statics[0], second)

    def _join(self, group: Group, second: int, client_id: str | None = None) -> Life:
        number = len(group.lives)
        instance = f"i{number}" if client_id is None and self.rng.random() < 0.3 else None
        life = Life(f"{group.name}-m{number:03d}", client_id or f"c{number}", instance)
        group.lives.append(life)
        group.members.append(life)
        self._generation(group, second, "new member", life.member_id)
        return life

    def _leave(self, group: Group, life: Life, second: int) -> None:
        """It commits, and leaves."""
        assert not life.is_dead
        for place in group.made[-1].owned[life.member_id]:
            before, group.mode = group.mode, "read"
            self._commit(group, place, START_MS + second * 1000 - 250, life.member_id)
            group.mode = before
        group.members.remove(life)
        self._generation(group, second, "member left", life.member_id)
        self._end(life, group, "left")

    def _expire(self, group: Group, life: Life, second: int) -> None:
        """It dies now; the coordinator notices when its session is over. The members' story waits for that."""
        life.is_dead = True
        group.busy_until_s = second + SESSION_MS // 1000 + 5
        group.due = second + SESSION_MS // 1000, life

    def _expired(self, group: Group, life: Life, second: int) -> None:
        group.due = None
        group.members.remove(life)
        self._generation(group, second, "session expired", life.member_id)
        self._end(life, group, "expired")

    def _replace(self, group: Group, life: Life, second: int) -> None:
        new = Life(f"{life.member_id}r", life.client_id, life.instance)
        group.lives.append(new)
        group.members[group.members.index(life)] = new
        self._generation(group, second, "static member restarted", life.member_id)
        self._end(life, group, "replaced")

    def _end(self, life: Life, group: Group, how: str) -> None:
        life.until_ms, life.end = group.made[-1].at_ms, how

    def _generation(self, group: Group, second: int, why: str, who: str) -> None:
        """Just before what members do in that second, and after what they did before."""
        at_ms = START_MS + second * 1000 - 100
        ids = [life.member_id for life in group.members]
        owned = {who: tuple(p for n, p in enumerate(group.places) if n % len(ids) == at) for at, who in enumerate(ids)}
        made = Made(len(group.made) + 1, at_ms, owned, why, who)
        group.made.append(made)
        for life in group.members:
            life.since_ms = life.since_ms or at_ms
        self.written.append(Written(group.log, at_ms, group.name, None, 0, generation=made))

    # Scripts

    def _scripted(self, name: str) -> Group:
        return Group(name, 0, PARTITIONS, 5, True)

    def _script(self, second: int) -> None:
        """A crash loop of a client, five times for thirty seconds; and a deployment of three members."""
        for group in (self.loop, self.deploy):
            if second in (0, 2, 4):
                self._join(group, second, f"{group.name}-c{second // 2}")
            if second >= 10 and second % group.every_s == 0:
                self._commit_all(group, second)
        if 1_000 <= second < 1_400 and second % 80 == 40:
            self._join(self.loop, second, "loops")
        if 1_000 <= second < 1_400 and second % 80 == 71:
            self._leave(self.loop, self.loop.members[-1], second)
        if 1_500 <= second < 1_590 and second % 30 == 1:
            self._leave(self.deploy, self.deploy.members[0], second)
        if 1_500 <= second < 1_590 and second % 30 == 11:
            self._join(self.deploy, second, f"{self.deploy.name}-c{(second - 1_500) // 30}")

    @property
    def all_groups(self) -> list[Group]:
        return [*self.groups, self.loop, self.deploy]

    # Files

    def write(self, directory: Path) -> None:
        """As a broker's log directory."""
        for (name, number), topic in self.topics.items():
            batches = [(first, count, time_ms) for time_ms, first, count in topic.batches if first >= topic.start]
            indexed = [each for each in topic.indexed if each[1] >= topic.start]
            write_topic(directory / f"{name}-{number}", topic.start, batches, indexed)
        for log in range(LOG_PARTITIONS):
            place = directory / f"__consumer_offsets-{log}"
            place.mkdir(parents=True)
            (place / f"{0:020d}.log").write_bytes(b"".join(self._batches(log)))

    def _batches(self, log: int) -> list[bytes]:
        records = [(each.at_ms, number, each) for number, each in enumerate(self.written) if each.log == log]
        ends = [(each.marker_ms, number, each) for _, number, each in records if each.marker_ms is not None]
        found: list[bytes] = []
        for at_ms, _, each, is_end in sorted(
            [(*one, False) for one in records] + [(*one, True) for one in ends],
            key=lambda one: (one[0], one[3], one[1]),
        ):
            if is_end:
                kind = ControlType.COMMIT if each.is_committed else ControlType.ABORT
                found.append(bytes(build_control_batch(kind, each.producer or 0, 0, 0, at_ms, len(found))))
                continue
            key, value = self._record(each)
            each.size[:] = [len(key) + len(value or b"")]
            if each.producer is None:
                found.append(bytes(build_batch([(key, value)], at_ms, len(found))))
                continue
            builder = BatchBuilder()
            builder.extend([(key, value)], at_ms)
            fields = {"attributes": TRANSACTIONAL, "producer_id": each.producer, "producer_epoch": 0}
            found.append(bytes(builder.finish(len(found), **fields)))
        return found

    def _record(self, each: Written) -> tuple[bytes, bytes | None]:
        if each.generation is None:
            assert each.place is not None
            value = None if each.offset is None else OffsetCommitValue(each.offset, 0, "", each.at_ms)
            return encoded(1, 4, OffsetCommitKey(each.group, *each.place), value)
        made = each.generation
        group = next(group for group in self.all_groups if group.name == each.group)
        lives = {life.member_id: life for life in group.lives}
        members = [self._member(lives[member_id], owned) for member_id, owned in made.owned.items()]
        leader = next(iter(made.owned), None)
        protocol = "range" if members else None
        state_ms = made.at_ms - 100 if members else made.at_ms
        body = GroupMetadataValue("consumer", made.number, protocol, leader, state_ms, members)
        return encoded(2, 4, GroupMetadataKey(each.group), body)

    @staticmethod
    def _member(life: Life, owned: tuple[Place, ...]) -> MemberMetadata:
        topics = [TopicPartition(topic, [n for t, n in owned if t == topic]) for topic in sorted({t for t, _ in owned})]
        assignment = b"\0\0" + encode_message(ConsumerProtocolAssignment(topics, None), 0)
        return MemberMetadata(
            life.member_id, life.instance, life.client_id, "/h", REBALANCE_MS, SESSION_MS,
            subscription(*sorted({topic for topic, _ in PARTITIONS})), assignment,
        )  # fmt: skip
