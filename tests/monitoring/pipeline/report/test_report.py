"""The report: what is on the page, what is not, and nothing that a group's name can do to it."""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from pyarrow import parquet

from coordinatord.cli import cli
from coordinatord.monitoring.analysis.generations import NO_COMMITS, Generation, Member
from coordinatord.monitoring.analysis.rebalances import rebalances
from coordinatord.monitoring.offsets_log.source.segments import SourceError
from coordinatord.monitoring.pipeline.report import figures
from coordinatord.monitoring.pipeline.report.page import _rebalance_row, page
from coordinatord.monitoring.pipeline.report.read import Held, read
from coordinatord.monitoring.pipeline.run.state import STATE_VERSION
from kafka_wire.records.rebalance_ledger import Why

NOW_MS = 1_700_000_000_000
HOUR_MS = 3_600_000
EVIL = "<script>alert('billing')</script>"


def status(group: str, name: str, lag: int | None, **more: Any) -> dict[str, Any]:
    row = {
        "group_id": group, "status": name, "why": f"{name} it is", "alarming_partitions": int(name == "stuck"),
        "partitions": 3, "lag": lag, "max_lag": lag, "max_time_lag_ms": 90_000, "max_time_lag_method": "at most",
        "last_commit_ms": NOW_MS - 5_000, "burrow": "OK",
    }  # fmt: skip
    return row | more


def rebalance(group: str, number: int, trigger: str, *, how: str = "observed") -> dict[str, Any]:
    ended_ms = NOW_MS - HOUR_MS + number * 300_000
    return {
        "group_id": group, "generation_before": number, "generation": number + 1, "outcome": "completed",
        "began_ms": ended_ms - 2_500, "began_after_ms": ended_ms - 3_000, "began_before_ms": ended_ms - 2_000,
        "joined_ms": ended_ms - 100, "ended_ms": ended_ms, "initial": False, "protocol": "range", "leader": "m0",
        "members_before": 2, "members": 3, "added": 1, "removed": 0, "kept": 2, "skipped_generations": 0,
        "partitions_before": 12, "partitions_moved": 4, "partitions_revoked": 0, "stickiness": 0.67,
        "missed_commit_ms": 1_500, "trigger": trigger, "trigger_member_id": "m1", "trigger_client_id": "c1",
        "client_reason": None, "cause": f"{trigger}: c1", "how": how, "confidence": 1.0 if how == "observed" else 0.8,
    }  # fmt: skip


def life(group: str, number: int, end: str | None) -> dict[str, Any]:
    since_ms = NOW_MS - HOUR_MS + number * 300_000
    return {
        "group_id": group, "member_id": f"c{number}-uuid", "instance": None, "client_id": f"c{number}",
        "host": "/10.0.0.1", "since_ms": since_ms, "until_ms": None if end is None else since_ms + 900_000,
        "lived_ms": 900_000, "end": end, "generations": 3, "partitions": 4, "last_commit_ms": NOW_MS,
        "session_timeout_ms": 45_000,
    }  # fmt: skip


def generation(group: str, number: int) -> dict[str, Any]:
    """Twelve partitions, dealt to the members that are there from the `number`th rebalance on."""
    members = [f"c{each}-uuid" for each in range(min(number + 2, 4))]
    since_ms = NOW_MS - HOUR_MS + number * 300_000
    return {
        "group_id": group, "generation": number + 1, "log_offset": number, "timestamp_ms": since_ms,
        "current_state_timestamp_ms": since_ms,
        "members": [
            {
                "member_id": member,
                "assignment": {
                    "assigned_partitions": [{"topic": "pay", "partitions": list(range(place, 12, len(members)))}]
                },
            }
            for place, member in enumerate(members)
        ],
    }  # fmt: skip


def change(group: str, what: str, minute: int, text: str, *, began_minute: int) -> dict[str, Any]:
    return {
        "group_id": group, "kind": "stuck", "change": what, "since_ms": NOW_MS - began_minute * 60_000,
        "at_ms": NOW_MS - minute * 60_000, "topic": "pay", "partition": 3, "committed_offset": 7, "committed_ms": 0,
        "end_offset": 100, "lag": 93, "expires_ms": None, "rebalances": None, "text": text,
    }  # fmt: skip


def follow(out: Path, events: list[dict[str, Any]]) -> None:
    """As a follower leaves them."""
    (out / "events").mkdir()
    for number, event in enumerate(events):
        (out / "events" / f"{number:09d}.jsonl").write_text(json.dumps(event) + "\n")


