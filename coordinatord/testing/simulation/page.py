"""HTML page of a sweep, self-contained: the advice, bars, the table."""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence

from coordinatord.base.html_page import bars, document, table, tr
from coordinatord.testing.simulation import sweep
from coordinatord.testing.simulation.report import GAPS, Report, is_listed
from coordinatord.testing.simulation.scenario import Scenario
from coordinatord.testing.simulation.sweep import Run, advice, best_of, happened
from coordinatord.testing.simulation.units import duration_text

COLOURS = {
    "rebalance": "#3f7fbf",
    "stop": "#8a94a0",
    "crash": "#d1495b",
    "pause": "#e07b39",
    "expulsion": "#8f6bb3",
    "start": "#5aa469",
}

PLOTS: list[tuple[str, Callable[[Report], float]]] = [
    ("Rebalances", lambda it: it.rebalances),
    ("Partitions moved", lambda it: it.moved),
    ("Records that may be read twice", lambda it: it.duplicates),
    ("Members expelled alive", lambda it: it.expelled_alive),
]


def page(scenario: Scenario, runs: Sequence[Run]) -> str:
    """Return the HTML of the file."""
    head, rows = sweep.table(runs)
    swept = [option for option, _value in runs[0].settings]
    best, _alike = best_of(runs)
    told = runs[0].report.scenario
    settings = ", ".join(
        f"{name} {value}"
        for name, value in told.items()
        if value and name not in swept and (name == "protocol" or "protocol" in swept or is_listed(name, told))
    )
    notes = sorted({note for run in runs for note in run.report.notes})
    heads = [each if at < len(swept) else f"n:{each}" for at, each in enumerate(head)]
    body = [
        "<main>",
        f"<h1>What {'does' if len(swept) == 1 else 'do'} {html.escape(' and '.join(swept))} cost?</h1>",
        f"<p class=advice>{html.escape(advice(runs))}</p>",
        f"<p>{duration_text(scenario.duration)} of virtual time in each run, in which this befell the members, at "
        f"the same moments: {html.escape(happened(runs[0].report))}.</p>",
        "<div class=plots>",
        _gaps(runs),
        *([_grid(runs, swept)] if len(swept) == 2 else []),
        *[_plot(runs, title, value) for title, value in PLOTS],
        "</div><h2>Figures</h2>",
        table(
            "Figures of each run",
            heads,
            (_row(each, len(swept), run is best) for each, run in zip(rows, runs, strict=True)),
        ),
        "<p class='soft small'>unowned p-s: seconds without an owner, of all partitions together; p50, p99 and "
        "worst: of one partition.</p>",
        *[f"<p class='soft small'>{html.escape(note)}</p>" for note in notes],
        f"<h2>Scenario</h2><p class='soft small'>{html.escape(settings)}</p>",
        "</main>",
    ]
    return document(f"coordinatord simulate: {' × '.join(swept)}", "\n".join(body))


def _row(cells: Sequence[str], swept: int, is_best: bool) -> str:
    return tr(
        ((html.escape(cell), "" if at < swept else "n") for at, cell in enumerate(cells)), "best" if is_best else ""
    )


def _name(run: Run) -> str:
    return " · ".join(value for _option, value in run.settings)


def _gaps(runs: Sequence[Run]) -> str:
    """Return the plot of the time without an owner, by cause."""
    return bars(
        "Partition-seconds without an owner",
        [
            (
                _name(run),
                [(GAPS[cause], run.report.unowned_by_cause.get(cause, 0), COLOURS[cause]) for cause in GAPS],
                f"{run.report.unowned_ms / 1000:,.1f}",
            )
            for run in runs
        ],
    )


def _plot(runs: Sequence[Run], title: str, value: Callable[[Report], float]) -> str:
    values = [(_name(run), value(run.report)) for run in runs]
    return bars(title, [(name, [("", each, COLOURS["rebalance"])], f"{each:,.0f}") for name, each in values])


def _grid(runs: Sequence[Run], swept: Sequence[str]) -> str:
    """Return a grid of two swept options; the darker a cell, the longer the time without an owner."""
    columns = list(dict.fromkeys(run.settings[0][1] for run in runs))
    names = list(dict.fromkeys(run.settings[1][1] for run in runs))
    cells = {(run.settings[0][1], run.settings[1][1]): run.report.unowned_ms / 1000 for run in runs}
    most = max(cells.values()) or 1
    rows = []
    for name in names:
        line = [f"<th scope=row>{html.escape(name)}</th>"]
        for column in columns:
            share = round(60 * cells[column, name] / most)
            colour = f"color-mix(in srgb, {COLOURS['crash']} {share}%, transparent)"
            line.append(f'<td class=n style="background:{colour}">{cells[column, name]:,.0f}</td>')
        rows.append(f"<tr>{''.join(line)}</tr>")
    title = "Partition-seconds without an owner, by both options"
    heads = [swept[1], *(f"n:{swept[0]} {column}" for column in columns)]
    return f"<figure><p class=caption>{title}</p>{table(title, heads, rows)}</figure>"
