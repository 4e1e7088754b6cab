"""Index of a partition's aborted transactions, for read_committed consumers, in Kafka's own file format.

`<segment>.txnindex` has one entry for each aborted transaction whose marker is in the segment, in the order of the
markers:

    int16 version 0 · int64 producer id · int64 first offset · int64 last offset (the marker) · int64 last stable offset

Entries stay in memory until the next snapshot of the producers; they are written and flushed before the snapshot. So
the files cover every marker below the newest snapshot. A restart reads the log from the snapshot on anyway and finds
the later markers there: no marker needs a flush of its own, and no part of the log is read twice. File entries at or
above the loaded snapshot are found again in the log and overwritten.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from itertools import takewhile

from coordinatord.broker.log.disk import Disk
from coordinatord.broker.log.partition_log import PartitionLog
from coordinatord.broker.log.segment import TRANSACTION_INDEX_SUFFIX, segment_name
from coordinatord.broker.topics.producers import Aborted
from kafka_wire.records.batch import iterate_batches

_ENTRY = struct.Struct(">hqqqq")
VERSION = 0


class AbortedTransactions:
    """Aborted transactions of one partition. Construct the index, then call `load`."""

    __slots__ = ("_bases", "_cached", "_disk", "_log", "_saved_below", "_unsaved")

    def __init__(self, log: PartitionLog, disk: Disk) -> None:
        self._log = log
        self._disk = disk
        self._unsaved: list[Aborted] = []
        # Base offsets of segments that have a file, ascending; only entries below `_saved_below` are valid.
        self._bases: list[int] = []
        self._saved_below = 0
        self._cached: tuple[int, list[Aborted]] = (-1, [])

    def load(self, below: int) -> None:
        """Find the files. `below` is the offset of the snapshot that the producers were loaded from."""
        self._saved_below = below
        if not self._log.on_disk:
            return
        try:
            names = self._disk.listdir(self._log.directory)
        except FileNotFoundError:
            return
        stems = (
            name.removesuffix(TRANSACTION_INDEX_SUFFIX) for name in names if name.endswith(TRANSACTION_INDEX_SUFFIX)
        )
        self._bases = sorted(int(stem) for stem in stems if stem.isdigit())

    @property
    def is_empty(self) -> bool:
        """True if no transaction in this partition is known to have been aborted."""
        return not (self._unsaved or self._bases)

    def add(self, aborted: Aborted) -> None:
        """Record an aborted transaction."""
        self._unsaved.append(aborted)

    def compacted(self, offset: int, end_offset: int) -> None:
        """Drop the entries of a compacted range. Compaction has rewritten [offset, end_offset): it removed the records
        of aborted transactions and will remove their markers sooner or later. A transaction without a marker must not
        be returned: a consumer would treat its producer's next records as aborted, too.
        """
        self._unsaved = [entry for entry in self._unsaved if not offset <= entry.last_offset < end_offset]
        self._bases = [base for base in self._bases if not offset <= base < end_offset]
        self._cached = (-1, [])

    def between(self, offset: int, end_offset: int) -> list[Aborted]:
        """Return the aborted transactions with records in [offset, end_offset), in the order of their markers."""
        found: list[Aborted] = []
        start = self._segment_of(offset)
        for base in list(self._bases):
            if base >= start and _collect(self._saved(base), offset, end_offset, found):
                return found
        _collect(self._unsaved, offset, end_offset, found)
        return found

    def save(self) -> None:
        """Write and flush the unsaved entries, before the snapshot that relies on them. Raises
        OSError if that fails.
        """
        touched: dict[int, list[Aborted]] = {}
        for entry in self._unsaved:
            touched.setdefault(self._segment_of(entry.last_offset), []).append(entry)
        for base, entries in touched.items():
            known = self._saved(base) if base in self._bases else []
            path = self._path(base)
            file = self._disk.open(path, create=True)
            try:
                position = len(known) * _ENTRY.size
                file.truncate(position)
                file.pwrite(b"".join(_ENTRY.pack(VERSION, *entry) for entry in entries), position)
                file.datasync()
            finally:
                file.close()
            self._bases = sorted({*self._bases, base})
        if touched:
            self._disk.sync_dir(self._log.directory)
            self._saved_below = self._unsaved[-1].last_offset + 1
            self._unsaved.clear()
            self._cached = (-1, [])

    def _saved(self, base: int) -> list[Aborted]:
        """Return the valid entries of a segment's file; those of the last segment read are cached."""
        if self._cached[0] != base:
            self._cached = (base, self._read(base))
        return self._cached[1]

    def _read(self, base: int) -> list[Aborted]:
        try:
            file = self._disk.open(self._path(base))
        except FileNotFoundError:  # removed with its segment
            self._bases.remove(base)
            return []
        try:
            data = file.pread(file.size(), 0)
        finally:
            file.close()
        whole = len(data) - len(data) % _ENTRY.size
        entries = (Aborted(*fields) for _version, *fields in _ENTRY.iter_unpack(data[:whole]))
        return list(takewhile(lambda entry: entry.last_offset < self._saved_below, entries))

    def _segment_of(self, offset: int) -> int:
        """Return the base offset of the segment that contains `offset`."""
        segments = self._log.segments
        if not segments:
            return 0
        at = bisect_right(segments, offset, key=lambda segment: segment.base_offset) - 1
        return segments[max(at, 0)].base_offset

    def _path(self, base: int) -> str:
        return f"{self._log.directory}/{segment_name(base)}{TRANSACTION_INDEX_SUFFIX}"


def _collect(entries: list[Aborted], offset: int, end_offset: int, found: list[Aborted]) -> bool:
    """Add the entries that overlap [offset, end_offset) to `found`. Return True if no later entry can overlap."""
    for entry in entries:
        if entry.last_offset >= offset and entry.first_offset < end_offset:
            found.append(entry)
        if entry.last_stable_offset >= end_offset:
            return True
    return False


def next_offset(data: bytes | memoryview) -> int:
    """Return the offset after the last of some batches."""
    found = 0
    for _at, header in iterate_batches(data):
        found = header.next_offset
    return found
