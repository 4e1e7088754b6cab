"""The run as a picture: bars on a log scale, rows of one unit in one panel."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib import ticker

from bench.report import figure, head_lines, target_text

matplotlib.use("Agg")
from matplotlib import pyplot

Json = dict[str, Any]

COLOURS = {"ours": "#1f6fb4", "limit": "#9a9a9a", "kafka": "#c44e36", "kfake": "#4f9d5d", "plain": "#8a6fb4"}
INCHES_PER_UNIT, INCHES_PER_PANEL, WIDTH_INCHES = 0.25, 0.55, 11.0
BETWEEN_ROWS = 0.9  # in units of a bar
PAPER = {"facecolor": "white", "edgecolor": "none", "pad": 0.4}  # a target's line goes behind what is written
MISSED, MET = "#b00020", "#222222"


def panels(run: Json) -> list[tuple[str, list[Json]]]:
    """Rows by unit, in the order of the table."""
    found: dict[str, list[Json]] = {}
    for row in run["rows"]:
        if row["columns"]:
            better = "more is better" if row["more_is_better"] else "less is better"
            found.setdefault(f"{row['unit']}, {better}", []).append(row)
    return list(found.items())


def units(rows: list[Json]) -> float:
    """How high a panel is, in bars."""
    return sum(len(row["columns"]) + BETWEEN_ROWS for row in rows) + BETWEEN_ROWS


def wanted(row: Json) -> list[tuple[float, bool | None]]:
    """Where the targets of a row's value are on its scale, and whether they are met."""
    found = []
    for target in row["targets"]:
        if target["what"] != "value" or not target["reached"]:
            continue
        ours = next(iter(row["columns"].values()))["value"]
        found.append((ours / target["reached"] * target["limit"], target["met"]))
    return found


def draw_row(axis: Any, row: Json, at: float) -> None:
    """Bars from `at` downwards, and a line where each target is."""
    for key, column in row["columns"].items():
        axis.barh(at, column["value"], height=0.9, color=COLOURS[key.partition("-")[0]])
        told = f" {column['label']}  {figure(column['value'])}"
        axis.text(column["value"], at, told, va="center", size=8, bbox=PAPER, zorder=3)
        at += 1
    first = at - len(row["columns"])
    for value, met in wanted(row):
        axis.plot([value, value], [first - 0.6, first + 0.6], color=MET if met else MISSED, linewidth=1.6)


def draw_panel(axis: Any, title: str, rows: list[Json]) -> None:
    ticks, names, at = [], [], 0.0
    values = [column["value"] for row in rows for column in row["columns"].values() if column["value"] > 0]
    for row in rows:
        draw_row(axis, row, at)
        missed = [target_text(target, row["unit"])[0] for target in row["targets"] if target["met"] is False]
        ticks.append(at + (len(row["columns"]) - 1) / 2)
        names.append("\n".join([row["title"], *(f"missed {each}" for each in missed)]))
        at += len(row["columns"]) + BETWEEN_ROWS
    axis.set_yticks(ticks, names, size=8)
    for label in axis.get_yticklabels():
        if "\nmissed" in label.get_text():
            label.set_color(MISSED)
    axis.set_ylim(at - 0.5, -0.5 - BETWEEN_ROWS)
    axis.set_xscale("log")
    targets = [value for row in rows for value, _ in wanted(row)]
    # A decade around the values at least, and room for what is written behind the longest bar.
    axis.set_xlim(10 ** math.floor(math.log10(min(values + targets) / 1.5)), max(values + targets) * 12)
    axis.xaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:,.10g}"))
    axis.xaxis.set_minor_formatter(ticker.NullFormatter())
    axis.set_title(title, size=9, loc="left", weight="bold")
    axis.tick_params(axis="x", labelsize=8)
    axis.spines[["top", "right"]].set_visible(False)


def draw(run: Json, path: Path) -> None:
    """Write a PNG."""
    groups = panels(run)
    if not groups:
        return
    heights = [INCHES_PER_PANEL + INCHES_PER_UNIT * units(rows) for _, rows in groups]
    drawn, axes = pyplot.subplots(
        len(groups),
        1,
        figsize=(WIDTH_INCHES, sum(heights) + 0.7),
        squeeze=False,
        height_ratios=heights,
        layout="constrained",
    )
    for axis, (title, rows) in zip(axes[:, 0], groups, strict=True):
        draw_panel(axis, title, rows)
    legend = "lines: where a target is for our bar"
    drawn.suptitle("\n".join([*head_lines(run)[:2], legend]), size=8, x=0.01, ha="left")
    drawn.savefig(path, dpi=110)
    pyplot.close(drawn)
