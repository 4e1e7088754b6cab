"""DataFrames of each kind: the input for building tables."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkRuntimeError
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from coordinatord.monitoring.offsets_log.source.options import read_options
from coordinatord.monitoring.pipeline.source.consumer_offsets import NAME, ConsumerOffsets
from coordinatord.monitoring.pipeline.source.java import java_problem
from coordinatord.monitoring.pipeline.source.shipping import pack, ship


class Source:
    """The place of a log and the selection to read: a path, several, or `bootstrap=`; options by their names in the
    README.

    Options are checked here, so that a mistake is one sentence instead of Spark's trace.
    """

    def __init__(self, *paths: str, **options: Any) -> None:
        self.options = {name: _text(value) for name, value in options.items() if value is not None}
        if paths:
            self.options["paths"] = json.dumps([str(path) for path in paths])
        read_options(self.options)

    def read(self, spark: SparkSession, *kinds: str, columns: tuple[str, ...] = ()) -> DataFrame:
        """Return the present rows of one kind, or of several in one frame (all kinds if none is given)."""
        register(spark)
        return spark.read.format(NAME).options(**self.selected(kinds, columns)).load()

    def read_stream(self, spark: SparkSession, *kinds: str, columns: tuple[str, ...] = ()) -> DataFrame:
        """Return the rows of these kinds as a stream."""
        register(spark)
        return spark.readStream.format(NAME).options(**self.selected(kinds, columns)).load()

    def selected(self, kinds: tuple[str, ...], columns: tuple[str, ...] = ()) -> dict[str, str]:
        """Return the options of the source, with these kinds and columns. Raises SourceError."""
        options = dict(self.options)
        if kinds:
            options["kinds"] = ",".join(kinds)
        if columns:
            options["columns"] = ",".join(columns)
        read_options(options)
        return options


def _text(value: Any) -> str:
    if isinstance(value, list | tuple):
        return json.dumps(list(value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def register(spark: SparkSession) -> None:
    """Register the source with a session that has not found it by itself (an editable install). May be repeated."""
    spark.dataSource.register(ConsumerOffsets)


def start_spark(log: Path | None = None, **settings: str) -> SparkSession:
    """Return a session whose workers use this Python. Without Java, raises one sentence instead of Spark's trace. `log`
    is the file for the output of Java, Spark and its workers, from the first warnings on.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    problem = java_problem()
    if problem is not None:
        raise SystemExit(problem)
    packed = pack(settings.get("spark.master", "local"))
    builder = SparkSession.builder
    for name, value in settings.items():
        builder = builder.config(name, value)
    try:
        with _output_to(log):
            spark = builder.getOrCreate()
    except PySparkRuntimeError as error:
        if log is not None:
            sys.stderr.write(log.read_text("utf-8", "replace"))
        raise SystemExit(f"Spark does not start, and has said why above: {error}") from None
    ship(spark, packed)
    return spark


@contextmanager
def _output_to(log: Path | None) -> Iterator[None]:
    """Run a block whose child processes have their standard output and error in this file, for their whole life: Java
    lives on for a while after this process has ended, and a reader of this process's output does not wait for it.
    """
    if log is None:
        yield
        return
    sys.stdout.flush()
    sys.stderr.flush()
    before = [os.dup(number) for number in (1, 2)]
    try:
        log.write_bytes(b"")
        with log.open("ab") as file:  # others may append, too
            for number in (1, 2):
                os.dup2(file.fileno(), number)
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for number, kept in zip((1, 2), before, strict=True):
            os.dup2(kept, number)
            os.close(kept)


def with_outcome(commits: DataFrame, markers: DataFrame) -> DataFrame:
    """Return `commits` with `outcome`: "plain" outside of transactions; otherwise "COMMIT" or "ABORT" by the first
    later marker of the same producer, or "open" while there is none; and `outcome_log_offset` and
    `outcome_timestamp_ms`, the marker's. A transactional commit takes effect at its marker, not before.
    """
    keys = ["log_partition", "producer_id"]
    inside = commits.where("transactional").select(*keys, "log_offset")
    end = F.struct("marker", "log_offset", "timestamp_ms").alias("end")
    both = inside.unionByName(markers.select(*keys, "log_offset", end), allowMissingColumns=True)
    behind = Window.partitionBy(*keys).orderBy("log_offset").rowsBetween(0, Window.unboundedFollowing)
    resolved = (
        both.withColumn("its", F.first("end", ignorenulls=True).over(behind))
        .where("end is null")
        .select(
            F.col("log_partition").alias("_partition"),
            F.col("log_offset").alias("_offset"),
            F.col("its.marker").alias("outcome"),
            F.col("its.log_offset").alias("outcome_log_offset"),
            F.col("its.timestamp_ms").alias("outcome_timestamp_ms"),
        )
    )
    # A segment outside a partition's directory has no partition: here null equals null.
    same = commits["log_partition"].eqNullSafe(resolved["_partition"]) & (commits["log_offset"] == resolved["_offset"])
    joined = commits.join(resolved, same, "left").drop("_partition", "_offset")
    outcome = F.when(~F.col("transactional"), "plain").otherwise(F.coalesce("outcome", F.lit("open")))
    return joined.withColumn("outcome", outcome)
