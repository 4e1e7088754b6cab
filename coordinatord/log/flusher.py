"""What the writer's thread does with an epoch: journal, flush, segments. See journal.py for why in this order.

A journal that is full is *retired*: the next epoch begins a new one, and what the old one stands in for is flushed
beside that, a segment at a time (`flush_some`), by another thread. With the last of them flushed their ends are the
new recovery points, and the file is the spare one for the journal after that. There is one retired journal at most:
where the disk is slower than the load, the current one grows to `BACKLOG` times its size and then the writer's thread
does the rest of the flushing itself.

`lock` keeps the event loop, the writer and the flushing from renaming or dropping files under each other; it is never
held during the flush of a retired journal's segment.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

from coordinatord.log.data_dir import DataDirectory
from coordinatord.log.disk import FilePool
from coordinatord.log.journal import SPLIT_BYTES, Journal, JournalWrite
from coordinatord.log.partition_log import PartitionLog
from coordinatord.log.segment import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX, Segment
from coordinatord.log.segment_write import SegmentWrite, Writable

#: Open files kept for writing: those of the fifty offsets partitions, each with its two indexes, and some more.
WRITE_FILES = 192

#: As much of an epoch is written on the event loop's thread: some 50 µs of copying.
NOW_BYTES = 256 * 1024

#: What a journal holds when the next one's file is made, if there is none.
SPARE_FROM_BYTES = 1024 * 1024
#: A journal may have so many times its size before the one before it is gone.
BACKLOG = 2

_SUFFIXES = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX)


@dataclass(slots=True)
class Written:
    """What a journal stands in for. log.flush=never has none."""

    journal: Journal | None = None
    #: written and not flushed: segment -> its log
    segments: dict[Segment, Writable] = field(default_factory=dict)
    #: end offsets of what is written, per log that has such segments
    ends: dict[Writable, int] = field(default_factory=dict)

    def holds(self, size: int) -> bool:
        """Whether the journal does, in bytes."""
        return self.journal is not None and self.journal.size >= size


class Flusher:
    """One per LogWriter."""

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
        #: the current journal began with an empty file
        self._grows = True
        #: the next journal's file
        self._spare: Journal | None = None
        #: one is to be made
        self._spare_wanted = False
        #: a clean stop keeps none
        self._keeps_spare = True
        #: held by whoever does what is left for the background; taken before `lock`
        self._flushing = threading.Lock()
        #: a spare that is being made; belongs to whoever holds `_flushing`, as all that follows
        self._unfinished: Journal | None = None
        #: what went wrong: it is not tried again, because the kernel may call the lost pages clean now
        self._broken: BaseException | None = None

    def write(self, epoch: int, writes: list[SegmentWrite]) -> bool:
        """Make an epoch durable (as far as the policy says) and put it into its segments. True when there is
        something to do in the background: `flush_some` is to be called until it says that it is done.
        """
        if self._retired is not None and self._current.holds(BACKLOG * self._journal_bytes):
            self._flush_retired()
        with self.lock:
            live = [write for write in writes if not write.log.deleted]
            with_data = [write for write in live if write.size]
            self._make_directories(with_data)
            work = False
            if self._journals and with_data:
                work = self._look_at_size()
                self._write_journal(epoch, with_data)
            for write in live:
                self._write_segment(write)
            return work

    def _look_at_size(self) -> bool:
        """Retire a journal that is full; whether there is something to do. The caller holds the lock and begins
        the next one: so there is one spare file at most.
        """
        # One that grows is given up as soon as there is one that need not.
        full = self._journal_bytes if self._spare is None or not self._grows else 1
        if self._retired is None and self._current.holds(full):
            self._retire()
            return True
        has_spare = self._spare is not None or self._spare_wanted or self._unfinished is not None
        if has_spare or self._retired is not None:
            return False  # or will have
        self._spare_wanted = self._current.holds(min(SPARE_FROM_BYTES, self._journal_bytes // 2))
        return self._spare_wanted

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
            self._disk.sync_dir(write.log.directory)
            segment.on_disk = True
        if write.buffers:
            data = write.buffers[0] if len(write.buffers) == 1 else b"".join(write.buffers)
            # Not made anew where somebody has removed it: what is told to be safe would lie behind a hole.
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
        """log.flush=interval: what is written so far becomes durable."""
        with self.lock:
            if self._current.journal is not None:
                self._current.journal.flush()

    def _retire(self) -> None:
        """What is written so far is to be flushed; what comes next is another journal's. The caller holds the lock."""
        journal = self._current.journal
        if journal is not None and self._keeps_spare:
            # Whoever reads the next one after a power failure relies on all of this one.
            journal.append(journal.epoch, (), after_flush=self._flushes, last=True)
            journal.flush()
        self._retired, self._current = self._current, Written()

    def flush_some(self) -> bool:
        """Flush one more of the segments that the retired journal stands in for; after the last one note how far they
        go, and make it the spare one. On any thread. False when there is nothing to do any more.
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
        with self.lock:
            if retired.segments:
                segment, _log = retired.segments.popitem()
                # Of our own: the pool may close its files, and segments go, while these are flushed.
                files = [self._disk.open(segment.path + suffix) for suffix in _SUFFIXES]
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

    def _make_spare(self) -> bool:
        """One step of it. False when there is nothing to do."""
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
        for written in self._written():
            written.segments.pop(segment, None)
        for suffix in _SUFFIXES:
            self._files.drop(segment.path + suffix)

    def forget(self, log: Writable) -> None:
        """`log` is about to be removed. The caller holds the lock."""
        for written in self._written():
            written.ends.pop(log, None)
            for segment in [segment for segment, owner in written.segments.items() if owner is log]:
                del written.segments[segment]
        self._files.drop_below(log.directory)

    def _written(self) -> list[Written]:
        """By the current journal and by the retired one."""
        retired = self._retired
        return [self._current] if retired is None else [self._current, retired]

    def close(self) -> None:
        """Close files; journals stay where they are unless `finish` has removed them. Nobody is flushing any more."""
        with self.lock:
            self._files.close()
            journals = [self._spare, self._unfinished, *(written.journal for written in self._written())]
            for journal in journals:
                if journal is not None:
                    journal.close()
            self._current, self._retired, self._spare, self._unfinished = Written(), None, None, None


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
