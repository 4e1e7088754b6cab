"""`spark.read.format("consumer_offsets")`: found without register(), every kind, pruning, mistakes in a sentence."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from coordinatord.monitoring.offsets_log.decode.row_types import KINDS
from coordinatord.monitoring.offsets_log.source.segments import SourceError
from coordinatord.monitoring.pipeline.source.frames import Source, with_outcome
from kafka_wire.records.batch import TRANSACTIONAL, BatchBuilder, build_control_batch
from kafka_wire.records.control import ControlType
from kafka_wire.records.offsets import OffsetCommitKey, OffsetCommitValue
from tests.monitoring.offsets_log.source.test_kafka_segments import GOLDEN, rows_in
from tests.monitoring.pipeline.directories import commit_batch, write_log, write_segment
from tests.monitoring.pipeline.logs import START_MS, arbitrary_log, encoded

TOPIC = "__consumer_offsets"


def plain(rows: Any) -> list[dict[str, Any]]:
    """Rows of a DataFrame as our own are, in the order of the log."""
    found = [row.asDict(recursive=True) for row in rows]
    return sorted(
        (_bytes(row) for row in found), key=lambda row: (row["log_partition"] or 0, row["log_offset"], str(row))
    )


def _bytes(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _bytes(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_bytes(each) for each in value]
    return bytes(value) if isinstance(value, bytearray) else value


def test_the_wheel_has_the_module_that_spark_looks_for(wheel: Path) -> None:
    tops = {path.name for path in wheel.iterdir() if not path.name.endswith(".dist-info")}
    assert tops == {"coordinatord", "kafka_wire", "pyspark_consumer_offsets"}
    assert not (wheel / "coordinatord" / "monitoring" / "pipeline" / "registered").exists()


def test_spark_finds_the_source_by_itself(spark: Any) -> None:
    frame = spark.read.format("consumer_offsets").option("kind", "offset_commits").load(str(GOLDEN))
    assert frame.columns == KINDS["offset_commits"].schema.names
    assert frame.count() == 56


def test_every_kind_of_the_golden_segment(spark: Any) -> None:
    expected = rows_in(GOLDEN)
    for kind in (*expected, "share_group_metadata"):
        frame = Source(str(GOLDEN)).read(spark, kind)
        assert plain(frame.collect()) == plain_rows(expected.get(kind, [])), kind
    together = Source(str(GOLDEN)).read(spark).toArrow()
    assert together.num_rows == sum(map(len, expected.values()))


def plain_rows(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: (row["log_partition"] or 0, row["log_offset"], str(row)))


def test_arbitrary_logs_in_one_frame(spark: Any, tmp_path: Path) -> None:
    """Every kind at once, the quarantine among them, from several partitions cut into many tasks."""
    rng = random.Random(11)
    for number in (1, 2):
        write_segment(tmp_path / f"{TOPIC}-{number}", 0, [arbitrary_log(rng, 120)], index_bytes=None)
    expected = rows_in(tmp_path)
    assert len(expected) > 15
    rows = Source(tmp_path, splitBytes=2000).read(spark).collect()
    assert len(rows) == sum(map(len, expected.values()))
    for kind, theirs in expected.items():
        mine = [row for row in rows if row["kind"] == kind]
        assert all(row[other] is None for row in mine for other in KINDS if other != kind)
        found = [{**row.asDict(), **row[kind].asDict(recursive=True)} for row in mine]
        names = KINDS[kind].schema.names
        found = [{name: _bytes(row[name]) for name in names} for row in found]
        assert plain_rows(found) == plain_rows(theirs), kind


def test_columns_groups_and_partitions_prune(spark: Any, tmp_path: Path) -> None:
    for number in (0, 1):
        batches = [commit_batch(3 * n, 3, f"group-{n % 5}") for n in range(50)]
        write_segment(tmp_path / f"{TOPIC}-{number}", 0, batches)
    source = Source(tmp_path, groups="group-[12]", partitions="1")
    assert source.read(spark, "offset_commits").count() == 0  # brackets are no pattern here
    frame = Source(tmp_path, groups=["group-1", "*-2"], partitions="1").read(
        spark, "offset_commits", columns=("group_id", "log_partition")
    )
    assert frame.columns == ["group_id", "log_partition"]
    assert {tuple(row) for row in frame.collect()} == {("group-1", 1), ("group-2", 1)}
    assert frame.count() == 60


@pytest.mark.parametrize("enabled", ["false", "true"])
def test_conditions_mean_the_same_pushed_down_or_not(spark: Any, tmp_path: Path, enabled: str) -> None:
    for number in (0, 1, 2):
        batches = [commit_batch(3 * n, 3, f"group*{n % 5}") for n in range(50)]
        write_segment(tmp_path / f"{TOPIC}-{number}", 0, batches)
    spark.conf.set("spark.sql.python.filterPushdown.enabled", enabled)
    try:
        source = Source(tmp_path, pushdown=enabled == "true")
        for condition, count in (
            ("group_id = 'group*1'", 90),
            ("group_id = 'group*'", 0),  # a star in a condition is a star
            ("group_id IN ('group*1', 'group*2') AND log_partition = 2", 60),
            ("group_id LIKE 'group*%' AND log_partition IN (0, 2) AND partition = 0", 100),
            ("group_id = 'group*1' AND NOT topic = 't'", 0),
            ("log_partition = 9", 0),
            ("group_id = 'group*3' OR log_offset < 3", 99),
        ):
            # A frame of its own for each: see the README on what Spark keeps of a frame.
            chosen = source.read(spark, "offset_commits").where(condition)
            assert chosen.count() == count, condition
            plan = chosen._jdf.queryExecution().executedPlan().toString()
            if "LIKE" not in condition and "OR" not in condition and "NOT" not in condition:
                assert ("Filter (" in plan) == (enabled == "false"), plan
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


@pytest.mark.parametrize("name", [f"{TOPIC}-0", "a-copy-of-no-name"])
def test_transactions_come_out(spark: Any, tmp_path: Path, name: str) -> None:
    def commits(offset: int, producer_id: int = -1) -> bytearray:
        builder = BatchBuilder()
        builder.add(*encoded(1, 4, OffsetCommitKey("g", "t", 0), OffsetCommitValue(offset)), START_MS)
        inside = TRANSACTIONAL if producer_id >= 0 else 0
        return builder.finish(offset, attributes=inside, producer_id=producer_id, producer_epoch=0)

    def end(offset: int, producer_id: int, how: ControlType) -> bytearray:
        return build_control_batch(how, producer_id, 0, 1, START_MS, offset)

    batches = [
        commits(0), commits(1, 7), commits(2, 8), end(3, 7, ControlType.COMMIT), commits(4, 7),
        end(5, 8, ControlType.ABORT), end(6, 7, ControlType.ABORT), commits(7, 7), commits(8, 8),
    ]  # fmt: skip
    write_segment(tmp_path / name, 0, batches)
    source = Source(tmp_path / name)
    frame = with_outcome(source.read(spark, "offset_commits"), source.read(spark, "transaction_markers"))
    found = {row["log_offset"]: (row["outcome"], row["outcome_log_offset"]) for row in frame.collect()}
    assert found == {
        0: ("plain", None), 1: ("COMMIT", 3), 2: ("ABORT", 5), 4: ("ABORT", 6), 7: ("open", None), 8: ("open", None),
    }  # fmt: skip


def test_damage_is_counted_and_stops_nothing(spark: Any, tmp_path: Path) -> None:
    batches = [commit_batch(3 * n) for n in range(100)]
    batches[20][70] ^= 1
    batches[50][16] = 0
    write_segment(tmp_path / f"{TOPIC}-4", 0, [*batches, b"torn"], index_bytes=None)
    source = Source(tmp_path, splitBytes=3000)
    assert source.read(spark, "offset_commits").count() == 294
    rows = source.read(spark, "quarantine").orderBy("position").collect()
    assert [(row["level"], row["log_partition"]) for row in rows] == [("batch", 4), ("bytes", 4), ("bytes", 4)]
    assert sum(row["byte_count"] for row in rows) == len(batches[20]) + len(batches[50]) + 4


def test_mistakes_are_told_in_one_sentence(spark: Any, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="no kind offsets: did you mean offset_commits"):
        Source(tmp_path).read(spark, "offsets")
    with pytest.raises(PySparkException, match="has no option group: did you mean groups"):
        spark.read.format("consumer_offsets").option("group", "x").load(str(tmp_path)).count()
    with pytest.raises(PySparkException, match="no segments of __consumer_offsets in"):
        spark.read.format("consumer_offsets").load(str(tmp_path)).count()


def test_a_large_segment_is_several_tasks(spark: Any, tmp_path: Path) -> None:
    offsets = write_log(tmp_path / f"{TOPIC}-0", 30_000, random.Random(1), segment_batches=10**6)
    frame = Source(tmp_path, splitBytes=300_000).read(spark, "offset_commits")
    assert frame.rdd.getNumPartitions() > 4
    counted = frame.agg(F.count("*"), F.countDistinct("log_offset"), F.max("log_offset")).first()
    assert tuple(counted) == (len(offsets), len(offsets), offsets[-1])