def write(out: Path, tables: dict[str, list[dict[str, Any]]]) -> None:
    """As `pipeline run` leaves them."""
    out.mkdir(exist_ok=True)
    (out / "state.json").write_text(json.dumps({"version": STATE_VERSION, "batch": 0, "runs": 1, "at_ms": NOW_MS}))
    for name, rows in tables.items():
        if rows:
            path = out / "tables" / name / "bucket=0"
            path.mkdir(parents=True, exist_ok=True)
            parquet.write_table(pa.Table.from_pylist(rows), path / "part.parquet")


@pytest.fixture
def out(tmp_path: Path) -> Path:
    groups = ["payments", "orders", EVIL]
    triggers = ["new member", "session expired", "member left", "leader rejoined"]
    write(
        tmp_path / "out",
        {
            "group_status": [
                status("orders", "ok", 0),
                status("payments", "stuck", 12_345, why="it has committed offset 7 for 600 s"),
                status(EVIL, "unknown", None, last_commit_ms=None, max_time_lag_ms=None, burrow=None),
            ],
            "rebalances": [
                rebalance(group, number, trigger, how="observed" if group == "orders" else "inferred")
                for group in groups
                for number, trigger in enumerate(triggers)
            ],
            "members": [
                life(group, number, end)
                for group in groups
                for number, end in enumerate([None, None, "left", "expired", "replaced", "went"])
            ],
            "member_events": [
                {
                    "group_id": "payments",
                    "kind": "crash loop",
                    "began_ms": NOW_MS - HOUR_MS,
                    "ended_ms": NOW_MS,
                    "client_id": "c1",
                    "host": "/10.0.0.1",
                    "count": 5,
                    "text": "c1 came and went five times",
                }
            ],
            "churn": [
                {
                    "group_id": group,
                    "hour_ms": NOW_MS - hour * HOUR_MS,
                    "rebalances": 4,
                    "added": 3,
                    "removed": hour,
                    "members": 3.0,
                    "partitions_moved": 16,
                    "missed_commit_ms": 6_000,
                }
                for group in groups
                for hour in range(3)
            ],
            "lag_history": [
                {
                    "group_id": "payments",
                    "topic": "pay",
                    "partition": partition,
                    "at_ms": NOW_MS - minute * 60_000,
                    "committed_offset": 7,
                    "lag": (60 - minute) * (partition + 1) * 20,
                }
                for partition in range(12)
                for minute in range(60)
            ],
            "slo": [],
            "expiry": [
                {
                    "group_id": "orders",
                    "topic": "o",
                    "partition": 0,
                    "committed_offset": 1,
                    "committed_ms": NOW_MS,
                    "counts_from": "empty",
                    "expires_ms": NOW_MS + 3 * 24 * HOUR_MS,
                    "expires_in_ms": 3 * 24 * HOUR_MS,
                    "abandoned": True,
                }
            ],
        },
    )
    out = tmp_path / "out"
    path = out / "facts" / "group_generations" / "batch=000000000" / "bucket=0"
    path.mkdir(parents=True)
    facts = [generation(group, number) for group in groups for number in range(4)]
    parquet.write_table(pa.Table.from_pylist(facts), path / "part.parquet")
    follow(
        out,
        [
            change("payments", "began", 50, "at offset 7 for 300 s", began_minute=55),
            change("payments", "recovered", 40, "after 900 s: moved to 8", began_minute=55),
            change("payments", "began", 5, "at offset 8 for 300 s", began_minute=10),
        ],
    )
    return out


def words(text: str) -> str:
    """What a person reads: no scripts, styles and tags."""
    text = re.sub(r"<(script|style)\b.*?</\1>", " ", text, flags=re.DOTALL)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", text))


def test_what_is_on_the_page(out: Path) -> None:
    tables = read(out, 12)
    assert tables.shown == ["payments", EVIL, "orders"], "the most urgent first"
    text = page(tables)
    told = words(text)
    assert "State at 2023-11-14 22:13:20 UTC" in told
    for expected in (
        "1 need attention", "12,345 records unread", "36 rebalances", "crash loop", "c1 came and went five times",
        "3.0 d", "session expired: c1", "3 → 4", "inferred, 80%", "observed",
    ):  # fmt: skip
        assert expected in told, expected
    assert text.count("Members and their partitions") == 3
    assert text.count("Records unread, by partition") == 1
    assert text.count("began, not over") == 1, "the other one is over"
    assert "from generation 2 on: pay-0, pay-3, pay-6, pay-9" in text
    assert "4 other partitions together" in text


