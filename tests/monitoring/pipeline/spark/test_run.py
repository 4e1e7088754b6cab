"""From a log to tables: what they say, what a second run reads, and what a crash leaves."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pyspark.errors import PySparkException

from coordinatord.cli import cli
from coordinatord.monitoring.analysis.status import Rules
from coordinatord.monitoring.offsets_log.lag import connect_retry
from coordinatord.monitoring.offsets_log.source.segments import SourceError
from coordinatord.monitoring.pipeline.run import ingest, merging, preflight
from coordinatord.monitoring.pipeline.run import update as run_module
from coordinatord.monitoring.pipeline.run.ingest import NEW, Job, Position
from coordinatord.monitoring.pipeline.run.run_lock import alone
from coordinatord.monitoring.pipeline.run.update import read_table, run
from coordinatord.monitoring.pipeline.source.frames import Source
from coordinatord.monitoring.pipeline.source.stored_facts import BUCKETS, StoredFile, store
from coordinatord.monitoring.pipeline.tables.describe import markdown
from coordinatord.monitoring.pipeline.tables.inputs import Inputs, TableOptions
from kafka_wire.records.batch import TRANSACTIONAL, BatchBuilder, build_batch, build_control_batch
from kafka_wire.records.control import ControlType
from kafka_wire.records.offsets import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)
from tests.coordination.group.world import subscription
from tests.monitoring.offsets_log.source.test_end_offsets import write as write_topic
from tests.monitoring.pipeline.logs import encoded

ROOT = Path(__file__).parents[4]
NOW_MS = 1_700_000_600_000
"""Ten minutes after the first commit."""
OPTIONS = TableOptions(rules=Rules(window_ms=120_000), slo_lag=50)


def ago(seconds: float) -> int:
    return NOW_MS - round(seconds * 1000)


class Log:
    """A partition of `__consumer_offsets` that is written batch by batch."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True)
        self.path = directory / f"{0:020d}.log"
        self.offset = 0

    def _write(self, batch: bytes | bytearray, count: int = 1) -> None:
        with self.path.open("ab") as file:
            file.write(batch)
        self.offset += count

    def commit(
        self, group: str, offset: int | None, at_ms: int, producer_id: int | None = None, topic: str = "t"
    ) -> None:
        value = None if offset is None else OffsetCommitValue(offset, 0, "", at_ms)
        record = encoded(1, 4, OffsetCommitKey(group, topic, 0), value)
        if producer_id is None:
            self._write(build_batch([record], at_ms, self.offset))
            return
        builder = BatchBuilder()
        builder.extend([record], at_ms)
        self._write(builder.finish(self.offset, attributes=TRANSACTIONAL, producer_id=producer_id, producer_epoch=0))

    def end_transaction(self, producer_id: int, at_ms: int, *, committed: bool) -> None:
        marker = ControlType.COMMIT if committed else ControlType.ABORT
        self._write(build_control_batch(marker, producer_id, 0, 0, at_ms, base_offset=self.offset))

    def members(self, group: str, at_ms: int, *topics: str) -> None:
        """Of one member that reads these topics; of none without any."""
        subscribed = subscription(*topics)
        members = [MemberMetadata("m", None, "c", "/h", 60_000, 10_000, subscribed, b"")] if topics else []
        value = GroupMetadataValue("consumer", 1, "range", "m" if topics else None, at_ms, members)
        self._write(build_batch([encoded(2, 4, GroupMetadataKey(group), value)], at_ms, self.offset))


@pytest.fixture
def data(tmp_path: Path) -> tuple[Path, Log]:
    """Topic t gets a record a second for ten minutes; four groups read it, each in a way of its own."""
    directory = tmp_path / "data"
    seconds = range(0, 601, 10)
    batches = [(second, 10, ago(600 - second)) for second in seconds]
    write_topic(directory / "t-0", 0, batches, [(ago(600 - second), second + 9) for second in seconds])
    log = Log(directory / "__consumer_offsets-0")
    log.members("steady", ago(600), "t")
    log.members("stuck", ago(600), "t")
    log.members("left", ago(300))
    for second in range(0, 600, 20):
        log.commit("steady", second, ago(600 - second))
        log.commit("stuck", min(second, 100), ago(600 - second))
        if second < 300:
            log.commit("left", second, ago(600 - second))
    log.commit("forgotten", 5, ago(500))
    log.commit("forgotten", None, ago(400))
    log.commit("exact", 30, ago(100), producer_id=7)
    log.end_transaction(7, ago(90), committed=True)
    log.commit("exact", 40, ago(80), producer_id=7)
    log.end_transaction(7, ago(70), committed=False)
    return directory, log


