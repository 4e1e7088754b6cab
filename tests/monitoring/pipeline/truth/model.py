"""What each column of each table has to be, from a generated history (world.py) as it was decided: naive, and without
anything of the pipeline. TABLES.md is the specification.

An expected value is a value, or a function that says whether a value is right: of estimates the truth is known, and how
far they may be off.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

from tests.monitoring.pipeline.truth.world import LOG_PARTITIONS, Group, Place, Topic, World, Written

WINDOW_MS = 600_000
THINNED_MS = 2 * WINDOW_MS / 64
"""Of many commits, those that are so much apart stand for all."""
WEEK_MS = 10_080 * 60_000
SEVERITY = (
    "members expired", "records lost", "stopped", "stuck", "near loss", "rewound", "falling", "behind", "waiting",
    "catching", "unknown", "ended", "ok", "unsubscribed",
)  # fmt: skip
ALARMING = SEVERITY[:5] + SEVERITY[5:7]
Row = dict[str, Any]
Bounds = tuple[float, float]
"""The least and the greatest value."""


def some_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def course(earlier: list[Bounds], later: list[Bounds]) -> str:
    """Of the bounds of lags at two times: they have grown, or shrunk, if nine of ten pairs and the medians say so,
    whatever is true within the bounds; by a twentieth and ten records at least.
    """

    def has_grown(low: list[float], high: list[float]) -> bool:
        median = [sorted(each)[(len(each) - 1) // 2] for each in (low, high)]
        change = median[1] - median[0]
        if change < 10 or change <= 0.05 * max(median[1], 1):
            return False
        pairs = [(a, b) for a in low for b in high]
        return sum(b > a for a, b in pairs) >= 0.9 * len(pairs)

    if has_grown([most for _, most in earlier], [least for least, _ in later]):
        return "falling"
    if has_grown([most for _, most in later], [least for least, _ in earlier]):
        return "catching"
    return "behind"


def recent_end(points: list[tuple[int, int]], now_ms: int) -> int:
    """The last known end before the 100 s for which Burrow keeps ends, or the first known one."""
    return max((end for ms, end in points if ms <= now_ms - 100_000), default=points[0][1])


def burrow(offsets: list[int], lags: list[float | None], is_late: bool, recent_end: int) -> str:
    """Burrow's status of a group that has not read all, from its last ten commits."""
    if is_late and recent_end > offsets[-1]:
        return "STOP"
    back = [n for n, (a, b) in enumerate(pairwise(offsets)) if b < a]
    if back and max(offsets[back[0] + 1 :]) < offsets[back[0]]:
        return "REWIND"
    if 0 in lags:
        return "OK"
    if len(set(offsets)) == 1:
        return "STALL"
    known = [each for each in lags if each is not None]
    return "WARN" if known == sorted(known) else "OK"


@dataclass(frozen=True, slots=True)
class Commit:
    """One that took effect."""

    offset: int
    made_ms: int
    ms: int