def test_the_page_loads_nothing_and_runs_nothing_of_a_peers(out: Path) -> None:
    text = page(read(out, 12))
    assert EVIL not in text
    assert "&lt;script&gt;alert(&#x27;billing&#x27;)&lt;/script&gt;" in text
    without_plotly = re.sub(r"<script>/\*\*.*?</script>", "", text, flags=re.DOTALL)
    assert not re.search(r"<(script|link|img|iframe)[^>]+(src|href)=(?!\"data:,\")", without_plotly)


def test_every_cause_that_the_ledger_names_has_a_colour() -> None:
    named = {value for name, value in vars(Why).items() if name.isupper()}
    assert named
    assert named <= figures.TRIGGERS.keys()


def test_groups_that_are_chosen(out: Path) -> None:
    assert read(out, 1).shown == ["payments"]
    assert read(out, 1, ("orders",)).shown == ["orders"]
    with pytest.raises(SourceError, match="has no group nobody"):
        read(out, 1, ("nobody",))


def test_the_command(out: Path, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    done = CliRunner().invoke(cli, ["pipeline", "report", "--out", str(out), "--html", str(path)])
    assert done.exit_code == 0, done.output
    assert "open it in a browser" in done.output
    assert path.read_text().startswith("<!doctype html>")
    nothing = CliRunner().invoke(cli, ["pipeline", "report", "--out", str(tmp_path), "--html", str(path)])
    assert nothing.exit_code == 2
    assert "has no tables: run `coordinatord pipeline run" in nothing.output
    (tmp_path / "state.json").write_text("{")
    broken = CliRunner().invoke(cli, ["pipeline", "report", "--out", str(tmp_path), "--html", str(path)])
    assert "state.json cannot be read: remove it" in broken.output


def test_what_a_log_does_not_tell_or_tells_of_no_calendars_time(tmp_path: Path) -> None:
    """Of a compacted log's first generation nobody knows why; an old client may ask for offsets to be kept for ever."""
    member = Member("m", None, "c", "/h", 45_000, 60_000, frozenset(), frozenset(), frozenset())
    (first,) = rebalances([Generation(7, NOW_MS, None, "range", "m", {"m": member})], NO_COMMITS)
    told = {"group_id": "orders", **asdict(first)}
    unknown = dict.fromkeys(("last_commit_ms", "max_time_lag_ms", "burrow"))
    expiry = {"group_id": "orders", "counts_from": "explicit", "expires_ms": 9 - 2**63, "expires_in_ms": None}
    rows = {"group_status": [status("orders", "unknown", None, **unknown)], "rebalances": [told], "expiry": [expiry]}
    write(tmp_path / "out", rows)
    text = page(read(tmp_path / "out", 1))
    assert "<td class='t'>the log does not have the generation before</td>" in text
    assert "<span class=soft>unknown</span>" in text
    assert f"<td class='w'>{9 - 2**63} ms</td><td class='n'>due</td>" in text


def test_a_run_without_anything(tmp_path: Path) -> None:
    write(tmp_path / "out", {})
    assert "No group has a committed offset." in page(read(tmp_path / "out", 12))


@pytest.mark.parametrize(
    ("count", "title"),
    [(60, "Members and their partitions"), (61, "Members and their partitions (the last 60 of 61)")],
)
def test_the_timeline_names_members_that_are_left_out(count: int, title: str) -> None:
    lives = [life("pay", number, "left") for number in range(count)]
    assert figures.timeline(lives, [], [], NOW_MS).title == title


def test_only_a_log_that_was_followed_has_a_section_of_events(out: Path) -> None:
    heading = "<h2>Events while the log was followed</h2>"
    assert heading in page(read(out, 12))
    for events in (out / "events").iterdir():
        events.unlink()
    assert heading not in page(read(out, 12))


def test_a_young_history_is_seen() -> None:
    moment = figures.lag([{"topic": "t", "partition": 0, "at_ms": 60_000, "lag": 5}]).figure
    assert moment.data[0].mode == "lines+markers"
    hour = figures.churn([{"hour_ms": 3_600_000, "added": 2, "removed": 1}]).figure
    assert [bar.width for bar in hour.data] == [3_600_000, 3_600_000]


def test_a_log_of_minutes_is_told_in_minutes(tmp_path: Path) -> None:
    """Seven minutes are no hour, and a share of them is no day's budget."""
    minute = 60_000
    moved = {"began_ms": NOW_MS - 9 * minute, "ended_ms": NOW_MS - 9 * minute}
    rows = {
        "group_status": [status("pay", "falling", 9_000)],
        "rebalances": [
            {**rebalance("pay", n, "new member"), **moved, "ended_ms": NOW_MS - (9 - n) * minute, "added": 1}
            for n in range(7)
        ],
        "churn": [
            {"group_id": "pay", "hour_ms": NOW_MS // HOUR_MS * HOUR_MS, "rebalances": 7, "added": 7, "removed": 0,
             "members": 3.0, "partitions_moved": 1, "missed_commit_ms": None}
        ],
        "slo": [
            {"group_id": "pay", "day": "2026-11-20", "lag_target": 1_000, "moments": 7, "good_moments": 1,
             "good_minutes": 1.0, "bad_minutes": 6.0, "good_share": 1 / 7, "budget_minutes": 0.07,
             "budget_left": -84.71}
        ],
    }  # fmt: skip
    write(tmp_path / "out", rows)
    text = page(read(tmp_path / "out", 1))
    assert "Members that joined and left the groups below, in steps of 10.0 s" in text
    assert "by hour" not in text
    assert "14.4 minutes of a day may be bad" in text
    assert "<td class='n'>6 of 7</td><td class='w'><span class=calm>42% spent</span></td>" in text
    assert "-8471%" not in text
    rows["slo"][0] |= {"good_minutes": 1_400.0, "bad_minutes": 40.0, "budget_minutes": 14.4}
    write(tmp_path / "out", rows)
    assert "<span class=bad>spent 2.8 times</span>" in page(read(tmp_path / "out", 1))


def test_crash_loops_and_storms_are_urgent(tmp_path: Path) -> None:
    """Nothing is unread, and somebody has to look all the same; not so when it is over for long."""

    def loop(group: str, kind: str, minutes: int) -> dict[str, Any]:
        return {"group_id": group, "kind": kind, "began_ms": NOW_MS - HOUR_MS, "ended_ms": NOW_MS - minutes * 60_000,
                "client_id": "c", "host": "/h", "count": 5, "text": f"{group} came and went"}  # fmt: skip

    rows = {
        "group_status": [status(group, "ok", 0) for group in ("a-well", "looping", "once")]
        + [status("late", "behind", 5), status("stuck", "stuck", 5)],
        "member_events": [
            loop("looping", "storm", 1),
            loop("looping", "crash loop", 2),
            loop("once", "crash loop", 30),
        ],
    }
    write(tmp_path / "out", rows)
    tables = read(tmp_path / "out", 5)
    assert tables.shown == ["looping", "stuck", "late", "a-well", "once"]
    text = page(tables)
    loop_row = "<span class='badge bad'>crash loop</span></td><td class='t'>looping came and went</td>"
    assert loop_row in text
    assert "<div class='tile bad'><b>2</b>need attention</div>" in text
    assert loop_row in page(read(tmp_path / "out", 1, ("a-well",))), "without a section of its own, too"


def test_a_members_first_assignment_is_shown_though_its_generation_was_stable_before_its_record() -> None:
    life = {"member_id": "m", "client_id": "c", "host": "/h", "since_ms": 1_006, "until_ms": 9_000,
            "generations": 2, "partitions": 1}  # fmt: skip
    held = [Held("m", 1, 1_000, (("t", (0, 1)),)), Held("m", 2, 5_000, (("t", (0,)),))]
    pieces = figures._pieces([life], held, 10_000)
    assert [(piece.since_ms, piece.until_ms, piece.text) for piece in pieces] == [
        (1_006, 5_000, "2"),
        (5_000, 9_000, "1"),
    ]


@pytest.mark.parametrize("command", [["report", "--html", "x.html"], ["run", "--source", "."],
                                     ["at", "--group", "g", "--time", "03:12"]])  # fmt: skip
def test_a_file_in_the_place_of_the_tables_is_told_in_a_sentence(command: list[str], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = CliRunner().invoke(cli, ["pipeline", *command, "--out", str(tmp_path / "file")])
    assert result.exit_code == 2
    assert f"'{tmp_path / 'file'}' is a file" in result.output


def test_who_came_and_went_where_the_log_has_lost_it() -> None:
    unknown = {"generation_before": None, "added": None, "removed": None}
    cells = [text for text, _ in _rebalance_row({**rebalance("pay", 3, "new member"), **unknown})]
    assert cells[1] == "? → 4"
    assert "3 (+? −?)" in cells
