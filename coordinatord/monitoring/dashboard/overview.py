"""The overview of the live page: a row for each group, and incidents, which are groups with the same trouble and cause.

A page asks for the rows that have changed. `Feed` gives each row the number of the look that changed it, and sends the
rows after a cursor, in order of their names, up to a limit in bytes: so an open page costs at most BYTES every
PAUSE_MS, and no row is left out for ever. The first response has all rows.
"""

from __future__ import annotations

import json
import threading
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from coordinatord.monitoring.analysis.members import CRASH_LOOP, STORM
from coordinatord.monitoring.analysis.severity import is_urgent, severity
from coordinatord.monitoring.analysis.status import ENDED, EXPIRED, OK, STOPPED, UNSUBSCRIBED
from coordinatord.monitoring.dashboard.trends import Points, Trends
from coordinatord.monitoring.dashboard.view import GroupView, View
from coordinatord.monitoring.dashboard.words import reason

PAUSE_MS = 5_000
BYTES = 14_000
"""Maximum size of the changed rows of a response: with the rest, less than 200 KB a minute."""
MAX_GONE = 10_000
"""Maximum number of names of removed groups; a page that is further behind gets all rows again."""
LEAST_GROUPS = 3
"""Least number of groups with the same trouble and cause that are rolled up."""
SAME_MS = 60_000
"""Longest gap between the last commits of groups that stopped together."""
MAX_INCIDENTS = 20
MAX_NAMES = 8
"""Maximum number of topics, clients and hosts in a row that a search finds; a group's page has all of them."""
BARS = 20
CALM = frozenset({OK, ENDED, UNSUBSCRIBED})
LEVELS = "0123456789abcdefghijklmnopqrstuvwxyz"


class Incident(NamedTuple):
    """Groups with the same trouble and cause. `id` is stable while the incident lasts."""

    id: str
    status: str
    groups: int
    lag: int
    since_ms: int | None
    topic: str | None
    """The topic that all of them read, if it is one."""


def row(group: GroupView, trends: Points, incident: str | None) -> dict[str, Any]:
    """Return a group's row. Times are in milliseconds since 1970."""
    word, _why = group.verdict
    now = group.now
    present = [life for life in group.lives if life.until_ms is None]
    told: dict[str, Any] = {
        "id": group.group_id,
        "status": word,
        "order": severity(word),
        "urgent": is_urgent(word),
        "why": reason(group),
        "lag": None if now is None else now.lag,
        "time_lag_ms": None if now is None else now.max_time_lag_ms,
        "bound": {"at least": "≥", "at most": "≤"}.get("" if now is None else now.max_time_lag_method, ""),
        "members": group.members,
        "last_commit_ms": None if now is None else now.last_commit_ms,
        "topics": sorted({each.topic for each in group.rows})[:MAX_NAMES],
        "clients": sorted({each.client_id for each in present})[:MAX_NAMES],
        "hosts": sorted({each.host.removeprefix("/") for each in present if each.host})[:MAX_NAMES],
    }
    if incident is not None:
        told["incident"] = incident
    if group.waiting is not None:
        told["rebalancing"] = True
    if word not in CALM:
        told["trend"] = sparkline(trends.points(group.group_id))
    return told


