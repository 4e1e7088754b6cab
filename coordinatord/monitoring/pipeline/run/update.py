"""`coordinatord pipeline run`: from the log to tables, as often as needed, each time only what is new.

    OUT/facts/<kind>/batch=<n>/bucket=<b>/   records read from the log, each exactly once
    OUT/ledger/run=<n>/bucket=<b>/           the rebalances in coordinatord's ledger, if the log has one
    OUT/position.json                        the position up to which the log has been read
    OUT/end_offsets/<batch>/                 the ends of partitions at the time of that batch
    OUT/topic_names.json                     topic names by id, if groups of the consumer protocol or share groups need
                                             them
    OUT/tables/<name>/bucket=<b>/            the tables, by groups
    OUT/state.json                           the last batch in the tables, and the selected groups and topics

A run continues where the last one stopped. A batch repeated after a crash replaces its files. Then the tables are
rebuilt for the buckets (groups by a hash) with new records, and the tables that depend on the time for all buckets.
Each is moved into place by renaming directories, and the state is written last, so that all work that a crash left
unfinished is done again.
"""

from __future__ import annotations

import itertools
import json
import os
import shlex
import shutil
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet
from pyspark import InheritableThread
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from coordinatord.monitoring.analysis.consumer_group import METADATA
from coordinatord.monitoring.analysis.share_log import MEMBERS
from coordinatord.monitoring.offsets_log.decode.row_types import KINDS, QUARANTINE
from coordinatord.monitoring.offsets_log.source.ledger_topic import Entry, ledger_of
from coordinatord.monitoring.offsets_log.source.options import name_list, read_options
from coordinatord.monitoring.offsets_log.source.segments import SourceError
from coordinatord.monitoring.offsets_log.source.share_limits import delivery_limits
from coordinatord.monitoring.offsets_log.source.share_state_topic import ShareStates
from coordinatord.monitoring.offsets_log.source.topic_names import (
    keep_names,
    names_from_broker,
    names_in_directories,
    read_names,
    topic_text,
)
from coordinatord.monitoring.pipeline.run.delta import DELTA_LOG, check_delta
from coordinatord.monitoring.pipeline.run.ingest import (
    Intake,
    Job,
    merge_ends,
    put,
    staging,
)
from coordinatord.monitoring.pipeline.run.input_size import amount_of
from coordinatord.monitoring.pipeline.run.merging import merge
from coordinatord.monitoring.pipeline.run.progress import Progress
from coordinatord.monitoring.pipeline.run.run_lock import alone
from coordinatord.monitoring.pipeline.run.state import RULES, STATE_VERSION, read_state, write_state
from coordinatord.monitoring.pipeline.source.stored_facts import BUCKETS, write_buckets
from coordinatord.monitoring.pipeline.tables import SHARING, TABLES
from coordinatord.monitoring.pipeline.tables.inputs import FACTS, LEDGER_DDL, Inputs, Shared, bucket_of, fact_columns
from coordinatord.monitoring.pipeline.tables.lag import LAG_HISTORY

AT_ONCE = 2
"""Number of tables of a small log that are made at the same time: while one waits for Python to start, Spark plans
another.
"""
OF_TIME = LAG_HISTORY.name
"""The table that even a small log can make large: it has a row for each minute."""
LEDGER_STEP = 32 << 20
"""Number of characters of the ledger's records that are processed at once."""


@dataclass(slots=True)
class Summary:
    """The work of a run: new rows by kind, rows by table now, seconds; and sentences on what is missing, and why."""

    new: dict[str, int] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)
    buckets: int = 0
    seconds: float = 0.0
    missing: list[str] = field(default_factory=list)

    def count(self, counts: dict[str, int]) -> None:
        """Count the records of a batch, by kind."""
        for kind, count in counts.items():
            self.new[kind] = self.new.get(kind, 0) + count


