"""Tables for a pipe are laid out without rich, and are the same as with it."""

from __future__ import annotations

import pytest

from coordinatord.cli import tables

HEADS = ("GROUP", ">UNREAD", "TOPIC", ">N", "WHY")


@pytest.mark.parametrize(
    "rows",
    [
        [("g", "1", "t", "-", "")],
        [("", "", "", "", "")],
        [("billing", "1,234,567", "a-long-topic", "12", "no commit for 9 s"), ("b", "0", "t", "1,000", "two  spaces ")],
        [("組み", "7", "näh ☃", "1", "e\u0301"), ("\x1b[31mred\n", "8", "🐘🐘", "22", "[bold]markup[/bold] :smile:")],
        [(" begins with a blank", "≥ 12 s", "x" * 300, "1", "y" * 300)],
    ],
)
def test_the_lines_are_those_of_rich(rows: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch) -> None:
    plain = list(tables.lines(HEADS, rows))
    monkeypatch.setattr(tables, "_plain", lambda *_: None)
    assert plain == list(tables.lines(HEADS, rows))
    assert len(plain) == len(rows) + 1


def test_lines_that_are_too_wide_are_folded() -> None:
    name = "x" * (tables.PIPE_WIDTH + 100)
    found = list(tables.lines(HEADS, [(name, "1", "t", "2", "why")]))
    assert len(found) == 3
    assert sum(line.count("x") for line in found) == len(name)


def test_no_rows_are_no_lines() -> None:
    assert list(tables.lines(HEADS, [])) == []
