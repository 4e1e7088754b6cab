"""The groups of a run's tables, the most urgent first, as `pipeline run` tells them at its end."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from coordinatord.cli.pipeline import MOST_URGENT, _urgent_groups
from coordinatord.monitoring.analysis.groups import GroupNow
from coordinatord.monitoring.offsets_log.source.segments import SourceError
from coordinatord.monitoring.pipeline.report.read import read_groups
from coordinatord.monitoring.pipeline.run.state import STATE_VERSION, write_state


def group(name: str, status: str, lag: int) -> GroupNow:
    return GroupNow(name, status, f"{lag} unread", 0, 1, lag, lag, 60_000, "exact", 1_000, "OK")


def write(out: Path, groups: list[GroupNow]) -> None:
    members = [("late", None), ("late", 5), ("fine", None), ("gone", 5)]
    for name, rows in (
        ("group_status", [each._asdict() for each in groups]),
        ("members", [{"group_id": group_id, "until_ms": until_ms} for group_id, until_ms in members]),
    ):
        directory = out / "tables" / name / "bucket=3"
        directory.mkdir(parents=True)
        parquet.write_table(pa.Table.from_pylist(rows), directory / "part.parquet")
    write_state(out, {"version": STATE_VERSION, "batch": 0, "runs": 1, "at_ms": 121_000, "ledger": {}})


def test_the_most_urgent_first(tmp_path: Path) -> None:
    write(
        tmp_path,
        [group("fine", "ok", 0), group("late", "stuck", 5), group("later", "stuck", 9), group("x", "behind", 1)],
    )
    at_ms, groups, members = read_groups(tmp_path)
    assert [row.group_id for row in groups] == ["later", "late", "x", "fine"]
    assert (at_ms, members) == (121_000, {"late": 1, "fine": 1, "gone": 0})
    told = list(_urgent_groups(tmp_path))
    assert told[1] == "1970-01-01 00:02:01Z  4 groups, 2 of them need attention"
    assert [line.split()[0] for line in told[3:6]] == ["GROUP", "later", "late"]
    assert told[5].split() == ["late", "stuck", "5", "60", "s", "1", "2", "min", "ago", "5", "unread"]
    assert told[-1].startswith("All groups as a page: coordinatord pipeline report --out ")
    assert len(told) == 8, "nobody else is named"


def test_a_crash_loop_needs_somebody_whatever_the_offsets_say(tmp_path: Path) -> None:
    """Also in a group that has never committed, which has no row of its own."""
    write(tmp_path, [group("fine", "ok", 0), group("well", "ok", 0)])
    event = {
        "kind": "crash loop", "began_ms": 1_000, "ended_ms": 100_000, "client_id": "c", "host": "/h", "count": 5,
        "text": "c on h came 5 times, for 2 s each",
    }  # fmt: skip
    over = event | {"ended_ms": 121_000 - 3_600_000}
    rows = [{"group_id": name, **each} for name, each in (("fine", event), ("new", event), ("well", over))]
    directory = tmp_path / "tables" / "member_events" / "bucket=3"
    directory.mkdir(parents=True)
    parquet.write_table(pa.Table.from_pylist(rows), directory / "part.parquet")
    _, groups, _ = read_groups(tmp_path)
    assert [(row.group_id, row.status) for row in groups] == [
        ("fine", "crash loop"), ("new", "crash loop"), ("well", "ok"),
    ]  # fmt: skip
    told = list(_urgent_groups(tmp_path))
    assert told[1].endswith("3 groups, 2 of them need attention")
    assert "c on h came 5 times, for 2 s each" in told[4]


def test_who_is_fine_is_not_named(tmp_path: Path) -> None:
    write(tmp_path, [group("fine", "ok", 0)])
    assert list(_urgent_groups(tmp_path))[1:3] == ["1970-01-01 00:02:01Z  1 group; none needs attention", ""]


def test_of_many_the_first(tmp_path: Path) -> None:
    write(tmp_path, [group(f"g{number}", "stopped", number) for number in range(MOST_URGENT + 3)])
    assert "and 3 more" in list(_urgent_groups(tmp_path))


def test_without_a_run(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="has no tables"):
        read_groups(tmp_path)
