"""The report's plots: members and generations over time, lag, churn, and the cost of rebalances."""

from __future__ import annotations

import html
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from coordinatord.monitoring.dashboard.html import GREY, LIVES, TRIGGERS
from coordinatord.monitoring.pipeline.report.read import Held, Row

MAX_LIVES = 60
"""Maximum number of members in one timeline: more would be indistinguishable."""
MAX_PIECES = 2_000
"""Maximum number of assignments in one timeline: with more, each member is drawn as one piece."""
MAX_BANDS = 300
"""Maximum number of rebalances in one timeline; the last ones are shown."""
CURVES = ("#3f7fbf", "#e07b39", "#5aa469", "#d1495b", "#8f6bb3", "#c58b2b", "#3aa6a6", "#b56b8f")
HOUR_MS = 3_600_000
STEPS_MS = (1_000, 5_000, 10_000, 30_000, 60_000, 300_000, 600_000)
"""Steps for a log that is shorter than a few hours."""
FEW_MOMENTS = 20
"""A curve with up to this many points shows each of them."""
MAX_CURVES = len(CURVES)
"""Maximum number of partitions in one plot of lag, those with the largest lag; the others are summed up."""


@dataclass(frozen=True, slots=True)
class Plot:
    """A plot with its title and legend, which are rendered by the page and not by plotly: so they wrap on narrow
    screens. `legend` has (name, colour, opacity).
    """

    title: str
    figure: Any
    height: int
    legend: tuple[tuple[str, str, float], ...] = ()

    def html(self) -> str:
        """Return the plot's HTML. The page's script draws a plot when it comes into view: drawing two hundred at once
        would take a browser minutes.
        """
        names = "".join(
            f"<span><i style='background:{colour};opacity:{opacity}'></i>{html.escape(name)}</span>"
            for name, colour, opacity in self.legend
        )
        data = self.figure.to_json().replace("<", "\\u003c")
        return (
            f"<figure class=plot><h3>{html.escape(self.title)}</h3><div class=legend>{names}</div>"
            f"<div class=canvas style='height:{self.height}px'></div>"
            f"<script type='application/json'>{data}</script></figure>"
        )


def _laid_out(figure: Any, height: int, **more: Any) -> Any:
    # Transparent and grey: readable on white and on black.
    grid = {"gridcolor": "rgba(138,148,160,.25)", "zerolinecolor": "rgba(138,148,160,.4)", "automargin": True}
    figure.update_layout(
        template={},
        height=height,
        margin={"l": 10, "r": 10, "t": 10, "b": 30},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"color": GREY, "size": 12},
        showlegend=False,
        **more,
    )
    figure.update_xaxes(**grid)
    figure.update_yaxes(**grid)
    return figure


