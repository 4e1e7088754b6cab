"""Group commit: the appends of one turn of the event loop form one *flush epoch*, flushed on another thread.

```
loop:    append, append | end of turn: seal epoch 7 | append (epoch 8) | flushed_epoch = 7: high watermarks move,
                                    |                                 ^  held callbacks run, epoch 8 is sealed at once
worker:                             +--> journal, flush, segments ----+
background:                                                 (a journal was full: flush its segments, drop it;
                                                             a topic was deleted: remove its files)
```
One flush epoch is in flight at a time; later appends form the next one. So an idle log commits at once, and a busy log
commits whatever has gathered, without a linger setting. `hold(epoch, callback)` is the durability gate: it delays a
callback until durability. `has_flushed(epoch)` checks it: where no flush is needed, a rarely appended log is written
at this check.

`log.flush` defines when a flush epoch is durable. *always*: in the journal and flushed, so it survives a power failure.
*interval*: written; the journal is flushed every `log.flush.interval.ms`. *never*: written to the segments, which the
operating system flushes at its own time (Kafka's default). All three survive a kill of this process.

Fail-stop: the first failed write or flush stops the writer. Held callbacks get their `failed`, `on_failure` runs once,
and every later append raises LogFailed. A file whose flush has failed may have lost pages that the kernel reports as
clean, so only a restart, which reads the files, may continue.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from typing import Literal, Protocol

from coordinatord.base.threads import EventLoop, ThreadWorker, Worker, computing
from coordinatord.broker.log import retention
from coordinatord.broker.log.commit_batching import Callback, CommitBatch, CommitBatches
from coordinatord.broker.log.commit_batching import FlushStats as FlushStats
from coordinatord.broker.log.data_dir import DataDirectory
from coordinatord.broker.log.errors import LogFailed
from coordinatord.broker.log.flusher import Flusher
from coordinatord.broker.log.journal import JOURNAL_BYTES
from coordinatord.broker.log.partition_log import PartitionLog
from coordinatord.broker.log.segment import Segment
from coordinatord.broker.log.segment_write import SegmentWrite
from kafka_wire.records.batch import BatchHeader, Records

FlushPolicy = Literal["always", "interval", "never"]


class Flushing(Protocol):
    """Storage that makes flush epochs durable: flusher.Flusher for the data directory, others for other stores."""

    @property
    def lock(self) -> threading.Lock: ...

    def write(self, epoch: int, writes: list[SegmentWrite]) -> bool: ...

    def write_now(self, writes: list[SegmentWrite]) -> bool: ...

    def flush_some(self) -> bool: ...

    def flush_journal(self) -> None: ...

    def make_durable(self, log: PartitionLog) -> None: ...

    def remove_segments(self, log: PartitionLog, segments: list[Segment]) -> None: ...

    def forget_segment(self, segment: Segment) -> None: ...

    def forget(self, log: PartitionLog) -> None: ...

    def finish(self) -> None: ...

    def close(self) -> None: ...


class LogWriter:
    """The writer of all logs. All methods belong to the event loop's thread."""

    def __init__(
        self,
        data: DataDirectory,
        loop: EventLoop,
        on_failure: Callable[[BaseException], object],
        *,
        flush: FlushPolicy = "always",
        flush_interval_ms: int = 1000,
        journal_bytes: int = JOURNAL_BYTES,
        on_flush: Callable[[FlushStats], object] | None = None,
        worker: Worker | None = None,
        background: Worker | None = None,
        flusher: Flushing | None = None,
        now_ms: Callable[[], int] | None = None,
    ) -> None:
        """`background` flushes what no flush epoch waits for, and removes files; without it, `worker` does both.
        `flusher` is set for another store than the data directory. Without `now_ms` writes wait for the turn's end.
        """
        self.failed: BaseException | None = None
        #: this flush epoch and all before it are as durable as the policy promises
        self.flushed_epoch = 0
        self._data = data
        self._loop = loop
        self._on_failure = on_failure
        self._on_flush = on_flush
        self._flush_policy = flush
        self._flush_interval_s = flush_interval_ms / 1000
        if background is None:
            background = worker if worker is not None or flush == "never" else ThreadWorker("log-flusher")
        self._worker = worker or ThreadWorker()
        self._background = background or self._worker
        #: a separate thread is started when there is work for it
        self._aside = worker
        self._flusher = flusher or Flusher(data, policy=flush, journal_bytes=journal_bytes)
        self._epochs = CommitBatches()
        self._in_flight: CommitBatch | None = None
        #: bytes of produced batches that are not written yet
        self.waiting_bytes = 0
        self._turn_end_due = False
        self._interval_due = False
        self._closed = False
        self._now_ms = now_ms
        #: time (ms) of the last write that `has_flushed` caused
        self._asked_ms = -1
        #: callbacks of one flush epoch are running: those of later ones must not run in between
        self._is_calling = False

    # --- appending ----------------------------------------------------------------------------------------------------

    @property
    def epoch(self) -> int:
        """The flush epoch of an append made now, unless the append has to wait (see `append`)."""
        return self._epochs.forming.number

    @property
    def last_epoch(self) -> int:
        """The flush epoch whose durability makes all appends so far durable."""
        return self._epochs.last.number

    @property
    def is_writing(self) -> bool:
        """Return whether appends are being written or wait to be written."""
        return self._in_flight is not None or not self._epochs.is_empty

    def append(
        self, log: PartitionLog, batch: bytearray, *, header: BatchHeader | None = None, may_wait: bool = False
    ) -> tuple[int, int]:
        """Append a batch and return (base offset, flush epoch). `batch` is one valid batch (see
        kafka_wire.records.produced), owned by the log; `header` is its header if the caller has read it. If the batch
        needs a new segment and may wait, it joins a later flush epoch with others (commit_batching.py).
        """
        if self.failed or self._closed:
            raise self._has_stopped()
        epochs = self._epochs
        base_offset = log.append(batch, header, epochs.make_room if may_wait else None)
        epoch = epochs.waiting.get(log, epochs.forming)
        epoch.logs[log] = None
        epoch.bytes += len(batch)
        self.waiting_bytes += len(batch)
        if not self._turn_end_due:
            self._schedule()
        return base_offset, epoch.number

    def append_records(self, log: PartitionLog, records: Records, timestamp_ms: int) -> int:
        """Append records and return the flush epoch. All calls of one turn of the event loop share a batch."""
        if self.failed or self._closed:
            raise self._has_stopped()
        log.append_records(records, timestamp_ms)
        epochs = self._epochs
        epoch = epochs.waiting.get(log, epochs.forming)
        epoch.logs[log] = None
        if not self._turn_end_due:
            self._schedule()
        return epoch.number

    def _has_stopped(self) -> LogFailed:
        return LogFailed(f"the log has stopped: {self.failed or 'closed'}")

    def has_flushed(self, epoch: int) -> bool:
        """Return whether flush epoch `epoch` is durable. With log.flush=never this call writes the log if nothing else
        waits, once in a millisecond, and calls its readers: call it after all work that precedes the response. So the
        requests of a busy log are written together at the end of a turn, and a rare request waits neither for that nor
        for another turn that sends its response.
        """
        if epoch <= self.flushed_epoch:
            return True
        if self._flush_policy != "never" or self._now_ms is None or self._is_calling:
            return False
        forming = self._epochs.forming
        if epoch > forming.number or forming.holds or self._in_flight is not None or self.failed or self._closed:
            return False
        now_ms = self._now_ms()
        if now_ms <= self._asked_ms:
            return False
        self._asked_ms = now_ms
        try:
            self._seal()
        except Exception as error:  # of a called reader: the caller of `has_flushed` did not cause it
            self._raise_soon(error)
        return epoch <= self.flushed_epoch

    def _raise_soon(self, error: Exception) -> None:
        def fail() -> None:
            raise error

        self._loop.call_soon(fail)

    def hold(self, epoch: int, callback: Callback, failed: Callback | None = None, is_patient: bool = True) -> None:
        """Call `callback` once `epoch` is durable, at once if it already is; or `failed` if the log fails first."""
        if epoch <= self.flushed_epoch:
            callback()
        elif self.failed:
            if failed:
                failed()
        elif self._in_flight is not None and epoch <= self._in_flight.number:
            self._in_flight.holds.append((callback, failed))
        else:
            self._epochs.at(epoch).holds.append((callback, failed))
            if not self._turn_end_due:
                self._schedule()

    def _schedule(self) -> None:
        if not self._turn_end_due:
            self._turn_end_due = True
            self._loop.call_soon(self._end_turn)

    # --- flushing -----------------------------------------------------------------------------------------------------

    def _end_turn(self) -> None:
        self._turn_end_due = False
        if self._in_flight is None and not self.failed and not self._epochs.is_empty:
            self._seal()

    def _seal(self) -> None:
        """Pass the current flush epoch to the worker."""
        epoch = self._in_flight = self._epochs.seal()
        if self._flush_policy == "never" and not epoch.start_offsets and self._written_now(epoch):
            self._executed(epoch)
        else:
            self._worker.submit(lambda: self._execute(epoch))

    def _written_now(self, epoch: CommitBatch) -> bool:
        """Write a small flush epoch that needs no flush into the page cache: that is faster than waking another thread.
        Returns False if the worker should write it.
        """
        begin = time.perf_counter()
        try:
            if not self._flusher.write_now(epoch.writes):
                return False
        except BaseException as error:
            epoch.error = error
        epoch.seconds = time.perf_counter() - begin
        return True

    def _execute(self, epoch: CommitBatch) -> None:
        """On the worker's thread: make the flush epoch durable and report the result to the event loop."""
        begin = time.perf_counter()
        try:
            if epoch.start_offsets:
                with self._flusher.lock:
                    self._data.write_start_offsets()
            if self._flusher.write(epoch.number, epoch.writes):
                self._background.submit(self._flush_some)
        except BaseException as error:
            epoch.error = error
        epoch.seconds = time.perf_counter() - begin
        self._call_in_loop(lambda: self._executed(epoch))

    def _flush_some(self) -> None:
        """On the background thread: flush what a retired journal covers, one segment at a time."""
        try:
            if self._flusher.flush_some():
                self._background.submit(self._flush_some)
        except BaseException as failure:
            error = failure
            self._call_in_loop(lambda: self._fail(error, None))

    def _call_in_loop(self, callback: Callback) -> None:
        """Run `callback` on the event loop's thread, from another thread."""
        # RuntimeError: the loop was closed before the writer; nothing waits for the call any more
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(callback)

    def aside(self, job: Callable[[], Callback]) -> None:
        """Run `job` on another thread than the event loop's, not queued behind a flush, then the callback that it
        returns on the event loop's. For work on batches before their append; `job` must not raise.
        """
        if self._aside is None:
            self._aside = ThreadWorker("record-checks")
        self._aside.submit(lambda: self._run_aside(job))

    def _run_aside(self, job: Callable[[], Callback]) -> None:
        with computing():
            callback = job()
        self._call_in_loop(callback)

    def _executed(self, epoch: CommitBatch) -> None:
        if self._closed or self.failed:
            return  # close() has handled it, or the log has failed
        self._in_flight = None
        self.waiting_bytes -= epoch.bytes
        if epoch.error is not None:
            self._fail(epoch.error, epoch)
            return
        self._is_calling = True
        broken: Exception | None = None
        size = 0
        for write in epoch.writes:
            size += write.size
            if not write.log.deleted:
                try:
                    write.log.written(write)
                except Exception as error:
                    broken = broken or error
        self.flushed_epoch = epoch.number
        if self._on_flush:
            self._on_flush(FlushStats(epoch.number, len(epoch.writes), size, epoch.seconds))
        if self._flush_policy == "interval" and epoch.writes:
            self._arm_interval()
        for callback, _failed in epoch.holds:
            try:
                callback()
            except Exception as error:
                broken = broken or error
        self._is_calling = False
        # The next turn's end seals what the callbacks append; appends made during the flush are sealed now.
        if not self._turn_end_due and self._in_flight is None and not self._epochs.is_empty and not self.failed:
            self._seal()
        if broken is not None:
            raise broken  # after all other callbacks, which did not cause it

    def make_durable(self, log: PartitionLog, then: Callback) -> None:
        """Call `then` once the visible part of a log survives a power failure, whatever `log.flush` is."""
        done = lambda: None if self.failed or self._closed or log.deleted else then()  # noqa: E731
        self._worker.submit(lambda: self._flush_aside(lambda: self._flusher.make_durable(log), done))

    def _flush_aside(self, flush: Callable[[], None], done: Callback) -> None:
        """Run `flush`, then schedule `done`. On the worker's thread."""
        try:
            flush()
        except BaseException as failure:
            error = failure
            self._call_in_loop(lambda: self._fail(error, None))
        else:
            self._call_in_loop(done)

    def _arm_interval(self) -> None:
        if not self._interval_due:
            self._interval_due = True
            self._loop.call_later(self._flush_interval_s, self._flush_interval)

    def _flush_interval(self) -> None:
        self._interval_due = False
        if not self.failed and not self._closed:
            self._worker.submit(lambda: self._flush_aside(self._flusher.flush_journal, lambda: None))

    def _fail(self, error: BaseException, epoch: CommitBatch | None) -> None:
        if self.failed:
            return
        self.failed = error
        holds = [
            *(epoch.holds if epoch else ()),
            *(self._in_flight.holds if self._in_flight else ()),
            *self._epochs.take_holds(),
        ]
        for _callback, failed in holds:
            if failed:
                failed()
        self._on_failure(error)

    # --- removing -----------------------------------------------------------------------------------------------------

    def delete(self, logs: Sequence[PartitionLog]) -> None:
        """Delete partitions, durably on return. Waits for a flush in flight; the background removes the files."""
        for log in logs:
            self._epochs.forget(log)
        with self._flusher.lock:
            for log in logs:
                self._flusher.forget(log)
            renamed = self._data.remove(logs)
        self._in_background(lambda: self._data.remove_trees(renamed))

    def delete_records(self, log: PartitionLog, before_offset: int) -> int:
        """Move the log's start to `before_offset` (up to the high watermark); return the flush epoch of this change."""
        offset = min(before_offset, log.high_watermark)
        if offset > log.log_start_offset:
            log.start_at(offset)
            with self._flusher.lock:
                self._data.start_offsets[log.topic, log.partition] = offset
            self._epochs.forming.start_offsets = True
            self._remove_segments(log, retention.below(log, offset))
            self._schedule()
        return self._epochs.forming.number

    def apply_retention(self, now_ms: int) -> int:
        """Drop whole segments by retention.ms and retention.bytes, and below the log's start; return how many. Called
        every log.retention.check.interval.ms. A log whose active segment has expired, too, begins a new one, and drops
        the expired one when the new one is durable.
        """
        return sum(self._expire(log, now_ms) for log in list(self._data.logs.values()))

    def _expire(self, log: PartitionLog, now_ms: int) -> int:
        count = retention.expired(log, now_ms)
        if count and count == len(log.segments):
            epoch = self.roll(log)
            if epoch is not None:
                self.hold(epoch, lambda: None if log.deleted else self._expire(log, now_ms))
            count -= 1
        return self._remove_segments(log, max(count, retention.below(log, log.log_start_offset)))

    def roll(self, log: PartitionLog) -> int | None:
        """Begin a new segment, so that the present records can be cleaned or removed. Return the flush epoch in which
        it is written; None if nothing is written any more.
        """
        if self.failed or self._closed:
            return None
        log.roll()
        epochs = self._epochs
        epoch = epochs.waiting.get(log, epochs.forming)
        epoch.logs[log] = None
        self._schedule()
        return epoch.number

    def _remove_segments(self, log: PartitionLog, count: int) -> int:
        segments = log.drop_segments(count)
        if segments:
            self._in_background(lambda: self._flusher.remove_segments(log, segments))
        return len(segments)

    def _in_background(self, job: Callable[[], object]) -> None:
        """Run a removal. An error loses nothing: the next start repeats the removal."""

        def run() -> None:
            with contextlib.suppress(OSError):
                job()

        self._background.submit(run)

    @property
    def is_durable(self) -> bool:
        """Return whether visible records survive a power failure."""
        return self._flush_policy == "always"

    @property
    def lock(self) -> threading.Lock:
        """Held while files are written, and while directories are made or removed."""
        return self._flusher.lock

    def forget_segment(self, segment: Segment) -> None:
        """Drop a segment before its removal. The caller holds the lock."""
        self._flusher.forget_segment(segment)

    # --- ending -------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Write and flush everything, then mark the directory as cleanly stopped. Blocks; held callbacks run before the
        return.

        After a failure nothing more is written, and the next start recovers.
        """
        if self._closed:
            return
        self._closed = True
        if self._aside is not None and self._aside is not self._worker:
            self._aside.stop()
        self._worker.stop()
        if self._background is not self._worker:
            self._background.stop()
        epoch, self._in_flight = self._in_flight, None
        if self.failed:
            self._flusher.close()
            return
        try:
            # A flush ended after the loop's last turn: its completion is still queued there, and will have nothing to
            # do.
            if epoch is not None:
                if epoch.error is not None:
                    self._fail(epoch.error, epoch)
                    return
                self._settle(epoch)
            last = self._epochs.seal_all()
            for log in self._data.logs.values():
                log.finish_indexes()
                last.writes += log.take_pending()
            if last.start_offsets:
                self._data.write_start_offsets()
            self._flusher.write(last.number, last.writes)
            self._flusher.finish()
            self._settle(last)
            self._data.mark_clean()
        except BaseException as error:
            self._fail(error, None)
        finally:
            self._flusher.close()

    def _settle(self, epoch: CommitBatch) -> None:
        for write in epoch.writes:
            if not write.log.deleted:
                write.log.written(write)
        self.flushed_epoch = max(self.flushed_epoch, epoch.number)
        holds, epoch.holds = epoch.holds, []
        for callback, _failed in holds:
            callback()