def sparkline(points: Sequence[tuple[int, int]]) -> str:
    """Return BARS heights at most, 0 to z, of lags whose largest is z; empty if there are less than two."""
    step = max(1, -(-len(points) // BARS))
    lags = [max(lag for _, lag in points[at : at + step]) for at in range(0, len(points), step)]
    most = max(lags, default=0)
    if len(lags) < 2:
        return ""
    return "".join(LEVELS[0 if most == 0 else round(lag * 35 / most)] for lag in lags)


def incidents(groups: Iterable[GroupView]) -> tuple[list[Incident], dict[str, str]]:
    """Return the incidents, the most urgent first, and the incident of each group that belongs to one."""
    by_cause: dict[tuple[str, str | None], list[GroupView]] = defaultdict(list)
    for group in groups:
        word = group.verdict.word
        if is_urgent(word) and word not in (CRASH_LOOP, STORM):
            by_cause[word, None if word in (STOPPED, EXPIRED) else _one_topic(group)].append(group)
    found: list[Incident] = []
    of: dict[str, str] = {}
    for (word, topic), alike in by_cause.items():
        if word not in (STOPPED, EXPIRED) and topic is None:
            continue
        for run in _runs(alike) if word in (STOPPED, EXPIRED) else [alike]:
            if len(run) < LEAST_GROUPS:
                continue
            since_ms = _last_ms(run[0]) if word in (STOPPED, EXPIRED) else None
            topics = {_one_topic(group) for group in run}
            name = f"{word}@{topic if since_ms is None else since_ms // SAME_MS}"
            lag = sum((group.now.lag or 0) for group in run if group.now is not None)
            found.append(Incident(name, word, len(run), lag, since_ms, topics.pop() if len(topics) == 1 else None))
            of |= dict.fromkeys((group.group_id for group in run), name)
    found.sort(key=lambda each: (severity(each.status), -each.groups, each.id))
    kept = {each.id for each in found[:MAX_INCIDENTS]}
    return found[:MAX_INCIDENTS], {group: name for group, name in of.items() if name in kept}


def _runs(groups: list[GroupView]) -> list[list[GroupView]]:
    """Return the groups in runs whose last commits are not further apart than SAME_MS."""
    runs: list[list[GroupView]] = []
    for group in sorted((each for each in groups if _last_ms(each) is not None), key=lambda each: _last_ms(each) or 0):
        if runs and (_last_ms(group) or 0) - (_last_ms(runs[-1][-1]) or 0) <= SAME_MS:
            runs[-1].append(group)
        else:
            runs.append([group])
    return runs


def _last_ms(group: GroupView) -> int | None:
    return None if group.now is None else group.now.last_commit_ms


def _one_topic(group: GroupView) -> str | None:
    topics = {row.topic for row in group.rows if row.status == group.verdict.word}
    return topics.pop() if len(topics) == 1 else None


class _Sent(NamedTuple):
    digest: str
    look: int
    told: dict[str, Any]


class Feed:
    """The rows of the latest view, and when each changed. Any thread may call it."""

    def __init__(self, trends: Trends) -> None:
        self._trends = trends
        self._lock = threading.Lock()
        self._view: View | None = None
        self._look = 0
        self._rows: dict[str, _Sent] = {}
        self._gone: dict[str, int] = {}
        self._began_ms = 0
        """When the first look was: a cursor of another process counts as empty."""
        self._from = 0
        """A page whose rows are older than this look gets all of them."""
        self._incidents: list[Incident] = []

    def since(self, view: View, cursor: str) -> dict[str, Any]:
        """Return the rows that changed after `cursor` (empty: all rows), names of removed groups, incidents, and the
        next cursor. An unknown cursor counts as empty.
        """
        with self._lock:
            if view is not self._view:
                self._take(view)
            since, begin, after = self._cursor(cursor)
            room, rows = BYTES, list[dict[str, Any]]()
            following = (begin, begin, "")
            for name in sorted(name for name, sent in self._rows.items() if sent.look > since and name > after):
                sent = self._rows[name]
                room -= len(sent.digest) + 50
                if since and rows and room < 0:
                    following = (since, begin, rows[-1]["id"])
                    break
                rows.append(sent.told)
            return {
                "whole": since == 0,
                "rows": rows,
                "gone": [name for name, look in self._gone.items() if look > since],
                "incidents": [each._asdict() for each in self._incidents],
                "next": json.dumps([self._began_ms, *following]),
            }

    def _cursor(self, text: str) -> tuple[int, int, str]:
        """Return the look up to which the page has all rows, the look at which its present pass over the names began,
        and the name after which the pass goes on.
        """
        try:
            began_ms, since, begin, after = json.loads(text)
            is_known = began_ms == self._began_ms and max(self._from, 1) <= since <= begin <= self._look
            after = str(after)
        except (ValueError, TypeError, RecursionError):
            is_known = False
        if not is_known:
            return 0, self._look, ""
        return int(since), int(begin) if after else self._look, after

    def _take(self, view: View) -> None:
        if not self._look:
            self._began_ms = view.at_ms
        self._look += 1
        self._view = view
        self._incidents, of = incidents(view.groups.values())
        rows: dict[str, _Sent] = {}
        for name, group in view.groups.items():
            told = row(group, self._trends, of.get(name))
            digest = _digest(told, view.at_ms)
            before = self._rows.get(name)
            rows[name] = before if before is not None and before.digest == digest else _Sent(digest, self._look, told)
            self._gone.pop(name, None)
        self._gone |= dict.fromkeys(self._rows.keys() - rows.keys(), self._look)
        self._rows = rows
        if len(self._gone) > MAX_GONE:
            self._gone.clear()
            self._from = self._look


def _digest(told: dict[str, Any], now_ms: int) -> str:
    """Return what makes a row worth sending again: figures to two digits, and no age of a commit while it commits."""
    last_ms, rough = told["last_commit_ms"], dict(told)
    rough["lag"] = None if told["lag"] is None else f"{told['lag']:.2g}"
    rough["time_lag_ms"] = None if told["time_lag_ms"] is None else f"{told['time_lag_ms']:.2g}"
    rough["last_commit_ms"] = None if last_ms is None else max(last_ms, now_ms - 2 * SAME_MS) // SAME_MS
    if last_ms is not None and now_ms - last_ms < 2 * SAME_MS:
        rough["last_commit_ms"] = "now"
    if not told["urgent"]:
        del rough["why"]  # it repeats the lag
    return json.dumps(rough, ensure_ascii=False)
