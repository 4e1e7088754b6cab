"""The report as one HTML file without external resources: the front end of the live page with its data inside, then
what only the tables have: events, lag targets, offsets that expire.
"""

from __future__ import annotations

import datetime
import html
import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import fields
from itertools import islice
from typing import Any
from urllib.parse import quote

from coordinatord.base.html_page import Cell, document, table, tr
from coordinatord.monitoring.analysis.members import Event
from coordinatord.monitoring.dashboard import details, overview
from coordinatord.monitoring.dashboard.page import BODY, SCRIPTS, front_file
from coordinatord.monitoring.dashboard.words import event_text, in_units, span
from coordinatord.monitoring.pipeline.report.read import Row, Tables
from coordinatord.monitoring.pipeline.report.views import LagHistory, view
from coordinatord.monitoring.pipeline.run.progress import Progress

MAX_ROWS = 50
"""Maximum number of rows of one table on the page; the page shows the number of omitted rows."""

MAX_BYTES = 10_000_000
"""Maximum size of the groups in full, in bytes: browsers open such a page within seconds, and it can be sent."""
MAX_PAGES = 500
"""Maximum number of topics, and of clients, with a page."""
BOOTSTRAP = "BROKER:9092"
"""The address in commands to copy: the tables do not have it."""

POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:"
"""The page may not load anything."""


def page(tables: Tables, progress: Progress | None = None) -> str:
    """Return the whole page."""
    parts = [
        *_changes(tables),
        *_causes(tables),
        *_events(tables),
        *_slo(tables),
        *_expiring(tables),
    ]
    data = json.dumps(embedded(tables, progress or Progress()), separators=(",", ":")).replace("<", "\\u003c")
    scripts = "\n".join(front_file(name).body.decode() for name in SCRIPTS)
    body = [
        BODY.replace(' <a href="state">The same as JSON.</a>', "").replace(
            "</main>", f'<div id="more">{"".join(parts)}</div>\n</main>'
        ),
        f'<script type="application/json" id="data">{data}</script>',
        f"<script>{scripts}</script>",
    ]
    title = f"Consumer groups, {_moment(tables.at_ms)} UTC"
    style = front_file("uplot.css").body.decode()
    return document(title, "\n".join(body), style=style, policy=POLICY, body_class="live")


def embedded(tables: Tables, progress: Progress) -> dict[str, Any]:
    """Return the data of the page: the overview of all groups, as many of `tables.shown` in full as fit, and the topics
    and clients of these.
    """
    found, trends = view(tables), LagHistory(tables.rows.get("lag_history", []))
    rolled_up, of = overview.incidents(found.groups.values())
    groups: dict[str, Any] = {}
    room = MAX_BYTES
    for number, name in enumerate(tables.shown):
        told = details.whole(found.groups[name], trends, BOOTSTRAP)
        room -= len(json.dumps(told))
        if room < 0 and groups:
            break
        groups[name] = told
        progress.amount(number + 1, len(tables.shown), "groups")
    topics = {place["topic"] for told in groups.values() for place in told["partitions"]}
    clients = {
        name
        for told in groups.values()
        for life in told["lives"]
        if life["until_ms"] is None
        for name in (life["client_id"], life["instance"], (life["host"] or "").removeprefix("/"))
        if name
    }
    return {
        "cluster": "",
        "at_ms": tables.at_ms,
        "now_ms": tables.at_ms,
        "trouble": None,
        "left_out": 0,
        "whole": True,
        "gone": [],
        "next": "",
        "rows": [overview.row(each, trends, of.get(each.group_id)) for each, _, _ in found.by_urgency],
        "incidents": [each._asdict() for each in rolled_up],
        "group": groups,
        "topic": {name: details.topic(found, name) for name in sorted(topics)[:MAX_PAGES]},
        "client": {name: details.client(found, name) for name in sorted(clients)[:MAX_PAGES]},
    }


def _changes(tables: Tables) -> Iterator[str]:
    """Yield the events of `pipeline run --follow`; those that have not ended are highlighted."""
    if not tables.events:
        return
    ended = {_identity(row) for row in tables.events if row["change"] != "began"}
    cells = (
        [
            (_moment(row["at_ms"]), "w"),
            (html.escape(row["kind"]), "w"),
            _change(row, is_open=row["change"] == "began" and _identity(row) not in ended),
            _group(row["group_id"]),
            (html.escape(f"{row['topic']}-{row['partition']}" if row["topic"] is not None else ""), "w"),
            (html.escape(in_units(row["text"])), "t"),
        ]
        for row in tables.events
    )
    head = ["seen (UTC)", "what", "change", "group", "partition", "in words"]
    yield from _table("Events while the log was followed", head, cells, len(tables.events), "changes")


def _identity(row: Row) -> tuple[Any, ...]:
    return row["group_id"], row["kind"], row["topic"], row["partition"], row["since_ms"]


def _change(row: Row, *, is_open: bool) -> Cell:
    if is_open:
        return "<span class='badge bad'>began, not over</span>", "w"
    return f"<span class={'soft' if row['change'] == 'began' else 'good'}>{html.escape(row['change'])}</span>", "w"


