"""`coordinatord pipeline run` around Spark, which is not there: what the command prints at its end."""

from __future__ import annotations

import sys
import types
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from coordinatord.cli import cli
from coordinatord.cli import pipeline as command
from coordinatord.monitoring.analysis.changes import Thresholds

SUMMARY = types.SimpleNamespace(
    rows={"lag": 2, "commits": 5}, new={"offset_commits": 1_230, "group_metadata": 4}, seconds=2,
    missing=["share groups are missing in the tables: this user may not read their states"],
)  # fmt: skip
TOLD = "1,234 new records in 2.0 s; 2 tables in {out}/tables\n"


@dataclass
class Job:
    out: Path
    format: str = "parquet"
    is_small: bool = False


class Follower:
    """Ends after three batches. `made` has the last one."""

    made: Follower

    def __init__(self, _spark: Any, job: Job, interval_ms: int, thresholds: Thresholds, **_says: Any) -> None:
        Follower.made = self
        self.job, self.interval_ms, self.thresholds = job, interval_ms, thresholds

    def run(self) -> Any:
        return types.SimpleNamespace(batches=3, records=1_234, events=2)


def module(monkeypatch: pytest.MonkeyPatch, name: str, **attributes: Any) -> None:
    made = types.ModuleType(name)
    vars(made).update(attributes)
    monkeypatch.setitem(sys.modules, f"coordinatord.monitoring.pipeline.{name}", made)


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was run. The modules that need PySpark are replaced."""
    seen: list[str] = []
    amount = types.SimpleNamespace(is_small=False, absent=[])
    spark = types.SimpleNamespace(sparkContext=types.SimpleNamespace(setLogLevel=lambda _level: None))

    def run_once(*_: object, **__: object) -> Any:
        seen.append("once")
        return SUMMARY

    monkeypatch.setattr(command, "job_of", lambda given: Job(given["out"]))
    module(monkeypatch, "run.preflight", check_run=lambda *_: amount)
    module(monkeypatch, "run.delta", delta_settings=dict)
    module(monkeypatch, "run.ingest", SPARKS=(), cause_of=str)
    ours = {
        "java_has_ended": lambda _spark: False,
        "log_to": lambda _path: None,
        "outlives_sigterm": lambda _spark: None,
    }
    module(monkeypatch, "run.java_process", **ours)
    module(monkeypatch, "run.follow", Follower=Follower)
    module(monkeypatch, "run.publish", Place=None, Published=None)
    module(monkeypatch, "run.update", run=run_once)
    module(monkeypatch, "source.frames", start_spark=lambda *_, **__: spark)
    return seen


def run(out: Path, *more: str) -> Result:
    return CliRunner().invoke(cli, ["pipeline", "run", "--source", str(out), "--out", str(out), *more])


def test_a_run_ends_with_its_summary(done: list[str], tmp_path: Path) -> None:
    result = run(tmp_path)
    assert (result.exit_code, result.stdout, done) == (0, TOLD.format(out=tmp_path), ["once"]), result.output
    assert f"{SUMMARY.missing[0]}.\n" in result.stderr


def test_a_run_names_partitions_without_a_leader(
    done: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    amount = types.SimpleNamespace(is_small=False, absent=["__consumer_offsets-3"])
    module(monkeypatch, "run.preflight", check_run=lambda *_: amount)
    result = run(tmp_path)
    assert (result.exit_code, result.stdout, done) == (0, TOLD.format(out=tmp_path), ["once"]), result.output
    said = "__consumer_offsets-3 has no leader now: what groups write there comes with a later run\n"
    assert said in result.stderr


def test_a_follower_ends_without_the_summary_of_a_run(done: list[str], tmp_path: Path) -> None:
    result = run(tmp_path, "--follow")
    assert (result.exit_code, result.exception, done) == (0, None, []), result.output
    assert result.stdout == (
        f"stopped: 3 batches, 1,234 new records, 2 events in {tmp_path}/events; the next start resumes here\n"
    )
    assert Follower.made.job.out == tmp_path


def test_a_followers_thresholds_are_the_options(done: list[str], tmp_path: Path) -> None:
    """Without options, five minutes, five rebalances in ten minutes, and a day."""
    run(tmp_path, "--follow")
    assert Follower.made.thresholds == Thresholds() == Thresholds(300_000, 5, 600_000, 86_400_000)
    options = ("--stuck-after", "7", "--storm", "4", "90", "--expiring-within", "1.5", "--interval", "0.5")
    result = run(tmp_path, "--follow", *options)
    assert result.exit_code == 0, result.output
    assert Follower.made.thresholds == Thresholds(7_000, 4, 90_000, 5_400_000)
    assert Follower.made.interval_ms == 500
