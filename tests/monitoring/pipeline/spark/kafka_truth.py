"""What the tables have to be after the story: each column, from what the script did and when (kafka_story.py). Sizes of
records and when each was written are of Kafka's own DumpLogSegments.

An expected value is a value, or a function that says whether a value is right
(tests/monitoring/pipeline/truth/compare.py).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from coordinatord.monitoring.analysis.load import LOAD_RATE
from tests.monitoring.pipeline.dumped import BATCH, RECORD
from tests.monitoring.pipeline.spark.kafka_story import (
    MODERN_SESSION_MS,
    Group,
    Life,
    Made,
    Place,
    Span,
    Story,
    Written,
)
from tests.monitoring.pipeline.truth.model import WEEK_MS, WINDOW_MS, about, burrow, course, recent_end, some_text

Row = dict[str, Any]
Key = tuple[str, str, int]
MINUTE_MS = 60_000
PARTS = 128
"""Of a window: of several commits in one of them, the first is compared."""
ALARMING = ("members expired", "records lost", "stopped", "stuck", "near loss", "rewound", "falling")
EARLIER_MS = (
    WINDOW_MS // 20, *(WINDOW_MS * part // 4 for part in range(5)), *(WINDOW_MS << power for power in range(1, 9)),
)  # fmt: skip
"""How long before the last run partitions' ends are known: by the timestamps of records, and by the run itself."""


@dataclass(frozen=True, slots=True)
class Unknowable:
    """A column of which the script knows the type alone, for this reason."""

    reason: str
    type: type = str

    def __call__(self, value: Any) -> bool:
        return isinstance(value, self.type) and bool(value)


WORDS = Unknowable("a sentence for people; its figures are in other columns")


@dataclass(frozen=True, slots=True)
class Dumped:
    """A record of the offsets log as Kafka's tool prints it."""

    log: int
    type: int
    group: str
    place: Place | None
    offset: int | None
    made_ms: int
    size: int
    is_tombstone: bool


def dumped(text: str) -> list[Dumped]:
    """The records of classic groups and of those of the consumer protocol, in the order of the log."""
    found, log = [], -1
    for line in text.splitlines():
        if line.startswith("Dumping "):
            log = int(line.split("__consumer_offsets-")[1].split("/")[0])
        match = RECORD.match(line)
        if match is None or BATCH.match(line):
            continue
        key = json.loads(match[5])
        if int(key["type"]) not in (*range(9), 16):
            continue
        data, is_tombstone = key["data"], match[6] == "<DELETE>"
        value = {} if is_tombstone else json.loads(match[6])["data"]
        place = (data["topic"], data["partition"]) if "topic" in data else None
        if int(key["type"]) > 2:
            place = json.dumps(data), -int(key["type"])  # tells keys apart, and is no partition
        made_ms = value.get("commitTimestamp", int(match[2]))
        size = int(match[3]) + max(0, int(match[4]))
        group = data["group"] if int(key["type"]) <= 2 else data["groupId"]
        found.append(Dumped(log, int(key["type"]), group, place, value.get("offset"), made_ms, size, is_tombstone))
    return found


