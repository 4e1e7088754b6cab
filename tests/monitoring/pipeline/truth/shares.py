"""Share groups in a generated history, and what the table share_partitions has to be of them: as world.py and model.py.

What a group does with each record is kept record by record; the log is written from that as share coordinators write
it, in updates with some snapshots between them.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from kafka_wire.records.batch import build_batch
from kafka_wire.records.cluster_metadata import ConfigRecord, encode_record
from kafka_wire.records.share_group import ShareGroupMemberMetadataKey, ShareGroupMemberMetadataValue
from kafka_wire.records.share_state import (
    SNAPSHOT_TYPE,
    UPDATE_TYPE,
    ShareSnapshotValue,
    ShareStateKey,
    ShareUpdateValue,
    StateBatch,
    encode_key,
    encode_value,
)
from tests.monitoring.pipeline.logs import START_MS, encoded
from tests.monitoring.pipeline.truth.model import ALARMING, WINDOW_MS, Model, Row, about, course, some_text
from tests.monitoring.pipeline.truth.world import PARTITIONS, SECONDS, Place, Topic, World

AVAILABLE, ACKNOWLEDGED, ARCHIVING, ARCHIVED = 0, 2, 3, 4
DONE = (ACKNOWLEDGED, ARCHIVED)
LIMITS = {"share-1": 3}
"""share.delivery.count.limit of groups; of others it is 5."""
STATE_PARTITIONS = 2
TOPIC_IDS = {topic: topic.encode() * 16 for topic, _ in PARTITIONS}
Looked = tuple[int, int, int | None, int | None, int]
"""Time, start offset, end offset, lag, members."""


@dataclass(slots=True)
class SharePartition:
    """A share partition while its story is made. `records` has state and delivery count by offset."""

    group: str
    place: Place
    counts: bool
    """Whether the cluster counts what is done."""
    start: int = -1
    records: dict[int, list[int]] = field(default_factory=dict)
    written: list[tuple[int, int, Any]] = field(default_factory=list)
    """Time, type and value of each record in the log."""
    course: list[tuple[int, int, int]] = field(default_factory=list)
    """Time, start offset and what is done, since it was reset last."""
    changed_ms: int = 0
    mode: str = "read"
    mode_until_s: int = 0
    is_gone: bool = False

    @property
    def done(self) -> int:
        return sum(state in DONE for state, _ in self.records.values()) if self.counts else -1


class ShareWorld:
    """The share groups that read the topics of a world."""

    def __init__(self, world: World, seed: int) -> None:
        self.world, self.rng = world, random.Random(seed + 1_000)
        self.members: dict[str, list[tuple[int, str, bool]]] = {}
        """By group: when which member came, or went."""
        self.partitions = [
            SharePartition(f"share-{number}", place, counts=number != 2)
            for number in range(6)
            for place in PARTITIONS[: 1 + number % 3]
        ]
        for number in range(6):
            self._members(f"share-{number}")
        for each in self.partitions:
            self._write(each, START_MS - 1_000, [], is_snapshot=True)
        for second in range(0, SECONDS, 15):
            for at, each in enumerate(self.partitions):
                self._live(each, second, is_idle=at == 3)
        self.partitions[-1].written.append((world.now_ms - 1_000, SNAPSHOT_TYPE, None))
        self.partitions[-1].is_gone = True

    def _members(self, group: str) -> None:
        events, there = [], set()
        for second in sorted(self.rng.sample(range(SECONDS), self.rng.randint(2, 7))):
            member = self.rng.choice("abc")
            events.append((START_MS + second * 1_000 + 250, member, member not in there))
            there ^= {member}
        self.members[group] = events

    def members_at(self, group: str, at_ms: int) -> int:
        there = {member: comes for ms, member, comes in self.members[group] if ms <= at_ms}
        return sum(there.values())

    def _live(self, each: SharePartition, second: int, *, is_idle: bool) -> None:
        rng, topic, at_ms = self.rng, self.world.topics[each.place], START_MS + second * 1_000
        if second >= each.mode_until_s:
            each.mode = rng.choice(("read", "read", "holes", "release", "stand", "reject", "repeat", "reset"))
            each.mode_until_s = second + rng.choice((60, 300, 900))
        end = topic.end_at(at_ms)
        if is_idle or end <= max(0, each.start):
            return
        if each.mode == "repeat" and each.start >= 0:  # of a state that nobody changes
            self._write(each, at_ms, [], is_snapshot=True, repeats=True)
        elif each.mode == "reset" and each.start > 100:
            each.start, each.mode = each.start - rng.randint(1, 100), "read"
            each.records.clear()
            each.course.clear()
            self._write(each, at_ms, [], is_snapshot=True)
        elif each.mode not in ("stand", "repeat", "reset"):
            self._deliver(each, at_ms, end)

    def _deliver(self, each: SharePartition, at_ms: int, end: int) -> None:
        rng, limit = self.rng, LIMITS.get(each.group, 5)
        first = each.start = max(each.start, 0)
        chosen = [offset for offset in range(first, min(end, first + 400)) if each.records.get(offset, [0])[0] == 0]
        chosen = chosen[: rng.randint(1, 300)]
        if each.mode == "holes":
            chosen = chosen[3:]
        if each.mode == "release":
            chosen = chosen[: rng.randint(1, 4)]
        for offset in chosen:
            count = each.records.get(offset, [0, 0])[1] + 1
            state = {"release": AVAILABLE if count < limit else ARCHIVED, "reject": ARCHIVED}.get(
                each.mode, ACKNOWLEDGED
            )
            if state == ARCHIVED and rng.random() < 0.1:
                state = ARCHIVING
            each.records[offset] = [state, count]
        for offset in [offset for offset, (state, _) in each.records.items() if state == ARCHIVING]:
            if offset not in chosen:
                each.records[offset][0] = ARCHIVED
                chosen.append(offset)
        batches = list(runs({offset: each.records[offset] for offset in chosen}))
        while each.records.get(each.start, [0])[0] in DONE:
            del each.records[each.start]
            each.start += 1
        if batches:
            self._write(each, at_ms, batches, is_snapshot=rng.random() < 0.1)

    def _write(
        self, each: SharePartition, at_ms: int, batches: list[StateBatch], *, is_snapshot: bool, repeats: bool = False
    ) -> None:
        if not repeats:
            each.changed_ms = at_ms
        each.course.append((at_ms, each.start, each.done))
        if is_snapshot:
            stored = list(runs(each.records))
            value: Any = ShareSnapshotValue(1, 1, 0, each.start, each.done, at_ms, at_ms, stored)
        else:
            value = ShareUpdateValue(1, 0, each.start, each.done, batches)
        each.written.append((at_ms, SNAPSHOT_TYPE if is_snapshot else UPDATE_TYPE, value))

    # Files

    def write(self, directory: Path) -> None:
        """Add to a broker's log directory: the states, the members, the topics' ids, and the groups' settings."""
        for topic, number in PARTITIONS:
            metadata = directory / f"{topic}-{number}" / "partition.metadata"
            text = "YWFhYWFhYWFhYWFhYWFhYQ" if topic == "a" else "YmJiYmJiYmJiYmJiYmJiYg"
            metadata.write_text(f"version: 0\ntopic_id: {text}\n")
        for number in range(STATE_PARTITIONS):
            records = [
                (at_ms, encode_key(key), None if value is None else encode_value(value))
                for at, each in enumerate(self.partitions)
                if at % STATE_PARTITIONS == number
                for at_ms, kind, value in each.written
                for key in [ShareStateKey(kind, each.group, TOPIC_IDS[each.place[0]], each.place[1])]
            ]
            _write_log(directory / f"__share_group_state-{number}", records)
        self._write_members(directory / "__consumer_offsets-0" / f"{0:020d}.log")
        configs = [ConfigRecord(32, group, "share.delivery.count.limit", str(limit)) for group, limit in LIMITS.items()]
        _write_log(directory / "__cluster_metadata-0", [(START_MS, None, encode_record(each, 0)) for each in configs])

    def _write_members(self, path: Path) -> None:
        """Behind the records of other groups."""
        data, offset = path.read_bytes(), 1_000_000
        for group, events in self.members.items():
            for at_ms, member, comes in events:
                value = ShareGroupMemberMetadataValue(None, "c", "/h", ["a"]) if comes else None
                record = encoded(10, 0, ShareGroupMemberMetadataKey(group, member), value)
                data += bytes(build_batch([record], at_ms, offset))
                offset += 1
        path.write_bytes(data)


