"""Streams: bounded steps, queries that are stopped or killed anywhere, logs that grow and are cleaned under them. In
the end every record that is there is in the sink once."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException

from coordinatord.monitoring.pipeline.source.frames import Source
from tests.monitoring.offsets_log.source.test_kafka_segments import GOLDEN, rows_in
from tests.monitoring.pipeline.directories import append, commit_batch, compact, write_log, write_segment
from tests.monitoring.pipeline.spark.queries import Query

TOPIC = "__consumer_offsets"
WAIT_S = 400

#: What is killed: a driver of its own, which does what `start` does below.
PROGRAM = """
import sys
from coordinatord.monitoring.pipeline.source.frames import Source, start_spark
from tests.monitoring.pipeline.spark.conftest import SETTINGS
from tests.monitoring.pipeline.spark.test_stream import start
spark = start_spark(**SETTINGS)
start(spark, *sys.argv[1:]).awaitTermination(600)
"""


def start(spark: Any, log: Any, sink: Any, limit: int = 40, **trigger: Any) -> Any:
    """A stream of commits into Parquet files, which with its checkpoint makes for exactly once."""
    source = Source(str(log), maxRecordsPerTrigger=limit, splitBytes=2000)
    frame = source.read_stream(spark, "offset_commits", columns=("log_partition", "log_offset"))
    writer = frame.writeStream.format("parquet").option("checkpointLocation", f"{sink}/checkpoint")
    return Query(writer.option("path", f"{sink}/rows").trigger(**(trigger or {"processingTime": "0 seconds"})))


def seen(spark: Any, sink: Path) -> Counter[tuple[int, int]]:
    if not list((sink / "rows").glob("*.parquet")):
        return Counter()
    return Counter((row[0], row[1]) for row in spark.read.parquet(str(sink / "rows")).collect())


def finish(spark: Any, log: Path, sink: Path) -> Counter[tuple[int, int]]:
    query = start(spark, log, sink, 1000, availableNow=True)
    assert query.awaitTermination(WAIT_S)
    assert query.exception() is None
    return seen(spark, sink)


def test_a_query_that_is_stopped_anywhere_reads_every_record_once(spark: Any, tmp_path: Path) -> None:
    rng = random.Random(21)
    log, sink = tmp_path / "log", tmp_path / "sink"
    written = {number: write_log(log / f"{TOPIC}-{number}", rng.randrange(150, 300), rng) for number in range(2)}
    gone: set[tuple[int, int]] = set()
    for turn in range(5):
        query = start(spark, log, sink)
        time.sleep(rng.random() * 1.5)
        number = rng.randrange(2)
        written[number] += append(log / f"{TOPIC}-{number}", 5)
        if turn == 2:
            active = int(max((log / f"{TOPIC}-0").glob("*.log")).stem)
            drop = {offset for offset in written[0] if offset < active and offset % 3 == 1}
            gone |= {(0, offset) for offset in drop}
            compact(log / f"{TOPIC}-0", set(written[0]) - drop)
        query.stop()
        assert query.exception() is None
    found = finish(spark, log, sink)
    everything = {(number, offset) for number, offsets in written.items() for offset in offsets}
    assert max(found.values()) == 1
    assert everything - set(found) <= gone
    assert set(found) <= everything


def test_a_driver_that_is_killed_reads_every_record_once(spark: Any, tmp_path: Path) -> None:
    rng = random.Random(22)
    log, sink = tmp_path / "log", tmp_path / "sink"
    offsets = write_log(log / f"{TOPIC}-0", 2000, rng)
    driver = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(log), str(sink)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        start_new_session=True, cwd=Path(__file__).parents[4],
    )  # fmt: skip
    try:
        deadline = time.monotonic() + WAIT_S
        while len(list((sink / "checkpoint" / "commits").glob("[0-9]*"))) < 3:
            assert driver.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
        time.sleep(rng.random() * 0.3)
    finally:
        os.killpg(driver.pid, signal.SIGKILL)  # its JVM is of its session
        driver.wait(30)
    before = sum(seen(spark, sink).values())
    assert 0 < before < len(offsets)
    found = finish(spark, log, sink)
    assert found == Counter((0, offset) for offset in offsets)


def test_steps_are_as_large_as_asked_for(spark: Any, tmp_path: Path) -> None:
    log = tmp_path / "log"
    for number in range(3):
        write_segment(log / f"{TOPIC}-{number}", 0, [commit_batch(5 * n, 5) for n in range(20)])
    query = start(spark, log, tmp_path / "sink", availableNow=True)
    assert query.awaitTermination(WAIT_S)
    rows = [progress["numInputRows"] for progress in query.recentProgress]
    assert sum(rows) == 300
    assert max(rows) <= 40
    assert len([count for count in rows if count]) >= 8


def test_available_now_ends_where_the_log_ended(spark: Any, tmp_path: Path) -> None:
    """Records that come while it runs are for the next run."""
    log, sink = tmp_path / "log", tmp_path / "sink"
    offsets = write_log(log / f"{TOPIC}-0", 200, random.Random(5))
    more: list[int] = []

    def process(frame: Any, _number: int) -> None:
        counted.extend(row[0] for row in frame.select("log_offset").collect())
        more.extend(append(log / f"{TOPIC}-0", 1))

    counted: list[int] = []
    source = Source(str(log), maxRecordsPerTrigger=50)
    for expected in (lambda: offsets, lambda: more[:]):
        counted.clear()
        wanted = expected()
        stream = source.read_stream(spark, "offset_commits").writeStream.foreachBatch(process)
        query = Query(stream.option("checkpointLocation", str(sink)).trigger(availableNow=True))
        assert query.awaitTermination(WAIT_S)
        assert query.exception() is None
        assert counted == wanted


def test_a_log_that_was_cut_is_refused(spark: Any, tmp_path: Path) -> None:
    log, sink = tmp_path / "log", tmp_path / "sink"
    write_segment(log / f"{TOPIC}-0", 0, [commit_batch(3 * n) for n in range(10)])
    assert sum(finish(spark, log, sink).values()) == 30
    write_segment(log / f"{TOPIC}-0", 0, [commit_batch(0)])
    query = start(spark, log, sink, availableNow=True)
    with pytest.raises(PySparkException, match="ends at offset 3, and this query has read up to 30"):
        query.awaitTermination(WAIT_S)


def test_many_tables_from_one_stream(spark: Any, tmp_path: Path) -> None:
    counts: Counter[str] = Counter()

    def process(frame: Any, _number: int) -> None:
        counts.update({row["kind"]: row["count"] for row in frame.groupBy("kind").count().collect()})

    stream = Source(str(GOLDEN)).read_stream(spark).writeStream.foreachBatch(process)
    query = Query(stream.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True))
    assert query.awaitTermination(WAIT_S)
    assert counts == {kind: len(rows) for kind, rows in rows_in(GOLDEN).items()}
