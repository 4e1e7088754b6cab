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
from coordinatord.monitoring.analysis.current_lag import Now, Partition
from coordinatord.monitoring.analysis.ends import Ends
from coordinatord.monitoring.analysis.generations import NO_COMMITS, Generation, Member
from coordinatord.monitoring.analysis.offset_timeline import Point
from coordinatord.monitoring.analysis.rebalances import rebalances
from coordinatord.monitoring.analysis.share_log import logged
from coordinatord.monitoring.analysis.share_state import Replayed
from coordinatord.monitoring.analysis.status import Rules
from coordinatord.monitoring.dashboard.html import TRIGGERS
from coordinatord.monitoring.offsets_log.source.segments import SourceError
from coordinatord.monitoring.pipeline.report.page import page
from coordinatord.monitoring.pipeline.report.read import read
from coordinatord.monitoring.pipeline.run.state import STATE_VERSION
from kafka_wire.records.rebalance_ledger import Why
from kafka_wire.records.share_state import ShareSnapshotValue, StateBatch

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


def place(group: str, topic: str, partition: int, lag: int) -> dict[str, Any]:
    """A row of the table lag."""
    row: dict[str, Any] = dict.fromkeys(set(Now._fields) - {"status", "why", "alarming", "burrow"})
    return row | {
        "group_id": group, "topic": topic, "partition": partition, "committed_offset": 7,
        "committed_ms": NOW_MS - 5_000,
        "end_offset": 7 + lag, "log_start_offset": 0, "lag": lag, "time_lag_method": "at least", "time_lag_ms": 90_000,
    }  # fmt: skip


def share_place(group: str, topic: str, partition: int, *batches: StateBatch, end: int, members: int) -> dict[str, Any]:
    """A row of the table share_partitions: of a share partition that starts at 10, and has not changed for an hour."""
    replayed = Replayed()
    replayed.add(ShareSnapshotValue(0, 1, 0, 10, -1, 0, 0, list(batches)), NOW_MS - HOUR_MS)
    ends = Partition.of(topic, partition, Ends(0, end, NOW_MS), [Point(end, NOW_MS - HOUR_MS)])
    found = logged(group, ends, replayed, [(NOW_MS - HOUR_MS, members)], NOW_MS, rules=Rules())
    assert found is not None
    return {name: found.columns[name] for name in SHARE_COLUMNS}


SHARE_COLUMNS = (
    "group_id", "topic", "partition", "members", "start_offset", "end_offset", "end_offset_ms", "lag",
    "delivery_complete", "acknowledged", "archived", "archiving", "available", "redelivered", "most_deliveries",
    "most_deliveries_offset", "delivery_limit", "suspected", "suspected_offset", "oldest_offset", "time_lag_ms",
    "time_lag_method", "changed_ms", "consumed_per_s", "produced_per_s", "status", "why", "alarming",
)  # fmt: skip


def verdict(group: str, topic: str, partition: int, word: str) -> dict[str, Any]:
    """A row of the table status."""
    return {"group_id": group, "topic": topic, "partition": partition, "status": word, "why": f"{word} it is",
            "alarming": True, "burrow": "STALL"}  # fmt: skip


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
            "lag": [place("payments", "pay", 1, 12_345)],
            "status": [verdict("payments", "pay", 1, "stuck")],
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


def data(text: str) -> dict[str, Any]:
    """The data inside the page."""
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    told: dict[str, Any] = json.loads(found[1])
    return told


def test_what_is_on_the_page(out: Path) -> None:
    tables = read(out, 12)
    assert tables.shown == ["payments", EVIL, "orders"], "the most urgent first"
    text = page(tables)
    told = data(text)
    assert told["now_ms"] == told["at_ms"] == NOW_MS
    assert [(row["id"], row["status"], row["lag"]) for row in told["rows"]] == [
        ("payments", "crash loop", 12_345),
        (EVIL, "unknown", None),
        ("orders", "ok", 0),
    ]
    pay = told["group"]["payments"]
    assert pay["why"] == "c1 came and went five times"
    assert pay["members"] == 2
    assert [each["cause"] for each in pay["rebalances"]][:2] == ["leader rejoined: c1", "member left: c1"]
    assert (pay["rebalances"][0]["how"], pay["rebalances"][0]["confidence"]) == ("inferred", 0.8)
    assert told["group"]["orders"]["rebalances"][0]["how"] == "observed"
    assert pay["points"][-1] == [NOW_MS, sum(60 * (number + 1) * 20 for number in range(12))]
    (place,) = pay["partitions"]
    assert (place["topic"], place["partition"], place["lag"], place["status"]) == ("pay", 1, 12_345, "stuck")
    assert place["owner"] == {"client": "c1", "host": "10.0.0.1"}, "the member of the last generation that is present"
    assert [each["group"] for each in told["topic"]["pay"]["readers"]] == ["payments"]
    assert {each["group"] for each in told["client"]["10.0.0.1"]["members"]} == {"payments", "orders", EVIL}
    shown = words(text)
    for expected in ("crash loop", "c1 came and went five times", "3 d", "session expired"):
        assert expected in shown, expected
    assert text.count("began, not over") == 1, "the other one is over"