def runs(records: dict[int, list[int]]) -> Iterator[StateBatch]:
    """Neighbours with the same state and count."""
    batch: StateBatch | None = None
    for offset, (state, count) in sorted(records.items()):
        if batch is not None and (batch.last_offset + 1, batch.delivery_state, batch.delivery_count) == (
            offset, state, count,
        ):  # fmt: skip
            batch.last_offset = offset
        else:
            if batch is not None:
                yield batch
            batch = StateBatch(offset, offset, state, count)
    if batch is not None:
        yield batch


def _write_log(directory: Path, records: list[tuple[int, bytes | None, bytes | None]]) -> None:
    directory.mkdir(parents=True)
    ordered = sorted(records, key=lambda each: each[0])
    batches = [build_batch([(key, value)], at_ms, at) for at, (at_ms, key, value) in enumerate(ordered)]
    (directory / f"{0:020d}.log").write_bytes(b"".join(map(bytes, batches)))


class ShareModel(Model):
    """The table share_partitions of a world."""

    def __init__(self, shares: ShareWorld) -> None:
        super().__init__(shares.world)
        self.shares = shares

    def share_partitions(self) -> dict[tuple[str, str, int], Row]:
        return {(each.group, *each.place): self._row(each) for each in self.shares.partitions if not each.is_gone}

    def _row(self, each: SharePartition) -> Row:
        topic, records, limit = self.world.topics[each.place], each.records, LIMITS.get(each.group, 5)
        has_begun = each.start >= 0
        done = sum(state in DONE for state, _ in records.values())
        most = max((count for _, count in records.values()), default=0)
        near = {o: c for o, (state, c) in records.items() if state == AVAILABLE and c >= max(2, (limit + 1) // 2)}
        oldest = each.start
        while records.get(oldest, [0])[0] in DONE:
            oldest += 1
        lag = max(0, topic.end - each.start - done) if has_begun else None
        looks = self._looks(each, topic, lag)
        status = self._status(each, looks, bool(near)) if has_begun else "unknown"
        count = self.shares.members_at(each.group, self.now_ms)
        return {
            "group_id": each.group, "topic": each.place[0], "partition": each.place[1], "members": count,
            "start_offset": each.start if has_begun else None, "end_offset": topic.end, "end_offset_ms": self.now_ms,
            "lag": lag, "delivery_complete": done,
            "acknowledged": sum(state == ACKNOWLEDGED for state, _ in records.values()),
            "archived": sum(state == ARCHIVED for state, _ in records.values()),
            "archiving": sum(state == ARCHIVING for state, _ in records.values()),
            "available": sum(state == AVAILABLE for state, _ in records.values()),
            "redelivered": sum(count > 1 for _, count in records.values()),
            "most_deliveries": most,
            "most_deliveries_offset": min((o for o, (_, c) in records.items() if c == most), default=None),
            "delivery_limit": limit, "suspected": len(near),
            "suspected_offset": min((o for o, c in near.items() if c == max(near.values())), default=None),
            "oldest_offset": oldest if has_begun else None, "changed_ms": each.changed_ms,
            **(self._age(topic, oldest) if has_begun else {"time_lag_ms": None, "time_lag_method": "unknown"}),
            **self._rates(looks if has_begun else looks[-1:]), "status": status, "why": some_text,
            "alarming": status in (*ALARMING, "poison record"),
        }  # fmt: skip

    def _age(self, topic: Topic, oldest: int) -> Row:
        found = self._time_lag(topic, max(oldest, topic.start))
        return {name: found[name] for name in ("time_lag_ms", "time_lag_method")}

    def _looks(self, each: SharePartition, topic: Topic, lag: int | None) -> list[Looked]:
        """At the window's begin, at each record in it, and now."""
        before = [found for found in each.course if found[0] <= self.since_ms][-1:]
        found: list[Looked] = []
        for at_ms, start, done in [
            *((self.since_ms, start, done) for _, start, done in before),
            *(found for found in each.course if found[0] > self.since_ms),
        ]:
            bounds = self.end_at(topic, at_ms)
            end = None if bounds is None else int(bounds[0])
            known = None if end is None or done < 0 else max(0, end - start - done)
            if start >= 0:
                found.append((at_ms, start, end, known, self.shares.members_at(each.group, at_ms)))
        return [*found, (self.now_ms, each.start, topic.end, lag, self.shares.members_at(each.group, self.now_ms))]

    @staticmethod
    def _rates(looks: list[Looked]) -> Row:
        seconds = (looks[-1][0] - looks[0][0]) / 1_000
        known = [look for look in looks if look[2] is not None]
        known_s = (known[-1][0] - known[0][0]) / 1_000
        return {
            "consumed_per_s": about(max(0, looks[-1][1] - looks[0][1]) / seconds) if seconds else None,
            "produced_per_s": about(((known[-1][2] or 0) - (known[0][2] or 0)) / known_s) if known_s else None,
        }

    def _status(self, each: SharePartition, looks: list[Looked], has_suspects: bool) -> str:
        _, start, end, lag, members = looks[-1]
        assert lag is not None
        assert end is not None
        if lag < 1:
            return "ok"
        if not members:
            since = len(looks) - next((n for n, look in enumerate(reversed(looks)) if look[4]), len(looks))
            first = looks[since][2]
            return "stopped" if first is not None and end > first else "ended"
        if has_suspects:
            return "poison record"
        here = looks[len(looks) - next((n for n, look in enumerate(reversed(looks)) if look[1] != start), len(looks)) :]
        if self.now_ms - here[0][0] >= 0.75 * WINDOW_MS and all(look[3] and look[4] for look in here):
            return "stuck"
        known = [(look[0], look[3]) for look in looks if look[3] is not None]
        gaps = [b - a for (a, _), (b, _) in pairwise(known)]
        quiet_ms = self.now_ms - known[-1][0]
        assert not gaps or quiet_ms <= max(WINDOW_MS / 4, 3 * max(gaps)), "the last look is now"
        half = len(known) // 2
        if half < 3 or known[-1][0] - known[0][0] < WINDOW_MS / 4:
            return "behind"
        return course([(lag, lag) for _, lag in known[:half]], [(lag, lag) for _, lag in known[-half:]])
