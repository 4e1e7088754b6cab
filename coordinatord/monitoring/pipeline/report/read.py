"""The tables' rows that the report needs. The tables are small compared with the log and are read whole, except for
the tables OF_GROUPS, of which only the shown groups' rows are read."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple

from coordinatord.monitoring.analysis import severity
from coordinatord.monitoring.analysis.current_lag import Now
from coordinatord.monitoring.analysis.groups import GroupNow, group_now
from coordinatord.monitoring.analysis.members import Event
from coordinatord.monitoring.analysis.share_log import now_of
from coordinatord.monitoring.offsets_log.source.segments import SourceError
from coordinatord.monitoring.pipeline.run.state import find_state

Row = dict[str, Any]

OF_GROUPS = ("rebalances", "members", "lag_history", "lag", "status", "commits")
"""Tables of which only the shown groups' rows are read."""
MAX_EVENT_FILES = 500
"""Maximum number of micro-batches with events; the last ones are read."""
OF_ALL = ("group_status", "member_events", "churn", "slo", "expiry", "share_partitions")


MAX_NAMED = 12
"""Maximum number of partitions named in the tooltip of an assignment."""


class Held(NamedTuple):
    """A member's assignment, and the first generation with it."""

    member_id: str
    generation: int
    since_ms: int
    partitions: tuple[tuple[str, tuple[int, ...]], ...]

    @property
    def total(self) -> int:
        return sum(len(numbers) for _, numbers in self.partitions)

    def named(self) -> str:
        names = [f"{topic}-{number}" for topic, numbers in self.partitions for number in numbers]
        rest = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
        return ", ".join(names[:MAX_NAMED]) + rest


@dataclass(slots=True)
class Tables:
    """Rows by table. `shown` are the groups with their own section, the most urgent first."""

    at_ms: int
    runs: int
    rows: dict[str, list[Row]] = field(default_factory=dict)
    held: dict[str, list[Held]] = field(default_factory=dict)
    events: list[Row] = field(default_factory=list)
    shown: list[str] = field(default_factory=list)
    members: dict[str, int] = field(default_factory=dict)
    """Number of present members, of all groups that have had any."""
    trouble: dict[str, list[Event]] = field(default_factory=dict)
    """Crash loops and storms that were not over at `at_ms`."""

    def verdict(self, row: Row) -> severity.Verdict:
        """Return the worst verdict on a group with a row of group_status, and its reason."""
        return severity.verdict(_group_now(row), self.trouble.get(row["group_id"], ()))

    def of(self, table: str, group_id: str) -> list[Row]:
        return [row for row in self.rows.get(table, []) if row["group_id"] == group_id]


def read(out: Path, limit: int, only: tuple[str, ...] = ()) -> Tables:
    """Read the tables of `coordinatord pipeline run --out`. Shows the groups in `only` if given, otherwise the `limit`
    most urgent ones. Raises SourceError.
    """
    state = find_state(out)
    if state is None:
        raise SourceError(f"{out} has no tables: run `coordinatord pipeline run --out {out}` first")
    if any((out / "tables" / name / "_delta_log").exists() for name in OF_ALL):
        raise SourceError("a report needs Parquet tables, and these are Delta tables: run once with --format parquet")
    tables = Tables(int(state["at_ms"]), int(state["runs"]))
    for name in OF_ALL:
        tables.rows[name] = _rows(out, name)
    tables.rows["group_status"] += [each._asdict() for each in _share_groups(tables.rows["share_partitions"])]
    rebalances = _rows(out, "rebalances", ("group_id",))
    counts: dict[str, int] = {}
    for row in rebalances:
        counts[row["group_id"]] = counts.get(row["group_id"], 0) + 1
    tables.trouble = _trouble(out, tables.at_ms)
    with_offsets = {row["group_id"] for row in tables.rows["group_status"]}
    for group in sorted(tables.trouble.keys() - with_offsets):
        tables.rows["group_status"].append(severity.judged(group, None, tables.trouble[group])._asdict())
    tables.rows["group_status"].sort(key=lambda row: _urgency(row, tables.verdict(row)[0], counts))
    known = [row["group_id"] for row in tables.rows["group_status"]]
    known += sorted(counts.keys() - set(known), key=lambda group: (-counts[group], group))
    for group in only:
        if group not in known:
            raise SourceError(f"{out} has no group {group}")
    tables.shown = list(only) or known[:limit]
    for name in OF_GROUPS:
        tables.rows[name] = _rows(out, name, groups=tables.shown)
    tables.members = _members(out)
    tables.held = _held(out, tables.shown)
    tables.events = _events(out)
    return tables


