"""`coordinatord pipeline run --follow`: the same tables, made anew as the log grows, and what changes is told at once.

Two queries: one keeps what is new and makes the tables, batch by batch, as `run` does; the other judges what was seen
(events.py). Both go on from their checkpoints, so that a follower may be stopped and killed at any moment, and take
turns with `pipeline run`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from coordinatord.pipeline.analysis.changes import Thresholds
from coordinatord.pipeline.run import events
from coordinatord.pipeline.run.alone import alone
from coordinatord.pipeline.run.ingest import Job, keep, source_error_of, stream
from coordinatord.pipeline.run.progress import Progress
from coordinatord.pipeline.run.update import Summary, check_state, read_table, refresh
from coordinatord.pipeline.tables.inputs import BUCKETS

POLL_S = 0.2
STOP_PATIENCE_S = 120
"""A batch that is being made when one wants to stop is waited for so long."""


@dataclass(slots=True)
class Followed:
    """What a follower did until it was stopped."""

    batches: int = 0
    records: int = 0
    events: int = 0


@dataclass(slots=True)
class Follower:
    """Tell it when to stop with `stop.set()`, from anywhere. `say` gets a line per batch, `say_event` each event."""

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
        """Until `stop` is set. SourceError."""
        self.job.out.mkdir(parents=True, exist_ok=True)
        with alone(self.job.out):
            check_state(self.job)
            return self._run()

    def _run(self) -> Followed:
        if self.job.tables:
            self.job = replace(self.job, tables=tuple(dict.fromkeys((*self.job.tables, *events.REQUIRED_TABLES))))
        every = {"processingTime": f"{self.interval_ms} milliseconds"}
        judge = events.start(self.spark, self.job.out, self.thresholds, self._event, **every)
        writer = stream(self.spark, self.job).writeStream.queryName("tables").foreachBatch(self._batch)
        maker = writer.option("checkpointLocation", str(self.job.out / "checkpoint")).trigger(**every).start()
        try:
            while not self.stop.wait(POLL_S):
                for query in (maker, judge):
                    self._raise_end(query)
        finally:
            self._end(maker, judge)
        return self.done

    def _raise_end(self, query: StreamingQuery) -> None:
        if query.isActive or self.stop.is_set():
            return
        error = query.exception()
        if isinstance(error, StreamingQueryException):
            raise source_error_of(error) or error

    def _end(self, *queries: StreamingQuery) -> None:
        """Between two batches, if that comes soon."""
        self.stop.set()
        has_it = self._busy.acquire(timeout=STOP_PATIENCE_S)
        try:
            for query in queries:
                query.stop()
        finally:
            if has_it:
                self._busy.release()

    def _batch(self, rows: DataFrame, batch: int) -> None:
        # Never wait for who stops the queries: that one waits for this one.
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
