"""Flusher of LogWriter that commits each batch of writes (an epoch) in the store, then writes it to the working copy.

One epoch is in flight at a time, as on a disk, so all writes of a turn are one transaction, and those that are made
meanwhile are the next one. LogWriter's guarantees stay: epochs rise, callbacks are called in order, and after a failure
nothing becomes durable any more. An unreachable database is no failure: `write` waits for it on the writer's thread.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from coordinatord.broker.log.data_dir import DataDirectory
from coordinatord.broker.log.errors import LogError
from coordinatord.broker.log.flusher import Flusher
from coordinatord.broker.log.partition_log import PartitionLog
from coordinatord.broker.log.segment import Segment
from coordinatord.broker.log.segment_write import SegmentWrite, Writable
from coordinatord.server.postgresql.contract import Away, Growth, PartitionKey, Row, Store, row_of
from coordinatord.server.postgresql.copy_disk import CopyDisk

MOST_BYTES = 32 * 1024 * 1024
"""Approximate size limit of a statement in bytes: a larger epoch becomes several statements, in order."""


class StoreFlusher:
    """log.writer.Flushing over a store and the working copy's flusher, which never flushes."""

    def __init__(self, store: Store, data: DataDirectory, disk: CopyDisk) -> None:
        self._store = store
        self._disk = disk
        self._copy = Flusher(data, policy="never", journal_bytes=0)
        self._forgotten: list[PartitionKey] = []

    @property
    def lock(self) -> threading.Lock:
        """The lock of the working copy's flusher. It is not held during waits for the store."""
        return self._copy.lock

    def write(self, epoch: int, writes: list[SegmentWrite]) -> bool:
        """Commit an epoch, then write it to the copy. Returns False: no work is left for the background."""
        live = [write for write in writes if not write.log.deleted]
        while not self._disk.is_settled:
            try:
                self._disk.settle()
            except Away:
                self._store.pause()
        for growths, rows in _statements(live):
            self._store.append(growths, rows)
        self._forget()
        self._copy.write(epoch, writes)
        return False

    def write_now(self, writes: list[SegmentWrite]) -> bool:
        """Return False: a commit is never so quick that the event loop could wait for it."""
        return False

    def flush_some(self) -> bool:
        """Return False: no work is left for the background."""
        return False

    def flush_journal(self) -> None:
        """Do nothing: the database flushes."""

    def make_durable(self, log: PartitionLog) -> None:
        """Do nothing: written records are in the database."""

    def finish(self) -> None:
        """Forget deleted logs in the store. The working copy needs no flush: it is not used again."""
        self._forget()

    def close(self) -> None:
        """Close the copy's files."""
        self._copy.close()

    # Removing

    def remove_segments(self, log: PartitionLog, segments: list[Segment]) -> None:
        """Remove segments' rows, then their files. If the database is unreachable both stay: the next start finds them,
        and drops them again.
        """
        if not log.deleted:
            try:
                self._store.remove(PartitionKey(log.topic_id, log.partition), [each.base_offset for each in segments])
            except LogError as error:  # the lease reports the cause to the daemon; here the removal has only failed
                raise Away(str(error)) from error
        self._copy.remove_segments(log, segments)

    def forget_segment(self, segment: Segment) -> None:
        """Drop a segment before its removal. The caller holds the lock."""
        self._copy.forget_segment(segment)

    def forget(self, log: Writable) -> None:
        """Drop a log before its removal. Its rows are removed after the epoch in flight, which may add more of them.
        The caller holds the lock.
        """
        self._copy.forget(log)
        self._forgotten.append(PartitionKey(log.topic_id, log.partition))

    def _forget(self) -> None:
        """Remove deleted logs' rows, on the writer's thread: no later append has records of these logs."""
        with self.lock:
            forgotten, self._forgotten = self._forgotten, []
        with contextlib.suppress(Away):
            self._store.forget(forgotten)


def _statements(writes: list[SegmentWrite]) -> Iterator[tuple[list[Growth], list[Row]]]:
    """Yield an epoch's rows with the growth of each partition, in pieces of about MOST_BYTES."""
    rows: list[Row] = []
    growths: dict[PartitionKey, Growth] = {}
    size = 0
    for write in writes:
        log = write.log
        key = PartitionKey(log.topic_id, log.partition)
        for batch in write.buffers:
            if rows and size + len(batch) > MOST_BYTES:
                yield list(growths.values()), rows
                rows, growths, size = [], {}, 0
            row = row_of(key, write.segment.base_offset, batch)
            known = growths.get(key)
            before = row.base_offset if known is None else known.end_before
            growths[key] = Growth(key, log.topic, before, row.last_offset + 1)
            rows.append(row)
            size += len(batch)
    if rows:
        yield list(growths.values()), rows
