"""A run's input: the log's records, and the ends of partitions, as one stream that is stored batch by batch.

Both are in one query with one checkpoint, so that `pipeline run` and `pipeline run --follow` can alternate on a
directory, and the stream continues while there are no commits: that is when lag grows. The tasks that decode the log
write its records to files (source/stored_facts.py), which move into place when the micro-batch is complete. One that is
repeated after a crash overwrites its files.
"""

from __future__ import annotations

import os
import re
import shutil
from collections import Counter
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

from coordinatord.monitoring.offsets_log.source.end_offsets import is_place
from coordinatord.monitoring.offsets_log.source.segments import SourceError
from coordinatord.monitoring.pipeline.source.frames import Source
from coordinatord.monitoring.pipeline.source.partition_ends import ENDS_DDL, sampler
from coordinatord.monitoring.pipeline.source.stored_facts import DIRECTORY, FILES, StoredFacts, part_name
from coordinatord.monitoring.pipeline.tables.inputs import FACTS, TableOptions

ENDS = "partition_ends"
NEW = "_new"
"""Directory of the files that tasks write, until the micro-batch is complete."""
TASK_BYTES = 64 << 20
"""About how many bytes of the log a task reads. Each task writes a file for each bucket, and each table opens them
all.
"""

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
    """True if the log has few records: tables' rows pass through this process, in one query each. None: by its size."""

    @property
    def log_directories(self) -> tuple[str, ...]:
        """The directories, or the database, from which records' timestamps can be read."""
        return (self.end_offsets,) if self.end_offsets is not None and is_place(self.end_offsets) else ()


def stream(spark: SparkSession, job: Job, now_ms: int | None = None) -> DataFrame:
    """Return the files with the log's records of all stored kinds, and rows of ENDS. `now_ms` replaces the clock."""
    spark.dataSource.register(StoredFacts)
    options = {"splitBytes": str(TASK_BYTES)} | job.source.selected(FACTS) | {DIRECTORY: str((job.out / NEW).resolve())}
    log = spark.readStream.format(StoredFacts.name()).options(**options).load()
    ends = sampler(
        spark, job.end_offsets, job.broker,
        is_directory=bool(job.log_directories), now_ms=now_ms, window_ms=job.options.rules.window_ms,
    )  # fmt: skip
    ends = ends.select(F.lit(ENDS).alias("kind"), F.struct(*ends.columns).alias(ENDS))
    return log.unionByName(ends, allowMissingColumns=True)


def keep(rows: DataFrame, batch: int, out: Path) -> dict[str, int]:
    """Move the files of a micro-batch of `stream` into place. Returns the number of records by kind."""
    table = rows.toArrow()
    files = table.select(FILES.names).filter(pc.is_valid(table.column("file"))).to_pylist()
    counts: Counter[str] = Counter()
    for kind in FACTS:
        directory = out / "facts" / kind / f"batch={batch:09d}"
        staged = staging(directory)
        for left in (directory, staged):  # by the first attempt of a repeated batch
            shutil.rmtree(left, ignore_errors=True)
        for file in (each for each in files if each["kind"] == kind):
            counts[kind] += file["records"]
            bucket = staged / f"bucket={file['bucket']}"
            bucket.mkdir(parents=True, exist_ok=True)
            os.replace(out / NEW / file["file"], bucket / file["file"])
        if kind in counts:
            put(staged, directory)
    shutil.rmtree(out / NEW, ignore_errors=True)
    samples = pc.drop_null(table.column(ENDS)).combine_chunks()
    if len(samples):
        directory = out / "end_offsets" / f"{batch:09d}"
        staged = directory.with_name(f"_{directory.name}")
        shutil.rmtree(staged, ignore_errors=True)
        staged.mkdir(parents=True)
        ends = pa.Table.from_arrays(samples.flatten(), names=[each.name for each in samples.type])
        parquet.write_table(ends, staged / part_name())
        shutil.rmtree(directory, ignore_errors=True)
        os.replace(staged, directory)
    return dict(counts)


def write_buckets(rows: pa.Table, buckets: pa.ChunkedArray, directory: Path) -> Path:
    """Write rows in the layout that Spark uses when it partitions by `bucket`. Returns the directory."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    for bucket in pc.unique(buckets).to_pylist():
        part = directory / f"bucket={bucket}"
        part.mkdir()
        parquet.write_table(rows.filter(pc.equal(buckets, bucket)), part / part_name())
    return directory


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
