"""`coordinatord pipeline run --follow`: the tables, rebuilt as the log grows, and changes reported at once.

There are two queries. One stores new records and makes the tables, batch by batch, as `run` does; the other judges the
snapshots (events.py). Both continue from their checkpoints, so a follower may be stopped or killed at any moment, and
may alternate with `pipeline run`; and a query that Spark has ended is restarted, as long as it makes progress.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from coordinatord.monitoring.analysis.changes import Thresholds
from coordinatord.monitoring.pipeline.run import events
from coordinatord.monitoring.pipeline.run.ingest import SPARKS, Job, begun, cause_of, keep, source_error_of, stream
from coordinatord.monitoring.pipeline.run.progress import Progress
from coordinatord.monitoring.pipeline.run.run_lock import alone
from coordinatord.monitoring.pipeline.run.update import Summary, check_state, read_table, refresh
from coordinatord.monitoring.pipeline.source.stored_facts import BUCKETS

POLL_S = 0.2
STOP_PATIENCE_S = 120
"""Longest wait in seconds for the batch in progress, when stopping."""
PAUSES_S = (1, 2, 4, 8, 16, 30, 30)
"""Pauses in seconds before a query that Spark has ended is restarted, after each of its ends in a row. If a machine is
busy for a minute or two, so that Python starts too slowly or Spark's own time limits pass, the follower continues.
"""


@dataclass(slots=True)
class Followed:
    """The work of a follower until it was stopped."""

    batches: int = 0
    records: int = 0
    events: int = 0


@dataclass(slots=True)
class _Query:
    """One of the two queries. `fails` counts its ends in a row without progress in between."""

    begin: Callable[[], StreamingQuery]
    running: StreamingQuery
    fails: int = 0


@dataclass(slots=True)
class Follower:
    """A follower of the log. `stop.set()` stops it, from any thread. `say` gets a line per batch, `say_event` each
    event.
    """

    spark: SparkSession
    job: Job
    interval_ms: int
    thresholds: Thresholds
    say: Callable[[str], object]
    say_event: Callable[[dict[str, Any]], object]
    stop: threading.Event = field(default_factory=threading.Event)
    done: Followed = field(default_factory=Followed)
    _busy: threading.Lock = field(default_factory=threading.Lock)

    def run(self) -> Followed:
        """Run until `stop` is set. Raises SourceError, and the error with which Spark ends a query repeatedly."""
        self.job.out.mkdir(parents=True, exist_ok=True)
        with alone(self.job.out):
            check_state(self.job)
            return self._run()

    def _run(self) -> Followed:
        if self.job.tables:
            self.job = replace(self.job, tables=tuple(dict.fromkeys((*self.job.tables, *events.REQUIRED_TABLES))))
        queries: list[_Query] = []
        try:
            for begin in (self._judge, self._make):
                queries.append(_Query(begin, begun(begin)))
            while not self.stop.wait(POLL_S):
                for query in queries:
                    self._go_on(query)
        except SPARKS:
            if not self.stop.is_set():
                raise
            # A SIGTERM for all processes ends those, too, that Spark has started to set permissions of files.
        finally:
            self._end(*reversed(queries))
        return self.done

    def _judge(self) -> StreamingQuery:
        return events.start(self.spark, self.job.out, self.thresholds, self._event, **self._every)

    def _make(self) -> StreamingQuery:
        writer = stream(self.spark, self.job).writeStream.queryName("tables").foreachBatch(self._batch)
        return writer.option("checkpointLocation", str(self.job.out / "checkpoint")).trigger(**self._every).start()

    @property
    def _every(self) -> dict[str, Any]:
        return {"processingTime": f"{self.interval_ms} milliseconds"}

    def _go_on(self, query: _Query) -> None:
        """Restart the query if Spark has ended it."""
        if query.running.isActive or self.stop.is_set():
            return
        error = query.running.exception()
        if not isinstance(error, StreamingQueryException):
            return
        if query.running.lastProgress is not None:
            query.fails = 0
        query.fails += 1
        if (of_source := source_error_of(error)) is not None:
            raise of_source
        if query.fails > len(PAUSES_S):
            raise error
        self.say(f"Spark has ended a query, which goes on where it was ({cause_of(error)})")
        if not self.stop.wait(PAUSES_S[query.fails - 1]):
            query.running = begun(query.begin)

    def _end(self, *queries: _Query) -> None:
        """Stop the queries, between two batches if that is soon possible."""
        self.stop.set()
        has_it = self._busy.acquire(timeout=STOP_PATIENCE_S)
        try:
            with contextlib.suppress(Py4JError, ConnectionError):  # no Java process, no queries
                for query in queries:
                    query.running.stop()
        finally:
            if has_it:
                self._busy.release()

    def _batch(self, rows: DataFrame, batch: int) -> None:
        # Never wait for the thread that stops the queries: it waits for this one.
        while not self._busy.acquire(timeout=POLL_S):
            if self.stop.is_set():
                raise InterruptedError("stopped before it began: the batch comes again after the next start")
        try:
            began_s = time.monotonic()
            summary = Summary()
            summary.count(keep(rows, batch, self.job.out))
            now_ms = int(time.time() * 1000)
            refresh(self.spark, self.job, summary, now_ms, Progress(), with_counts=False)
            events.write_look(
                self.spark, self.job.out, batch, now_ms, self.thresholds,
                lambda name: read_table(self.spark, self.job.out, name, self.job.format),
            )  # fmt: skip
            new = sum(summary.new.values())
            self.done.batches += 1
            self.done.records += new
            changed = f"something new in {summary.buckets} of {BUCKETS} buckets of groups"
            self.say(f"batch {batch}: {new:,} records, {changed}, tables in {time.monotonic() - began_s:.1f} s")
        finally:
            self._busy.release()

    def _event(self, row: dict[str, Any]) -> None:
        self.done.events += 1
        self.say_event(row)
