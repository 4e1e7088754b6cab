"""Responses for the live page, as JSON and as server-sent events: a page of groups by urgency, and one group.

A response to /groups/events has one event and ends; a browser's EventSource reconnects after the pause that the
response names. So an open page costs a request every two seconds, and no connection in between.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from coordinatord.base.observe.log_part import Document
from coordinatord.monitoring.analysis.severity import is_urgent, severity
from coordinatord.monitoring.dashboard.page import page
from coordinatord.monitoring.dashboard.view import GroupView, View

PAGE_SIZE = 50
PAUSE_MS = 2_000
MAX_ROWS = 100
"""Maximum number of partitions, members and rebalances of one group in a response: the worst or the last ones."""
MAX_WORD = 300
HTML, EVENTS = "text/html; charset=utf-8", "text/event-stream; charset=utf-8"

LIFE = ("member_id", "instance", "client_id", "host", "since_ms", "until_ms", "end", "partitions", "last_commit_ms")
REBALANCE = (
    "generation", "generation_before", "outcome", "began_ms", "ended_ms", "members", "added", "removed",
    "partitions_moved", "trigger", "trigger_client_id", "cause", "client_reason", "how", "confidence",
)  # fmt: skip
PLACE = (
    "topic", "partition", "committed_offset", "committed_ms", "end_offset", "lag", "time_lag_ms", "time_lag_method",
    "lost_records", "status", "why", "alarming",
)  # fmt: skip


class Answers:
    """The part of an HTTP port below /groups. `state` returns why the cluster cannot be read at present, or None."""

    def __init__(
        self,
        view: Callable[[], View | None],
        cluster: Callable[[], str],
        now_ms: Callable[[], int],
        state: Callable[[], str | None],
        whole: Callable[[GroupView], GroupView] = lambda group: group,
    ) -> None:
        """`whole` adds details that are only shown for the selected group."""
        self._view = view
        self._cluster = cluster
        self._now_ms = now_ms
        self._state = state
        self._add = whole

    def part(self, method: str, path: str, query: Mapping[str, str], _token: str) -> tuple[int, object]:
        """Respond to a request. See base.observe.log_part.PathHandler."""
        if method not in ("GET", "HEAD"):
            return 405, {"error": "Only GET and HEAD."}
        if path == "/groups/":
            return 200, Document(HTML, page().encode())
        if path == "/groups/state":
            return 200, self.state(query)
        if path == "/groups/events":
            text = json.dumps(self.state(query))
            return 200, Document(EVENTS, f"retry: {PAUSE_MS}\nevent: state\ndata: {text}\n\n".encode())
        return 404, {"error": "There is no such page; /groups/ is the one."}

    def state(self, query: Mapping[str, str]) -> dict[str, Any]:
        """Return the state of the page. Parameters: `search` in names, statuses and reasons; `page` from 1; `group`,
        the group that is shown in full.
        """
        view = self._view() or View(self._now_ms())
        words = query.get("search", "")[:MAX_WORD].lower().split()
        found = [each for each in view.by_urgency if all(word in _searched(each) for word in words)]
        pages = max(1, -(-len(found) // PAGE_SIZE))
        number = min(max(1, int(query["page"][:9])), pages) if query.get("page", "")[:9].isdecimal() else 1
        group = view.groups.get(query.get("group", ""))
        return {
            "cluster": self._cluster(),
            "at_ms": view.at_ms,
            "now_ms": self._now_ms(),
            "trouble": self._state(),
            "groups": len(view.groups),
            "urgent": sum(is_urgent(word) for _, word, _why in view.by_urgency),
            "left_out_groups": view.left_out_groups,
            "left_out_partitions": view.left_out_partitions,
            "found": len(found),
            "page": number,
            "pages": pages,
            "list": [_row(*each) for each in found[(number - 1) * PAGE_SIZE : number * PAGE_SIZE]],
            "group": None if group is None else _whole(self._add(group)),
        }


def _searched(told: tuple[GroupView, str, str]) -> str:
    group, word, why = told
    return f"{group.group_id} {word} {why}".lower()


def _row(group: GroupView, word: str, why: str) -> dict[str, Any]:
    now = group.now
    return {
        "id": group.group_id,
        "status": word,
        "why": why,
        "urgent": is_urgent(word),
        "type": group.group_type,
        "lag": None if now is None else now.lag,
        "time_lag_ms": None if now is None else now.max_time_lag_ms,
        "time_lag_method": "unknown" if now is None else now.max_time_lag_method,
        "members": group.members,
        "last_commit_ms": None if now is None else now.last_commit_ms,
        "rebalancing": group.waiting is not None,
    }


def _whole(group: GroupView) -> dict[str, Any]:
    rows = sorted(group.rows, key=lambda row: (severity(row.status), -(row.lag or 0), row.topic, row.partition))
    rebalances = list(reversed(group.rebalances))
    lives = sorted(group.lives, key=lambda life: (life.until_ms is not None, -(life.until_ms or 0), life.since_ms))
    deadlines = sorted(group.deadlines, key=lambda each: each.at_ms)
    return {
        **_row(group, *group.verdict),
        "also": [{"kind": each.kind, "text": each.text} for each in group.trouble],
        "commits": group.commits,
        "causes": dict(group.causes),
        "waiting": group.waiting,
        "deadlines": [each._asdict() for each in deadlines[:MAX_ROWS]],
        **_part("partitions", rows, PLACE),
        **_part("rebalances", rebalances, REBALANCE),
        **_part("lives", lives, LIFE),
    }


def _part(name: str, rows: Sequence[Any], columns: Sequence[str]) -> dict[str, Any]:
    told = []
    for row in rows[:MAX_ROWS]:
        whole = row._asdict() if hasattr(row, "_asdict") else asdict(row)
        told.append({column: whole[column] for column in columns})
    return {name: told, f"{name}_count": len(rows)}