def run(spark: SparkSession, job: Job, *, now_ms: int, progress: Progress | None = None) -> Summary:
    """Read new records and update the tables. The text of a SourceError is meant for the user."""
    began_s = time.monotonic()
    progress = progress or Progress()
    summary = Summary()
    if job.format == "delta":
        check_delta(spark)
    job.out.mkdir(parents=True, exist_ok=True)
    with alone(job.out):
        check_state(job)
        if job.is_small is None:
            job = replace(job, is_small=amount_of(job).is_small)
        progress.stage("reading the log")
        _ingest(spark, job, summary, now_ms, progress)
        refresh(spark, job, summary, now_ms, progress)
    summary.seconds = time.monotonic() - began_s
    return summary


def _ingest(spark: SparkSession, job: Job, summary: Summary, now_ms: int, progress: Progress) -> None:
    intake = Intake(spark, job)
    intake.stop_at_present_end()
    counts = intake.take(now_ms, with_sample=True)
    while counts is not None:
        summary.count(counts)
        progress.amount(*intake.progress, "records")
        counts = intake.take(now_ms, with_sample=False)


def refresh(
    spark: SparkSession, job: Job, summary: Summary, now_ms: int, progress: Progress, *, with_counts: bool = True
) -> None:
    """Rebuild the tables from the records that were read since the tables were made last."""
    state = read_state(job.out)
    ledger = _ingest_ledger(job, state)
    changed = tuple(sorted({*_changed_buckets(job.out, int(state["batch"])), *_ledger_buckets(job.out, state)}))
    if state["runs"] and state.get("rules") != RULES:
        changed = tuple(range(BUCKETS))
    summary.buckets = len(changed)
    if any((job.out / "facts" / METADATA).glob("batch=*")):
        _find_topic_names(job)
    merge_ends(spark, job.out)
    for kind in FACTS:
        merge(spark, job.out / "facts" / kind, "batch", fact_columns(kind), int(state["batch"]))
    merge(spark, job.out / "ledger", "run", LEDGER_DDL, int(state["runs"]) - 1)

    def inputs(buckets: tuple[int, ...] | None) -> Inputs:
        return Inputs(
            spark,
            job.out,
            TABLES,
            now_ms=now_ms,
            options=job.options,
            log_directories=job.log_directories,
            buckets=buckets,
            wanted=names,
            shared=partial(_shared, job, summary),
        )

    names = job.tables or tuple(TABLES)
    everything, something = inputs(None), inputs(changed)
    begun = itertools.count()

    def make(name: str) -> None:
        progress.stage(f"making the table {name}", next(begun), len(names))
        path = job.out / "tables" / name
        if (path / DELTA_LOG).exists() != (job.format == "delta"):
            shutil.rmtree(path, ignore_errors=True)  # files of the other format, which this one cannot read
        is_whole = TABLES[name].depends_on_time or not path.exists()
        _build(job, name, everything if is_whole else something)

    try:
        _make_all(make, names, AT_ONCE if job.is_small else 1)
        for name in names if with_counts else ():
            summary.rows[name] = _count(spark, job, name)
    finally:
        everything.release()
        something.release()
    runs = int(state["runs"]) + 1
    state = {"version": STATE_VERSION, "batch": _last_batch(job.out), "runs": runs, "at_ms": now_ms, "ledger": ledger}
    state |= {"chosen": _chosen(job), "rules": RULES}
    write_state(job.out, state)


def _make_all(make: Callable[[str], None], names: Sequence[str], at_once: int) -> None:
    """Make tables in `at_once` threads; tables that share a pass are made one after the other. The first error ends
    all.
    """
    shared = [[name for name in names if name in {table.name for table in tables}] for tables in SHARING]
    waiting = deque(each for each in shared if each)
    errors: list[BaseException] = []

    def work() -> None:
        while not errors:
            try:
                part = waiting.popleft()
            except IndexError:
                return
            try:
                for name in part:
                    make(name)
            except BaseException as error:
                errors.append(error)

    threads = [InheritableThread(target=work, name=f"tables {number}") for number in range(1, at_once)]
    for thread in threads:
        thread.start()
    work()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


