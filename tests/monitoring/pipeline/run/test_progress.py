"""What a long job says of itself: a bar on a terminal, lines anywhere else."""

from __future__ import annotations

import io
import sys

import pytest

from coordinatord.cli.progress import Shown


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def job() -> None:
    with Shown() as progress:
        progress.stage("starting Spark")
        progress.stage("reading the log")
        progress.amount(100, 1000, "records")
        progress.amount(1000, 1000, "records")
        for number, name in enumerate(("lag", "status")):
            progress.stage(f"making the table {name}", number, 2)


def test_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    told = io.StringIO()
    monkeypatch.setattr(sys, "stderr", told)
    job()
    assert told.getvalue().splitlines() == [
        "  starting Spark …",
        "  reading the log …",
        "  making the table lag (1 of 2) …",
        "  making the table status (2 of 2) …",
    ]


def test_bars(monkeypatch: pytest.MonkeyPatch) -> None:
    told = Terminal()
    monkeypatch.setattr(sys, "stderr", told)
    monkeypatch.setattr("coordinatord.cli.progress.REDRAW_S", 0)
    job()
    lines = told.getvalue().split("\n")
    reading = next(line for line in lines if "reading the log" in line)
    assert "10%" in reading
    assert "100 of 1,000 records" in reading
    assert "1,000 of 1,000 records" in reading
    last = next(line for line in lines if "making the table" in line)
    assert last.index("lag") < last.index("50%") < last.rindex("100%"), "one bar for both"
    assert "making the table status" in last
    assert "…" not in told.getvalue()


def test_a_job_that_fails_leaves_its_bar_where_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    told = Terminal()
    monkeypatch.setattr(sys, "stderr", told)

    def fail() -> None:
        with Shown() as progress:
            progress.stage("reading", 0, 10)
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert "reading" in told.getvalue()
    assert "100%" not in told.getvalue()
