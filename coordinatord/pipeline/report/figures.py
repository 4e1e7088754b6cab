"""The report's plots: members and generations in time, lag, churn, and what rebalances cost."""

from __future__ import annotations

import html
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from coordinatord.pipeline.report.read import Row

MAX_LIVES = 60
"""Members of one timeline: more are no lines any more."""
MAX_CURVES = 8
"""Partitions in one plot of lag, those with most of it; the others are summed up."""

GREY = "#8a94a0"
LIVES = {
    None: ("there", "#3f7fbf"),
    "left": ("left", "#5aa469"),
    "replaced": ("replaced by a restart", "#b08ac0"),
    "expired": ("expired", "#d1495b"),
    "went": ("went", GREY),
}
"""A member's end: what it is called, and its colour."""

TRIGGERS = {
    "new member": "#3f7fbf",
    "member left": "#5aa469",
    "session expired": "#d1495b",
    "leader rejoined": "#c58b2b",
    "member changed its metadata": "#8f6bb3",
    "static member restarted": "#b08ac0",
    "no sync in time": "#e07b39",
    "too many members": "#6b7480",
}


def html_of(figure: Any) -> str:
    """For the page, which has plotly's script already."""
    text: str = figure.to_html(full_html=False, include_plotlyjs=False, config={"displayModeBar": False})
    return f"<div>{text}</div>"


def _laid_out(figure: Any, title: str, height: int, **more: Any) -> Any:
    # Transparent and grey: to be read on white and on black.
    grid = {"gridcolor": "rgba(138,148,160,.25)", "zerolinecolor": "rgba(138,148,160,.4)", "automargin": True}
    figure.update_layout(
        title={"text": title, "x": 0, "font": {"size": 14}},
        height=height,
        margin={"l": 10, "r": 10, "t": 70, "b": 30},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"color": GREY, "size": 12},
        legend={"orientation": "h", "yanchor": "bottom", "y": 1.0, "x": 0},
        **more,
    )
    figure.update_xaxes(**grid)
    figure.update_yaxes(**grid)
    return figure


