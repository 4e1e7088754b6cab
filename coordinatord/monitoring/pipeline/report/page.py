"""The report as one HTML file without external resources: the groups that need attention, then a section per group."""

from __future__ import annotations

import datetime
import html
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from coordinatord.base.html_page import document
from coordinatord.monitoring.analysis.severity import is_urgent
from coordinatord.monitoring.pipeline.report import figures
from coordinatord.monitoring.pipeline.report.read import Row, Tables
from coordinatord.monitoring.pipeline.run.progress import Progress

MAX_ROWS = 50
"""Maximum number of rows of one table on the page; the page shows the number of omitted rows."""

MAX_BYTES = 10_000_000
"""Maximum size of the page in bytes: browsers open such a page within seconds, and it can be sent."""
PLOTLY_BYTES = 5_000_000

TIMELINE = (
    "Each row is a member from its first generation to its last; its colour says how it ended. A number is the count "
    "of partitions that it had from there on. Bands in the background are rebalances, coloured by trigger. Hover for "
    "details."
)

DRAW = """
const draw = box => {
  if (box.dataset.drawn) return;
  box.dataset.drawn = "yes";
  const plot = JSON.parse(box.nextElementSibling.textContent);
  Plotly.newPlot(box, plot.data, plot.layout, {displayModeBar: false, responsive: true})
    .then(() => { box.dataset.drawn = "wholly"; });
};
const boxes = document.querySelectorAll(".canvas");
const sight = new IntersectionObserver(found => found.forEach(each => {
  if (each.isIntersecting) { sight.unobserve(each.target); draw(each.target); }
}), {rootMargin: "500px"});
boxes.forEach(box => sight.observe(box));
addEventListener("beforeprint", () => boxes.forEach(draw));
"""

Cell = tuple[str, str]
"""HTML and its CSS class."""


def page(tables: Tables, progress: Progress | None = None) -> str:
    """Return the whole page."""
    from plotly.offline import get_plotlyjs

    when = _moment(tables.at_ms)
    head = [
        f"<h1>Consumer groups</h1><p class=soft>State at {when} UTC, from the offsets log. All times are UTC. "
        "The groups that need attention come first, here and in the details below; "
        "<i>unread</i> counts records in the log that the group has not read.</p>",
    ]
    sections, left_out = _sections(tables, progress or Progress())
    parts = [
        *_tiles(tables),
        *_groups(tables, len(sections)),
        *_changes(tables),
        *_overview(tables),
        *_events(tables),
        *_slo(tables),
        *_expiring(tables),
        *sections,
    ]
    if left_out:
        names = ", ".join(html.escape(group) for group in left_out[:5]) + (", …" if len(left_out) > 5 else "")
        parts.append(
            f"<p class=soft id=rest>{len(left_out):,} more groups ({names}) would make this page larger than "
            f"{MAX_BYTES / 1e6:.0f} MB: <code>coordinatord pipeline report --group NAME</code> shows those that you "
            "name.</p>"
        )
    body = "\n".join([*head, *parts, f"<script>{DRAW}</script>"])
    return document(f"Consumer groups, {when}", body, script=get_plotlyjs())


def _sections(tables: Tables, progress: Progress) -> tuple[list[str], list[str]]:
    """Return the sections of the groups that fit on the page, and the groups that do not."""
    found: list[str] = []
    used = 0
    for number, group in enumerate(tables.shown):
        text = "\n".join(_section(tables, group))
        used += len(text)
        if used > MAX_BYTES - PLOTLY_BYTES and found:
            return found, tables.shown[number:]
        found.append(text)
        progress.amount(number + 1, len(tables.shown), "groups")
    return found, []


# Overview


def _tiles(tables: Tables) -> Iterator[str]:
    groups = tables.rows["group_status"]
    alarming = sum(tables.verdict(row).is_urgent for row in groups)
    lags = [row["lag"] for row in groups if row["lag"] is not None]
    churn = tables.rows["churn"]
    tiles = [
        ("groups", f"{len(groups):,}", ""),
        ("need attention", f"{alarming:,}", "bad" if alarming else ""),
        ("records unread", f"{sum(lags):,}" if lags else "unknown", ""),
        ("rebalances", f"{sum(row['rebalances'] or 0 for row in churn):,}", ""),
        ("partitions moved", f"{sum(row['partitions_moved'] or 0 for row in churn):,}", ""),
    ]
    yield "<div class=tiles>"
    yield from (f"<div class='tile {kind}'><b>{value}</b>{html.escape(name)}</div>" for name, value, kind in tiles)
    yield "</div>"


def _groups(tables: Tables, sections: int) -> Iterator[str]:
    rows = tables.rows["group_status"]
    yield "<h2>Groups, the most urgent first</h2>"
    if not rows:
        yield "<p>No group has a committed offset.</p>"
        return
    head = ["group", "status", "why", "n:unread", "n:time lag", "n:partitions", "n:last commit", "Burrow"]
    links = {group: number for number, group in enumerate(tables.shown[:sections])}
    yield from _table(head, ([*_group_row(row, tables, links)] for row in rows), len(rows), "status", sections)