def rows(spark: Any, out: Path, table: str) -> dict[str, dict[str, Any]]:
    """Of a table with one row per group."""
    found = [row.asDict() for row in read_table(spark, out, table).collect()]
    assert len({row["group_id"] for row in found}) == len(found)
    return {row["group_id"]: row for row in found}


@pytest.mark.timeout(1200)  # all tables at once: half a minute, and a busy machine makes four times that of it
def test_what_the_tables_say(spark: Any, data: tuple[Path, Log], tmp_path: Path) -> None:
    directory, log = data
    out = tmp_path / "out"
    made = ("lag", "status", "group_status", "lag_history", "slo", "expiry", "commits")  # test_truth.py has them all
    job = Job(Source(str(directory)), out, str(directory), options=OPTIONS, tables=made)
    summary = run(spark, job, now_ms=NOW_MS)
    assert summary.new["offset_commits"] == 79
    assert summary.rows["lag"] == 4

    lag = rows(spark, out, "lag")
    assert lag.keys() == {"steady", "stuck", "left", "exact"}
    assert {group: row["lag"] for group, row in lag.items()} == {"steady": 30, "stuck": 510, "left": 330, "exact": 580}
    assert lag["exact"]["committed_offset"] == 30, "the second transaction was aborted"
    assert (lag["stuck"]["time_lag_method"], lag["stuck"]["time_lag_ms"]) == ("record", 500_000)
    assert (lag["steady"]["end_offset"], lag["steady"]["lost_records"]) == (610, 0)
    assert lag["steady"]["produced_per_s"] == pytest.approx(1, abs=0.05)
    assert lag["stuck"]["consumed_per_s"] == 0

    status = rows(spark, out, "status")
    assert status["stuck"]["status"] == "stuck"
    assert status["left"]["status"] == "ended"
    assert status["steady"]["status"] == "behind"
    assert [status[group]["burrow"] for group in ("stuck", "left")] == ["STALL", "STOP"]
    groups = rows(spark, out, "group_status")
    assert (groups["stuck"]["alarming_partitions"], groups["stuck"]["burrow"]) == (1, "ERR")

    history = [row.asDict() for row in read_table(spark, out, "lag_history").collect()]
    stuck = sorted((row["at_ms"], row["lag"]) for row in history if row["group_id"] == "stuck")
    assert len(stuck) >= 9
    assert stuck[-1][1] > stuck[0][1]
    slo = rows(spark, out, "slo")
    assert slo["steady"]["good_share"] == 1.0
    assert slo["stuck"]["bad_minutes"] > 5
    assert slo["stuck"]["budget_left"] < 0

    commits = rows(spark, out, "commits")
    assert {group: row["rewound_records"] for group, row in commits.items()} == dict.fromkeys(commits, 0)

    expiry = rows(spark, out, "expiry")
    week_ms = 7 * 24 * 3600 * 1000
    assert (expiry["steady"]["counts_from"], expiry["steady"]["expires_ms"]) == ("in use", None)
    assert (expiry["left"]["counts_from"], expiry["left"]["expires_ms"]) == ("empty", ago(300) + week_ms)
    assert (expiry["exact"]["counts_from"], expiry["exact"]["expires_ms"]) == ("simple", ago(100) + week_ms)
    assert expiry["left"]["abandoned"]

    # A second run reads what is new, and nothing else; but tables made by other rules are all made anew.
    state = json.loads((out / "state.json").read_text())
    (out / "state.json").write_text(json.dumps({name: value for name, value in state.items() if name != "rules"}))
    log.commit("steady", 610, NOW_MS)
    summary = run(spark, replace(job, tables=("lag",)), now_ms=NOW_MS + 1000)
    assert summary.new == {"offset_commits": 1}
    assert summary.buckets == BUCKETS
    assert rows(spark, out, "lag")["steady"]["lag"] == 0
    assert rows(spark, out, "lag")["stuck"]["lag"] == 510


