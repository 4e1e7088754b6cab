"""HTML page of a sweep, self-contained: the advice, plots, the table. Drawn with plotly, which is inlined."""

from __future__ import annotations

import html
import importlib.util
from collections.abc import Callable, Sequence
from typing import Any

from coordinatord.base.html_page import document
from coordinatord.testing.simulation.report import GAPS, Report, is_told
from coordinatord.testing.simulation.scenario import Scenario
from coordinatord.testing.simulation.sweep import Run, advice, table
from coordinatord.testing.simulation.units import BadScenario, told_ms

COLOURS = {
    "rebalance": "#4c72b0",
    "stop": "#8c8c8c",
    "crash": "#c44e52",
    "pause": "#dd8452",
    "expulsion": "#937860",
    "start": "#55a868",
}

WHOLE_TICKS = 6
"""Number of counts below which an axis has a tick for each count."""

PLOTS: list[tuple[str, Callable[[Report], float], str]] = [
    ("Rebalances", lambda it: it.rebalances, "rebalances"),
    ("Partitions moved", lambda it: it.moved, "partitions"),
    ("Duplicates risked", lambda it: it.duplicates, "records"),
    ("Members expelled alive", lambda it: it.expelled_alive, "members"),
]


def check_plotly() -> None:
    """Raise BadScenario if plotly is missing; call this before the runs."""
    if importlib.util.find_spec("plotly") is None:
        raise BadScenario("--html draws with plotly, which is not installed: pip install 'coordinatord[plot]'")


def page(scenario: Scenario, runs: Sequence[Run]) -> str:
    """Return the HTML of the file."""
    from plotly.offline import get_plotlyjs

    from coordinatord.testing.simulation.sweep import best_of, happened

    head, rows = table(runs)
    swept = [option for option, _value in runs[0].settings]
    best, _alike = best_of(runs)
    told = runs[0].report.scenario
    settings = ", ".join(
        f"{name} {value}"
        for name, value in told.items()
        if value and name not in swept and (name == "protocol" or "protocol" in swept or is_told(name, told))
    )
    notes = sorted({note for run in runs for note in run.report.notes})
    body = "\n".join(
        [
            f"<h1>What {'does' if len(swept) == 1 else 'do'} {html.escape(' and '.join(swept))} cost?</h1>",
            f"<p class=advice>{html.escape(advice(runs))}</p>",
            f"<p>{told_ms(scenario.duration)} of virtual time in each run, in which this befell the members, at "
            f"the same moments: {html.escape(happened(runs[0].report))}.</p>",
            "<div class=plots>",
            *[f"<div>{figure}</div>" for figure in _figures(runs, swept)],
            "</div><h2>Figures</h2><div class=table><table><tr>",
            *[f"<th{'' if at < len(swept) else ' class=n'}>{html.escape(each)}</th>" for at, each in enumerate(head)],
            "</tr>",
            *[_row(row, len(swept), run is best) for row, run in zip(rows, runs, strict=True)],
            "</table></div>",
            "<p class='soft small'>unowned p-s: seconds without an owner, of all partitions together; p50, p99 and "
            "worst: of one partition.</p>",
            *[f"<p class='soft small'>{html.escape(note)}</p>" for note in notes],
            f"<h2>Scenario</h2><p class='soft small'>{html.escape(settings)}</p>",
        ]
    )
    return document(f"coordinatord simulate: {' × '.join(swept)}", body, script=get_plotlyjs())


def _row(row: Sequence[str], swept: int, is_best: bool) -> str:
    cells = [f"<td{'' if at < swept else ' class=n'}>{html.escape(cell)}</td>" for at, cell in enumerate(row)]
    return f"<tr{' class=best' if is_best else ''}>{''.join(cells)}</tr>"


def _figures(runs: Sequence[Run], swept: Sequence[str]) -> list[str]:
    figures = [_gaps(runs, swept)]
    if len(swept) == 2:
        figures.append(_grid(runs, swept))
    figures += [_bars(runs, swept, title, value, unit) for title, value, unit in PLOTS]
    return [
        figure.to_html(full_html=False, include_plotlyjs=False, config={"displayModeBar": False}) for figure in figures
    ]


def _names(runs: Sequence[Run]) -> list[str]:
    return [" · ".join(value for _option, value in run.settings) for run in runs]


def _layout(figure: Any, title: str, axis: str, swept: Sequence[str]) -> Any:
    figure.update_layout(
        title={"text": title, "y": 0.97, "yanchor": "top"},
        template="plotly_white",
        height=380,
        margin={"l": 60, "r": 20, "t": 90, "b": 50},
        xaxis={"title": " · ".join(swept), "type": "category", "automargin": True},
        yaxis={"title": axis, "rangemode": "tozero", "automargin": True},
        legend={"orientation": "h", "yanchor": "bottom", "y": 1.0, "x": 0},
    )
    return figure


def _gaps(runs: Sequence[Run], swept: Sequence[str]) -> Any:
    """Return the plot of the time without an owner, by cause."""
    from plotly import graph_objects

    causes = [cause for cause in GAPS if any(run.report.unowned_by_cause.get(cause) for run in runs)]
    bars = [
        graph_objects.Bar(
            name=GAPS[cause],
            x=_names(runs),
            y=[run.report.unowned_by_cause.get(cause, 0) / 1000 for run in runs],
            marker={"color": COLOURS[cause]},
        )
        for cause in causes
    ]
    figure = graph_objects.Figure(bars)
    figure.update_layout(barmode="stack", showlegend=True)
    return _layout(figure, "Partitions without an owner", "partition-seconds", swept)


def _bars(runs: Sequence[Run], swept: Sequence[str], title: str, value: Callable[[Report], float], unit: str) -> Any:
    from plotly import graph_objects

    values = [value(run.report) for run in runs]
    bar = graph_objects.Bar(
        x=_names(runs),
        y=values,
        marker={"color": "#4c72b0"},
        text=values,
        texttemplate="%{text:,.0f}",
        cliponaxis=False,
    )
    figure = _layout(graph_objects.Figure([bar]), title, unit, swept)
    if max(values) < WHOLE_TICKS:
        figure.update_yaxes(dtick=1, range=[0, max(1, *values) * 1.1])  # counts of rebalances are whole numbers
    return figure


def _grid(runs: Sequence[Run], swept: Sequence[str]) -> Any:
    """Return a grid of two swept options."""
    from plotly import graph_objects

    columns = list(dict.fromkeys(run.settings[0][1] for run in runs))
    rows = list(dict.fromkeys(run.settings[1][1] for run in runs))
    cells = {(run.settings[0][1], run.settings[1][1]): run.report.unowned_ms / 1000 for run in runs}
    heat = graph_objects.Heatmap(
        x=columns,
        y=rows,
        z=[[cells[column, row] for column in columns] for row in rows],
        colorscale="OrRd",
        texttemplate="%{z:,.0f}",
        colorbar={"title": "p-s"},
    )
    figure = _layout(graph_objects.Figure([heat]), "Partition-seconds without an owner", swept[1], swept[:1])
    figure.update_yaxes(type="category")
    return figure
