"""What the writer's thread does with an epoch: journal, flush, segments. See journal.py for why in this order.

Runs on the worker only; `lock` keeps the event loop from renaming or dropping files under it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator

from coordinatord.log.data_dir import DataDirectory
from coordinatord.log.disk import FilePool
from coordinatord.log.journal import SPLIT_BYTES, Journal, JournalWrite, encode
from coordinatord.log.partition_log import PartitionLog
from coordinatord.log.segment import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX, Segment
from coordinatord.log.segment_write import SegmentWrite

#: Open files kept for writing: those of the fifty offsets partitions, each with its two indexes, and some more.
WRITE_FILES = 192

#: As much of an epoch is written on the event loop's thread: some 50 µs of copying.
NOW_BYTES = 256 * 1024

_SUFFIXES = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX)


class Flusher:
    """One per LogWriter."""

    def __init__(self, data: DataDirectory, *, policy: str, journal_bytes: int) -> None:
        self.lock = threading.Lock()
        self._data = data
        self._disk = data.disk
        self._files = FilePool(data.disk, WRITE_FILES)
        self._journals = policy != "never"
        self._flushes = policy == "always"
        self._journal: Journal | None = None
        self._journal_bytes = journal_bytes
        self.split_bytes = SPLIT_BYTES
        #: written since the last rotation and not flushed: segment -> its log
        self._unflushed: dict[Segment, PartitionLog] = {}
        #: end offsets of what is written, per log that has unflushed segments
        self._ends: dict[PartitionLog, int] = {}

    @property
    def journal_full(self) -> bool:
        return self._journal is not None and self._journal.size >= self._journal_bytes

    def write(self, epoch: int, writes: list[SegmentWrite]) -> None:
        """Make an epoch durable (as far as the policy says) and put it into its segments."""
        with self.lock:
            live = [write for write in writes if not write.log.deleted]
            with_data = [write for write in live if write.size]
            self._make_directories(with_data)
            if self._journals and with_data:
                if self.journal_full:
                    self._rotate()
                self._write_journal(epoch, with_data)
            for write in live:
                self._write_segment(write)

    def write_now(self, writes: list[SegmentWrite]) -> bool:
        """Put an epoch that needs no journal into its segments, on the event loop's thread. False, and nothing is done,
        where that could keep it: by much data, by a file or directory to be made or flushed, by somebody else's work.
        """
        if self._journals or sum([write.size for write in writes]) > NOW_BYTES:
            return False
        for write in writes:
            if write.finish or not write.segment.on_disk:
                return False
        if not self.lock.acquire(blocking=False):
            return False
        try:
            for write in writes:
                if not write.log.deleted:
                    self._write_segment(write)
        finally:
            self.lock.release()
        return True

    def _make_directories(self, writes: list[SegmentWrite]) -> None:
        """Partitions that are made by their first write."""
        made = False
        for write in writes:
            if not write.log.on_disk:
                self._data.make_directory(write.log)
                write.log.on_disk = made = True
        if made:
            self._disk.sync_dir(self._data.path)

    def _write_journal(self, epoch: int, writes: list[SegmentWrite]) -> None:
        if self._journal is None:
            self._journal = Journal(self._disk, self._data.path, epoch, self._data.journal_owner)
        after_flush = self._flushes
        for part in _parts(writes, self.split_bytes):
            entries = (
                JournalWrite(w.log.topic_id, w.log.name, w.segment.base_offset, w.position, w.buffers, w.size)
                for w in part
            )
            self._journal.append(encode(epoch, entries, after_flush=after_flush))
            after_flush = False
        if self._flushes:
            self._journal.flush()

    def _write_segment(self, write: SegmentWrite) -> None:
        segment = write.segment
        if not segment.on_disk:
            for suffix in _SUFFIXES:
                self._files.get(segment.path + suffix, create=True)
            self._disk.sync_dir(write.log.directory)
            segment.on_disk = True
        if write.buffers:
            data = write.buffers[0] if len(write.buffers) == 1 else b"".join(write.buffers)
            # Not made anew where somebody has removed it: what is told to be safe would lie behind a hole.
            self._files.get(segment.log_path).pwrite(data, write.position)
            self._ends[write.log] = write.end_offset
            self._unflushed[segment] = write.log
        if write.index:
            self._files.get(segment.index_path).pwrite(write.index, write.index_position)
            self._unflushed[segment] = write.log
        if write.time_index:
            self._files.get(segment.time_index_path).pwrite(write.time_index, write.time_index_position)
            self._unflushed[segment] = write.log
        if write.finish:
            self._flush_segment(segment)
            self._unflushed.pop(segment, None)

    def _flush_segment(self, segment: Segment) -> None:
        for suffix in _SUFFIXES:
            self._files.get(segment.path + suffix).datasync()

    def flush_journal(self) -> None:
        """log.flush=interval: what is written so far becomes durable."""
        with self.lock:
            if self._journal is not None:
                self._journal.flush()

    def rotate(self) -> None:
        with self.lock:
            if self.journal_full:
                self._rotate()

    def _rotate(self) -> None:
        """Flush the segments that the journal stands in for, note how far they go, and drop it."""
        for segment in self._unflushed:
            self._flush_segment(segment)
        self._unflushed.clear()
        for log, end_offset in self._ends.items():
            self._data.flushed_offsets[log.topic, log.partition] = end_offset
        self._ends.clear()
        self._data.write_recovery_points()
        if self._journal is not None:
            self._journal.remove()
            self._journal = None

    def finish(self) -> None:
        """Flush everything and leave no journal (clean stop)."""
        with self.lock:
            self._rotate()
            self._disk.sync_dir(self._data.path)

    def remove_segments(self, log: PartitionLog, segments: list[Segment]) -> None:
        """Remove the files of segments that are no longer part of `log`, oldest first, so that what is left has no
        gap.
        """
        with self.lock:
            for segment in segments:
                self.forget_segment(segment)
                for suffix in (*_SUFFIXES, TRANSACTION_INDEX_SUFFIX):
                    path = segment.path + suffix
                    if not log.deleted and self._disk.exists(path):
                        self._disk.unlink(path)
            if not log.deleted:
                self._disk.sync_dir(log.directory)

    def forget_segment(self, segment: Segment) -> None:
        """`segment` is about to be removed. The caller holds the lock."""
        self._unflushed.pop(segment, None)
        for suffix in _SUFFIXES:
            self._files.drop(segment.path + suffix)

    def forget(self, log: PartitionLog) -> None:
        """`log` is about to be removed. The caller holds the lock."""
        self._ends.pop(log, None)
        for segment in [segment for segment, owner in self._unflushed.items() if owner is log]:
            del self._unflushed[segment]
        self._files.drop_below(log.directory)

    def close(self) -> None:
        """Close files; the journal stays where it is unless `finish` has removed it."""
        with self.lock:
            self._files.close()
            if self._journal is not None:
                self._journal.close()
                self._journal = None


def _parts(writes: list[SegmentWrite], split_bytes: int) -> Iterator[list[SegmentWrite]]:
    """An epoch's writes in their order, cut where a journal record would become too large."""
    part: list[SegmentWrite] = []
    size = 0
    for write in writes:
        if part and size + write.size > split_bytes:
            yield part
            part, size = [], 0
        part.append(write)
        size += write.size
    yield part
