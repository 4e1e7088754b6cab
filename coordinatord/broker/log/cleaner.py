"""Log cleaner: picks the log with the highest dirty ratio, has the log rewritten, and swaps in the new segments.

The work is split among three places, so that no client waits for it:

- the event loop checks a few logs per turn (cleanable.py), changes lists of segments, and renames new files to their
final names; - the cleaner's own thread renames, flushes and removes files (segment_swap.py), and waits for - the
workshop that runs `cleaning.clean`: a separate process (cleaner_process.py), because a thread that decodes records in
Python would keep the interpreter's lock from the event loop for milliseconds at a time.

```
loop     look ──► assess ──► Job ─────┐          ┌─► replace_segments ─┐       ┌─► finish ─┐
thread                                └─► commit ─┘                     └─► remove ┘         └─► … checkpoint
process  survey, map ──► group 1 ──► .cleaned    (waits)                    group 2 …
```
The cleaner does not change the segments of a log that is being read from end to end until that read has finished;
retention does not delete segments of a log that is being cleaned. A failure loses no data: the old segments exist until
the new segment does.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Protocol, TypeVar

from coordinatord.base.budget import SLICE_ITEMS
from coordinatord.base.threads import EventLoop, Worker
from coordinatord.broker.log import segment_swap
from coordinatord.broker.log.cleanable import LogToClean, assess, roll_is_due
from coordinatord.broker.log.cleaning import Cleaned, Job, SegmentSize, Statistics, clean
from coordinatord.broker.log.data_dir import DataDirectory
from coordinatord.broker.log.disk import Disk
from coordinatord.broker.log.errors import CleanerLost
from coordinatord.broker.log.index import OFFSET_ENTRY, TIME_ENTRY
from coordinatord.broker.log.partition_log import PartitionLog
from coordinatord.broker.log.segment import SWAP_SUFFIX, Segment
from coordinatord.broker.log.writer import LogWriter

LOG_COST = 5
"""Cost of checking one log, in units of segments."""

PINNED_S = 0.1
"""Delay in seconds until the next check whether a log is still being read from end to end."""

LOST_IN_A_ROW = 5
"""Number of cleaning processes in a row that may be killed during one log. If the next process is killed, too, the
cleaner treats the log as the cause, not the machine.
"""

_Result = TypeVar("_Result")


class CleaningStopped(Exception):
    """Raised when cleaning cannot continue: the daemon is stopping, or the topic was deleted."""


class CleanerBackend(Protocol):
    """Backend that rewrites logs. Called on the cleaner's thread."""

    def clean(self, job: Job) -> Iterator[Cleaned | Statistics]:
        """Rewrite one log, as `cleaning.clean` does."""

    def rest(self) -> None:
        """Release resources: no work is expected for a while."""

    def close(self) -> None:
        """End the current work. Called on the event loop's thread."""