# The ledger


def _ingest_ledger(job: Job, state: dict[str, Any]) -> dict[str, int]:
    """Store the ledger's new records since the last run. Return the next offset by partition, for the state."""
    nexts = {int(partition): offset for partition, offset in state.get("ledger", {}).items()}
    path = _ledger_path(job.out, state)
    staged = staging(path)
    for left in (path, staged):  # left by an interrupted run
        shutil.rmtree(left, ignore_errors=True)
    for rows in _in_steps(ledger_of(read_options(job.source.options), dict(nexts))):
        nexts |= {partition: offset + 1 for partition, offset, _, _ in rows}
        schema = to_arrow_schema(StructType.fromDDL(LEDGER_DDL))
        columns = [pa.array(values, each.type) for values, each in zip(zip(*rows, strict=True), schema, strict=True)]
        write_buckets(pa.Table.from_arrays(columns, schema=schema), staged)
    if staged.exists():
        put(staged, path)
    return {str(partition): offset for partition, offset in nexts.items()}


def _in_steps(entries: Iterable[Entry]) -> Iterator[list[Entry]]:
    """Split the entries into parts that fit into this process's memory: a ledger may have gigabytes."""
    held: list[Entry] = []
    size = 0
    for entry in entries:
        held.append(entry)
        size += len(entry[3])
        if size >= LEDGER_STEP:
            yield held
            held, size = [], 0
    if held:
        yield held


def _ledger_path(out: Path, state: dict[str, Any]) -> Path:
    return out / "ledger" / f"run={int(state['runs']):09d}"


def _ledger_buckets(out: Path, state: dict[str, Any]) -> set[int]:
    """Return the buckets with records in this run's ledger."""
    return {int(each.name.removeprefix("bucket=")) for each in _ledger_path(out, state).glob("bucket=*")}


def _find_topic_names(job: Job) -> None:
    """Find the names of the topic ids in the log, in its directories and in the source of partition ends. A topic is
    older than the records with its id, so it exists now, unless it was deleted before any run.
    """
    bootstrap = job.source.options.get("bootstrap")
    found: dict[str, str] = {}
    if job.end_offsets is not None and not job.log_directories:
        bootstrap = bootstrap or job.end_offsets
    if bootstrap is not None:
        found |= names_from_broker(bootstrap, job.broker)
    directories = json.loads(job.source.options.get("paths", "[]"))
    found |= names_in_directories([*directories, *([] if job.end_offsets is None else [job.end_offsets])])
    keep_names(job.out, found)


def _shared(job: Job, summary: Summary) -> Shared:
    """Read the share partitions of the chosen groups and topics, all of their records. Raises SourceError; a user who
    may not read them has no share partitions, which the summary says.
    """
    options = read_options(job.source.options)
    has_groups = any((job.out / "facts" / MEMBERS).glob("batch=*"))
    try:
        replayed = ShareStates(options, options.wanted.has_group).read(exists=has_groups)
    except SourceError as error:
        if options.bootstrap is None:
            raise
        summary.missing.append(f"share groups are missing in the tables: {error}")
        return Shared()
    if not replayed:
        return Shared()
    names = read_names(job.out)
    texts = {place: topic_text(place.topic_id) for place in replayed}
    if not {*texts.values()} <= names.keys():
        _find_topic_names(job)
        names = read_names(job.out)
    named = {place: names.get(text, text) for place, text in texts.items()}
    named = {place: name for place, name in named.items() if options.wanted.has_topic(name)}
    places = (
        options if options.bootstrap is not None else replace(options, paths=(*options.paths, *job.log_directories))
    )
    limits = delivery_limits(places, {place.group_id for place in named})
    return Shared(replayed, named, limits)


# Tables