class Model:
    """The tables of a world, by the name of their functions."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.now_ms = world.now_ms
        self.since_ms = world.now_ms - WINDOW_MS

    # What was written

    def writes(self, group: Group, place: Place) -> list[Written]:
        """The commits that took effect, and tombstones, in the order of the log."""
        found = [each for each in self.world.written if each.group == group.name and each.place == place]
        return sorted((each for each in found if each.is_committed), key=lambda each: each.at_ms)

    def commits(self, group: Group, place: Place) -> list[Commit]:
        """Since the last tombstone."""
        found: list[Commit] = []
        for each in self.writes(group, place):
            if each.offset is None:
                found = []
            else:
                found.append(Commit(each.offset, each.at_ms, each.marker_ms or each.at_ms))
        return found

    def places(self) -> Iterable[tuple[Group, Place]]:
        """Those with an offset, and those that a member has."""
        for group in self.world.all_groups:
            assigned = {place for owned in (group.made[-1].owned.values() if group.made else ()) for place in owned}
            for place in group.places:
                if self.commits(group, place) or place in assigned:
                    yield group, place

    def points(self, topic: Topic) -> list[tuple[int, int]]:
        """(time, end offset) as far as a reader can know them."""
        return [(ms, last + 1) for (ms, last) in topic.indexed if last >= topic.start] + [(self.now_ms, topic.end)]

    def end_at(self, topic: Topic, at_ms: int) -> Bounds | None:
        """The last known end before, and the next known one."""
        points = self.points(topic)
        if not points[0][0] <= at_ms <= points[-1][0]:
            return None
        return max(end for ms, end in points if ms <= at_ms), min(end for ms, end in points if ms >= at_ms)

    def lag_at(self, topic: Topic, commit: Commit) -> Bounds | None:
        end = self.end_at(topic, commit.ms)
        return None if end is None else (max(0, end[0] - commit.offset), max(0, end[1] - commit.offset))

    # lag and status

    def standing(self) -> dict[tuple[str, str, int], Row]:
        """lag and status, which share their key."""
        return {(group.name, *place): self._standing(group, place) for group, place in self.places()}

    def _standing(self, group: Group, place: Place) -> Row:
        topic, commits = self.world.topics[place], self.commits(group, place)
        produced = self._produced(topic)
        row: Row = {
            "group_id": group.name, "topic": place[0], "partition": place[1], "end_offset": topic.end,
            "end_offset_ms": self.now_ms, "log_start_offset": topic.start, "produced_per_s": produced,
            "producer_idle": None if produced is None else produced == 0,
        }  # fmt: skip
        if not commits:
            names = (
                "committed_offset", "committed_ms", "moved_ms", "stood_since_ms", "stood_until_ms", "lag",
                "time_lag_ms", "time_lag_error_ms", "lost_records", "retention_margin", "retention_left_ms",
                "consumed_per_s", "zero_in_s", "burrow",
            )  # fmt: skip
            is_empty = topic.start == topic.end
            return row | dict.fromkeys(names) | {
                "time_lag_method": "unknown", "status": "ok" if is_empty else "unknown", "why": some_text,
                "alarming": False,
            }  # fmt: skip
        last = commits[-1]
        lag = sum(count for _, _, count in topic.batches) - max(last.offset, topic.start)
        since_ms, until_ms = self._stood(topic, commits)
        statuses = self._statuses(group, topic, commits, lag)
        consumed = self._consumed(commits)
        return row | {
            "committed_offset": last.offset,
            "committed_ms": last.ms,
            "moved_ms": self._runs(commits)[-1][1],
            "stood_since_ms": since_ms,
            "stood_until_ms": until_ms,
            "lag": lag,
            **self._time_lag(topic, last.offset),
            "lost_records": max(0, topic.start - last.offset),
            "retention_margin": max(0, last.offset - topic.start),
            "retention_left_ms": None,
            "consumed_per_s": lambda value: value in consumed,
            "zero_in_s": lambda value: value in {self._zero(lag, each, produced) for each in consumed},
            "status": lambda value: value in statuses,
            "why": some_text,
            "alarming": lambda value: value in {each in ALARMING for each in statuses},
            "burrow": self._burrow(topic, commits, lag),
        }

    def _produced(self, topic: Topic) -> float | None:
        inside = [point for point in self.points(topic) if point[0] >= self.since_ms]
        if len(inside) < 2:
            return None
        return (inside[-1][1] - inside[0][1]) * 1000 / (inside[-1][0] - inside[0][0])

    def _consumed(self, commits: list[Commit]) -> set[float | None]:
        """The rates that begin with one of the first commits of the window."""
        inside = [each for each in commits if each.ms >= self.since_ms]
        if len(inside) < 2:
            return {None}
        last = inside[-1]
        return {
            max(0, last.offset - first.offset) * 1000 / (last.ms - first.ms)
            for first in inside[:-1]
            if first.ms - inside[0].ms <= THINNED_MS
        }

    @staticmethod
    def _zero(lag: int, consumed: float | None, produced: float | None) -> float | None:
        if lag == 0:
            return 0.0
        if consumed is None or produced is None or consumed <= produced:
            return None
        return lag / (consumed - produced)

    def _time_lag(self, topic: Topic, committed: int) -> Row:
        if committed >= topic.end:
            return {"time_lag_ms": 0, "time_lag_method": "caught up", "time_lag_error_ms": 0}
        waits_ms = self.now_ms - topic.appended_ms(max(committed, topic.start))
        if committed >= topic.start:
            return {"time_lag_ms": waits_ms, "time_lag_method": "record", "time_lag_error_ms": 0}
        # The record was lost, and the next one's age is read from the curve, which begins with the first kept batch.
        points = self.points(topic)
        before = [ms for ms, end in points if end <= topic.start]
        after = [ms for ms, end in points if end > topic.start]
        if not before:
            at_least = self.now_ms - after[0]
            return {"time_lag_ms": at_least, "time_lag_method": "at least", "time_lag_error_ms": None}
        return {
            "time_lag_ms": lambda value: value == self.now_ms - before[-1] >= waits_ms,
            "time_lag_method": "at most",
            "time_lag_error_ms": after[0] - before[-1],
        }

    def _runs(self, commits: list[Commit]) -> list[list[int]]:
        """[offset, since, until] of commits of one offset, one after the other; the last goes on."""
        runs: list[list[int]] = []
        for each in commits:
            if not runs or runs[-1][0] != each.offset:
                if runs:
                    runs[-1][2] = each.ms
                runs.append([each.offset, each.ms, self.now_ms])
        return runs

    def _stood(self, topic: Topic, commits: list[Commit]) -> tuple[Any, Any]:
        over = [run for run in self._runs(commits)[:-1] if run[2] - run[1] >= WINDOW_MS / 20]
        if not over or over[-1][2] < self.since_ms:
            return None, None
        offset, since_ms, until_ms = over[-1]
        if offset >= topic.end_at(until_ms):
            return None, None
        truth_ms = max(since_ms, topic.appended_ms(offset))
        # A reader knows of a record only by the next point of the curve, or not at all.
        seen_ms = [ms for ms, end in self.points(topic) if end > offset]
        is_certain = any(ms < until_ms for ms in seen_ms) and offset >= topic.start
        width = max(b - a for a, b in pairwise(ms for ms, _ in self.points(topic)))
        return (
            lambda value: (
                truth_ms <= value < until_ms and value - truth_ms <= 2 * width
                if value is not None
                else not is_certain or until_ms - truth_ms <= 2 * width
            ),
            lambda value: value == until_ms or value is None,
        )

    def _statuses(self, group: Group, topic: Topic, commits: list[Commit], lag: int) -> set[str]:
        """The status; several if it depends on which of the window's first commits is the first."""
        if lag < 1:
            return {"records lost" if topic.start > commits[-1].offset else "ok"}
        last, silent_ms = commits[-1], self.now_ms - commits[-1].ms
        empty_ms = group.made[-1].at_ms if group.made and not group.made[-1].owned else None
        has_ended = empty_ms is not None and (last.ms <= empty_ms or silent_ms > WINDOW_MS)
        if has_ended and empty_ms is not None and self._have_expired(group, empty_ms):
            came = topic.end - topic.end_at(empty_ms)
            if came and min(end for ms, end in self.points(topic) if ms >= empty_ms) < topic.end:
                return {"members expired"}
        if topic.start > last.offset:
            return {"records lost"}
        if has_ended:
            return {"ended"}
        if silent_ms > WINDOW_MS and not group.made:
            moved = [b for a, b in pairwise(commits[-10:]) if b.offset > a.offset]
            if len(moved) < 3:
                return {"ended"}
        waited_ms = self._waited(topic, last.offset)
        if silent_ms > WINDOW_MS:
            patience_ms = max(WINDOW_MS, 3 * self._rhythm(commits))
            return {"behind" if min(silent_ms, waited_ms) <= patience_ms else "stopped"}
        runs = self._runs(commits)
        here = [each for each in commits if each.ms >= runs[-1][1]]
        if len(here) > 1 and self.now_ms - here[0].ms >= WINDOW_MS and waited_ms >= WINDOW_MS:
            return {"stuck"}
        for before, after in pairwise(commits):
            later = commits[commits.index(after) :]
            if after.ms >= self.since_ms and all(each.offset < before.offset for each in later):
                return {"rewound"}
        return self._courses(topic, commits, lag)

    @staticmethod
    def _have_expired(group: Group, empty_ms: int) -> bool:
        return any(life.end == "expired" for life in group.lives if life.until_ms == empty_ms)

    def _waited(self, topic: Topic, committed: int) -> float:
        """How long the oldest unread record has waited, at least."""
        told = self._time_lag(topic, committed)
        if told["time_lag_method"] == "at most":
            return self.now_ms - min(ms for ms, end in self.points(topic) if end > topic.start)
        return float(told["time_lag_ms"])

    def _rhythm(self, commits: list[Commit]) -> int:
        silences = [(a.ms, b.ms) for a, b in pairwise(commits) if 3 * (b.ms - a.ms) > WINDOW_MS][-10:]
        if len(silences) < 2:
            return 0
        lengths = sorted(b - a for a, b in silences)
        if sum(lengths) < (silences[-1][1] - silences[0][0]) / 2:
            return 0
        return lengths[int(0.9 * (len(lengths) - 1))]

    def _courses(self, topic: Topic, commits: list[Commit], lag: int) -> set[str]:
        begin = max((n for n, each in enumerate(commits) if each.ms < self.since_ms), default=0)
        found = set()
        for first in commits[begin:]:
            if first.ms - commits[begin].ms > THINNED_MS and found:
                break
            rest = commits[commits.index(first) :]
            known = [each for each in (self.lag_at(topic, commit) for commit in rest) if each is not None]
            longest_ms = max((b.ms - a.ms for a, b in pairwise(rest)), default=None)
            silent_ms = self.now_ms - commits[-1].ms
            times = [commit.ms for commit in rest if self.lag_at(topic, commit) is not None]
            halves = known[: len(known) // 2], known[-(len(known) // 2) :]
            if longest_ms is not None and silent_ms > max(WINDOW_MS / 4, 3 * longest_ms):
                halves, times = (known, [(lag, lag)]), [*times, self.now_ms]
            is_enough = len(halves[0]) >= 3 and times[-1] - times[0] >= WINDOW_MS / 4
            found.add(course(*halves) if is_enough else "behind")
        return found

    def _burrow(self, topic: Topic, commits: list[Commit], lag: int) -> str:
        window = commits[-10:]
        if lag <= 0:
            return "OK"
        first, last = window[0], window[-1]
        is_late = self.now_ms // 1000 * 1000 - last.ms > last.ms - first.ms
        # As Burrow counts: by the last end that is known then.
        lags = [None if found is None else found[0] for found in (self.lag_at(topic, each) for each in window)]
        end = recent_end(self.points(topic), self.now_ms)
        return burrow([each.offset for each in window], lags, is_late, end)

    @staticmethod
    def group_status(rows: list[Row]) -> Row:
        """From a group's rows as they were found right."""
        order = sorted(rows, key=lambda r: (SEVERITY.index(r["status"]), -(r["lag"] or 0), r["topic"], r["partition"]))
        lags = [row["lag"] for row in rows if row["lag"] is not None]
        longest = max((r for r in rows if r["time_lag_ms"]), key=lambda r: r["time_lag_ms"], default=None)
        is_open = any(row["lag"] and row["time_lag_method"] in ("at least", "unknown") for row in rows)
        method = "unknown" if not lags else "caught up"
        if longest is not None:
            method = "at least" if is_open else longest["time_lag_method"]
        burrow = {row["burrow"] for row in rows} - {None}
        unread = sum(row["lag"] or 0 for row in rows if row["status"] == "unsubscribed")
        is_more = unread and order[0]["status"] != "unsubscribed"
        more = f"; {unread} unread in topics that no member subscribes to" if is_more else ""
        worst = next((w for w in ("STOP", "STALL", "REWIND", "WARN", "OK") if w in burrow), None)
        return {
            "group_id": rows[0]["group_id"],
            "status": order[0]["status"],
            "why": order[0]["why"] + more,
            "alarming_partitions": sum(row["alarming"] for row in rows),
            "partitions": sum(row["committed_offset"] is not None for row in rows),
            "lag": sum(lags) if lags else None,
            "max_lag": max(lags, default=None),
            "max_time_lag_ms": longest["time_lag_ms"] if longest else 0 if lags else None,
            "max_time_lag_method": method,
            "last_commit_ms": max((r["committed_ms"] for r in rows if r["committed_ms"] is not None), default=None),
            "burrow": worst if worst in ("OK", "WARN", None) else "ERR",
        }

    def lag_history(self) -> dict[tuple[str, str, int, int], Row]:
        found = {}
        for group, place in self.places():
            topic, commits = self.world.topics[place], self.commits(group, place)
            points = self.points(topic)
            first_ms = max(commits[0].ms, points[0][0]) if commits else self.now_ms + 1
            for at_ms in range(-(-first_ms // 60_000) * 60_000, self.now_ms + 1, 60_000):
                committed = [each.offset for each in commits if each.ms <= at_ms][-1]
                low = max(end for ms, end in points if ms <= at_ms) - committed
                high = min(end for ms, end in points if ms >= at_ms) - committed
                found[(group.name, *place, at_ms)] = {
                    "group_id": group.name, "topic": place[0], "partition": place[1], "at_ms": at_ms,
                    "committed_offset": committed,
                    "lag": max(0, high), "least_lag": max(0, low),
                }  # fmt: skip
        return found

    def slo(self, history: Iterable[Row], target: int) -> dict[tuple[str, Any], Row]:
        """From the rows of lag_history as they were found right: a moment a minute."""
        bounds: dict[tuple[str, int], tuple[int, int]] = {}
        for row in history:
            key = row["group_id"], row["at_ms"]
            least, most = bounds.get(key, (0, 0))
            bounds[key] = max(least, row["least_lag"]), max(most, row["lag"])
        # A moment counts if both bounds agree.
        worst = {key: most for key, (least, most) in bounds.items() if most <= target or least > target}
        found: dict[tuple[str, Any], Row] = {}
        for group, day in {(group, datetime.fromtimestamp(ms / 1000, UTC).date()) for group, ms in worst}:
            lags = [
                lag
                for (name, ms), lag in worst.items()
                if name == group and datetime.fromtimestamp(ms / 1000, UTC).date() == day
            ]
            good, bad = sum(lag <= target for lag in lags), sum(lag > target for lag in lags)
            budget = len(lags) * 0.01
            found[group, day] = {
                "group_id": group, "day": day, "lag_target": target, "moments": len(lags), "good_moments": good,
                "good_minutes": float(good), "bad_minutes": float(bad), "good_share": good / len(lags),
                "budget_minutes": about(budget), "budget_left": about(1 - bad / budget),
            }  # fmt: skip
        return found

    # commits, offsets_load, expiry

    def commits_table(self) -> dict[tuple[str, str, int], Row]:
        found = {}
        for group in self.world.all_groups:
            for place in group.places:
                writes = self.writes(group, place)
                made = [each.at_ms for each in writes if each.offset is not None]
                if not made:
                    continue
                steps = [(a.offset, b.offset) for a, b in pairwise(writes) if a.offset is not None is not b.offset]
                steps = [(a, b) for a, b in steps if b is not None]
                back = [a - b for a, b in steps if b < a]
                seconds = (max(made) - min(made)) / 1000
                found[(group.name, *place)] = {
                    "group_id": group.name, "topic": place[0], "partition": place[1], "commits": len(made),
                    "first_ms": min(made), "last_ms": max(made),
                    "commits_per_s": about((len(made) - 1) / seconds) if seconds else None,
                    "no_op_commits": sum(a == b for a, b in steps), "rewinds": len(back), "rewound_records": sum(back),
                    "forgotten": sum(each.offset is None for each in writes),
                    "bytes": sum(each.size[0] for each in writes),
                }  # fmt: skip
        return found

    def offsets_load(self, rate: int) -> dict[tuple[str, int], Row]:
        found = {}
        of_log = {log: [e for e in self.world.written if e.log == log] for log in range(LOG_PARTITIONS)}
        mean = sum(map(len, of_log.values())) / LOG_PARTITIONS
        for group in self.world.all_groups:
            mine = [each for each in self.world.written if each.group == group.name]
            if not mine:
                continue
            live = self._live(mine)
            made = [e.at_ms for e in mine if e.place is not None and e.offset is not None]
            seconds = (max(made) - min(made)) / 1000 if made else 0
            there = of_log[group.log]
            kept = sum(len(self._live([e for e in there if e.group == g])) for g in {e.group for e in there})
            found[group.name, group.log] = {
                "group_id": group.name, "log_partition": group.log, "records": len(mine),
                "bytes": sum(each.size[0] for each in mine), "live_records": len(live),
                "live_bytes": sum(each.size[0] for each in live),
                "debt_bytes": sum(each.size[0] for each in mine) - sum(each.size[0] for each in live),
                "commits_per_s": about((len(made) - 1) / seconds) if seconds else None,
                "partition_records": len(there), "partition_bytes": sum(each.size[0] for each in there),
                "times_average": about(len(there) / mean), "hot": len(there) > 2 * mean,
                "load_ms": about(len(there) * 1000 / rate), "load_ms_cleaned": about(kept * 1000 / rate),
            }  # fmt: skip
        return found

    @staticmethod
    def _live(mine: list[Written]) -> list[Written]:
        """What the cleaner keeps: the last of each key; nothing of an aborted transaction."""
        last = {}
        for each in sorted(mine, key=lambda each: each.at_ms):
            if each.is_committed or each.marker_ms is None:
                last[each.place] = each
        return [each for each in last.values() if each.offset is not None]

    def expiry(self) -> dict[tuple[str, str, int], Row]:
        found = {}
        for group, place in self.places():
            commits = self.commits(group, place)
            if not commits:
                continue
            last, empty_ms = commits[-1], None
            counts_from, from_ms = "simple", last.made_ms
            in_use = bool(group.made) and bool(group.made[-1].owned)
            if group.made:
                empty_ms = group.made[-1].at_ms
                counts_from, from_ms = "empty", max(empty_ms, last.made_ms)
            expires_ms = None if in_use else from_ms + WEEK_MS
            found[(group.name, *place)] = {
                "group_id": group.name, "topic": place[0], "partition": place[1], "committed_offset": last.offset,
                "committed_ms": last.made_ms, "counts_from": "in use" if in_use else counts_from,
                "expires_ms": expires_ms, "expires_in_ms": None if expires_ms is None else expires_ms - self.now_ms,
                "abandoned": not in_use,
            }  # fmt: skip
        return found


def about(expected: float) -> Any:
    """Another order of additions gives another last digit."""
    return lambda value: value is not None and abs(value - expected) <= 1e-9 * max(1, abs(expected))