@dataclass(slots=True)
class Truth:
    """`first_ms` and `now_ms` are the times of the two runs, at which partitions' ends were looked up."""

    story: Story
    first_ms: int
    now_ms: int
    dump: list[Dumped]

    @property
    def since_ms(self) -> int:
        return self.now_ms - WINDOW_MS

    # What was written

    def writes(self) -> dict[Key, list[Written]]:
        """What took effect."""
        found: dict[Key, list[Written]] = {}
        for each in self.story.written:
            if each.counts:
                found.setdefault((each.group, *each.place), []).append(each)
        return found

    def standing_writes(self) -> dict[Key, list[Written]]:
        """The commits since the last deletion, of places that have one, or are a member's."""
        found = {}
        for key, writes in self.writes().items():
            gone = max((n for n, each in enumerate(writes) if each.offset is None), default=-1)
            if writes[gone + 1 :]:
                found[key] = writes[gone + 1 :]
        for group in self.story.groups.values():
            for owned in group.made[-1].owned.values():
                for place in owned:
                    found.setdefault((group.name, *place), [])
        return found

    def ends(self, place: Place) -> tuple[int, int]:
        """At the first run, and at the second."""
        return self.story.end(place, self.first_ms), self.story.end(place, self.now_ms)

    # lag and status

    def standing(self) -> dict[Key, Row]:
        return {key: self._standing(key, commits) for key, commits in self.standing_writes().items()}

    def _standing(self, key: Key, commits: list[Written]) -> Row:
        end = self.story.end(key[1:], self.now_ms)
        before = self.story.end(key[1:], self.since_ms)
        produced = (end - before) * 1000 / WINDOW_MS
        row: Row = {
            "group_id": key[0], "topic": key[1], "partition": key[2], "end_offset": end, "end_offset_ms": self.now_ms,
            "log_start_offset": 0, "produced_per_s": about(produced), "producer_idle": end == before,
        }  # fmt: skip
        if not commits:
            nothing = (
                "committed_offset", "committed_ms", "moved_ms", "stood_since_ms", "stood_until_ms", "lag", "zero_in_s",
                "time_lag_ms", "time_lag_error_ms", "lost_records", "retention_margin", "retention_left_ms",
                "consumed_per_s", "burrow",
            )  # fmt: skip
            told = {"time_lag_method": "unknown", "status": "unknown", "why": some_text, "alarming": False}
            return row | dict.fromkeys(nothing) | told
        offset = commits[-1].offset or 0
        runs = runs_of(commits)
        row |= {"committed_offset": offset, "committed_ms": commits[-1].effective, "moved_ms": runs[-1][1]}
        row |= self._stood(runs) | {"why": some_text, "consumed_per_s": self._consumed(commits)}
        if offset > end:  # Kafka's tool shows a negative lag
            nothing = (
                "lag", "time_lag_ms", "time_lag_error_ms", "lost_records", "retention_margin", "retention_left_ms",
                "zero_in_s",
            )  # fmt: skip
            told = {"time_lag_method": "unknown", "status": "unknown", "alarming": False, "burrow": "OK"}
            return row | dict.fromkeys(nothing) | told
        lag = end - offset
        statuses = self._statuses(key, commits, lag)
        return row | {
            "lag": lag, "lost_records": 0, "retention_left_ms": self._left(key[1:], offset, lag),
            "retention_margin": offset, "status": lambda value: value in statuses,
            "alarming": lambda value: value in {each in ALARMING for each in statuses},
            "zero_in_s": self._zero(commits, lag, produced),
            "burrow": self._burrow(key[1:], commits, lag),
            **self._time_lag(key[1:], offset),
        }  # fmt: skip

    def _burrow(self, place: Place, commits: list[Written], lag: int) -> Callable[[Any], bool]:
        """Whether a group is late depends on how long the story took, and may be in doubt."""
        if lag <= 0:
            return lambda value: value == "OK"
        window = commits[-10:]
        first, last = window[0].effective, window[-1].effective
        now_ms = self.now_ms // 1000 * 1000
        late = {now_ms > 2 * last.high_ms - first.low_ms, now_ms > 2 * last.low_ms - first.high_ms}
        offsets = [each.offset or 0 for each in window]
        ends = [
            [self.bounds(place, ms)[0] for ms in (each.effective.low_ms, each.effective.high_ms)] for each in window
        ]
        lags = [
            [max(0, end - offset) for end, offset in zip(each, offsets, strict=True)]
            for each in zip(*ends, strict=True)
        ]
        end = recent_end(self.points(place), self.now_ms)
        found = {burrow(offsets, each, is_late, end) for is_late in late for each in lags}
        return lambda value: value in found

    @staticmethod
    def _stood(runs: list[tuple[int, Span]]) -> Row:
        """Nobody stands for a twentieth of ten minutes, unless the machine is slow."""
        longest = max((after.high_ms - before.low_ms for (_, before), (_, after) in pairwise(runs)), default=0)
        if longest < WINDOW_MS / 20:
            return {"stood_since_ms": None, "stood_until_ms": None}
        bounds = Span(runs[0][1].low_ms, runs[-1][1].high_ms)
        return dict.fromkeys(("stood_since_ms", "stood_until_ms"), lambda value: value is None or bounds(value))

    def _inside(self, commits: list[Written]) -> list[Written]:
        """Those in the window of ten minutes."""
        assert all(each.at.low_ms > self.since_ms or each.effective.high_ms < self.since_ms for each in commits)
        return [each for each in commits if each.at.low_ms > self.since_ms]

    def _consumed(self, commits: list[Written]) -> Callable[[Any], bool]:
        inside = self._inside(commits)
        if len(inside) < 2:
            return lambda value: value is None
        first, last = inside[0], inside[-1]
        count = max(0, (last.offset or 0) - (first.offset or 0)) * 1000
        least_ms = last.effective.low_ms - first.effective.high_ms
        slowest = count / (last.effective.high_ms - first.effective.low_ms)
        fastest = count / max(1, least_ms)
        return lambda value: least_ms < 1 if value is None else slowest - 1e-9 <= value <= fastest + 1e-9

    def _zero(self, commits: list[Written], lag: int, produced: float) -> Any:
        if lag == 0:
            return 0.0
        consumed = self._consumed(commits)
        return lambda value: (
            consumed(None if value is None else lag / value + produced) or (value is None and consumed(0.0))
        )

    def _time_lag(self, place: Place, offset: int) -> Row:
        """The record was appended in the script; the pipeline knows where the partition ended at some times."""
        if offset >= self.story.end(place, self.now_ms):
            return {"time_lag_ms": 0, "time_lag_method": "caught up", "time_lag_error_ms": 0}
        points = self.points(place)
        most_ms = self.now_ms - max(ms for ms, end in points if end <= offset)
        least_ms = self.now_ms - min(ms for ms, end in points if end > offset)
        return {"time_lag_ms": most_ms, "time_lag_method": "at most", "time_lag_error_ms": most_ms - least_ms}

    def points(self, place: Place) -> list[tuple[int, int]]:
        """(time, end offset), as far as it is known."""
        times = sorted({self.first_ms, *(self.now_ms - ago_ms for ago_ms in EARLIER_MS)})
        return [(ms, self.story.end(place, ms)) for ms in times]

    def bounds(self, place: Place, at_ms: int) -> tuple[int, int]:
        """The last known end before a time, and the next known one."""
        points = self.points(place)
        return max(end for ms, end in points if ms <= at_ms), min(end for ms, end in points if ms >= at_ms)

    def _left(self, place: Place, offset: int, lag: int) -> int | None:
        """By Kafka's default of retention.ms, a week."""
        told = self._time_lag(place, offset)
        return max(0, WEEK_MS - told["time_lag_ms"] + told["time_lag_error_ms"]) if lag else None

    def _statuses(self, key: Key, commits: list[Written], lag: int) -> set[str]:
        """The status; several if it depends on how long the story took."""
        group = self.story.groups.get(key[0])
        inside = self._inside(commits)
        if lag == 0:
            return {"ok"}
        if group is not None and not group.present:
            came = self.story.end(key[1:], self.now_ms) - self.bounds(key[1:], group.made[-1].at.low_ms)[1]
            return {"members expired" if came > 0 and group.made[-1].why == "session expired" else "ended"}
        if not inside:
            moved = [b for a, b in pairwise(commits[-10:]) if (b.offset or 0) > (a.offset or 0)]
            return {"ended" if group is None and len(moved) < 3 else "stopped"}
        here = runs_of(commits)[-1][1]
        if here.high_ms < self.since_ms and commits[-2].offset == commits[-1].offset:
            return {"stuck"}
        offsets = [each.offset or 0 for each in commits]
        if any(offset > max(offsets[n + 1 :]) for n, offset in enumerate(offsets[:-1])):
            return {"rewound"}
        return self._courses(key[1:], inside, lag)

    def _courses(self, place: Place, inside: list[Written], lag: int) -> set[str]:
        """By the earliest and by the latest times at which the commits may have been made."""
        times = [each.effective for each in inside]
        return {
            self._course(place, inside, at, lag)
            for at in ([each.low_ms for each in times], [each.high_ms for each in times])
        }

    def _course(self, place: Place, inside: list[Written], times: list[int], lag: int) -> str:
        """From the commits up to now if the last one is long ago, which it is unless the story takes long; otherwise
        from the first half of the commits to the second one. The first commit in each part of a window stands for all.
        """
        parts = [ms * PARTS // WINDOW_MS for ms in times]
        marks = [at for at, part in enumerate(parts) if at in (0, len(parts) - 1) or part != parts[at - 1]]
        lags: list[tuple[float, float]] = []
        for at in marks:
            least, most = self.bounds(place, times[at])
            lags.append((max(0, least - (inside[at].offset or 0)), max(0, most - (inside[at].offset or 0))))
        longest_ms = max((times[b] - times[a] for a, b in pairwise(marks)), default=WINDOW_MS)
        half = len(lags) // 2
        if self.now_ms - times[-1] > max(WINDOW_MS / 4, 3 * longest_ms):
            return course(lags, [(lag, lag)]) if len(lags) >= 3 else "behind"
        is_short = half < 3 or times[-1] - times[marks[0]] < WINDOW_MS / 4
        return "behind" if is_short else course(lags[:half], lags[-half:])

    def lag_history(self) -> dict[tuple[str, str, int, int], Row]:
        """But for minutes in which a first commit may have been before the minute, or behind it. A group that is beyond
        the end, minutes after it has committed, has no row.
        """
        found = {}
        for key, commits in self.standing_writes().items():
            end = self.story.end(key[1:], self.now_ms)
            first_ms = commits[0].effective.high_ms if commits else self.now_ms + 1
            for at_ms in range(-(-first_ms // MINUTE_MS) * MINUTE_MS, self.now_ms + 1, MINUTE_MS):
                sure = [each.offset for each in commits if each.effective.high_ms <= at_ms][-1:]
                maybe = {each.offset for each in commits if each.effective(at_ms)} | set(sure)
                least, most = self.bounds(key[1:], at_ms)
                if any((offset or 0) > end for offset in maybe):
                    continue
                found[(*key, at_ms)] = {
                    "group_id": key[0], "topic": key[1], "partition": key[2], "at_ms": at_ms,
                    "committed_offset": lambda value, maybe=maybe: value in maybe,
                    "lag": lambda value, maybe=maybe, most=most: value in {max(0, most - (o or 0)) for o in maybe},
                    "least_lag": lambda value, maybe=maybe, least=least: (
                        value in {max(0, least - (o or 0)) for o in maybe}
                    ),
                }  # fmt: skip
        return found

    def is_doubtful(self, row: Row) -> bool:
        """Whether the moment is about that of a first commit."""
        commits = self.standing_writes()[row["group_id"], row["topic"], row["partition"]]
        return bool(commits) and row["at_ms"] < commits[0].effective.high_ms

    # expiry, commits, offsets_load

    def expiry(self) -> dict[Key, Row]:
        found = {}
        for key, commits in self.standing_writes().items():
            if not commits:
                continue
            group = self.story.groups.get(key[0])
            last, in_use = commits[-1], group is not None and bool(group.present)
            since = last.at if group is None else later(last.at, group.made[-1].at)
            expires = Span(since.low_ms + WEEK_MS, since.high_ms + WEEK_MS)
            left = Span(expires.low_ms - self.now_ms, expires.high_ms - self.now_ms)
            found[key] = {
                "group_id": key[0], "topic": key[1], "partition": key[2], "committed_offset": last.offset,
                "committed_ms": last.at, "abandoned": not in_use,
                "counts_from": "in use" if in_use else "simple" if group is None else "empty",
                "expires_ms": None if in_use else expires, "expires_in_ms": None if in_use else left,
            }  # fmt: skip
        return found

    def commits(self) -> dict[Key, Row]:
        found = {}
        for key, writes in self.writes().items():
            made = [each for each in writes if each.offset is not None]
            steps = [(a.offset, b.offset) for a, b in pairwise(writes) if a.offset is not None and b.offset is not None]
            back = [a - b for a, b in steps if b < a]
            offsets = {each.offset for each in writes}
            of_log = [each for each in self.dump if (each.group, each.place) == (key[0], key[1:])]
            of_log = [each for each in of_log if each.offset in offsets]
            times = [each.made_ms for each in of_log if not each.is_tombstone]
            assert len(of_log) == len(writes), key
            seconds = (max(times) - min(times)) / 1000
            found[key] = {
                "group_id": key[0], "topic": key[1], "partition": key[2], "commits": len(made),
                "first_ms": made[0].at, "last_ms": made[-1].at,
                "commits_per_s": about((len(made) - 1) / seconds) if seconds else None,
                "no_op_commits": sum(a == b for a, b in steps), "rewinds": len(back), "rewound_records": sum(back),
                "forgotten": len(writes) - len(made), "bytes": sum(each.size for each in of_log),
            }  # fmt: skip
        return found

    def offsets_load(self) -> dict[tuple[str, int], Row]:
        found = {}
        logs = {each.log for each in self.dump}
        mean = len(self.dump) / len(logs)
        for name in {each.group for each in self.dump}:
            mine = [each for each in self.dump if each.group == name]
            assert sum(each.type < 2 for each in mine) == sum(each.group == name for each in self.story.written), name
            (log,) = {each.log for each in mine}
            there = [each for each in self.dump if each.log == log]
            live = self._live(mine)
            times = [each.made_ms for each in mine if each.type < 2 and not each.is_tombstone]
            seconds = (max(times) - min(times)) / 1000 if times else 0
            size, live_size = sum(each.size for each in mine), sum(each.size for each in live)
            found[name, log] = {
                "group_id": name, "log_partition": log, "records": len(mine), "bytes": size, "live_records": len(live),
                "live_bytes": live_size, "debt_bytes": size - live_size,
                "commits_per_s": about((len(times) - 1) / seconds) if seconds else None,
                "partition_records": len(there), "partition_bytes": sum(each.size for each in there),
                "times_average": about(len(there) / mean), "hot": len(there) > 2 * mean,
                "load_ms": about(len(there) * 1000 / LOAD_RATE),
                "load_ms_cleaned": about(len(self._live(there)) * 1000 / LOAD_RATE),
            }  # fmt: skip
        return found

    def _live(self, records: Iterable[Dumped]) -> list[Dumped]:
        """The last of each key; nothing of the transaction that aborted."""
        aborted = {(each.group, each.place, each.offset) for each in self.story.written if each.outcome == "ABORT"}
        last = {
            (each.group, each.place): each for each in records if (each.group, each.place, each.offset) not in aborted
        }
        return [each for each in last.values() if not each.is_tombstone]

    # members and rebalances

    def members(self) -> dict[tuple[str, str], Row]:
        return {(g.name, life.member_id): self._member(g, life) for g in self.story.groups.values() for life in g.lives}

    def _member(self, group: Group, life: Life) -> Row:
        inside = [made for made in group.made if life.member_id in made.owned]
        after = [made for made in group.made if made.number > inside[-1].number]
        since, until = inside[0].at, after[0].at if after else None
        lived = None if until is None else Span(until.low_ms - since.high_ms, until.high_ms - since.low_ms)
        commits = [each for each in self.story.written if each.by == life.member_id]
        return {
            "group_id": group.name, "member_id": life.member_id, "instance": None, "client_id": life.client_id,
            "host": "/127.0.0.1", "since_ms": since, "until_ms": until, "lived_ms": lived, "end": life.end,
            "generations": len(inside), "partitions": len(inside[-1].owned[life.member_id]),
            "last_commit_ms": commits[-1].at if commits else None,
            "session_timeout_ms": MODERN_SESSION_MS if group.kind == "consumer" else life.session_ms,
        }  # fmt: skip

    def rebalances(self) -> dict[tuple[str, int], Row]:
        found = {}
        for group in self.story.groups.values():
            nothing = Made({"classic": 0, "consumer": 1}[group.kind], group.made[0].at, {})
            for before, after in pairwise([nothing, *group.made]):
                found[group.name, after.number] = self._rebalance(group, before, after)
        return found

    def _rebalance(self, group: Group, before: Made, after: Made) -> Row:
        is_classic = group.kind == "classic"
        ids, ids_before = set(after.owned), set(before.owned)
        owners, old = ({p: m for m, owned in made.owned.items() for p in owned} for made in (after, before))
        began = before.at.to(after.at) if is_classic else after.at
        clients = {life.member_id: life.client_id for life in group.lives}
        return {
            "group_id": group.name, "group_type": group.kind, "generation_before": before.number,
            "generation": after.number, "outcome": "completed" if ids else "empty", "began_ms": began,
            "began_after_ms": before.at if is_classic else after.at, "began_before_ms": after.at,
            "joined_ms": after.at, "ended_ms": after.at, "initial": not ids_before,
            "protocol": "range" if is_classic and ids else None,
            "leader": (lambda value: value in ids) if is_classic and ids else None,  # a client is not told who leads
            "members_before": len(ids_before), "members": len(ids), "added": len(ids - ids_before),
            "removed": len(ids_before - ids), "kept": len(ids & ids_before), "skipped_generations": 0,
            "partitions_before": len(old),
            "partitions_moved": sum(place in owners and owners[place] != owner for place, owner in old.items()),
            "partitions_revoked": len(old.keys() - owners.keys()),
            "stickiness": sum(owners.get(p) == o for p, o in old.items()) / len(old) if old else None,
            "missed_commit_ms": self._missed(group, before, after, old, owners),
            "trigger": after.why, "trigger_member_id": after.who, "trigger_client_id": clients[after.who or ""],
            "client_reason": None, "cause": WORDS, "how": "inferred",
            "confidence": lambda value: 0.5 < value <= 1,
        }  # fmt: skip

    def _missed(self, group: Group, before: Made, after: Made, old: dict[Place, str], owners: dict[Place, str]) -> Any:
        """How late the commits were: the gap around the rebalance less the median of the last ten before it. The script
        knows each commit between two moments, and so the sum.
        """
        low = high = 0
        known = False
        for place, owner in old.items():
            if group.kind == "consumer" and owners.get(place, owner) == owner:
                continue
            spans = [each.at for each in self.story.written if (each.group, each.place) == (group.name, place)]
            done = [each for each in spans if each.high_ms <= after.at.low_ms + 1]
            earlier, later = done[-10:], spans[len(done) :]
            if len(earlier) < 2 or not later:
                continue
            known = True
            usual = [(b.low_ms - a.high_ms, b.high_ms - a.low_ms) for a, b in pairwise(earlier)]
            least, most = (sorted(each)[len(usual) // 2] for each in zip(*usual, strict=True))
            low += max(0, later[0].low_ms - earlier[-1].high_ms - most)
            high += max(0, later[0].high_ms - earlier[-1].low_ms - least)
        return Span(low, high) if known else None

    def member_events(self) -> dict[tuple[str, str], Row]:
        """With a kind once in a group."""
        found = {}
        for group in self.story.groups.values():
            if len(group.made) >= 5:
                ends = group.made[0].at, group.made[-1].at
                found[group.name, "storm"] = self._event(group, "storm", *ends, None, len(group.made))
        crashing, deployed = self.story.groups["crashing"], self.story.groups["deployed"]
        doomed = [self._member(crashing, life) for life in crashing.lives if life.client_id == "doomed"]
        ends = doomed[0]["since_ms"], doomed[-1]["until_ms"]
        found["crashing", "crash loop"] = self._event(crashing, "crash loop", *ends, "doomed", len(doomed))
        lives = [self._member(deployed, life) for life in deployed.lives]
        ends = lives[0]["until_ms"], lives[-1]["since_ms"]
        found["deployed", "deploy"] = self._event(deployed, "deploy", *ends, None, 2)
        return found

    @staticmethod
    def _event(group: Group, kind: str, began: Span, ended: Span, client: str | None, count: int) -> Row:
        return {
            "group_id": group.name, "kind": kind, "began_ms": began, "ended_ms": ended, "client_id": client,
            "host": None if client is None else "/127.0.0.1", "count": count, "text": WORDS,
        }  # fmt: skip


def later(one: Span, other: Span) -> Span:
    return Span(max(one.low_ms, other.low_ms), max(one.high_ms, other.high_ms))


def runs_of(commits: list[Written]) -> list[tuple[int, Span]]:
    """Each offset that was committed, and when first, since it was another one."""
    runs: list[tuple[int, Span]] = []
    for each in commits:
        if not runs or runs[-1][0] != each.offset:
            runs.append((each.offset or 0, each.effective))
    return runs


def churn(rows: Iterable[Row]) -> dict[tuple[str, int], Row]:
    """From the rows of rebalances as they were found right: they have the hours."""
    hours: dict[tuple[str, int], list[Row]] = {}
    for row in rows:
        hours.setdefault((row["group_id"], row["ended_ms"] // 3_600_000 * 3_600_000), []).append(row)

    def total(rows: list[Row], name: str) -> int | None:
        known = [row[name] for row in rows if row[name] is not None]
        return sum(known) if known else None

    sums = ("added", "removed", "partitions_moved", "missed_commit_ms")
    return {
        (group, hour_ms): {
            "group_id": group, "hour_ms": hour_ms, "rebalances": len(each),
            "members": about(sum(row["members"] for row in each) / len(each)), **{n: total(each, n) for n in sums},
        }
        for (group, hour_ms), each in hours.items()
    }  # fmt: skip
