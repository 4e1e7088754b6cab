"""The tables as the groups that the live page shows, so that the report has the same pages."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import fields
from typing import Any

from coordinatord.monitoring.analysis.commit_window import Rewinds
from coordinatord.monitoring.analysis.current_lag import Now
from coordinatord.monitoring.analysis.expiry import Expiry
from coordinatord.monitoring.analysis.generations import TopicPartition
from coordinatord.monitoring.analysis.groups import GroupNow
from coordinatord.monitoring.analysis.members import CRASH_LOOP, STORM, Event, Life
from coordinatord.monitoring.analysis.rebalances import Rebalance
from coordinatord.monitoring.analysis.share_log import deliveries_of, now_of
from coordinatord.monitoring.dashboard.details import SHARE
from coordinatord.monitoring.dashboard.view import Ending, GroupView, View
from coordinatord.monitoring.pipeline.report.read import Row, Tables

_LIFE = [each.name for each in fields(Life)]
_EVENT = [each.name for each in fields(Event)]
_REBALANCE = [each.name for each in fields(Rebalance)]


class LagHistory:
    """The points of lag_history, summed up by group: as dashboard.trends.Trends."""

    def __init__(self, rows: list[Row]) -> None:
        steps: dict[str, dict[int, dict[tuple[str, int], int]]] = defaultdict(lambda: defaultdict(dict))
        for row in rows:
            steps[row["group_id"]][row["at_ms"]][row["topic"], row["partition"]] = row["lag"]
        self._points: dict[str, list[tuple[int, int]]] = {}
        self._curves: dict[str, dict[TopicPartition, list[tuple[int, int]]]] = defaultdict(lambda: defaultdict(list))
        for group, times in steps.items():
            present: dict[tuple[str, int], int] = {}  # a partition keeps its lag until its next point
            self._points[group] = []
            for at_ms in sorted(times):
                present |= times[at_ms]
                for place, lag in times[at_ms].items():
                    self._curves[group][place].append((at_ms, lag))
                self._points[group].append((at_ms, sum(present.values())))

    def points(self, group_id: str) -> list[tuple[int, int]]:
        """Return (time in ms, lag) of the group, oldest first."""
        return self._points.get(group_id, [])

    def curves(self, group_id: str) -> dict[TopicPartition, list[tuple[int, int]]]:
        """Return (time in ms, lag) of each of the group's partitions, oldest first."""
        return self._curves.get(group_id, {})


def view(tables: Tables) -> View:
    """Return all groups of the tables. Those in `tables.shown` have partitions, members and rebalances, too."""
    rows = _by_group(tables, "lag")
    for row in tables.rows.get("status", []):
        for each in rows[row["group_id"]]:
            if (each["topic"], each["partition"]) == (row["topic"], row["partition"]):
                each |= row
    names = ("rebalances", "members", "commits", "expiry", "member_events", "share_partitions")
    of = {name: _by_group(tables, name) for name in names}
    groups: dict[str, GroupView] = {}
    known = {row["group_id"]: row for row in tables.rows["group_status"]}
    for group in [*known, *(each for each in tables.shown if each not in known)]:
        lives = [Life(**_columns(row, _LIFE)) for row in of["members"][group]]
        rebalances = sorted(of["rebalances"][group], key=lambda row: row["ended_ms"] or 0)
        shared = {(row["topic"], row["partition"]): row for row in of["share_partitions"][group]}
        groups[group] = GroupView(
            group_id=group,
            group_type=SHARE if shared else None,
            now=_now(known.get(group)),
            rows=[
                *(Now(**_columns(row, Now._fields)) for row in rows[group] if row.get("status")),
                *(now_of(row) for row in shared.values()),
            ],
            members=tables.members.get(group),
            commits=None,
            causes=Counter(row["trigger"] or "unknown" for row in rebalances),
            trouble=tables.trouble.get(group, ()),
            events=[Event(**_columns(row, _EVENT)) for row in of["member_events"][group]],
            rebalances=[Rebalance(**_columns(row, _REBALANCE)) for row in rebalances],
            lives=lives,
            owners=_owners(tables, group, lives),
            rewinds={
                (row["topic"], row["partition"]): Rewinds(row["rewinds"], row["rewound_records"])
                for row in of["commits"][group]
                if row["rewinds"]
            },
            expiries=[
                Expiry(row["topic"], row["partition"], row["counts_from"], row["expires_ms"])
                for row in of["expiry"][group]
                if row["expires_ms"] is not None
            ],
            deliveries={place: deliveries_of(row) for place, row in shared.items()},
            state_changes_ms={place: row["changed_ms"] for place, row in shared.items()},
        )
    ends: dict[tuple[str, int], Ending] = {}
    for row in [*tables.rows.get("share_partitions", []), *tables.rows.get("lag", [])]:
        if row["end_offset"] is not None:
            place = (row["topic"], row["partition"])
            ends[place] = Ending(*place, row.get("log_start_offset"), row["end_offset"])
    return View(tables.at_ms, groups, [ends[place] for place in sorted(ends)])


def _columns(row: Row, names: Iterable[str]) -> Row:
    """Return these columns; None for those that the table does not have."""
    return {name: row.get(name) for name in names}


def _now(row: Row | None) -> GroupNow | None:
    """Return the group's row; None for a group without offsets, which read() lists for its trouble alone."""
    if row is None or row["status"] in (CRASH_LOOP, STORM):
        return None
    return GroupNow(**{name: row[name] for name in GroupNow._fields})


def _by_group(tables: Tables, name: str) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in tables.rows.get(name, []):
        found[row["group_id"]].append(dict(row))
    return found


def _owners(tables: Tables, group: str, lives: list[Life]) -> dict[tuple[str, int], tuple[str, str]]:
    present = {life.member_id: life for life in lives if life.until_ms is None}
    last = {held.member_id: held for held in tables.held.get(group, [])}
    return {
        (topic, number): (present[member_id].client_id, present[member_id].host)
        for member_id, held in last.items()
        if member_id in present
        for topic, numbers in held.partitions
        for number in numbers
    }