class InProcess:
    """CleanerBackend that rewrites logs on the calling thread: for tests, and if no process can be started."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk

    def clean(self, job: Job) -> Iterator[Cleaned | Statistics]:
        return clean(self._disk, job)

    def rest(self) -> None:
        pass

    def close(self) -> None:
        pass


@dataclass(slots=True)
class CleanerSettings:
    """Cleaner settings of the broker; the settings of topics are in LogConfig."""

    map_bytes: int = 128 * 1024 * 1024
    io_bytes: int = 512 * 1024
    max_bytes_per_second: float = 0.0
    producer_expiration_ms: int = 24 * 60 * 60 * 1000


@dataclass(slots=True)
class CleanerState:
    """Counters and gauges of the cleaner, for the metrics."""

    runs: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    seconds: float = 0.0
    failures: int = 0
    looked_ms: int = 0
    max_dirty_ratio: float = 0.0
    max_delay_ms: int = 0
    uncleanable: int = 0
    uncleanable_bytes: int = 0
    last: Statistics = field(default_factory=Statistics)


@dataclass(slots=True)
class _Run:
    """The cleaning of one log."""

    dirt: LogToClean
    job: Job
    results: Iterator[Cleaned | Statistics]
    #: a new segment has replaced old ones, but does not have its final name yet
    swapping: bool = False


class Cleaner:
    """Log cleaner of one process; see the module's docstring. Call all methods on the event loop's thread."""

    def __init__(
        self,
        data: DataDirectory,
        writer: LogWriter,
        loop: EventLoop,
        settings: CleanerSettings,
        *,
        workshop: CleanerBackend,
        worker: Worker,
        now_ms: Callable[[], int],
        first_unstable: Callable[[PartitionLog], int] = lambda log: log.high_watermark,
        on_cleaned: Callable[[PartitionLog, Statistics], object] = lambda log, statistics: None,
        on_failed: Callable[[PartitionLog, BaseException], object] = lambda log, error: None,
        tag: str = "0",
    ) -> None:
        """Create a cleaner. `worker` is the cleaner's own thread. `first_unstable` returns the first offset of a log's
        open transactions, or its high watermark.
        """
        self.state = CleanerState(looked_ms=now_ms())
        self._data = data
        self._writer = writer
        self._loop = loop
        self.settings = settings
        self._workshop = workshop
        self._worker = worker
        self._now_ms = now_ms
        self._first_unstable = first_unstable
        self._on_cleaned = on_cleaned
        self._on_failed = on_failed
        self._tag = tag
        self._run: _Run | None = None
        self._looking: Iterator[PartitionLog] | None = None
        self._dirtiest: LogToClean | None = None
        self._max_ratio = 0.0
        self._max_delay_ms = 0
        self._closed = False
        #: logs that cannot be cleaned, until the next start or until more of them can be read
        self._uncleanable: set[PartitionLog] = set()
        self._in_vain: dict[PartitionLog, int] = {}
        #: number of processes in a row that were killed during the cleaning of a log
        self._lost: dict[PartitionLog, int] = {}
        #: end offsets of the logs at the last check
        self._ends: dict[PartitionLog, int] = {}

    @property
    def busy(self) -> bool:
        return self._run is not None or self._looking is not None

    # Selection of a log

    def look(self) -> None:
        """Clean the log with the highest dirty ratio, then the next one, until none is due. Called every
        log.cleaner.backoff.ms.
        """
        if self.busy or self._closed or self._writer.failed:
            return
        self._uncleanable = {log for log in self._uncleanable if not log.deleted}
        self._in_vain = {log: end for log, end in self._in_vain.items() if not log.deleted}
        self._ends = {log: end for log, end in self._ends.items() if not log.deleted}
        self._lost = {log: count for log, count in self._lost.items() if not log.deleted}
        self._looking = iter([log for log in self._data.logs.values() if log.config.compacts])
        self._dirtiest, self._max_ratio, self._max_delay_ms = None, 0.0, 0
        self._look_at_some()

    def _look_at_some(self) -> None:
        if self._closed or self._looking is None:
            return
        looked_at = 0
        for log in self._looking:
            self._look_at(log)
            looked_at += LOG_COST + len(log.segments)
            if looked_at >= SLICE_ITEMS:
                self._loop.call_soon(self._look_at_some)
                return
        self._looking = None
        state = self.state
        state.looked_ms = self._now_ms()
        state.max_dirty_ratio, state.max_delay_ms = self._max_ratio, self._max_delay_ms
        state.uncleanable = len(self._uncleanable)
        state.uncleanable_bytes = sum(log.size_bytes for log in self._uncleanable)
        if self._dirtiest is not None and not self._dirtiest.log.deleted:
            self._begin(self._dirtiest)
        else:
            self._worker.submit(self._workshop.rest)

    def _look_at(self, log: PartitionLog) -> None:
        if log.deleted or log.pins or log in self._uncleanable:
            return
        now_ms = self._now_ms()
        # The appends of an active log roll its segments, by the timestamps of its records.
        is_quiet = self._ends.get(log) == log.end_offset
        self._ends[log] = log.end_offset
        if is_quiet and roll_is_due(log, now_ms):
            self._writer.roll(log)
        if len(log.segments) < 2 or self._in_vain.get(log) == log.high_watermark:
            return
        cleaned_to = self._data.cleaned_offsets.get((log.topic, log.partition), 0)
        dirt = assess(log, cleaned_to, self._first_unstable(log), now_ms)
        self._max_ratio = max(self._max_ratio, dirt.ratio)
        self._max_delay_ms = max(self._max_delay_ms, dirt.delay_ms)
        if dirt.due and (self._dirtiest is None or dirt.ratio > self._dirtiest.ratio):
            self._dirtiest = dirt

    # Cleaning one log, step by step

    def _begin(self, dirt: LogToClean) -> None:
        """Start to clean one log. If responses do not wait for a flush, a marker in the active segment may still be
        lost. Its transaction would then be open again, and the records that its records outdate must still exist.
        """
        log, config, settings, now_ms = dirt.log, dirt.log.config, self.settings, self._now_ms()
        job = Job(
            directory=log.directory,
            segments=[
                SegmentSize(
                    segment.base_offset,
                    segment.visible_bytes if self._writer.is_durable or (successor and successor.on_disk) else 0,
                    segment.index_count * OFFSET_ENTRY.size,
                    segment.time_index_count * TIME_ENTRY.size,
                )
                for segment, successor in zip_longest(log.segments, log.segments[1:])
            ],
            first_dirty=dirt.first_dirty,
            first_uncleanable=dirt.first_uncleanable,
            now_ms=now_ms,
            delete_retention_ms=config.delete_retention_ms,
            segment_bytes=config.segment_bytes,
            max_index_bytes=config.segment_index_bytes,
            index_interval_bytes=config.index_interval_bytes,
            map_bytes=settings.map_bytes,
            io_bytes=settings.io_bytes,
            producer_expiration_ms=settings.producer_expiration_ms,
            max_bytes_per_second=settings.max_bytes_per_second,
            tag=self._tag,
        )
        log.cleaning = True
        run = self._run = _Run(dirt, job, iter(()))

        def begin() -> Cleaned | Statistics:
            segment_swap.discard(self._data.disk, job.directory)
            run.results = self._workshop.clean(job)
            return self._next_group(run)

        self._on_worker(run, begin, lambda result: self._got(run, result))

    def _next_group(self, run: _Run) -> Cleaned | Statistics:
        """Rewrite the next group and commit it, on the worker."""
        result = next(run.results)
        if isinstance(result, Cleaned):
            segment_swap.commit(self._data.disk, run.job.directory, result, run.job.tag)
        return result

    def _got(self, run: _Run, result: Cleaned | Statistics) -> None:
        log = run.dirt.log
        if isinstance(result, Cleaned):
            self._when_unpinned(run, lambda: self._replace(run, result))
        else:
            self._data.cleaned_offsets[log.topic, log.partition] = result.end_offset
            self._on_worker(run, self._data.write_cleaned_offsets, lambda _none: self._done(run, result))

    def _replace(self, run: _Run, cleaned: Cleaned) -> None:
        """Replace segments in the log's list: from now on no read opens the old files."""
        log = run.dirt.log
        wanted = set(cleaned.replaces)
        old = [segment for segment in log.segments if segment.base_offset in wanted]
        new = Segment(log.directory, cleaned.base_offset, on_disk=True)
        new.named(SWAP_SUFFIX)
        new.size = new.visible_bytes = cleaned.log_bytes
        new.index_count = cleaned.index_bytes // OFFSET_ENTRY.size
        new.time_index_count = cleaned.time_index_bytes // TIME_ENTRY.size
        new.max_timestamp = new.last_indexed_timestamp = cleaned.max_timestamp
        new.max_timestamp_offset = cleaned.max_timestamp_offset
        log.replace_segments(old, new)
        run.swapping = True
        self._on_worker(
            run,
            lambda: self._remove(log, old),
            lambda _none: self._when_unpinned(run, lambda: self._finish(run, cleaned, new)),
        )

    def _remove(self, log: PartitionLog, old: list[Segment]) -> None:
        """Remove the old segments, on the worker. The lock is held because a new topic may get this log's directory; it
        is taken for one segment at a time because a flush may be waiting for it.
        """
        disk = self._data.disk
        removed: list[str] = []
        for segment in old:
            with self._writer.lock:
                if log.deleted:
                    raise CleaningStopped
                self._writer.forget_segment(segment)
                removed += segment_swap.set_aside(disk, log.directory, segment.base_offset)
        disk.sync_dir(log.directory)
        for path in removed:
            with contextlib.suppress(FileNotFoundError):
                disk.unlink(path)

    def _finish(self, run: _Run, cleaned: Cleaned, new: Segment) -> None:
        """Rename the new segment's files to their final names. On the event loop's thread, which does all reading."""
        log = run.dirt.log
        try:
            segment_swap.finish(self._data.disk, log.directory, cleaned)
        except OSError as error:
            self._failed(run, error)
            return
        log.close_files([new])
        new.named("")
        run.swapping = False
        self._on_worker(run, lambda: self._next_group(run), lambda result: self._got(run, result))

    def _done(self, run: _Run, statistics: Statistics) -> None:
        log, state = run.dirt.log, self.state
        if statistics.end_offset <= run.dirt.first_dirty:
            self._in_vain[log] = log.high_watermark
        self._lost.pop(log, None)
        state.runs += 1
        state.bytes_read += statistics.bytes_read + statistics.map_bytes_read
        state.bytes_written += statistics.bytes_written
        state.seconds += statistics.seconds
        state.last = statistics
        self._on_cleaned(log, statistics)
        self._end(run)
        self.look()

    def _failed(self, run: _Run, error: BaseException) -> None:
        """Handle a failure; no data is lost. After a full disk or a killed process, the log is cleaned again after the
        next pause. A log that cannot be read, or whose swap is unfinished, is skipped until the next start.
        """
        log = run.dirt.log
        if log.deleted or isinstance(error, CleaningStopped):
            self._end(run)
            return
        self.state.failures += 1
        if isinstance(error, CleanerLost):
            self._lost[log] = self._lost.get(log, 0) + 1
        may_pass = isinstance(error, OSError | CleanerLost) and self._lost.get(log, 0) <= LOST_IN_A_ROW
        if run.swapping or not may_pass:
            self._uncleanable.add(log)
        self._on_failed(log, error)
        self._end(run)

    def _end(self, run: _Run) -> None:
        run.dirt.log.cleaning = run.swapping
        self._run = None

    # Calls between the threads

    def _on_worker(self, run: _Run, work: Callable[[], _Result], then: Callable[[_Result], object]) -> None:
        """Run `work` on the worker, and `then` with its result on the event loop's thread."""

        def finished(result: _Result) -> None:
            if self._goes_on(run):
                then(result)

        def job() -> None:
            try:
                result = work()
            except Exception as failure:
                error = failure
                self._call_in_loop(lambda: self._failed(run, error))
            else:
                self._call_in_loop(lambda: finished(result))

        self._worker.submit(job)

    def _call_in_loop(self, callback: Callable[[], object]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: the result is not needed
            self._loop.call_soon_threadsafe(callback)

    def _goes_on(self, run: _Run) -> bool:
        if self._closed:
            return False
        if run.dirt.log.deleted or self._writer.failed:
            self._end(run)
            return False
        return True

    def _when_unpinned(self, run: _Run, then: Callable[[], object]) -> None:
        """Call `then` once the log is not being read from end to end."""
        if not self._goes_on(run):
            return
        if run.dirt.log.pins:
            self._loop.call_later(PINNED_S, lambda: self._when_unpinned(run, then))
        else:
            then()

    def close(self) -> None:
        """Stop the cleaner; blocks until the worker has ended its current task. The next start finishes a swap in
        progress.
        """
        self._closed = True
        self._workshop.close()
        self._worker.submit(self._workshop.rest)
        self._worker.stop()