def _causes(tables: Tables) -> Iterator[str]:
    """Yield the rebalances of the groups in full by cause, the most expensive first."""
    seconds: dict[str, float] = defaultdict(float)
    counts: dict[str, int] = defaultdict(int)
    for each in tables.rows.get("rebalances", []):
        trigger = each["trigger"] or "unknown"
        counts[trigger] += 1
        if each["began_ms"] is not None and each["ended_ms"] is not None:
            seconds[trigger] += (each["ended_ms"] - each["began_ms"]) / 1000
    if counts:
        order = sorted(counts, key=lambda trigger: (-seconds[trigger], -counts[trigger], trigger))
        cells = (
            [_text(trigger), (f"{counts[trigger]:,}", "n"), (_duration(1000 * seconds[trigger]), "n")]
            for trigger in order
        )
        title, head = "Rebalances by cause, of the groups in full", ["cause", "n:rebalances", "n:the groups waited"]
        yield from _table(title, head, cells, len(order), "causes")


def _events(tables: Tables) -> Iterator[str]:
    """Yield the events of all groups; those that are not over come first."""
    open_ones = {(group, each.kind, each.began_ms) for group, found in tables.trouble.items() for each in found}

    def place(row: Row) -> tuple[bool, int]:
        return (row["group_id"], row["kind"], row["began_ms"]) not in open_ones, -row["began_ms"]

    rows = sorted(tables.rows["member_events"], key=place)
    if rows:
        cells = (
            [
                (_moment(row["began_ms"]), "w"),
                (row["kind"], "w"),
                _group(row["group_id"]),
                _text(event_text(_event(row))),
            ]
            for row in rows
        )
        head = ["began (UTC)", "what", "group", "in words"]
        yield from _table("Crash loops, storms, deployments", head, cells, len(rows))


def _event(row: Row) -> Event:
    return Event(**{each.name: row[each.name] for each in fields(Event)})


def _slo(tables: Tables) -> Iterator[str]:
    """Yield the lag targets. The budget is that of a whole day, however little of the day is known: a share of seven
    minutes has no meaning.
    """
    rows = [row for row in tables.rows["slo"] if row["bad_minutes"]]
    rows.sort(key=lambda row: (-row["bad_minutes"], row["group_id"]))
    if rows:
        first = rows[0]
        day = 1_440 * first["budget_minutes"] / (first["good_minutes"] + first["bad_minutes"])
        title = f"Lag target: up to {first['lag_target']:,} records"
        note = f"{day:,.1f} minutes of a day may be bad: in them some partition has a larger lag."
        cells = (
            [
                _group(row["group_id"]),
                (f"{row['day']}", "w"),
                (f"{row['bad_minutes']:,.0f} of {row['good_minutes'] + row['bad_minutes']:,.0f}", "n"),
                (_spent(row["bad_minutes"] / day), "w"),
            ]
            for row in rows
        )
        head = ["group", "day", "n:bad minutes", "of the day's budget"]
        yield from _table(title, head, cells, len(rows), "slo", note)


def _spent(share: float) -> str:
    if share <= 1:
        return f"<span class=calm>{share:.0%} spent</span>"
    return f"<span class=bad>spent {share:,.1f} times</span>"


def _expiring(tables: Tables) -> Iterator[str]:
    soonest: dict[str, Row] = {}
    for row in tables.rows["expiry"]:
        known = soonest.get(row["group_id"])
        if row["expires_ms"] is not None and (known is None or row["expires_ms"] < known["expires_ms"]):
            soonest[row["group_id"]] = row
    rows = sorted(soonest.values(), key=lambda row: row["expires_ms"])
    if rows:
        cells = (
            [
                _group(row["group_id"]),
                (_moment(row["expires_ms"]), "w"),
                ("in " + _duration(row["expires_in_ms"]) if (row["expires_in_ms"] or 0) > 0 else "due", "n"),
                _text(row["counts_from"]),
            ]
            for row in rows
        )
        head = ["group", "first one (UTC)", "n:when", "counted from"]
        yield from _table("Offsets that will expire", head, cells, len(rows))


# Cells and tables


def _table(
    title: str, head: Sequence[str], rows: Iterator[Sequence[Cell]], count: int, name: str = "", note: str = ""
) -> Iterator[str]:
    """Yield a heading, a note and a table of MAX_ROWS rows at most."""
    yield f"<h2>{html.escape(title)}</h2>"
    if note:
        yield f"<p class=soft>{html.escape(note)}</p>"
    yield table(title, head, (tr(cells) for cells in islice(rows, MAX_ROWS)), name)
    if count > MAX_ROWS:
        yield f"<p class=soft>{count - MAX_ROWS:,} more are in the tables.</p>"


def _group(name: str) -> Cell:
    return f'<a href="#/group/{html.escape(quote(name, safe=""))}">{html.escape(name)}</a>', ""


def _text(value: Any) -> Cell:
    return html.escape(str(value)), ""


def _number(value: int | None) -> str:
    return "?" if value is None else f"{value:,}"


def _moment(time_ms: int | None) -> str:
    if time_ms is None:
        return "?"
    try:
        return _clock(time_ms)
    except (ValueError, OverflowError, OSError):  # a log may contain times beyond the calendar
        return f"{time_ms} ms"


def _clock(time_ms: int) -> str:
    return datetime.datetime.fromtimestamp(time_ms / 1000, datetime.UTC).strftime("%Y-%m-%d %H:%M:%S")


def _duration(milliseconds: float | None) -> str:
    return "?" if milliseconds is None else span(abs(milliseconds) / 1000)
