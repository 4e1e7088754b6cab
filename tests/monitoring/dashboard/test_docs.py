"""docs/monitoring.md has every series with its labels and meaning, and every option of the exporter, as the code."""

from __future__ import annotations

import re
from pathlib import Path

import click

from coordinatord.cli.exporter import exporter
from coordinatord.monitoring.dashboard.series import SERIES
from coordinatord.monitoring.dashboard.view import MAX_GROUPS, MAX_PARTITIONS
from coordinatord.monitoring.exporter.serving import EXPORTER

TEXT = (Path(__file__).parents[3] / "docs" / "monitoring.md").read_text()
HEAD = "| series | labels | |\n|---|---|---|\n"


def table() -> str:
    rows = [(name, labels, text) for name, (labels, text) in SERIES.items()]
    rows += [(name, ("cluster_name",), text) for name, text in EXPORTER.items()]
    return HEAD + "".join(f"| `{name}` | {', '.join(labels)} | {text} |\n" for name, labels, text in rows)


def test_the_table_of_series_is_the_codes() -> None:
    assert table() in TEXT, f"the table has to be:\n{table()}"


def test_each_option_is_named() -> None:
    options = [each for each in exporter.params if isinstance(each, click.Option)]
    for option in options:
        assert f"`{option.opts[0]}" in TEXT, option.opts[0]
    named = set(re.findall(r"^\| `(--[a-z-]+)", TEXT, re.MULTILINE))
    assert named == {option.opts[0] for option in options}
    assert f"{MAX_GROUPS:,} groups" in TEXT
    assert f"{MAX_PARTITIONS:,} partitions" in TEXT