@pytest.mark.timeout(1200)  # five runs: a minute, and a busy machine makes four times that of it
def test_a_run_that_is_cut_off_is_made_up_for(
    spark: Any, data: tuple[Path, Log], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever it stops, the next run's tables are those of a run that was never cut off."""
    monkeypatch.setattr(merging, "AT_ONCE", 2)
    directory, log = data
    wanted = ("lag", "expiry")
    whole = Job(Source(str(directory)), tmp_path / "whole", str(directory), options=OPTIONS, tables=wanted)
    broken = Job(Source(str(directory)), tmp_path / "broken", str(directory), options=OPTIONS, tables=wanted)

    def cut(*_: object, **__: object) -> None:
        raise RuntimeError("cut off")

    for module, place, count in (
        (run_module, "_replace", 79), (ingest, "put", 79), (Position, "store", 81), (run_module, "write_state", 82),
    ):  # fmt: skip
        with monkeypatch.context() as patched:
            patched.setattr(module, place, cut)
            with pytest.raises(Exception, match="cut off"):
                run(spark, broken, now_ms=NOW_MS)
        kept = Inputs(spark, broken.out, {}, now_ms=NOW_MS, options=OPTIONS).facts("offset_commits")
        assert kept.count() == count, "what is half done is not there for anybody"
        log.commit("steady", 600, NOW_MS)
    run(spark, broken, now_ms=NOW_MS)
    run(spark, whole, now_ms=NOW_MS)
    for name in wanted:
        made = [sorted(map(str, read_table(spark, job.out, name).collect())) for job in (broken, whole)]
        assert made[0] == made[1]
        assert made[0]


def test_what_a_run_left_out_is_not_missing_from_the_next_ones_tables(
    spark: Any, data: tuple[Path, Log], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers of Spark read it here, of which one fails at first."""
    monkeypatch.setattr(ingest, "HERE_BYTES", 0)
    failed = tmp_path / "failed"

    def stored(parts: Any, options: Any, directory: Path) -> list[StoredFile]:
        files = store(parts, options, directory)
        if not failed.exists():
            failed.touch()
            raise RuntimeError("not now")
        return files

    monkeypatch.setattr(ingest, "store", stored)
    out = tmp_path / "out"
    job = Job(Source(str(data[0]), groups="st*,left"), out, tables=("commits",))
    (out / "tables" / "commits" / "_delta_log").mkdir(parents=True)  # of a run with --format delta
    with pytest.raises(PySparkException, match="not now"):
        run(spark, job, now_ms=NOW_MS)
    new = run(spark, job, now_ms=NOW_MS).new
    assert rows(spark, out, "commits").keys() == {"steady", "stuck", "left"}
    assert spark.read.parquet(str(out / "facts" / "offset_commits")).count() == new["offset_commits"]
    assert not (out / NEW).exists()
    assert not (out / "tables" / "commits" / "_delta_log").exists()
    again = run(spark, replace(job, source=Source(str(data[0]), groups="left, st*")), now_ms=NOW_MS)
    assert again.new == {}
    for source in (Source(str(data[0])), Source(str(data[0]), groups="left")):
        with pytest.raises(SourceError, match=r"out was made with --groups 'left,st\*', and no run reads again"):
            run(spark, replace(job, source=source), now_ms=NOW_MS)


def test_tables_md_is_current() -> None:
    path = ROOT / "coordinatord" / "monitoring" / "pipeline" / "TABLES.md"
    assert path.read_text() == markdown(), "coordinatord pipeline tables > coordinatord/monitoring/pipeline/TABLES.md"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "say where the log is"),
        (["--source", "/none"], "/none does not exist"),
        (["--bootstrap", "127.0.0.1:1", "--table", "lags"], "there is no table lags; the tables are lag, "),
        (["--bootstrap", "127.0.0.1:1", "--broker-option", "sasl"], "expected NAME=VALUE"),
        (["--bootstrap", "broker"], "--bootstrap broker: HOST:PORT is wanted"),
        (["--source", "DATA", "--end-offsets", "ends"], "--end-offsets ends: a broker's log directory or HOST:PORT is"),
        (["--source", "DATA", "--out", "s3a://bucket/lag"], "--out s3a://bucket/lag needs --work DIR: a run works"),
        (["--source", "DATA", "--work", "work"], "--work is for an --out on another file system, such as s3a://"),
        (["--source", "DATA", "--out", "s3a://b/lag", "--work", "w", "--follow"], "--follow needs a directory as"),
        (["--source", "DATA", "--out", "s3a:/b/lag"], "s3a:/b/lag: tables are written to a directory of"),
        (["--source", "DATA", "--interval", "5"], "--interval needs --follow"),
        (["--source", "DATA", "--broker-option", "a=b"], "need a broker: give --bootstrap"),
        (["--source", "DATA", "--out", "DATA/t-0/topic.log/out"], "topic.log/out cannot be made: Not a directory"),
        (["--source", "/", "--format", "delta"], "the format delta needs Delta Lake for Spark 4."),
    ],
)
def test_what_a_user_gets_wrong(
    spark: Any, data: tuple[Path, Log], tmp_path: Path, arguments: list[str], sentence: str
) -> None:
    (data[0] / "t-0" / "topic.log").touch()
    arguments = [argument.replace("DATA", str(data[0])) for argument in arguments]
    told = CliRunner().invoke(cli, ["pipeline", "run", "--out", str(tmp_path / "out"), *arguments])
    assert told.exit_code == 2, told.output
    assert sentence in told.output
    assert "starting Spark" not in told.output, "said only when Spark had been waited for"
    assert "Traceback" not in told.output


def test_a_broker_that_is_not_there_is_asked_before_spark_is_started(
    spark: Any, data: tuple[Path, Log], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And a port that refuses is not asked again."""
    monkeypatch.setattr(connect_retry, "QUICKLY_S", 60)
    for where in (["--bootstrap", "127.0.0.1:1"], ["--source", str(data[0]), "--end-offsets", "127.0.0.1:1"]):
        told = CliRunner().invoke(cli, ["pipeline", "run", "--out", str(tmp_path / "out"), *where])
        assert told.exit_code == 2, told.output
        assert told.output.splitlines() == [
            "  looking at the source …",
            "coordinatord: no broker answers at 127.0.0.1:1: connection refused.",
        ]
    assert not (tmp_path / "out").exists()


def test_segments_that_cannot_be_read_are_told_before_spark_is_started(
    data: tuple[Path, Log], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ["pipeline", "run", "--source", str(data[0]), "--out", str(tmp_path / "out")]
    with monkeypatch.context() as patched:  # root may read everything
        patched.setattr(preflight.os, "access", lambda path, _mode: not str(path).endswith(".log"))
        told = CliRunner().invoke(cli, arguments)
    assert f"coordinatord: this user may not read {data[1].path}." in told.output
    data[1].path.with_name(f"{data[1].path.name}.swap").touch()
    assert "has a .swap file: its log was being cleaned" in CliRunner().invoke(cli, arguments).output


def test_a_line_that_is_no_setting_is_not_shown(tmp_path: Path) -> None:
    config = tmp_path / "reader.properties"
    for text, sentence in (
        (b"# who\nsecret", "reader.properties, line 2: expected NAME=VALUE"),
        (b"\xff", "cannot be read"),
    ):
        config.write_bytes(text)
        arguments = ["--bootstrap", "127.0.0.1:1", "--broker-config", str(config), "--out", str(tmp_path / "out")]
        told = CliRunner().invoke(cli, ["pipeline", "run", *arguments])
        assert (told.exit_code, sentence in told.output, "secret" in told.output) == (2, True, False), told.output


def test_two_runs_do_not_take_each_others_files_away(spark: Any, data: tuple[Path, Log], tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    with alone(out):
        told = CliRunner().invoke(cli, ["pipeline", "run", "--source", str(data[0]), "--out", str(out)])
        with pytest.raises(SourceError, match=f"another run is at work in {out}: wait for its end"):
            run(spark, Job(Source(str(data[0])), out), now_ms=NOW_MS)
    assert f"coordinatord: another run is at work in {out}: wait for its end, or stop it." in told.output
    assert "starting Spark" not in told.output


def test_a_table_that_is_not_there(spark: Any, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="has no table lag: run"):
        read_table(spark, tmp_path, "lag")


def test_delta_is_asked_for_before_anything_is_written(spark: Any, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"and this Spark session has no jar of it: pip install delta-spark"):
        run(spark, Job(Source(str(tmp_path)), tmp_path / "out", format="delta"), now_ms=NOW_MS)
    assert not (tmp_path / "out").exists()