def _group_row(row: Row, tables: Tables, links: dict[str, int]) -> Iterator[Cell]:
    name = html.escape(row["group_id"])
    is_shown = row["group_id"] in links
    yield (f"<a href='#g{links[row['group_id']]}'>{name}</a>" if is_shown else name, "w")
    word, why = tables.verdict(row)
    yield _badge(word)
    yield html.escape(why), "t"
    yield _number(row["lag"]), "n"
    bound = {"at least": "≥ ", "at most": "≤ "}.get(row.get("max_time_lag_method") or "", "")
    yield bound + _duration(row["max_time_lag_ms"]), "n"
    alarming = f" ({row['alarming_partitions']} alarming)" if row["alarming_partitions"] else ""
    yield f"{row['partitions']:,}{alarming}", "n"
    yield (_duration(tables.at_ms - row["last_commit_ms"]) + " ago" if row["last_commit_ms"] else "", "n")
    yield html.escape(row["burrow"] or "–"), "w"


def _badge(status: str) -> Cell:
    kind = "bad" if is_urgent(status) else {"behind": "warn", "catching": "warn", "ok": "good"}.get(status, "calm")
    return f"<span class='badge {kind}'>{html.escape(status)}</span>", "w"


def _changes(tables: Tables) -> Iterator[str]:
    """Yield the events of `pipeline run --follow`; those that have not ended are highlighted."""
    if not tables.events:
        return
    ended = {_identity(row) for row in tables.events if row["change"] != "began"}
    yield "<h2>Events while the log was followed</h2>"
    cells = (
        [
            (_moment(row["at_ms"]), "w"),
            (html.escape(row["kind"]), "w"),
            _change(row, is_open=row["change"] == "began" and _identity(row) not in ended),
            _text(row["group_id"]),
            (html.escape(f"{row['topic']}-{row['partition']}" if row["topic"] is not None else ""), "w"),
            (html.escape(row["text"]), "t"),
        ]
        for row in tables.events
    )
    yield from _table(["seen", "what", "", "group", "partition", "in words"], cells, len(tables.events), "changes")


def _identity(row: Row) -> tuple[Any, ...]:
    return row["group_id"], row["kind"], row["topic"], row["partition"], row["since_ms"]


def _change(row: Row, *, is_open: bool) -> Cell:
    if is_open:
        return "<span class='badge bad'>began, not over</span>", "w"
    return f"<span class={'soft' if row['change'] == 'began' else 'good'}>{html.escape(row['change'])}</span>", "w"


def _overview(tables: Tables) -> Iterator[str]:
    if not tables.rows["churn"]:
        return
    yield "<h2>Rebalances of all groups</h2><div class=plots>"
    yield _churn(tables).html()
    if tables.rows["rebalances"]:
        yield figures.cost(tables.rows["rebalances"]).html()
    yield "</div>"