def _build(job: Job, name: str, inputs: Inputs) -> None:
    buckets = tuple(range(BUCKETS)) if inputs.buckets is None else inputs.buckets
    if buckets:
        rows = inputs.table(name).withColumn("bucket", bucket_of(F.col("group_id")))
        _replace(rows, job.out / "tables" / name, buckets, job)


def _count(spark: SparkSession, job: Job, name: str) -> int:
    """Return the number of rows of a table from its files' footers: Spark would start a job for it."""
    if job.format == "delta":
        return int(read_table(spark, job.out, name, job.format).count())
    files = (job.out / "tables" / name).glob("bucket=*/*.parquet")
    return sum(int(parquet.read_metadata(file).num_rows) for file in files)


def _replace(rows: DataFrame, path: Path, buckets: tuple[int, ...], job: Job) -> None:
    """Replace the rows of these buckets."""
    if job.format == "delta":
        where = f"bucket in ({', '.join(map(str, buckets))})"
        rows.write.format("delta").mode("overwrite").option("replaceWhere", where).partitionBy("bucket").save(str(path))
        return
    staged = path.with_name(f"_{path.name}")
    if job.is_small and path.name != OF_TIME:
        table = rows.toArrow()
        shutil.rmtree(staged, ignore_errors=True)
        staged.mkdir(parents=True)
        write_buckets(table.drop_columns(["bucket"]), staged)
    else:
        rows.repartition(2, "bucket").write.mode("overwrite").partitionBy("bucket").parquet(str(staged))
    path.mkdir(parents=True, exist_ok=True)
    for bucket in buckets:
        old, new = path / f"bucket={bucket}", staged / f"bucket={bucket}"
        if old.exists():
            shutil.rmtree(old)
        if new.exists():
            os.replace(new, old)
    shutil.rmtree(staged)


def read_table(spark: SparkSession, out: Path, name: str, form: str = "parquet") -> DataFrame:
    """Return a table of a run, with its declared columns. Raises SourceError if no run has made it."""
    table = TABLES[name]
    path = out / "tables" / name
    if not path.exists():
        raise SourceError(f"{out} has no table {name}: run `coordinatord pipeline run --out {out}` first")
    if form == "delta":
        return spark.read.format("delta").load(str(path)).select(*table.names)
    return spark.read.schema(f"{table.ddl}, bucket int").parquet(str(path)).select(*table.names)


# State


def _changed_buckets(out: Path, since_batch: int) -> tuple[int, ...]:
    """Return the buckets with facts of later batches. Transaction markers belong to no group: one of them changes all
    buckets.
    """
    found: set[int] = set()
    for kind in FACTS:
        for batch in (out / "facts" / kind).glob("batch=*"):
            if int(batch.name.removeprefix("batch=")) > since_batch and kind != QUARANTINE:
                if "group_id" not in KINDS[kind].schema.names:
                    return tuple(range(BUCKETS))
                found |= {int(each.name.removeprefix("bucket=")) for each in batch.glob("bucket=*")}
    return tuple(sorted(found))


def _last_batch(out: Path) -> int:
    batches = [int(each.name.removeprefix("batch=")) for each in (out / "facts").glob("*/batch=*")]
    return max(batches, default=-1)


def check_state(job: Job) -> None:
    """Raise SourceError if the run cannot continue earlier tables: records that one run leaves out are read by no later
    run.
    """
    before, now = read_state(job.out).get("chosen"), _chosen(job)
    if before is not None and before != now:
        given = " ".join(f"--{name} {shlex.quote(','.join(names))}" for name, names in before.items() if names)
        raise SourceError(
            f"{job.out} was made with {given or 'all groups and topics'}, and no run reads again what is there: do not "
            "choose others, or give an empty directory with --out"
        )


def _chosen(job: Job) -> dict[str, list[str]]:
    """Return the selection of the log: all of it unless names are given."""
    return {name: sorted(name_list(job.source.options.get(name, ""))) for name in ("groups", "topics")}
