"""Tables for a pipe and for a terminal: each cell is there in full, whatever the width."""

from __future__ import annotations

import os
import sys

import pytest
from rich.cells import cell_len

from coordinatord.cli import tables

HEADS = ("GROUP", ">UNREAD", "TOPIC", ">N", "/WHY")
ROWS = [
    ("billing", "1,234,567", "a-long-topic.of.a-department", "12", "no commit for 9 s, 1,234,567 unread"),
    ("b", "0", "t", "1,000", "nothing is unread"),
    (
        "a-group-with-a-long-name",
        "8",
        "🐘🐘 näh",
        "22",
        "12 unread: 5 (median) at its commits 60 to 30 s ago, 12 at those",
    ),
]


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)


def at(width: int, monkeypatch: pytest.MonkeyPatch, rows: list[tuple[str, ...]] = ROWS) -> list[str]:
    monkeypatch.setattr("shutil.get_terminal_size", lambda: os.terminal_size((width, 24)))
    return list(tables.lines(HEADS, rows))


def squeezed(text: str) -> str:
    return "".join(text.split())


def test_a_line_for_each_row_in_a_pipe() -> None:
    assert list(tables.lines(HEADS, ROWS[:2])) == [
        "GROUP       UNREAD  TOPIC                             N  WHY",
        "billing  1,234,567  a-long-topic.of.a-department     12  no commit for 9 s, 1,234,567 unread",
        "b                0  t                             1,000  nothing is unread",
    ]


@pytest.mark.usefixtures("terminal")
def test_sentences_below_their_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    assert at(72, monkeypatch) == [
        "GROUP                        UNREAD  TOPIC                             N",
        "billing                   1,234,567  a-long-topic.of.a-department     12",
        "  no commit for 9 s, 1,234,567 unread",
        "b                                 0  t                             1,000",
        "  nothing is unread",
        "a-group-with-a-long-name          8  🐘🐘 näh                         22",
        "  12 unread: 5 (median) at its commits 60 to 30 s ago, 12 at those",
    ]


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize("width", [40, 41, 44, 47, 50, 60, 72, 80, 100, 132])
def test_no_text_is_lost(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """80 columns cut `1 unread` to `1 unrea`."""
    found = at(width, monkeypatch)
    assert max(map(cell_len, found)) <= width
    for row in ROWS:
        alone = at(width, monkeypatch, [row])
        assert sorted(squeezed("".join(row))) == sorted(squeezed("".join(alone[1:]))), alone
        assert row[1] in "\n".join(alone), "numbers are never folded"


@pytest.mark.usefixtures("terminal")
def test_a_line_for_each_cell_where_numbers_alone_are_too_wide(monkeypatch: pytest.MonkeyPatch) -> None:
    row = ("g", "1,234,567,890,123", "t", "1,234,567,890,123", "why")
    assert at(40, monkeypatch, [row]) == [
        "GROUP: g", "UNREAD: 1,234,567,890,123", "TOPIC: t", "N: 1,234,567,890,123", "  why",
    ]  # fmt: skip


def test_lines_that_are_too_wide_for_a_pipe_are_folded() -> None:
    name = "x" * (tables.PIPE_WIDTH + 100)
    found = list(tables.lines(HEADS, [(name, "1", "t", "2", "why")]))
    assert sum(line.count("x") for line in found) == len(name)
    assert len(found) == 4, "the head, two lines of the name, and the sentence"


def test_what_a_terminal_would_obey_is_escaped() -> None:
    [_, line] = tables.lines(HEADS, [("\x1b[31mred\n", "8", "[bold]markup[/bold]", "2", "")])
    assert line == "\\x1b[31mred\\n       8  [bold]markup[/bold]  2"


def test_no_rows_are_no_lines() -> None:
    assert list(tables.lines(HEADS, [])) == []
