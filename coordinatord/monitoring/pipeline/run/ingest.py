"""A run's input: the log's records, and the ends of partitions, as one stream that is stored batch by batch.

Both are in one query with one checkpoint, so that `pipeline run` and `pipeline run --follow` can alternate on a
directory, and the stream continues while there are no commits: that is when lag grows. A micro-batch repeated after a
crash overwrites its files.
"""

from __future__ import annotations

import os
import re
import shutil
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from py4j.protocol import Py4JError
from pyarrow import parquet
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from coordinatord.monitoring.offsets_log.decode.row_types import KINDS
from coordinatord.monitoring.offsets_log.source.end_offsets import is_place
from coordinatord.monitoring.offsets_log.source.segments import SourceError
from coordinatord.monitoring.pipeline.source.frames import Source
from coordinatord.monitoring.pipeline.source.partition_ends import ENDS_DDL, sampler
from coordinatord.monitoring.pipeline.tables.inputs import FACTS, TableOptions, bucket_of

ENDS = "partition_ends"

MERGE_SAMPLES = 64
"""Number of samples of partition ends that are kept in their own files before they are merged."""
KEEP_SAMPLES = 500
"""Number of samples of a partition that are kept: the last ones. Of earlier ones, each merge keeps every other one: so
the curve gets coarser with age, and never has more than twice as many."""

IS_SLOW = "Python worker failed to connect back"
"""Error of a query if this machine takes more than ten seconds to start Python: Spark's time limit, which no setting
changes. Another query continues where that one ended."""
SPARKS = (PySparkException, Py4JError, ConnectionError)
"""Exceptions of Spark; the last two occur also if its Java process is gone."""
CAUSE_LENGTH = 300
ATTEMPTS = 3
"""Number of times that a query is started until one makes progress."""


@dataclass(frozen=True, slots=True)
class Job:
    """The settings of a run. `end_offsets` is a broker's log directory, a database or HOST:PORT; None without any."""

    source: Source
    out: Path
    end_offsets: str | None = None
    broker: dict[str, Any] = field(default_factory=dict, repr=False)  # it contains passwords
    options: TableOptions = field(default_factory=TableOptions)
    tables: tuple[str, ...] = ()
    format: str = "parquet"
    is_small: bool | None = None
    """True if the log has few records: stored rows pass through this process, in one query each. None: by its size."""

    @property
    def log_directories(self) -> tuple[str, ...]:
        """The directories, or the database, from which records' timestamps can be read."""
        return (self.end_offsets,) if self.end_offsets is not None and is_place(self.end_offsets) else ()


def stream(spark: SparkSession, job: Job, now_ms: int | None = None) -> DataFrame:
    """Return the log's rows of all stored kinds, and those of ENDS. `now_ms` replaces the clock."""
    log = job.source.read_stream(spark, *FACTS)
    ends = sampler(
        spark, job.end_offsets, job.broker,
        is_directory=bool(job.log_directories), now_ms=now_ms, window_ms=job.options.rules.window_ms,
    )  # fmt: skip
    ends = ends.select(F.lit(ENDS).alias("kind"), F.struct(*ends.columns).alias(ENDS))
    return log.unionByName(ends, allowMissingColumns=True)


def keep(rows: DataFrame, batch: int, out: Path) -> dict[str, int]:
    """Store a micro-batch of `stream`. Returns the number of records by kind."""
    rows.persist()
    try:
        counts = {row["kind"]: row["count"] for row in rows.groupBy("kind").count().collect()}
        for kind in FACTS:
            _write_facts(rows, kind, batch, out, has_rows=kind in counts)
        if counts.pop(ENDS, 0):
            _write_ends(rows.where(F.col("kind") == ENDS).select(f"{ENDS}.*"), out / "end_offsets" / f"{batch:09d}")
    finally:
        rows.unpersist()
    return counts


def keep_small(rows: DataFrame, batch: int, out: Path) -> dict[str, int]:
    """Store a micro-batch of few records like `keep`, in one query, whose rows this process writes."""
    of_groups = [F.col(f"{kind}.group_id") for kind in FACTS if "group_id" in KINDS[kind].schema.names]
    table = rows.withColumn("bucket", F.coalesce(bucket_of(F.coalesce(*of_groups)), F.lit(0))).toArrow()
    counts = {each["values"]: each["counts"] for each in pc.value_counts(table.column("kind")).to_pylist()}
    for kind in FACTS:
        directory = out / "facts" / kind / f"batch={batch:09d}"
        shutil.rmtree(directory, ignore_errors=True)  # left by the first attempt of a repeated batch
        if kind in counts:
            of_kind = table.filter(pc.equal(table.column("kind"), kind))
            place = [name for name in KINDS[kind].schema.names if name in rows.columns]
            facts = of_kind.select(place)
            inner = of_kind.column(kind).combine_chunks()
            for field_, column in zip(inner.type, inner.flatten(), strict=True):
                facts = facts.append_column(field_.name, column)
            put(write_buckets(facts, of_kind.column("bucket"), staging(directory)), directory)
    if counts.pop(ENDS, 0):
        samples = pc.drop_null(table.column(ENDS)).combine_chunks()
        directory = out / "end_offsets" / f"{batch:09d}"
        staged = directory.with_name(f"_{directory.name}")
        shutil.rmtree(staged, ignore_errors=True)
        staged.mkdir(parents=True)
        parquet.write_table(
            pa.Table.from_arrays(samples.flatten(), names=[each.name for each in samples.type]), staged / _part()
        )
        shutil.rmtree(directory, ignore_errors=True)
        os.replace(staged, directory)
    return counts


