"""`pipeline run --follow` as a user starts it: killed, started again, stopped. Records and events are there once."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException, StreamingQueryException

from coordinatord.monitoring.analysis.changes import Thresholds
from coordinatord.monitoring.pipeline.run import follow as follow_module
from coordinatord.monitoring.pipeline.run.events import read_events
from coordinatord.monitoring.pipeline.run.follow import Followed, Follower
from coordinatord.monitoring.pipeline.run.ingest import Intake, Job
from coordinatord.monitoring.pipeline.run.update import read_table, refresh, run
from coordinatord.monitoring.pipeline.source.frames import Source
from tests.monitoring.offsets_log.source.test_end_offsets import write as write_topic
from tests.monitoring.pipeline.spark.test_run import ROOT, Log

WAIT_S = 500


def now_ms() -> int:
    return int(time.time() * 1000)


def until(condition: Callable[[], object], follower: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert follower.poll() is None, follower.communicate()
        assert time.monotonic() < deadline, "it does not come"
        time.sleep(0.05)


def follow(data: Path, out: Path) -> subprocess.Popen[str]:
    """In a directory with another package of that name, which Spark's workers are not to import."""
    (data / "coordinatord").mkdir(exist_ok=True)
    (data / "coordinatord" / "__init__.py").write_text("raise AssertionError")
    command = [
        sys.executable, "-P", "-m", "coordinatord", "pipeline", "run", "--source", str(data), "--out", str(out),
        "--follow", "--interval", "0.2", "--stuck-after", "2", "--table", "lag",
    ]  # fmt: skip
    return subprocess.Popen(
        command, cwd=data, start_new_session=True, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def changes(out: Path) -> list[tuple[str, str, str]]:
    return [(row["group_id"], row["kind"], row["change"]) for row in read_events(out)]


@pytest.mark.timeout(1200)  # half a minute, and a busy machine makes ten times that of it
def test_a_follower_that_is_killed_and_one_that_is_stopped(spark: Any, tmp_path: Path) -> None:
    data, out = tmp_path / "data", tmp_path / "out"
    log = Log(data / "__consumer_offsets-0")

    def grow(count: int) -> None:
        """Topic t has so many records now."""
        write_topic(data / "t-0", 0, [(0, count, now_ms())], [(now_ms(), count - 1)])

    grow(100)
    # Group well reads a topic that does not grow: a batch that sees new records before the commit that follows them
    # would say, after two seconds, that it is stuck.
    write_topic(data / "u-0", 0, [(0, 100, now_ms())], [(now_ms(), 99)])
    log.members("stuck", now_ms(), "t")
    log.commit("stuck", 50, now_ms())
    log.commit("well", 100, now_ms(), topic="u")
    first = follow(data, out)
    try:
        until(lambda: list((out / "looks").glob("[0-9]*.parquet")), first)
        grow(200)
        log.commit("well", 100, now_ms(), topic="u")
        until(lambda: changes(out), first)
        time.sleep(random.Random(now_ms()).random())
    finally:
        os.killpg(first.pid, signal.SIGKILL)  # its JVM is of its session
        first.communicate()
    assert changes(out) == [("stuck", "stuck", "began")]

    log.commit("stuck", 200, now_ms())
    second = follow(data, out)
    try:
        until(lambda: len(changes(out)) > 1, second)
        second.terminate()
        told, said = second.communicate(timeout=WAIT_S)
    except BaseException:
        os.killpg(second.pid, signal.SIGKILL)
        raise
    assert second.returncode == 0, (told, said)
    assert "stuck recovered: stuck t-0: after " in told
    assert "stopped: " in told
    assert "the next start resumes here" in told
    ours = re.compile(r"  .* …|following, .*|stopping .*|.{20}  (batch \d+: .* s|Spark has failed.*)")
    assert [line for line in said.splitlines() if not ours.fullmatch(line)] == [], "Spark's lines are in OUT/spark.log"
    assert "WARN" in (out / "spark.log").read_text()
    assert changes(out) == [("stuck", "stuck", "began"), ("stuck", "stuck", "recovered")]

    # A run without --follow takes over; each record was read once by one of the three.
    log.commit("well", 100, now_ms(), topic="u")
    summary = run(spark, Job(Source(str(data)), out, str(data), tables=("lag",)), now_ms=now_ms())
    assert summary.new == {"offset_commits": 1}
    facts = spark.read.parquet(str(out / "facts" / "offset_commits"))
    seen = Counter(row["log_offset"] for row in facts.select("log_offset").collect())
    assert seen == dict.fromkeys((1, 2, 3, 4, 5), 1)
    lag = {row["group_id"]: row["lag"] for row in read_table(spark, out, "lag").collect()}
    assert lag == {"stuck": 0, "well": 0}


def follower_of(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pauses: list[int]) -> Follower:
    """A follower of one commit, which says nothing."""
    data = tmp_path / "data"
    log = Log(data / "__consumer_offsets-0")
    write_topic(data / "t-0", 0, [(0, 100, now_ms())], [(now_ms(), 99)])
    log.commit("group", 50, now_ms())
    monkeypatch.setattr(follow_module, "PAUSES_S", pauses)
    job = Job(Source(str(data)), tmp_path / "out", str(data), tables=("lag",))
    return Follower(spark, job, 200, Thresholds(), say=lambda _text: None, say_event=lambda _row: None)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("times", [2, 3])
def test_a_batch_that_spark_fails_is_repeated(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    """Also if nothing is new meanwhile. One that fails always ends the follower."""
    follower = follower_of(spark, tmp_path, monkeypatch, [0, 0])
    follower.job = replace(follower.job, end_offsets=None)
    said: list[str] = []
    follower.say = said.append
    failures = [PySparkException("not now")] * times

    def refreshed(*given: Any, **options: Any) -> None:
        if failures:
            raise failures.pop()
        follower.stop.set()
        refresh(*given, **options)

    monkeypatch.setattr(follow_module, "refresh", refreshed)
    again = ["Spark has failed; it goes on where it was (not now)"] * 2
    if times > 2:
        with pytest.raises(PySparkException, match="not now"):
            follower.run()
        assert said == again
        return
    done = follower.run()
    assert (done.batches, done.records) == (1, 1)
    assert said[:-1] == again
    assert said[-1].startswith("batch 0: 0 records, something new in 1 of 16 buckets")
    assert read_table(spark, follower.job.out, "lag").count() == 1


@pytest.mark.timeout(600)
def test_a_failure_after_work_is_not_one_in_a_row(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    follower = follower_of(spark, tmp_path, monkeypatch, [0])
    batches: list[int] = []
    take = Intake.take

    def taken(intake: Intake, at_ms: int, *, with_sample: bool) -> dict[str, int] | None:
        batches.append(intake.position.batch + 1)
        if len(batches) == 6:
            follower.stop.set()
        elif len(batches) % 2 == 0:
            raise PySparkException("not now")
        return take(intake, at_ms, with_sample=with_sample)

    monkeypatch.setattr(Intake, "take", taken)
    assert follower.run().records == 1
    assert batches == [0, 1, 1, 2, 2, 3]


@dataclass
class Ended:
    """A query that Spark ends at once, after work or without."""

    lastProgress: object  # noqa: N815 - Spark calls it so
    isActive: bool = False  # noqa: N815

    def exception(self) -> StreamingQueryException:
        return StreamingQueryException("not now")

    def stop(self) -> None:
        """It has ended."""


@pytest.mark.parametrize("progress", [None, {"batchId": 0}])
def test_a_query_of_events_that_spark_ends_is_restarted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, progress: object
) -> None:
    """One that never makes progress ends the follower."""
    follower = follower_of(None, tmp_path, monkeypatch, [0, 0])
    begun: list[Ended] = []

    def start(*_: object, **__: object) -> Ended:
        begun.append(Ended(progress))
        if len(begun) == 6:
            follower.stop.set()
        return begun[-1]

    monkeypatch.setattr(follow_module.events, "start", start)
    monkeypatch.setattr(Follower, "_batch", lambda *_: None)
    if progress is None:
        with pytest.raises(StreamingQueryException):
            follower.run()
        assert len(begun) == 3
    else:
        assert follower.run() == Followed()
        assert len(begun) == 6


@pytest.mark.parametrize("is_stopped", [True, False])
def test_what_fails_because_of_a_stop_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_stopped: bool
) -> None:
    """SIGTERM for all processes of a service also ended one that set the permissions of a checkpoint's files."""

    follower = follower_of(None, tmp_path, monkeypatch, [])

    def fails(*_: object, **__: object) -> Any:
        if is_stopped:
            follower.stop.set()
        raise StreamingQueryException("ExitCodeException exitCode=143")

    monkeypatch.setattr(follow_module.events, "start", fails)
    if is_stopped:
        assert follower.run() == Followed()
    else:
        with pytest.raises(StreamingQueryException):
            follower.run()


@pytest.mark.timeout(600)
@pytest.mark.parametrize("options", [[], ["--follow"]], ids=["run", "follow"])
def test_spark_that_fails_is_told_in_a_sentence(tmp_path: Path, options: list[str]) -> None:
    """No worker of Spark starts, since its Python is a program that only fails."""
    data, out = tmp_path / "data", tmp_path / "out"
    Log(data / "__consumer_offsets-0").commit("group", 50, now_ms())
    command = [sys.executable, "-m", "coordinatord", "pipeline", "run", "--source", str(data), "--out", str(out)]
    environment = os.environ | {"PYSPARK_PYTHON": "/bin/false"}
    done = subprocess.run(
        [*command, *options], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=WAIT_S
    )
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert re.fullmatch(rf"coordinatord: Spark failed: \S+Exception: .*\. {out}/spark.log says more\.", last), done
    assert "Traceback" not in done.stderr
    assert "Traceback" in (out / "spark.log").read_text()


def java_of(follower: subprocess.Popen[str]) -> int:
    """The process of Java that a follower has started."""
    children = Path(f"/proc/{follower.pid}/task/{follower.pid}/children").read_text().split()
    (java,) = (int(pid) for pid in children if Path(f"/proc/{pid}/comm").read_text() == "java\n")
    return java


@pytest.mark.timeout(600)
@pytest.mark.parametrize("whom", ["all", "java"])
def test_a_stop_that_all_processes_are_told_and_a_java_that_dies(tmp_path: Path, whom: str) -> None:
    """systemd sends SIGTERM to all processes of a service: Java's must live on. Without it, there is a sentence."""
    data, out = tmp_path / "data", tmp_path / "out"
    Log(data / "__consumer_offsets-0").commit("group", 50, now_ms())
    follower = follow(data, out)
    try:
        until((out / "events_checkpoint" / "metadata").exists, follower)
        if whom == "all":
            os.killpg(follower.pid, signal.SIGTERM)
        else:
            os.kill(java_of(follower), signal.SIGKILL)
        told, said = follower.communicate(timeout=WAIT_S)
    except BaseException:
        os.killpg(follower.pid, signal.SIGKILL)
        raise
    assert "Traceback" not in said
    if whom == "all":
        assert follower.returncode == 0, said
        assert told.startswith("stopped: ")
    else:
        assert follower.returncode == 1
        why = "its Java process has ended. Had it memory enough?"
        assert said.splitlines()[-1] == f"coordinatord: Spark failed: {why} {out}/spark.log says more."
