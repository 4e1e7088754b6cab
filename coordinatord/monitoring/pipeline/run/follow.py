"""`coordinatord pipeline run --follow`: the tables, rebuilt as the log grows, and changes reported at once.

This process stores new records and makes the tables, batch by batch, as `run` does; a streaming query of Spark judges
the snapshots (events.py). Both continue from what is stored, so a follower may be stopped or killed at any moment, and
may alternate with `pipeline run`. A batch that Spark fails is repeated, and a query that Spark has ended is restarted,
as long as there is progress in between.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from coordinatord.monitoring.analysis.changes import Thresholds
from coordinatord.monitoring.pipeline.run import events
from coordinatord.monitoring.pipeline.run.ingest import SPARKS, Intake, Job, cause_of
from coordinatord.monitoring.pipeline.run.progress import Progress
from coordinatord.monitoring.pipeline.run.run_lock import alone
from coordinatord.monitoring.pipeline.run.update import Summary, check_state, read_table, refresh
from coordinatord.monitoring.pipeline.source.stored_facts import BUCKETS

PAUSES_S = (1, 2, 4, 8, 16, 30, 30)
"""Pauses in seconds before a batch that has failed is repeated, or a query that Spark has ended is restarted, after
each failure in a row. If a machine is busy for a minute or two, so that Python starts too slowly or Spark's own time
limits pass, the follower continues.
"""
OF_SPARK = (PySparkException, Py4JJavaError)
"""Exceptions of Spark while its Java process is alive."""


@dataclass(slots=True)
class Followed:
    """The work of a follower until it was stopped."""

    batches: int = 0
    records: int = 0
    events: int = 0


@dataclass(slots=True)
class Follower:
    """A follower of the log. `stop.set()` stops it after the current batch, from any thread. `say` gets a line per
    batch, `say_event` each event.
    """

    spark: SparkSession
    job: Job
    interval_ms: int
    thresholds: Thresholds
    say: Callable[[str], object]
    say_event: Callable[[dict[str, Any]], object]
    stop: threading.Event = field(default_factory=threading.Event)
    done: Followed = field(default_factory=Followed)
    _judge: StreamingQuery | None = None
    _is_behind: bool = True
    """The tables may lack records that are stored: after a failure, or one of an earlier follower."""

    def run(self) -> Followed:
        """Run until `stop` is set. Raises SourceError, and the error with which Spark fails repeatedly."""
        self.job.out.mkdir(parents=True, exist_ok=True)
        with alone(self.job.out):
            check_state(self.job)
            if self.job.tables:
                tables = tuple(dict.fromkeys((*self.job.tables, *events.REQUIRED_TABLES)))
                self.job = replace(self.job, tables=tables)
            try:
                self._follow()
            except SPARKS:
                if not self.stop.is_set():
                    raise
                # A SIGTERM for all processes ends those, too, that Spark has started to set permissions of files.
            finally:
                if self._judge is not None:
                    with contextlib.suppress(Py4JError, ConnectionError):  # no Java process, no query
                        self._judge.stop()
        return self.done

    def _follow(self) -> None:
        intake = Intake(self.spark, self.job)
        failures = judge_failures = 0
        while not self.stop.is_set():
            began_s = time.monotonic()
            try:
                if self._has_progress:
                    judge_failures = 0
                self._go_on_judging()
            except OF_SPARK as error:
                judge_failures = self._failed(error, judge_failures)
                continue
            try:
                self._batch(intake)
                failures = 0
            except OF_SPARK as error:
                failures = self._failed(error, failures)
                continue
            self.stop.wait(max(0.0, self.interval_ms / 1000 - (time.monotonic() - began_s)))

    def _failed(self, error: Exception, failures: int) -> int:
        """Pause before the next attempt. Return the number of failures in a row, this one included; raise the error if
        there are too many.
        """
        if self.stop.is_set() or failures == len(PAUSES_S):
            raise error
        self.say(f"Spark has failed; it goes on where it was ({cause_of(error)})")
        self.stop.wait(PAUSES_S[failures])
        return failures + 1

    @property
    def _has_progress(self) -> bool:
        return self._judge is not None and self._judge.lastProgress is not None

    def _go_on_judging(self) -> None:
        """Start the query of events, unless it runs. Raises the error with which Spark has ended it."""
        if self._judge is None:
            trigger = {"processingTime": f"{self.interval_ms} milliseconds"}
            self._judge = events.start(self.spark, self.job.out, self.thresholds, self._event, **trigger)
        elif not self._judge.isActive:
            error = self._judge.exception()
            self._judge = None
            if error is not None:
                raise error

    def _batch(self, intake: Intake) -> None:
        """Store what is new, and make the tables."""
        began_s = time.monotonic()
        now_ms = int(time.time() * 1000)
        counts = intake.take(now_ms, with_sample=True)
        if counts is None and not self._is_behind:
            return
        self._is_behind = True
        batch = intake.position.batch
        summary = Summary()
        summary.count(counts or {})
        new = sum(summary.new.values())
        self.done.records += new
        refresh(self.spark, self.job, summary, now_ms, Progress(), with_counts=False)
        events.write_look(
            self.spark, self.job.out, batch, now_ms, self.thresholds,
            lambda name: read_table(self.spark, self.job.out, name, self.job.format),
        )  # fmt: skip
        self._is_behind = False
        self.done.batches += 1
        changed = f"something new in {summary.buckets} of {BUCKETS} buckets of groups"
        self.say(f"batch {batch}: {new:,} records, {changed}, tables in {time.monotonic() - began_s:.1f} s")

    def _event(self, row: dict[str, Any]) -> None:
        self.done.events += 1
        self.say_event(row)