def read_groups(out: Path) -> tuple[int, list[GroupNow], dict[str, int]]:
    """Return the time of the tables, the groups' rows, the most urgent first, and the number of members of each. The
    status of each row is the group's verdict (analysis.severity). Raises SourceError.
    """
    state = find_state(out)
    if state is None:
        raise SourceError(f"{out} has no tables: run `coordinatord pipeline run --out {out}` first")
    at_ms = int(state["at_ms"])
    trouble = _trouble(out, at_ms)
    now = {row["group_id"]: _group_now(row) for row in _rows(out, "group_status")}
    now |= {each.group_id: each for each in _share_groups(_rows(out, "share_partitions"))}
    groups = [severity.judged(group, now.get(group), trouble.get(group, ())) for group in now.keys() | trouble.keys()]
    return at_ms, sorted(groups, key=severity.urgency), _members(out)


def _members(out: Path) -> dict[str, int]:
    members: dict[str, int] = {}
    for row in _rows(out, "members", ("group_id", "until_ms")):
        members[row["group_id"]] = members.get(row["group_id"], 0) + (row["until_ms"] is None)
    shared = _rows(out, "share_partitions", ("group_id", "members"))
    return members | {row["group_id"]: row["members"] for row in shared}


def _share_groups(rows: Iterable[Row]) -> list[GroupNow]:
    """Return the rows of share groups, which are not in the table group_status: they commit nothing."""
    by_group: dict[str, list[Now]] = {}
    for row in rows:
        by_group.setdefault(row["group_id"], []).append(now_of(row))
    return [group_now(each) for _, each in sorted(by_group.items())]


def _group_now(row: Row) -> GroupNow:
    return GroupNow(**{name: row[name] for name in GroupNow._fields})


def _trouble(out: Path, at_ms: int) -> dict[str, list[Event]]:
    columns = [each.name for each in fields(Event)]
    found: dict[str, list[Event]] = {}
    for row in _rows(out, "member_events", ("group_id", *columns)):
        found.setdefault(row["group_id"], []).append(Event(*(row[name] for name in columns)))
    under_way = {group: severity.under_way(events, at_ms) for group, events in found.items()}
    return {group: events for group, events in under_way.items() if events}


def _urgency(row: Row, word: str, rebalances: dict[str, int]) -> tuple[Any, ...]:
    return severity.severity(word), -(row["lag"] or 0), -rebalances.get(row["group_id"], 0), row["group_id"]


def _held(out: Path, groups: list[str]) -> dict[str, list[Held]]:
    """Return the assignments in the generations of classic groups, by group, from the log."""
    from pyarrow import dataset

    path = out / "facts" / "group_generations"
    if not any(path.glob("batch=*/bucket=*/*.parquet")):
        return {}
    columns = ["group_id", "generation", "log_offset", "timestamp_ms", "current_state_timestamp_ms", "members"]
    files = dataset.dataset(str(path), format="parquet", partitioning="hive")
    rows = files.to_table(columns=columns, filter=dataset.field("group_id").isin(groups)).to_pylist()
    found: dict[str, list[Held]] = {group: [] for group in groups}
    last: dict[tuple[str, str], Held] = {}
    for row in sorted(rows, key=lambda row: row["log_offset"]):
        since_ms = row["current_state_timestamp_ms"] or row["timestamp_ms"]
        for member in row["members"] or []:
            assigned = (member["assignment"] or {}).get("assigned_partitions") or []
            partitions = tuple((each["topic"], tuple(sorted(each["partitions"] or ()))) for each in assigned)
            held = Held(member["member_id"], row["generation"], since_ms, tuple(sorted(partitions)))
            before = last.get((row["group_id"], held.member_id))
            if before is None or before.partitions != held.partitions:
                last[row["group_id"], held.member_id] = held
                found[row["group_id"]].append(held)
    return found


def _events(out: Path) -> list[Row]:
    """Return the follower's events (run/events.py), the last one first."""
    rows: list[Row] = []
    for path in sorted((out / "events").glob("[0-9]*.jsonl"), reverse=True)[:MAX_EVENT_FILES]:
        rows += [json.loads(line) for line in path.read_text().splitlines()]
    return sorted(rows, key=lambda row: -row["at_ms"])


def _rows(out: Path, name: str, columns: tuple[str, ...] = (), groups: list[str] | None = None) -> list[Row]:
    """Return a table's rows; none if no run has made the table."""
    from pyarrow import dataset

    path = out / "tables" / name
    if not any(path.glob("bucket=*/*.parquet")):
        return []
    files = dataset.dataset(str(path), format="parquet", partitioning="hive")
    chosen = None if groups is None else dataset.field("group_id").isin(groups)
    rows: list[Row] = files.to_table(columns=list(columns) or None, filter=chosen).to_pylist()
    return rows
