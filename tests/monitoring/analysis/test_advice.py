"""The table that explains statuses to people has each of them, wherever it is shown."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

from coordinatord.cli import cli
from coordinatord.monitoring.analysis.advice import ADVICE, markdown
from coordinatord.monitoring.analysis.severity import ORDER

ROOT = Path(__file__).parents[3]


def test_each_status_is_explained() -> None:
    assert tuple(ADVICE) == ORDER, "in the order in which groups are listed"


def test_the_help_of_lag_explains_each_status() -> None:
    told = CliRunner().invoke(cli, ["lag", "--help"], env={"COLUMNS": "80"})
    assert told.exit_code == 0, told.output
    words = " ".join(told.output.split())
    for status, advice in ADVICE.items():
        assert f"{status} {advice.means}. What to do: {advice.do}." in words
    assert max(map(len, told.output.splitlines())) <= 80


def test_the_page_of_tables_explains_each_status() -> None:
    """`coordinatord pipeline tables` writes it; this test needs no Spark."""
    assert markdown() in (ROOT / "coordinatord" / "monitoring" / "pipeline" / "TABLES.md").read_text()
