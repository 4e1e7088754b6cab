"""A run's input: the log's records, read batch by batch, and with a batch a sample of the ends of partitions.

    OUT/position.json    {"batch": 4, "log": {"__consumer_offsets-0": 17, …}}: the last complete batch, and its end

`pipeline run` and `pipeline run --follow` can alternate on a directory. Tasks, which Spark distributes if there is much
to read, decode the log and write its records to files (source/stored_facts.py); these move into place when all tasks
are done, and then the position is stored. A batch that a crash has cut off is repeated, and replaces its files. With
samples there are batches also while there are no commits: that is when lag grows.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyarrow import parquet
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from coordinatord.monitoring.offsets_log.source.end_offsets import is_place
from coordinatord.monitoring.offsets_log.source.options import check_address, read_options
from coordinatord.monitoring.offsets_log.source.segments import SourceError
from coordinatord.monitoring.pipeline.source.consumer_offsets import StreamReader
from coordinatord.monitoring.pipeline.source.frames import Source
from coordinatord.monitoring.pipeline.source.partition_ends import ENDS_DDL, sample
from coordinatord.monitoring.pipeline.source.stored_facts import StoredFile, part_name, store
from coordinatord.monitoring.pipeline.tables.inputs import FACTS, TableOptions

POSITION = "position.json"
NEW = "_new"
"""Directory of the files that tasks write, until the batch is complete."""
HERE_BYTES = 8 << 20
"""Size of a batch up to which this process reads it: Spark's workers would take longer to start."""
TASK_BYTES = 64 << 20
"""About how many bytes of the log a task reads. Each task writes a file for each bucket, and each table opens them
all.
"""

MERGE_SAMPLES = 64
"""Number of samples of partition ends that are kept in their own files before they are merged."""
KEEP_SAMPLES = 500
"""Number of samples of a partition that are kept: the last ones. Of earlier ones, each merge keeps every other one: so
the curve gets coarser with age, and never has more than twice as many."""

SPARKS = (PySparkException, Py4JError, ConnectionError)
"""Exceptions of Spark; the last two occur also if its Java process is gone."""
CAUSE_LENGTH = 300


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

    def check_ends(self) -> None:
        """Raise SourceError if `end_offsets` is neither a place nor an address."""
        if self.end_offsets is not None and not self.log_directories:
            check_address("--end-offsets", self.end_offsets, or_else="a broker's log directory")


@dataclass(frozen=True, slots=True)
class Position:
    """The last complete batch, and the position in the log after it: next offsets by log; None before the first one."""

    batch: int = -1
    log: dict[str, Any] | None = None

    @classmethod
    def of(cls, out: Path) -> Position:
        """Return the stored position; that of an empty directory if there is none. Raises SourceError, also if records
        of complete batches are there: they would be read again.
        """
        path = out / POSITION
        try:
            found = json.loads(path.read_text())
            return cls(int(found["batch"]), {str(name): int(offset) for name, offset in found["log"].items()})
        except FileNotFoundError:
            if all(batch.name == batch_name(0) for batch in out.glob("facts/*/batch=*")):  # which may be incomplete
                return cls()
            problem = "is missing"
        except (ValueError, KeyError, TypeError, AttributeError):
            problem = "is damaged"
        raise SourceError(
            f"{path} {problem}: give `pipeline run` an empty directory with --out, and it reads the log again"
        )

    def store(self, out: Path) -> None:
        """Replace the stored position, atomically."""
        staged = out / f"_{POSITION}"
        staged.write_text(json.dumps({"batch": self.batch, "log": self.log}) + "\n")
        os.replace(staged, out / POSITION)


