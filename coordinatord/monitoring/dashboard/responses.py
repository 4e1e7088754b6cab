"""Responses for the live page: its files, and as JSON the overview, one group, one topic, one client or host.

The page asks again every PAUSE_MS. It sends the cursor of its last overview, and gets the rows that have changed; or
the tag of what it shows of a group, and gets nothing if that is the same. So no connection stays open.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any

from coordinatord.base.observe.log_part import Document
from coordinatord.monitoring.analysis.severity import is_urgent
from coordinatord.monitoring.dashboard import details
from coordinatord.monitoring.dashboard.overview import PAUSE_MS, Feed, row
from coordinatord.monitoring.dashboard.page import FILES, front_file, page
from coordinatord.monitoring.dashboard.trends import Trends
from coordinatord.monitoring.dashboard.view import GroupView, View

PAGE_SIZE = 50
"""Number of groups in a page of /groups/state."""
MAX_WORD = 300
HTML, JSON = "text/html; charset=utf-8", "application/json"


class Answers:
    """The part of an HTTP port below /groups. `state` returns why the cluster cannot be read at present, or None."""

    def __init__(
        self,
        view: Callable[[], View | None],
        cluster: Callable[[], str],
        now_ms: Callable[[], int],
        state: Callable[[], str | None],
        whole: Callable[[GroupView], GroupView] = lambda group: group,
        *,
        trends: Trends | None = None,
        bootstrap: str = "127.0.0.1:9092",
    ) -> None:
        """`whole` adds details that are only shown for the selected group; `bootstrap` is for commands to copy."""
        self._view = view
        self._cluster = cluster
        self._now_ms = now_ms
        self._state = state
        self._add = whole
        self._trends = Trends() if trends is None else trends
        self._bootstrap = bootstrap
        self._feed = Feed(self._trends)

    def part(self, method: str, path: str, query: Mapping[str, str], _token: str) -> tuple[int, object]:
        """Respond to a request. See base.observe.log_part.PathHandler."""
        if method not in ("GET", "HEAD"):
            return 405, {"error": "Only GET and HEAD."}
        name = path.removeprefix("/groups/")
        if name == "":
            return 200, Document(HTML, page().encode())
        if name in FILES:
            return 200, front_file(name)
        if name == "state":
            return 200, self.state(query)
        if name == "overview":
            return 200, _json(self.overview(query.get("since", "")))
        if name in ("group", "topic", "client"):
            return 200, _json(self.detail(name, query.get("name", ""), query.get("tag", "")))
        return 404, {"error": "There is no such page; /groups/ is the one."}

    def _head(self, view: View) -> dict[str, Any]:
        return {
            "cluster": self._cluster(),
            "at_ms": view.at_ms,
            "now_ms": self._now_ms(),
            "pause_ms": PAUSE_MS,
            "trouble": self._state(),
        }

    def overview(self, cursor: str) -> dict[str, Any]:
        """Return the rows that changed after `cursor`; all rows if it is empty or unknown. See overview.Feed."""
        view = self._view() or View(0)
        return {
            **self._head(view),
            "groups": len(view.groups),
            "left_out": view.left_out_groups + view.left_out_partitions,
            **self._feed.since(view, cursor),
        }

    def detail(self, kind: str, name: str, tag: str) -> dict[str, Any]:
        """Return one group, topic or client. `found` is None if there is none, `same` true if the content is that of
        `tag`.
        """
        view = self._view() or View(0)
        found: dict[str, Any] | None
        if kind == "group":
            group = view.groups.get(name)
            found = None if group is None else details.whole(self._add(group), self._trends, self._bootstrap)
        else:
            found = details.topic(view, name) if kind == "topic" else details.client(view, name)
        now_tag = hashlib.sha256(json.dumps(found).encode()).hexdigest()[:16]
        if tag == now_tag:
            return {**self._head(view), "same": True}
        return {**self._head(view), "tag": now_tag, "found": found}

    def state(self, query: Mapping[str, str]) -> dict[str, Any]:
        """Return a page of groups for programs. Parameters: `search` in names, statuses and reasons; `page` from 1;
        `group`, the group that is returned in full.
        """
        view = self._view() or View(self._now_ms())
        words = query.get("search", "")[:MAX_WORD].lower().split()
        found = [each for each in view.by_urgency if all(word in _searched(each) for word in words)]
        pages = max(1, -(-len(found) // PAGE_SIZE))
        number = min(max(1, int(query["page"][:9])), pages) if query.get("page", "")[:9].isdecimal() else 1
        group = view.groups.get(query.get("group", ""))
        return {
            **self._head(view),
            "groups": len(view.groups),
            "urgent": sum(is_urgent(word) for _, word, _why in view.by_urgency),
            "left_out_groups": view.left_out_groups,
            "left_out_partitions": view.left_out_partitions,
            "found": len(found),
            "page": number,
            "pages": pages,
            "list": [_row(each, self._trends) for each, _, _ in found[(number - 1) * PAGE_SIZE : number * PAGE_SIZE]],
            "group": None if group is None else details.whole(self._add(group), self._trends, self._bootstrap),
        }


def _row(group: GroupView, trends: Trends) -> dict[str, Any]:
    method = "unknown" if group.now is None else group.now.max_time_lag_method
    more = {"type": group.group_type, "rebalancing": group.waiting is not None, "time_lag_method": method}
    return {**row(group, trends, None), **more}


def _searched(told: tuple[GroupView, str, str]) -> str:
    group, word, why = told
    return f"{group.group_id} {word} {why}".lower()


def _json(content: object) -> Document:
    return Document(JSON, json.dumps(content, ensure_ascii=True, separators=(",", ":")).encode())