def _date(time_ms: float) -> str:
    import datetime

    return datetime.datetime.fromtimestamp(time_ms / 1000, datetime.UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


def timeline(lives: Sequence[Row], rebalances: Sequence[Row], held: Sequence[Held], now_ms: int) -> Plot:
    """Return a plot with a row for each member from its first generation to its last, and a piece for each assignment
    with its number of partitions; rebalances are bands in the background, coloured by trigger.
    """
    from plotly import graph_objects

    shown = sorted(lives, key=lambda life: (life["until_ms"] or now_ms, life["since_ms"]))[-MAX_LIVES:]
    shown.sort(key=lambda life: (life["since_ms"], life["member_id"]), reverse=True)
    figure = graph_objects.Figure()
    began_ms = min(life["since_ms"] for life in shown)
    ended_ms = max(life["until_ms"] or now_ms for life in shown)
    pieces = _pieces(shown, held, now_ms)
    legend: list[tuple[str, str, float]] = []
    for end, (name, colour) in LIVES.items():
        mine = [piece for piece in pieces if shown[piece.row]["end"] == end]
        if not mine:
            continue
        legend.append((name, colour, 1))
        figure.add_bar(
            name=name,
            orientation="h",
            y=[piece.row for piece in mine],
            base=[_date(piece.since_ms) for piece in mine],
            x=[max(1, piece.until_ms - piece.since_ms) for piece in mine],
            # Omit the number if it does not fit.
            text=[piece.text if 60 * (piece.until_ms - piece.since_ms) > ended_ms - began_ms else "" for piece in mine],
            textposition="inside",
            insidetextanchor="middle",
            textangle=0,
            textfont={"color": "#ffffff", "size": 11},
            constraintext="none",
            marker={"color": colour, "line": {"color": "rgba(255,255,255,.75)", "width": 1}},
            width=0.7,
            hovertext=[piece.told for piece in mine],
            hoverinfo="text",
        )
    legend += _bands(figure, rebalances, began_ms, ended_ms)
    height = 70 + 24 * len(shown)
    figure = _laid_out(figure, height, barmode="overlay")
    figure.update_xaxes(type="date", range=[_date(began_ms), _date(ended_ms)])
    names = [html.escape(_short(life)) for life in shown]
    figure.update_yaxes(tickvals=list(range(len(shown))), ticktext=names, range=[-0.6, len(shown) - 0.4])
    left_out = len(lives) - len(shown)
    title = "Members and their partitions" + (f" (the last {len(shown)} of {len(lives)})" if left_out else "")
    return Plot(title, figure, height, tuple(legend))


@dataclass(frozen=True, slots=True)
class _Piece:
    row: int
    since_ms: int
    until_ms: int
    text: str
    told: str


def _pieces(shown: Sequence[Row], held: Sequence[Held], now_ms: int) -> list[_Piece]:
    """Return the pieces of the members' lives: one per assignment if known, and if not too many; else one per life."""
    by_member: dict[str, list[Held]] = defaultdict(list)
    for each in held:
        by_member[each.member_id].append(each)
    found: list[_Piece] = []
    for row, life in enumerate(shown):
        until_ms = life["until_ms"] or now_ms
        # A generation is Stable milliseconds before its record, at which a life starts: overlaps belong to the life.
        mine = [
            (each, max(each.since_ms, life["since_ms"]), until_ms if following is None else following.since_ms)
            for each, following in pairwise([*by_member[life["member_id"]], None])
            if each is not None and each.since_ms < until_ms
        ]
        mine = [(each, since_ms, end_ms) for each, since_ms, end_ms in mine if since_ms < end_ms]
        if not mine or len(held) > MAX_PIECES:
            count = life["partitions"]
            found.append(_Piece(row, life["since_ms"], until_ms, "" if count is None else str(count), _told(life)))
            continue
        for each, since_ms, end_ms in mine:
            told = [_told(life), f"from generation {each.generation} on: {html.escape(each.named() or 'nothing')}"]
            found.append(_Piece(row, since_ms, min(end_ms, until_ms), str(each.total), "<br>".join(told)))
    return found


def _bands(figure: Any, rebalances: Sequence[Row], began_ms: int, ended_ms: int) -> list[tuple[str, str, float]]:
    """Draw the bands. Returns their entries of the legend."""
    seen: dict[str, tuple[str, str, float]] = {}
    shown = [row for row in rebalances if row["ended_ms"] is not None and row["ended_ms"] >= began_ms]
    shapes = []
    for row in shown[-MAX_BANDS:]:
        trigger = row["trigger"] or "unknown"
        colour = TRIGGERS.get(trigger, GREY)
        # A rebalance of milliseconds would be invisible in a plot of hours.
        least_ms = (ended_ms - began_ms) / 400
        start_ms = min(row["began_ms"] or row["ended_ms"], row["ended_ms"] - least_ms)
        shapes.append(
            {"type": "rect", "xref": "x", "yref": "paper", "x0": _date(start_ms), "x1": _date(row["ended_ms"]), "y0": 0,
             "y1": 1, "fillcolor": colour, "opacity": 0.35, "line": {"width": 0}, "layer": "below"}
        )  # fmt: skip
        seen.setdefault(trigger, (f"rebalance: {trigger}", colour, 0.5))
    # All at once: plotly's add_vrect() copies all earlier ones each time.
    figure.update_layout(shapes=shapes)
    return list(seen.values())


def _short(life: Row) -> str:
    name = life["instance"] or life["client_id"] or life["member_id"]
    return name if len(name) <= 28 else f"{name[:27]}…"


def _told(life: Row) -> str:
    lines = [
        life["member_id"],
        f"client {life['client_id']} at {life['host']}",
        f"{life['generations']} generations, {life['partitions']} partitions in the last one",
        f"{_date(life['since_ms'])} – {_date(life['until_ms']) if life['until_ms'] else 'now'}",
    ]
    return "<br>".join(html.escape(str(line)) for line in lines)


def lag(history: Sequence[Row]) -> Plot:
    """Return a plot of the upper bounds of unread records over time: a curve for each partition with the most of them,
    and one for the sum of the others.
    """
    from plotly import graph_objects

    curves: dict[str, dict[int, int]] = defaultdict(dict)
    for row in history:
        curves[f"{row['topic']}-{row['partition']}"][row["at_ms"]] = row["lag"]
    by_size = sorted(curves, key=lambda name: -max(curves[name].values()))
    figure = graph_objects.Figure()
    legend = []
    for name, colour in zip(by_size, CURVES, strict=False):
        legend.append((name, colour, 1.0))
        times = sorted(curves[name])
        figure.add_scatter(
            x=[_date(at_ms) for at_ms in times],
            y=[curves[name][at_ms] for at_ms in times],
            mode=_mode(times),
            line={"color": colour, "width": 2},
            name=html.escape(name),
        )
    rest: dict[int, int] = defaultdict(int)
    for name in by_size[MAX_CURVES:]:
        for at_ms, value in curves[name].items():
            rest[at_ms] += value
    if rest:
        legend.append((f"{len(by_size) - MAX_CURVES} other partitions together", GREY, 1.0))
        times = sorted(rest)
        figure.add_scatter(
            x=[_date(at_ms) for at_ms in times],
            y=[rest[at_ms] for at_ms in times],
            mode=_mode(times),
            line={"dash": "dot", "color": GREY},
            name=legend[-1][0],
        )
    figure = _laid_out(figure, 260)
    figure.update_yaxes(rangemode="tozero")
    return Plot("Records unread, by partition", figure, 260, tuple(legend))


def _mode(times: Sequence[int]) -> str:
    """Return plotly's mode of a curve: few points are drawn with markers, because a single point has no line."""
    return "lines+markers" if len(times) <= FEW_MOMENTS else "lines"


def churn(rows: Sequence[Row], step_ms: int = HOUR_MS, title: str = "Members that joined and left, by hour") -> Plot:
    """Return a plot of the members that joined and left in each step, which is an hour in the table `churn`."""
    from plotly import graph_objects

    steps: dict[int, list[int]] = defaultdict(lambda: [0, 0])
    for row in rows:
        steps[row["hour_ms"]][0] += row["added"] or 0
        steps[row["hour_ms"]][1] -= row["removed"] or 0
    times = sorted(steps)
    x = [_date(at_ms) for at_ms in times]
    figure = graph_objects.Figure()
    # A bar's width is its step; by default plotly draws a single bar one millisecond wide.
    wide = {"width": step_ms, "offset": 0}
    figure.add_bar(name="came", x=x, y=[steps[at_ms][0] for at_ms in times], marker={"color": "#3f7fbf"}, **wide)
    figure.add_bar(name="went", x=x, y=[steps[at_ms][1] for at_ms in times], marker={"color": "#d1495b"}, **wide)
    figure = _laid_out(figure, 260, barmode="relative")
    figure.update_xaxes(type="date")
    if len(times) == 1:  # a single bar would be as wide as the plot
        figure.update_xaxes(range=[_date(times[0] - 6 * step_ms), _date(times[0] + 6 * step_ms)])
    legend = (("came", "#3f7fbf", 1.0), ("went", "#d1495b", 1.0))
    return Plot(title, figure, 260, legend)


def cost(rebalances: Sequence[Row]) -> Plot:
    """Return a plot of the cost of the shown groups' rebalances by trigger: seconds in which no member read."""
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
        text=[f"{counts[trigger]} × {trigger}" for trigger in order],
        textposition="auto",
        insidetextfont={"color": "#ffffff"},
        marker={"color": [TRIGGERS.get(trigger, GREY) for trigger in order]},
    )
    figure = _laid_out(figure, 260)
    figure.update_xaxes(title="seconds in which the group waited", rangemode="tozero")
    figure.update_yaxes(showticklabels=False)  # the bars carry their names: saves room on narrow screens
    return Plot("Cost of the rebalances of the groups below, by cause", figure, 260)