class Intake:
    """Reads a job's log, batch by batch, from the stored position on."""

    def __init__(self, spark: SparkSession, job: Job) -> None:
        """Raises SourceError."""
        job.check_ends()
        self.spark = spark
        self.job = job
        options = {"splitBytes": str(TASK_BYTES)} | job.source.selected(FACTS)
        self.reader = StreamReader(read_options(options), [])
        self.position = Position.of(job.out)

    def stop_at_present_end(self) -> None:
        """Read no records that are written from now on."""
        self.reader.prepareForTriggerAvailableNow()

    @property
    def progress(self) -> tuple[int, int]:
        """(offsets before the position, offsets before the end of the log). Some records may have been removed by the
        cleaner: the share is close enough.
        """
        total = sum((self.reader.target or {}).values())
        return min(total, sum((self.position.log or {}).values())), total

    def take(self, now_ms: int, *, with_sample: bool) -> dict[str, int] | None:
        """Store the next batch, and with it a sample of partition ends if `with_sample` and the job has any. Returns
        the number of records by kind; None if there is nothing to store. Raises SourceError, and Spark's errors.

        The position is stored last. So a batch that is not complete is repeated, and its files are replaced.
        """
        reader, job = self.reader, self.job
        start = reader.initialOffset() if self.position.log is None else self.position.log
        end = reader.latestOffset(start, reader.getDefaultReadLimit())
        with_sample = with_sample and job.end_offsets is not None
        if end == self.position.log and not with_sample:
            return None
        batch = self.position.batch + 1
        counts = _move_into_place(self._stored(start, end), job.out, batch)
        if with_sample:
            _store_sample(job, batch, now_ms)
        self.position = Position(batch, end)
        self.position.store(job.out)
        return counts

    def _stored(self, start: dict[str, Any], end: dict[str, Any]) -> list[StoredFile]:
        """Return the files, in NEW, with the records between two positions."""
        tasks = [task.value for task in self.reader.partitions(start, end)]
        work = partial(store, options=self.reader.options, directory=(self.job.out / NEW).resolve())
        if sum(part.bytes for parts in tasks for part in parts) <= HERE_BYTES:
            return [file for parts in tasks for file in work(parts)]
        try:
            return list(self.spark.sparkContext.parallelize(tasks, len(tasks)).flatMap(work).collect())
        except SPARKS as error:
            sentence = source_error_of(error)
            if sentence is None:
                raise
            raise sentence from None


def _move_into_place(files: Sequence[StoredFile], out: Path, batch: int) -> dict[str, int]:
    """Move the files of a batch from NEW to their directories. Returns the number of records by kind."""
    counts: Counter[str] = Counter()
    for kind in FACTS:
        directory = out / "facts" / kind / batch_name(batch)
        staged = staging(directory)
        for left in (directory, staged):  # by the first attempt of a repeated batch
            shutil.rmtree(left, ignore_errors=True)
        for file in (each for each in files if each.kind == kind):
            counts[kind] += file.records
            bucket = staged / f"bucket={file.bucket}"
            bucket.mkdir(parents=True, exist_ok=True)
            os.replace(out / NEW / file.name, bucket / file.name)
        if kind in counts:
            put(staged, directory)
    shutil.rmtree(out / NEW, ignore_errors=True)
    return dict(counts)


def _store_sample(job: Job, batch: int, now_ms: int) -> None:
    """Store the present ends of partitions, after the records of the log: no commit in them is of a later end."""
    assert job.end_offsets is not None
    is_directory = bool(job.log_directories)
    ends = sample(job.end_offsets, job.broker, now_ms, job.options.rules.window_ms, is_directory=is_directory)
    if not ends.num_rows:
        return
    directory = job.out / "end_offsets" / f"{batch:09d}"
    staged = directory.with_name(f"_{directory.name}")
    shutil.rmtree(staged, ignore_errors=True)
    staged.mkdir(parents=True)
    parquet.write_table(ends, staged / part_name())
    shutil.rmtree(directory, ignore_errors=True)
    os.replace(staged, directory)


def batch_name(batch: int) -> str:
    """Return the name of the directory with the facts of a batch."""
    return f"batch={batch:09d}"


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


def source_error_of(error: Exception) -> SourceError | None:
    """Return the error for the user when a task fails: the source's error, which comes from another process, in the
    text of Spark's. None if there is none.
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