def write_buckets(rows: pa.Table, buckets: pa.ChunkedArray, directory: Path) -> Path:
    """Write rows in the layout that Spark uses when it partitions by `bucket`. Returns the directory."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    for bucket in pc.unique(buckets).to_pylist():
        part = directory / f"bucket={bucket}"
        part.mkdir()
        parquet.write_table(rows.filter(pc.equal(buckets, bucket)), part / _part())
    return directory


def _part() -> str:
    """Return the name of a file that this process writes in place of Spark. Like Spark's names it is never reused."""
    return f"part-{uuid.uuid4()}.snappy.parquet"


def _write_facts(rows: DataFrame, kind: str, batch: int, out: Path, *, has_rows: bool) -> None:
    directory = out / "facts" / kind / f"batch={batch:09d}"
    shutil.rmtree(directory, ignore_errors=True)  # left by the first attempt of a repeated batch
    if not has_rows:
        return
    place = [name for name in KINDS[kind].schema.names if name in rows.columns]
    facts = rows.where(F.col("kind") == kind).select(*place, f"{kind}.*")
    is_of_group = "group_id" in facts.columns
    facts = facts.withColumn("bucket", bucket_of(F.col("group_id")) if is_of_group else F.lit(0))
    staged = staging(directory)
    facts.repartition(2, "bucket").write.mode("overwrite").partitionBy("bucket").parquet(str(staged))
    put(staged, directory)


def staging(directory: Path) -> Path:
    """Return the path at which a directory is written before it is moved into place. Spark ignores the path, because
    its name begins with `_` and does not contain `=`: with a `=` Spark would read it all the same.
    """
    return directory.with_name(f"_{directory.name}".replace("=", "-"))


def put(staged: Path, directory: Path) -> None:
    """Move `staged` to `directory`, which must not exist."""
    os.replace(staged, directory)


def _write_ends(samples: DataFrame, directory: Path) -> None:
    staged = directory.with_name(f"_{directory.name}")
    samples.coalesce(1).write.mode("overwrite").parquet(str(staged))
    shutil.rmtree(directory, ignore_errors=True)
    os.replace(staged, directory)


def merge_ends(spark: SparkSession, out: Path) -> None:
    """Merge many small samples. An interruption loses none; some may be duplicated until the next merge."""
    parts = sorted(path for path in (out / "end_offsets").glob("[0-9]*"))
    if len(parts) < MERGE_SAMPLES:
        return
    samples = spark.read.schema(ENDS_DDL).parquet(*map(str, parts)).dropDuplicates(["topic", "partition", "sampled_ms"])
    newest = Window.partitionBy("topic", "partition").orderBy(F.col("sampled_ms").desc())
    kept = (
        samples.withColumn("_rank", F.row_number().over(newest))
        .where((F.col("_rank") <= KEEP_SAMPLES) | (F.col("_rank") % 2 == 0))
        .withColumn("points", F.when(F.col("_rank") == 1, F.col("points")).otherwise(F.array()))
        .drop("_rank")
    )
    _write_ends(kept, parts[-1].with_name(f"{parts[-1].name.removesuffix('.merged')}.merged"))
    for path in parts:
        if not path.name.endswith(".merged") or path.name != f"{parts[-1].name.removesuffix('.merged')}.merged":
            shutil.rmtree(path)


def begun(begin: Callable[[], StreamingQuery]) -> StreamingQuery:
    """Return the query that `begin` starts. Calls `begin` again if Spark gave up waiting for Python, which plans need,
    too.
    """
    for _ in range(ATTEMPTS - 1):
        try:
            return begin()
        except Exception as error:
            if IS_SLOW not in str(error):
                raise
    return begin()


def source_error_of(error: StreamingQueryException) -> SourceError | None:
    """Return the error for the user when a query fails: the source's error, which comes from another process, at the
    end of the query's traceback. None if there is none.
    """
    sentence = re.search(r"\b(?:SourceError|Refused|DataLoss|SegmentReplaced): (.+)", str(error))
    return None if sentence is None else SourceError(sentence[1])


def cause_of(error: Exception) -> str:
    """Return the cause of Spark's error in one line: the last one of a worker's traceback, or Java's message."""
    said = str(error).partition("\n=== Streaming Query ===")[0]
    of_python = re.findall(r"^[\w.]+: .+", said, re.MULTILINE) if "Traceback (most recent call last)" in said else []
    said = of_python[-1] if of_python else re.split(r"\n\s+at ", said)[0]
    said = re.sub(r"^An error occurred while calling \w+\.\w+\.\s*: ", "", said)
    return " ".join(said.split())[:CAUSE_LENGTH] or type(error).__name__