def test_the_page_loads_nothing_and_runs_nothing_of_a_peers(out: Path) -> None:
    text = page(read(out, 12))
    assert EVIL not in text
    assert EVIL in {row["id"] for row in data(text)["rows"]}
    assert "default-src 'none'" in text
    assert not re.search(r"<(script|link|img|iframe)[^>]+(src|href)=(?!\"data:,\")", text)


def test_every_cause_that_the_ledger_names_has_a_colour() -> None:
    named = {value for name, value in vars(Why).items() if name.isupper()}
    assert named
    assert named <= TRIGGERS.keys()


def share_window(out: Path) -> None:
    """Add a share group with a suspected poison record to the tables, and one that is well and has a long topic."""
    topic = "shipments-of-the-northern-warehouses"
    batches = [StateBatch(10, 11, 0, 1), StateBatch(12, 12, 4, 5), StateBatch(13, 13, 0, 3), StateBatch(14, 20, 2, 1)]
    write(
        out,
        {
            "share_partitions": [
                share_place("packers", "jobs", 0, *batches, end=1_000, members=2),
                share_place("packers", "jobs", 1, end=10, members=2),
                share_place("pickers", topic, 0, StateBatch(10, 19, 2, 1), end=20, members=1),
            ]
        },
    )


def test_a_share_group_has_its_window_and_its_verdict(out: Path) -> None:
    """Though it is in no other table: it commits nothing."""
    share_window(out)
    told = data(page(read(out, 12)))
    rows = {row["id"]: row for row in told["rows"]}
    assert [rows[name]["status"] for name in ("packers", "pickers")] == ["poison record", "ok"]
    assert [rows[name]["members"] for name in ("packers", "pickers")] == [2, 1]
    group = told["group"]["packers"]
    assert group["type"] == "share"
    assert (group["lag"], group["why"]) == (
        982, "982 unread: delivery count 3 of limit 5 at offset 13: a suspected poison record",
    )  # fmt: skip
    names = ("start_offset", "acquired", "done", "archived", "redelivered", "suspected", "suspected_at", "changed_ms")
    assert [tuple(row[name] for name in names) for row in group["window"]] == [
        (10, None, 8, 1, 2, 1, 13, NOW_MS - HOUR_MS),
        (10, None, 0, 0, 0, 0, None, NOW_MS - HOUR_MS),
    ]
    assert [row["committed_offset"] for row in group["partitions"]] == [10, 10]
    assert "--offset 13 --max-messages 1" in " ".join(each["command"] for each in group["commands"])
    assert told["topic"]["jobs"]["partitions"] == 2


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
    expiry = {"group_id": "orders", "topic": "t", "partition": 0, "counts_from": "explicit", "expires_ms": 9 - 2**63,
              "expires_in_ms": None}  # fmt: skip
    rows = {"group_status": [status("orders", "unknown", None, **unknown)], "rebalances": [told], "expiry": [expiry]}
    write(tmp_path / "out", rows)
    text = page(read(tmp_path / "out", 1))
    (row,) = data(text)["group"]["orders"]["rebalances"]
    assert row["cause"] == "the log does not have the generation before"
    assert (row["generation_before"], row["added"]) == (None, None)
    assert f"<td class='w'>{9 - 2**63} ms</td><td class='n'>due</td>" in text


def test_a_run_without_anything(tmp_path: Path) -> None:
    write(tmp_path / "out", {})
    assert data(page(read(tmp_path / "out", 12)))["rows"] == []


def test_only_a_log_that_was_followed_has_a_section_of_events(out: Path) -> None:
    heading = "<h2>Events while the log was followed</h2>"
    assert heading in page(read(out, 12))
    for events in (out / "events").iterdir():
        events.unlink()
    assert heading not in page(read(out, 12))


def test_a_budget_is_that_of_a_whole_day(tmp_path: Path) -> None:
    """A share of seven minutes is no day's budget."""
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
    told = data(page(tables))["rows"]
    assert [(row["id"], row["status"], row["urgent"]) for row in told][:2] == [
        ("looping", "crash loop", True),
        ("stuck", "stuck", True),
    ]
    assert sum(row["urgent"] for row in told) == 2
    assert told == data(page(read(tmp_path / "out", 1, ("a-well",))))["rows"], "without a page of its own, too"


@pytest.mark.parametrize("command", [["report", "--html", "x.html"], ["run", "--source", "."],
                                     ["at", "--group", "g", "--time", "03:12"]])  # fmt: skip
def test_a_file_in_the_place_of_the_tables_is_told_in_a_sentence(command: list[str], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = CliRunner().invoke(cli, ["pipeline", *command, "--out", str(tmp_path / "file")])
    assert result.exit_code == 2
    assert f"'{tmp_path / 'file'}' is a file" in result.output
