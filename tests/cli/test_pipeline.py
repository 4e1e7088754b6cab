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

SUMMARY = types.SimpleNamespace(
    rows={"lag": 2, "commits": 5}, new={"offset_commits": 1_230, "group_metadata": 4}, seconds=2
)
TOLD = "1,234 new records in 2.0 s; 2 tables in {out}/tables\n"


@dataclass
class Job:
    out: Path
    format: str = "parquet"
    is_small: bool = False
    is_tiny: bool = False


def module(monkeypatch: pytest.MonkeyPatch, name: str, **attributes: Any) -> None:
    made = types.ModuleType(name)
    vars(made).update(attributes)
    monkeypatch.setitem(sys.modules, f"coordinatord.pipeline.{name}", made)


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was run. The modules that need PySpark are replaced."""
    seen: list[str] = []
    amount = types.SimpleNamespace(is_small=False, is_tiny=False)
    spark = types.SimpleNamespace(sparkContext=types.SimpleNamespace(setLogLevel=lambda _level: None))

    def run_once(*_: object, **__: object) -> Any:
        seen.append("once")
        return SUMMARY

    monkeypatch.setattr(command, "job_of", lambda given: Job(given["out"]))
    monkeypatch.setattr(command, "_follow", lambda *_: seen.append("follow"))
    module(monkeypatch, "run.before", check_run=lambda *_: amount)
    module(monkeypatch, "run.delta", delta_settings=dict)
    module(monkeypatch, "run.ingest", SPARKS=(), cause_of=str)
    module(monkeypatch, "run.java_process", java_has_ended=lambda _spark: False, tell_in=lambda _path: None)
    module(monkeypatch, "run.publish", Place=None, Published=None)
    module(monkeypatch, "run.update", run=run_once)
    module(monkeypatch, "source.frames", start_spark=lambda *_, **__: spark)
    return seen


def run(out: Path, *more: str) -> Result:
    return CliRunner().invoke(cli, ["pipeline", "run", "--source", str(out), "--out", str(out), *more])


def test_a_run_ends_with_its_summary(done: list[str], tmp_path: Path) -> None:
    result = run(tmp_path)
    assert (result.exit_code, result.stdout, done) == (0, TOLD.format(out=tmp_path), ["once"]), result.output


def test_a_follower_ends_without_the_summary_of_a_run(done: list[str], tmp_path: Path) -> None:
    result = run(tmp_path, "--follow")
    assert (result.exit_code, result.stdout, done) == (0, "", ["follow"]), result.output
    assert result.exception is None