def _date(time_ms: float) -> str:
    import datetime

    return datetime.datetime.fromtimestamp(time_ms / 1000, datetime.UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


def timeline(lives: Sequence[Row], rebalances: Sequence[Row], now_ms: int) -> Any:
    """A line for each member from its first generation to its last; rebalances as bands behind, by what made them."""
    from plotly import graph_objects

    shown = sorted(lives, key=lambda life: (life["until_ms"] or now_ms, life["since_ms"]))[-MAX_LIVES:]
    shown.sort(key=lambda life: (life["since_ms"], life["member_id"]), reverse=True)
    figure = graph_objects.Figure()
    for end, (name, colour) in LIVES.items():
        mine = [(number, life) for number, life in enumerate(shown) if life["end"] == end]
        if not mine:
            continue
        figure.add_bar(
            name=name,
            orientation="h",
            y=[number for number, _ in mine],
            base=[_date(life["since_ms"]) for _, life in mine],
            x=[max(1, (life["until_ms"] or now_ms) - life["since_ms"]) for _, life in mine],
            marker={"color": colour},
            width=0.7,
            hovertext=[_told(life) for _, life in mine],
            hoverinfo="text",
        )
    began_ms = min(life["since_ms"] for life in shown)
    ended_ms = max(life["until_ms"] or now_ms for life in shown)
    seen: set[str] = set()
    for row in rebalances:
        if row["ended_ms"] is None or row["ended_ms"] < began_ms:
            continue
        trigger = row["trigger"] or "unknown"
        colour = TRIGGERS.get(trigger, GREY)
        # A rebalance of milliseconds would not be seen in a plot of hours.
        least_ms = (ended_ms - began_ms) / 400
        start_ms = min(row["began_ms"] or row["ended_ms"], row["ended_ms"] - least_ms)
        figure.add_vrect(
            x0=_date(start_ms), x1=_date(row["ended_ms"]), fillcolor=colour, opacity=0.35, line_width=0, layer="below"
        )
        if trigger not in seen:
            seen.add(trigger)
            figure.add_scatter(
                x=[None], y=[None], mode="markers", marker={"symbol": "square", "size": 10, "color": colour,
                "opacity": 0.5}, name=f"rebalance: {trigger}",
            )  # fmt: skip
    left_out = len(lives) - len(shown)
    title = "Members and rebalances" + (f" (the last {len(shown)} of {len(lives)} members)" if left_out else "")
    figure = _laid_out(figure, title, 130 + 22 * len(shown), barmode="overlay")
    figure.update_xaxes(type="date", range=[_date(began_ms), _date(ended_ms)])
    names = [html.escape(_short(life)) for life in shown]
    figure.update_yaxes(tickvals=list(range(len(shown))), ticktext=names, range=[-0.6, len(shown) - 0.4])
    return figure


def _short(life: Row) -> str:
    name = life["instance"] or life["client_id"] or life["member_id"]
    return name if len(name) <= 28 else f"{name[:27]}…"


def _told(life: Row) -> str:
    lines = [
        life["member_id"],
        f"client {life['client_id']} at {life['host']}",
        f"{life['generations']} generations, {life['partitions']} partitions in the last",
        f"{_date(life['since_ms'])} – {_date(life['until_ms']) if life['until_ms'] else 'now'}",
    ]
    return "<br>".join(html.escape(str(line)) for line in lines)


def lag(history: Sequence[Row]) -> Any:
    """Records unread in the course of time: the partitions with most of them, and the rest in one curve."""
    from plotly import graph_objects

    curves: dict[str, dict[int, int]] = defaultdict(dict)
    for row in history:
        curves[f"{row['topic']}-{row['partition']}"][row["at_ms"]] = row["lag"]
    by_size = sorted(curves, key=lambda name: -max(curves[name].values()))
    figure = graph_objects.Figure()
    for name in by_size[:MAX_CURVES]:
        times = sorted(curves[name])
        figure.add_scatter(
            x=[_date(at_ms) for at_ms in times],
            y=[curves[name][at_ms] for at_ms in times],
            mode="lines",
            name=html.escape(name),
        )
    rest: dict[int, int] = defaultdict(int)
    for name in by_size[MAX_CURVES:]:
        for at_ms, value in curves[name].items():
            rest[at_ms] += value
    if rest:
        times = sorted(rest)
        figure.add_scatter(
            x=[_date(at_ms) for at_ms in times],
            y=[rest[at_ms] for at_ms in times],
            mode="lines",
            line={"dash": "dot", "color": GREY},
            name=f"{len(by_size) - MAX_CURVES} other partitions together",
        )
    figure = _laid_out(figure, "Records unread", 300, showlegend=True)
    figure.update_yaxes(rangemode="tozero")
    return figure


def churn(rows: Sequence[Row]) -> Any:
    """Members that came and went in each hour."""
    from plotly import graph_objects

    hours: dict[int, list[int]] = defaultdict(lambda: [0, 0])
    for row in rows:
        hours[row["hour_ms"]][0] += row["added"] or 0
        hours[row["hour_ms"]][1] -= row["removed"] or 0
    times = sorted(hours)
    x = [_date(at_ms) for at_ms in times]
    figure = graph_objects.Figure()
    figure.add_bar(name="came", x=x, y=[hours[at_ms][0] for at_ms in times], marker={"color": "#3f7fbf"})
    figure.add_bar(name="went", x=x, y=[hours[at_ms][1] for at_ms in times], marker={"color": "#d1495b"})
    figure = _laid_out(figure, "Members that came and went, by hour", 300, barmode="relative")
    figure.update_xaxes(type="date")
    if len(times) == 1:  # one bar would be as wide as the plot
        figure.update_xaxes(range=[_date(times[0] - 6 * 3_600_000), _date(times[0] + 6 * 3_600_000)])
    return figure


def cost(rebalances: Sequence[Row]) -> Any:
    """What the rebalances of the groups on the page cost, by what made them happen: seconds in which nobody read."""
    from plotly import graph_objects

    seconds: dict[str, float] = defaultdict(float)
    counts: dict[str, int] = defaultdict(int)
    for row in rebalances:
        trigger = row["trigger"] or "unknown"
        counts[trigger] += 1
        if row["began_ms"] is not None and row["ended_ms"] is not None:
            seconds[trigger] += (row["ended_ms"] - row["began_ms"]) / 1000
    order = sorted(counts, key=lambda trigger: seconds[trigger])
    figure = graph_objects.Figure()
    figure.add_bar(
        orientation="h",
        y=order,
        x=[round(seconds[trigger], 3) for trigger in order],
        text=[f"{counts[trigger]} ×" for trigger in order],
        textposition="auto",
        marker={"color": [TRIGGERS.get(trigger, GREY) for trigger in order]},
    )
    figure = _laid_out(figure, "Time in rebalances of the groups below, by cause", 300, showlegend=False)
    figure.update_xaxes(title="seconds", rangemode="tozero")
    return figure
