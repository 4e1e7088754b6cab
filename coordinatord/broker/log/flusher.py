"""Writing and flushing of commit batches: journal, flush, segments. journal.py explains the order.

A full journal is *retired*: the next batch begins a new one, and meanwhile another thread flushes the segments that the
old one covers, one at a time (`flush_some`). After the last one, the ends of these segments become the new recovery
points, and the file becomes the spare for the next journal. There is at most one retired journal: if the disk is slower
than the load, the current one grows to `BACKLOG` times its size, and then the writer's thread does the rest of the
flushing itself.

`lock` prevents that the event loop, the writer and the flushing thread rename or remove each other's files; it is never
held while a retired journal's segment is flushed.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

from coordinatord.broker.log import leader_epoch_cache
from coordinatord.broker.log.data_dir import DataDirectory
from coordinatord.broker.log.disk import FilePool
from coordinatord.broker.log.journal import SPLIT_BYTES, Journal, JournalWrite
from coordinatord.broker.log.partition_log import PartitionLog
from coordinatord.broker.log.segment import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    Segment,
)
from coordinatord.broker.log.segment_write import SegmentWrite, Writable
from kafka_wire.message_parts import joined

#: Limit of open files for writing: the fifty offsets partitions, each with its two indexes, and some spare.
WRITE_FILES = 192

#: A commit batch of up to this size may be written on the event loop's thread: about 50 µs of copying.
NOW_BYTES = 256 * 1024

#: Size of the journal at which the file of the next one is created, if there is none.
SPARE_FROM_BYTES = 1024 * 1024
#: A journal may grow to this multiple of its size while the one before it is being flushed.
BACKLOG = 2

_SUFFIXES = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX)


@dataclass(slots=True)
class Written:
    """Data that one journal covers. With log.flush=never there is no journal."""

    journal: Journal | None = None
    #: segment -> log, of segments that are written and not flushed
    segments: dict[Segment, Writable] = field(default_factory=dict)
    #: end offset of the written data of each log in `segments`
    ends: dict[Writable, int] = field(default_factory=dict)
    #: segments whose directory entries are not flushed
    unnamed: set[Segment] = field(default_factory=set)

    def holds(self, size: int) -> bool:
        """Return whether the journal has at least `size` bytes."""
        return self.journal is not None and self.journal.size >= size


class Flusher:
    """Writes commit batches and flushes them. One per LogWriter."""

    def __init__(self, data: DataDirectory, *, policy: str, journal_bytes: int) -> None:
        self.lock = threading.Lock()
        self._data = data
        self._disk = data.disk
        self._files = FilePool(data.disk, WRITE_FILES)
        self._journals = policy != "never"
        self._flushes = policy == "always"
        self._journal_bytes = journal_bytes
        self.split_bytes = SPLIT_BYTES
        self._current = Written()
        self._retired: Written | None = None
        #: True if the current journal began as an empty file
        self._grows = True
        #: file of the next journal, if it exists
        self._spare: Journal | None = None
        #: a spare must be made
        self._spare_wanted = False
        #: False during a clean stop
        self._keeps_spare = True
        #: held by the thread that flushes in the background; acquired before `lock`
        self._flushing = threading.Lock()
        #: a spare in the making; needs `_flushing`, as do all below
        self._unfinished: Journal | None = None
        #: the first error; no retry, because the kernel may report the lost pages as clean now
        self._broken: BaseException | None = None

    def write(self, epoch: int, writes: list[SegmentWrite]) -> bool:
        """Make a commit batch durable (as far as the policy demands) and write it to its segments. Returns True if
        there is background work: then call `flush_some` until it returns False.
        """
        if self._retired is not None and self._current.holds(BACKLOG * self._journal_bytes):
            self._flush_retired()
        with self.lock:
            live = [write for write in writes if not write.log.deleted]
            with_data = [write for write in live if write.size]
            self._make_directories(with_data)
            self._store_epochs(with_data)
            work = False
            if self._journals and with_data:
                work = self._look_at_size()
                self._write_journal(epoch, with_data)
            for write in live:
                self._write_segment(write)
            return work

    def _look_at_size(self) -> bool:
        """Retire a full journal. Returns whether there is background work. The caller holds the lock and begins the
        next journal, so there is at most one spare file.
        """
        # Leave a journal whose file grows as soon as there is a spare, which need not grow.
        full = self._journal_bytes if self._spare is None or not self._grows else 1
        if self._retired is None and self._current.holds(full):
            self._retire()
            return True
        has_spare = self._spare is not None or self._spare_wanted or self._unfinished is not None
        if has_spare or self._retired is not None:
            return False  # the spare does not exist yet
        self._spare_wanted = self._current.holds(min(SPARE_FROM_BYTES, self._journal_bytes // 2))
        return self._spare_wanted

    def write_now(self, writes: list[SegmentWrite]) -> bool:
        """Write a commit batch that needs no journal to its segments, on the event loop's thread. Returns False, with
        nothing done, if that could block: much data, a file or directory to make or flush, or a lock that another
        thread holds.
        """
        if self._journals or sum([write.size for write in writes]) > NOW_BYTES:
            return False
        for write in writes:
            if write.finish or not write.segment.on_disk or write.log.has_new_epoch:
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
        """Make the directories of partitions at their first write."""
        made = False
        for write in writes:
            if not write.log.on_disk:
                self._data.make_directory(write.log)
                write.log.on_disk = made = True
        if made:
            self._disk.sync_dir(self._data.path)

    def _store_epochs(self, writes: list[SegmentWrite]) -> None:
        """Store new leader epochs, durably, before the first records of each: if those are lost, no others get the
        epoch.
        """
        for write in writes:
            log = write.log
            if log.has_new_epoch:
                leader_epoch_cache.write(self._disk, log.directory, log.leader_epochs)
                log.has_new_epoch = False

    def _write_journal(self, epoch: int, writes: list[SegmentWrite]) -> None:
        journal = self._current.journal or self._begin_journal(epoch)
        after_flush = self._flushes
        for part in _parts(writes, self.split_bytes):
            entries = [
                JournalWrite(w.log.topic_id, w.log.name, w.segment.base_offset, w.position, w.buffers, w.size)
                for w in part
            ]
            journal.append(epoch, entries, after_flush=after_flush)
            after_flush = False
        if self._flushes:
            journal.flush()

    def _begin_journal(self, epoch: int) -> Journal:
        journal, self._spare = self._spare, None
        self._grows = journal is None
        if journal is None:
            journal = Journal(self._disk, self._data.path, epoch, self._data.journal_owner)
        else:
            journal.begin(epoch)
        self._current.journal = journal
        return journal

    def _write_segment(self, write: SegmentWrite) -> None:
        segment, unflushed = write.segment, self._current.segments
        if not segment.on_disk:
            for suffix in _SUFFIXES:
                self._files.get(segment.path + suffix, create=True)
            if self._journals and not segment.base_offset:
                self._current.unnamed.add(segment)  # the journal makes a partition's first segment again
            else:
                self._disk.sync_dir(write.log.directory)
            segment.on_disk = True
        if write.buffers:
            data = write.buffers[0] if len(write.buffers) == 1 else joined(write.buffers)
            # Not recreated if another program has removed the file: data reported as durable would follow a hole.
            self._files.get(segment.log_path).pwrite(data, write.position)
            self._current.ends[write.log] = write.end_offset
            unflushed[segment] = write.log
        if write.index:
            self._files.get(segment.index_path).pwrite(write.index, write.index_position)
            unflushed[segment] = write.log
        if write.time_index:
            self._files.get(segment.time_index_path).pwrite(write.time_index, write.time_index_position)
            unflushed[segment] = write.log
        if write.finish:
            self._flush_segment(segment)
            unflushed.pop(segment, None)

    def _flush_segment(self, segment: Segment) -> None:
        for suffix in _SUFFIXES:
            self._files.get(segment.path + suffix).datasync()

    def flush_journal(self) -> None:
        """Flush the current journal, for log.flush=interval."""
        with self.lock:
            if self._current.journal is not None:
                self._current.journal.flush()

    def make_durable(self, log: PartitionLog) -> None:
        """Flush the written data of a log, whatever `log.flush` is: the journals that contain it, or its files."""
        with self.lock:
            journals = [each.journal for each in (self._retired, self._current) if each and each.journal]
            for journal in journals:
                journal.flush()
            if not journals and not self._flushes:
                for segment in log.segments:
                    if segment.on_disk:
                        self._flush_segment(segment)
                self._disk.sync_dir(log.directory)
                self._disk.sync_dir(self._data.path)

    def _retire(self) -> None:
        """Retire the current journal; the next write begins a new one. The caller holds the lock."""
        journal = self._current.journal
        if journal is not None and self._keeps_spare:
            # After a power failure, recovery of the next journal relies on all of this one.
            journal.append(journal.epoch, (), after_flush=self._flushes, last=True)
            journal.flush()
        self._retired, self._current = self._current, Written()

    def flush_some(self) -> bool:
        """Flush one more segment of the retired journal; after the last one, store the recovery points and make the
        file the spare. May be called on any thread. Returns False when nothing is left to do.
        """
        with self._flushing:
            if self._broken is not None:
                raise self._broken
            try:
                if self._retired is not None:
                    return self._flush_next(self._retired)
                return self._make_spare()
            except BaseException as error:
                self._broken = error
                raise

    def _flush_next(self, retired: Written) -> bool:
        unnamed: Writable | None = None
        with self.lock:
            if retired.segments:
                segment, log = retired.segments.popitem()
                # Separate from the pool, which may close its files while these are flushed, or drop segments.
                files = [self._disk.open(segment.path + suffix) for suffix in _SUFFIXES]
                unnamed = log if segment in retired.unnamed else None
            else:
                files = []
                for log, end_offset in retired.ends.items():
                    self._data.flushed_offsets[log.topic, log.partition] = end_offset
        if files:
            for file in files:
                try:
                    file.datasync()
                finally:
                    file.close()
            if unnamed is not None:
                self._name_segments(unnamed)
            return True
        self._data.write_recovery_points()
        journal = retired.journal
        if journal is not None:
            if self._keeps_spare and self._spare is None and self._unfinished is None and not self._spare_wanted:
                journal.spare()
                self._unfinished = journal
            else:
                journal.remove()
                self._disk.sync_dir(self._data.path)
        self._retired = None
        return True

    def _name_segments(self, log: Writable) -> None:
        """Flush a partition's directory, unless it was removed meanwhile."""
        try:
            self._disk.sync_dir(log.directory)
        except FileNotFoundError:
            if not log.deleted:
                raise

    def _make_spare(self) -> bool:
        """Do one step towards a spare. Returns False if there is nothing to do."""
        spare = self._unfinished
        if spare is None:
            if not self._spare_wanted:
                return False
            spare = self._unfinished = Journal(self._disk, self._data.path, None, self._data.journal_owner)
            self._spare_wanted = False
        if spare.fill(self._journal_bytes):
            return True
        with self.lock:
            self._spare, self._unfinished = spare, None
        return False

    def _flush_retired(self) -> None:
        while self._retired is not None:
            self.flush_some()

    def finish(self) -> None:
        """Flush everything and leave no journal (clean stop)."""
        self._flush_retired()
        self._keeps_spare = False
        with self.lock:
            self._retire()
        self._flush_retired()
        for spare in (self._spare, self._unfinished):
            if spare is not None:
                spare.remove()
        self._spare = self._unfinished = None
        self._disk.sync_dir(self._data.path)

    def remove_segments(self, log: PartitionLog, segments: list[Segment]) -> None:
        """Remove the files of segments that are no longer part of `log`, oldest first, so that no gap arises. A commit
        batch waits for the removal of one segment at most.
        """
        for segment in segments:
            with self.lock:
                self.forget_segment(segment)
                for suffix in (*_SUFFIXES, TRANSACTION_INDEX_SUFFIX):
                    path = segment.path + suffix
                    if not log.deleted and self._disk.exists(path):
                        self._disk.unlink(path)
        with self.lock:
            if not log.deleted:
                self._disk.sync_dir(log.directory)

    def forget_segment(self, segment: Segment) -> None:
        """Forget a segment that will be removed. The caller holds the lock."""
        for written in self._written():
            written.segments.pop(segment, None)
            written.unnamed.discard(segment)
        for suffix in _SUFFIXES:
            self._files.drop(segment.path + suffix)

    def forget(self, log: Writable) -> None:
        """Forget a log that will be removed. The caller holds the lock."""
        for written in self._written():
            written.ends.pop(log, None)
            for segment in [segment for segment, owner in written.segments.items() if owner is log]:
                del written.segments[segment]
        self._files.drop_below(log.directory)

    def _written(self) -> list[Written]:
        """Return the data that the current and the retired journal cover."""
        retired = self._retired
        return [self._current] if retired is None else [self._current, retired]

    def close(self) -> None:
        """Close all files. Journals stay unless `finish` has removed them. No flush may be in progress."""
        with self.lock:
            self._files.close()
            journals = [self._spare, self._unfinished, *(written.journal for written in self._written())]
            for journal in journals:
                if journal is not None:
                    journal.close()
            self._current, self._retired, self._spare, self._unfinished = Written(), None, None, None


def _parts(writes: list[SegmentWrite], split_bytes: int) -> Iterator[list[SegmentWrite]]:
    """Split a batch's writes, in order, where a journal record would become too large."""
    part: list[SegmentWrite] = []
    size = 0
    for write in writes:
        if part and size + write.size > split_bytes:
            yield part
            part, size = [], 0
        part.append(write)
        size += write.size
    yield part