def _churn(tables: Tables) -> figures.Plot:
    """Return churn by the hour. For a log of an hour or two the steps are smaller; only the groups below have them."""
    hours = {row["hour_ms"] for row in tables.rows["churn"]}
    ended = [row for row in tables.rows["rebalances"] if row["ended_ms"] is not None]
    if not ended or max(hours) - min(hours) > figures.HOUR_MS:
        return figures.churn(tables.rows["churn"])
    span_ms = max(row["ended_ms"] for row in ended) - min(row["ended_ms"] for row in ended)
    step_ms = next((each for each in figures.STEPS_MS if span_ms <= 40 * each), figures.HOUR_MS)
    rows = [{**row, "hour_ms": row["ended_ms"] // step_ms * step_ms} for row in ended]
    title = f"Members that joined and left the groups below, in steps of {_duration(step_ms)}"
    return figures.churn(rows, step_ms, title)


def _events(tables: Tables) -> Iterator[str]:
    """Yield the events of all groups; those that are not over come first."""
    open_ones = {(group, each.kind, each.began_ms) for group, found in tables.trouble.items() for each in found}

    def place(row: Row) -> tuple[bool, int]:
        return (row["group_id"], row["kind"], row["began_ms"]) not in open_ones, -row["began_ms"]

    rows = sorted(tables.rows["member_events"], key=place)
    if rows:
        yield "<h2>Crash loops, storms, deployments</h2>"
        cells = (
            [(_moment(row["began_ms"]), "w"), (row["kind"], "w"), _text(row["group_id"]), _text(row["text"])]
            for row in rows
        )
        yield from _table(["began", "what", "group", "in words"], cells, len(rows))


def _slo(tables: Tables) -> Iterator[str]:
    """Yield the lag targets. The budget is that of a whole day, however little of the day is known: a share of seven
    minutes has no meaning.
    """
    rows = [row for row in tables.rows["slo"] if row["bad_minutes"]]
    rows.sort(key=lambda row: (-row["bad_minutes"], row["group_id"]))
    if rows:
        first = rows[0]
        day = 1_440 * first["budget_minutes"] / (first["good_minutes"] + first["bad_minutes"])
        yield f"<h2>Lag target: up to {first['lag_target']:,} records</h2>"
        yield f"<p class=soft>{day:,.1f} minutes of a day may be bad: in them some partition has a larger lag.</p>"
        cells = (
            [
                _text(row["group_id"]),
                (f"{row['day']}", "w"),
                (f"{row['bad_minutes']:,.0f} of {row['good_minutes'] + row['bad_minutes']:,.0f}", "n"),
                (_spent(row["bad_minutes"] / day), "w"),
            ]
            for row in rows
        )
        yield from _table(["group", "day", "n:bad minutes", "of the day's budget"], cells, len(rows), "slo")


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
        yield "<h2>Offsets that will expire</h2>"
        cells = (
            [
                _text(row["group_id"]),
                (_moment(row["expires_ms"]), "w"),
                ("in " + _duration(row["expires_in_ms"]) if (row["expires_in_ms"] or 0) > 0 else "due", "n"),
                _text(row["counts_from"]),
            ]
            for row in rows
        )
        yield from _table(["group", "first one", "n:", "counted from"], cells, len(rows))


# A group


def _section(tables: Tables, group: str) -> Iterator[str]:
    status = next((row for row in tables.rows["group_status"] if row["group_id"] == group), None)
    yield f"<section id=g{tables.shown.index(group)}><h2>{html.escape(group)}"
    if status is not None:
        word, why = tables.verdict(status)
        yield f" · {_badge(word)[0]}</h2><p>{html.escape(why)}</p>"
    else:
        yield " · <span class='badge calm'>no offsets</span></h2>"
    rebalances = sorted(tables.of("rebalances", group), key=lambda row: row["ended_ms"] or 0)
    lives = tables.of("members", group)
    if lives:
        yield figures.timeline(lives, rebalances, tables.held.get(group, []), tables.at_ms).html()
        yield f"<p class='soft small'>{TIMELINE}</p>"
    history = tables.of("lag_history", group)
    if history:
        yield figures.lag(history).html()
    if rebalances:
        yield "<h3>Rebalances, latest first</h3>"
        cells = ([*_rebalance_row(row)] for row in reversed(rebalances))
        head = [
            "ended",
            "n:generation",
            "n:took",
            "cause",
            "n:members",
            "n:moved",
            "n:missed commits",
            "",
        ]
        yield from _table(head, cells, len(rebalances))
    yield "</section>"


def _rebalance_row(row: Row) -> Iterator[Cell]:
    yield _moment(row["ended_ms"]), "w"
    before = "?" if row["generation_before"] is None else row["generation_before"]
    yield f"{before} → {row['generation']}", "n"
    is_known = row["began_ms"] is not None and row["ended_ms"] is not None
    yield _duration(row["ended_ms"] - row["began_ms"] if is_known else None), "n"
    yield html.escape(row["cause"] or row["trigger"] or ""), "t"
    added, removed = ("?" if row[name] is None else row[name] for name in ("added", "removed"))
    yield f"{row['members']} (+{added} −{removed})", "n"
    yield _number(row["partitions_moved"]), "n"
    yield _duration(row["missed_commit_ms"]), "n"
    sure = "observed" if row["how"] == "observed" else "unknown"
    if row["how"] != "observed" and row["confidence"] is not None:
        sure = f"inferred, {row['confidence']:.0%}"
    yield f"<span class=soft>{sure}</span>", "w"


# Cells and tables


def _table(
    head: Sequence[str], rows: Iterator[Sequence[Cell]], count: int, name: str = "", least: int = 0
) -> Iterator[str]:
    """Yield a table. `n:` before a column's name right-aligns it. Shows at least `least` rows, if there are as many."""
    most = max(MAX_ROWS, least)
    cells = [f"<th class=n>{name[2:]}</th>" if name.startswith("n:") else f"<th>{name}</th>" for name in head]
    yield f"<div class=table><table{f' id={name}' if name else ''}><tr>{''.join(cells)}</tr>"
    for number, row in enumerate(rows):
        if number == most:
            break
        yield "<tr>" + "".join(f"<td class='{kind}'>{text}</td>" for text, kind in row) + "</tr>"
    yield "</table></div>"
    if count > most:
        yield f"<p class=soft>{count - most:,} more are in the tables.</p>"


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
    if milliseconds is None:
        return "?"
    seconds = abs(milliseconds) / 1000
    if seconds < 1:
        return f"{abs(milliseconds):.0f} ms"
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} s"


def causes(rebalances: Sequence[Row]) -> Counter[str]:
    """Return the number of rebalances by trigger."""
    return Counter(row["trigger"] or "unknown" for row in rebalances)
