"""The run as a picture: bars on a log scale, rows of one unit in one panel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot

Json = dict[str, Any]

COLOURS = {"ours": "#1f6fb4", "limit": "#9a9a9a", "kafka": "#c44e36", "kfake": "#4f9d5d", "plain": "#8a6fb4"}
INCHES_PER_BAR, INCHES_PER_ROW, INCHES_PER_PANEL = 0.23, 0.22, 0.75


def panels(run: Json) -> list[tuple[str, list[Json]]]:
    """Rows by unit, in the order of the table."""
    found: dict[str, list[Json]] = {}
    for row in run["rows"]:
        if row["columns"]:
            better = "more is better" if row["more_is_better"] else "less is better"
            found.setdefault(f"{row['unit']}, {better}", []).append(row)
    return list(found.items())


def draw(run: Json, path: Path) -> None:
    """Write a PNG."""
    from tests.bench.report import figure, head_lines, target_text

    groups = panels(run)
    if not groups:
        return
    heights = [
        INCHES_PER_PANEL + sum(INCHES_PER_ROW + INCHES_PER_BAR * len(row["columns"]) for row in rows)
        for _, rows in groups
    ]
    drawn, axes = pyplot.subplots(
        len(groups), 1, figsize=(11, sum(heights) + 0.7), squeeze=False, height_ratios=heights, layout="constrained"
    )
    for axis, (title, rows) in zip(axes[:, 0], groups, strict=True):
        ticks, names, at = [], [], 0.0
        largest = max(column["value"] for row in rows for column in row["columns"].values())
        smallest = min(column["value"] for row in rows for column in row["columns"].values() if column["value"] > 0)
        for row in rows:
            began = at
            for key, column in row["columns"].items():
                axis.barh(at, column["value"], height=0.9, color=COLOURS[key.partition("-")[0]])
                axis.text(column["value"], at, f" {column['label']}  {figure(column['value'])}", va="center", size=8)
                at += 1
            missed = [target_text(target, row["unit"])[0] for target in row["targets"] if target["met"] is False]
            ticks.append((began + at - 1) / 2)
            names.append("\n".join([row["title"], *(f"missed {each}" for each in missed)]))
            at += 0.9
        axis.set_yticks(ticks, names, size=8)
        for label in axis.get_yticklabels():
            if "\nmissed" in label.get_text():
                label.set_color("#b00020")
        axis.invert_yaxis()
        axis.set_xscale("log")
        axis.set_xlim(smallest / 3, largest * 12)  # room for what is written behind the longest bar
        axis.set_title(title, size=9, loc="left", weight="bold")
        axis.tick_params(axis="x", labelsize=8)
        axis.spines[["top", "right"]].set_visible(False)
    drawn.suptitle("\n".join(head_lines(run)[:2]), size=8, x=0.01, ha="left")
    drawn.savefig(path, dpi=110)
    pyplot.close(drawn)
