"""`coordinatord pipeline run --follow`: the same tables, rebuilt as the log grows, and changes reported at once.

There are two queries. One stores what is new and makes the tables, batch by batch, as `run` does; the other judges the
looks (events.py). Both continue from their checkpoints, so a follower may be stopped or killed at any moment, and may
alternate with `pipeline run`; and a query that Spark has ended because Python started too slowly is begun again.
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
from coordinatord.pipeline.run.ingest import ATTEMPTS, IS_SLOW, Job, begun, keep, source_error_of, stream
from coordinatord.pipeline.run.progress import Progress
from coordinatord.pipeline.run.update import Summary, check_state, read_table, refresh
from coordinatord.pipeline.tables.inputs import BUCKETS

POLL_S = 0.2
STOP_PATIENCE_S = 120
"""How long to wait, when stopping, for the batch in progress."""


@dataclass(slots=True)
class Followed:
    """The work of a follower until it was stopped."""

    batches: int = 0
    records: int = 0
    events: int = 0


@dataclass(slots=True)
class Follower:
    """Stop it with `stop.set()`, from any thread. `say` gets a line per batch, `say_event` each event."""

    spark: SparkSession
    job: Job
    interval_ms: int
    thresholds: Thresholds
    say: Callable[[str], object]
    say_event: Callable[[dict[str, Any]], object]
    stop: threading.Event = field(default_factory=threading.Event)
    done: Followed = field(default_factory=Followed)
    _busy: threading.Lock = field(default_factory=threading.Lock)
    _slow: int = 0
    """How often in a row a query has ended because Python started too slowly."""

    def run(self) -> Followed:
        """Run until `stop` is set. Raises SourceError."""
        self.job.out.mkdir(parents=True, exist_ok=True)
        with alone(self.job.out):
            check_state(self.job)
            return self._run()

    def _run(self) -> Followed:
        if self.job.tables:
            self.job = replace(self.job, tables=tuple(dict.fromkeys((*self.job.tables, *events.REQUIRED_TABLES))))
        begins = (self._make, self._judge)
        queries: list[StreamingQuery] = []
        try:
            for begin in reversed(begins):
                queries.insert(0, begun(begin))
            while not self.stop.wait(POLL_S):
                for at, begin in enumerate(begins):
                    if self._has_ended(queries[at]):
                        queries[at] = begun(begin)
        finally:
            self._end(*queries)
        return self.done

    def _judge(self) -> StreamingQuery:
        return events.start(self.spark, self.job.out, self.thresholds, self._event, **self._every)

    def _make(self) -> StreamingQuery:
        writer = stream(self.spark, self.job).writeStream.queryName("tables").foreachBatch(self._batch)
        return writer.option("checkpointLocation", str(self.job.out / "checkpoint")).trigger(**self._every).start()

    @property
    def _every(self) -> dict[str, Any]:
        return {"processingTime": f"{self.interval_ms} milliseconds"}

    def _has_ended(self, query: StreamingQuery) -> bool:
        """Whether the query has to be begun again. Raises what it has ended with, unless this machine is only slow."""
        if query.isActive or self.stop.is_set():
            return False
        error = query.exception()
        if not isinstance(error, StreamingQueryException):
            return False
        self._slow += 1
        if IS_SLOW in str(error) and self._slow < ATTEMPTS:
            self.say("Python took too long to start for Spark, which ended a query: it goes on where it was")
            return True
        raise source_error_of(error) or error

    def _end(self, *queries: StreamingQuery) -> None:
        """Stop the queries, between two batches if that is soon possible."""
        self.stop.set()
        has_it = self._busy.acquire(timeout=STOP_PATIENCE_S)
        try:
            for query in queries:
                query.stop()
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
            self._slow = 0
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
