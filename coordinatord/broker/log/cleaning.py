"""Rewriting of a compacted log, which keeps the last record of each key. Pure, except for access to files.

`clean(disk, job)` does what Kafka's Cleaner does, in three passes:

1. *Survey*, headers only: the aborted transactions, the first offset of the first open transaction, and each producer's
   last batch (transaction_scan.py).
2. *Map*: the keys of the dirty part, oldest segment first, into an OffsetMap, until it is full.
3. *Rewrite*: all segments from the log's first to the last mapped one, in groups that fit into one segment, each into
   new files beside the old ones.

Removed: records outdated by a later record of the same key; records without a key; records of aborted transactions;
and, after their delete horizon, tombstones and markers of transactions without any records left. The first cleaning
that reads such records sets the horizon and stores it in their batch (KIP-534). Kept: every offset; the last batch of
each active producer, empty if need be; and the last batch of each rewritten segment, so that the file has its end
offset and an interrupted swap can be finished.

This module swaps no segment: `clean` yields each group once its files are flushed, and continues when the caller
requests the next group. In between, the caller replaces the old segments, oldest group first: a tombstone may only be
removed after the records that it deletes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from coordinatord.broker.log.disk import Disk, File
from coordinatord.broker.log.offset_map import OffsetMap
from coordinatord.broker.log.scan import Scanned, scan
from coordinatord.broker.log.segment import (
    CLEANED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    MAX_INT32,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    Segment,
    segment_name,
)
from coordinatord.broker.log.transaction_scan import Fates, Survey, survey
from kafka_wire.records.batch import CONTROL, HEADER, BatchHeader, record_bytes
from kafka_wire.records.rewrite import emptied, rewritten, spans


@dataclass(slots=True, frozen=True)
class SegmentSize:
    """One segment of the log to clean, and the readable size of each of its files in bytes."""

    base_offset: int
    log_bytes: int
    index_bytes: int
    time_index_bytes: int


@dataclass(slots=True)
class Job:
    """One log to clean. Plain values, so that the work can be done in another process."""

    directory: str
    #: all segments including the active one, whose headers contain the outcomes of transactions
    segments: list[SegmentSize]
    #: end offset of the previous cleaning
    first_dirty: int
    #: the base offset of the first segment that must stay as it is
    first_uncleanable: int
    now_ms: int
    delete_retention_ms: int
    #: limits of a rewritten segment and its indexes
    segment_bytes: int
    max_index_bytes: int
    index_interval_bytes: int
    map_bytes: int
    io_bytes: int
    #: age in milliseconds of the last write at which a producer is dropped
    producer_expiration_ms: int
    #: limit for bytes read plus bytes written; 0: no limit
    max_bytes_per_second: float = 0.0
    #: part of the new files' names: the orphaned process of a killed daemon must not write into the files of the next
    #: daemon
    tag: str = "0"


@dataclass(slots=True)
class Cleaned:
    """A new, flushed segment in `<base offset><suffix>.<tag>.cleaned`, and the base offsets of the old segments that it
    replaces.
    """

    replaces: list[int]
    log_bytes: int = 0
    index_bytes: int = 0
    time_index_bytes: int = 0
    max_timestamp: int = -1
    max_timestamp_offset: int = 0
    #: the offset after the last one of the old segments
    next_offset: int = 0
    #: number of aborted transactions in its transaction index; 0: it has no transaction index
    aborted: int = 0

    @property
    def base_offset(self) -> int:
        return self.replaces[0]


@dataclass(slots=True)
class Statistics:
    """The result of one job, yielded at its end (Kafka's CleanerStats)."""

    #: the log is clean below this offset
    end_offset: int = 0
    map_bytes_read: int = 0
    map_entries: int = 0
    map_utilization: float = 0.0
    bytes_read: int = 0
    bytes_written: int = 0
    records_read: int = 0
    records_kept: int = 0
    records_without_key: int = 0
    seconds: float = 0.0
    segments_before: int = 0
    segments_after: int = 0


def clean(
    disk: Disk, job: Job, *, pulse: Callable[[], object] = lambda: None, sleep: Callable[[float], object] = time.sleep
) -> Iterator[Cleaned | Statistics]:
    """Clean one log; see the module's docstring. `pulse` is called every few hundred kilobytes and may raise.

    Yields a `Cleaned` for each rewritten group, then the `Statistics`. Raises LogDamaged and OSError.
    """
    began_s = time.perf_counter()
    work = _Cleaning(disk, job, _Throttle(job.max_bytes_per_second, pulse, sleep))
    statistics = work.statistics
    end_offset = work.build_map()
    statistics.end_offset = end_offset
    if end_offset > job.first_dirty:
        for group in groups(job, end_offset):
            cleaned = work.rewrite(group)
            statistics.segments_before += len(group)
            statistics.segments_after += 1
            yield cleaned
    statistics.seconds = time.perf_counter() - began_s
    yield statistics


def groups(job: Job, end_offset: int) -> list[list[SegmentSize]]:
    """Return the segments below `end_offset`, in groups of neighbours that fit into one segment at
    their present sizes.
    """
    found: list[list[SegmentSize]] = []
    sizes = (0, 0, 0)
    following = [*(segment.base_offset for segment in job.segments[1:]), job.first_uncleanable]
    for segment, next_base in zip(job.segments, following, strict=True):
        if segment.base_offset >= min(end_offset, job.first_uncleanable):
            break
        own = (segment.log_bytes, segment.index_bytes, segment.time_index_bytes)
        sizes = (sizes[0] + own[0], sizes[1] + own[1], sizes[2] + own[2])
        if (
            found
            and sizes[0] <= job.segment_bytes
            and max(sizes[1:]) <= job.max_index_bytes
            and next_base - 1 - found[-1][0].base_offset <= MAX_INT32
        ):
            found[-1].append(segment)
        else:
            found.append([segment])
            sizes = own
    return found


class _Throttle:
    """Rate limit of log.cleaner.io.max.bytes.per.second."""

    def __init__(self, bytes_per_second: float, pulse: Callable[[], object], sleep: Callable[[float], object]) -> None:
        self._rate = bytes_per_second
        self._pulse = pulse
        self._sleep = sleep
        self._began_s = time.monotonic()
        self._bytes = 0
        self._next_pulse = 0

    def passed(self, size: int) -> None:
        """Count bytes that were read or written; sleep if they exceed the rate."""
        self._bytes += size
        if self._bytes < self._next_pulse:
            return
        self._next_pulse = self._bytes + (256 << 10)
        self._pulse()
        if self._rate > 0:
            ahead_s = self._bytes / self._rate - (time.monotonic() - self._began_s)
            if ahead_s > 0:
                self._sleep(ahead_s)


@dataclass(slots=True)
class _Output:
    """The files of one rewritten group."""

    cleaned: Cleaned
    segment: Segment
    file: File
    buffer: bytearray = field(default_factory=bytearray)
    index: bytearray = field(default_factory=bytearray)
    time_index: bytearray = field(default_factory=bytearray)
    transaction_index: bytearray = field(default_factory=bytearray)


class _Cleaning:
    """The state of one job."""

    def __init__(self, disk: Disk, job: Job, throttle: _Throttle) -> None:
        self.statistics = Statistics()
        self._disk = disk
        self._job = job
        self._throttle = throttle
        self._survey: Survey = survey(
            disk,
            job.directory,
            [(segment.base_offset, segment.log_bytes) for segment in job.segments],
            active_since_ms=job.now_ms - job.producer_expiration_ms,
            passed=throttle.passed,
        )
        # Whole segments only, below the first record of an undecided transaction.
        unstable = self._survey.first_unstable
        below = [segment.base_offset for segment in job.segments if segment.base_offset <= unstable]
        if unstable < self._survey.end_offset and below:
            job.first_uncleanable = min(job.first_uncleanable, below[-1])
        self._map = OffsetMap(job.map_bytes)
        self._fates = Fates(self._survey.aborted, 0)

    def _path(self, base_offset: int, suffix: str) -> str:
        return f"{self._job.directory}/{segment_name(base_offset)}{suffix}"

    def _scan(self, segment: SegmentSize) -> Iterator[Scanned]:
        path = self._path(segment.base_offset, LOG_SUFFIX)
        file = self._disk.open(path)
        try:
            yield from scan(file, path, 0, segment.log_bytes, chunk_bytes=self._job.io_bytes)
        finally:
            file.close()

    # Offset map

    def build_map(self) -> int:
        """Map as much of the dirty part as fits. Return the offset after it."""
        job, known = self._job, self._map
        known.latest = job.first_dirty - 1
        fates: Fates | None = None
        for segment, following in pairwise(job.segments):
            end = following.base_offset
            if segment.base_offset >= job.first_uncleanable:
                break
            if end <= job.first_dirty:
                continue
            fates = fates or Fates(self._survey.aborted, segment.base_offset)
            if not self._map_segment(segment, fates):
                break
            known.latest = max(known.latest, end - 1)  # an earlier compaction may have left a gap at the segment's end
        self.statistics.map_entries = len(known.last)
        self.statistics.map_utilization = known.utilization
        return known.latest + 1

    def _map_segment(self, segment: SegmentSize, fates: Fates) -> bool:
        """Add a segment's keys to the map. Return False if the map is full before the segment's end."""
        known, first_dirty = self._map, self._job.first_dirty
        for _position, header, buffer, at in self._scan(segment):
            self._throttle.passed(header.size)
            self.statistics.map_bytes_read += header.size
            gone = header.producer_id >= 0 and fates.judge(header, buffer, at)
            if header.last_offset < first_dirty:
                continue
            if known.full:
                return False
            if not gone and not header.attributes & CONTROL:
                known.add(record_bytes(buffer, at, header), header, first_dirty)
            known.latest = header.last_offset
        return True

    # Rewriting

    def rewrite(self, group: list[SegmentSize]) -> Cleaned:
        """Rewrite one group into new files, flushed on return."""
        out = self._open(group)
        end = sum(segment.log_bytes for segment in group)
        try:
            done = 0
            for segment in group:
                for _position, header, buffer, at in self._scan(segment):
                    done += header.size
                    self._throttle.passed(header.size)
                    batch = self._filter(out, header, buffer, at, last=done == end)
                    if batch:
                        self._write(out, batch)
                    out.cleaned.next_offset = header.next_offset
            self._flush(out)
        finally:
            out.file.close()
        modified_ms = self._disk.modified_ms(self._path(group[-1].base_offset, LOG_SUFFIX))
        self._disk.set_modified(self._new_path(group[0].base_offset, LOG_SUFFIX), modified_ms)
        self.statistics.bytes_read += done
        self.statistics.bytes_written += out.cleaned.log_bytes
        return out.cleaned

    def _filter(
        self, out: _Output, header: BatchHeader, buffer: bytes, at: int, *, last: bool
    ) -> bytes | bytearray | None:
        """Return the remaining bytes of a batch; None if the batch is removed. `last`: the batch is the group's last
        one.
        """
        statistics = self.statistics
        statistics.records_read += header.record_count
        if header.producer_id < 0 and header.record_count and not header.attributes & CONTROL:
            horizon_ms = header.delete_horizon_ms
            over = horizon_ms is not None and horizon_ms <= self._job.now_ms
            return self._retain(header, buffer, at, over=over) or (emptied(header) if last else None)
        gone = self._fates.judge(header, buffer, at)
        if header.is_control and self._fates.ended is not None:
            out.transaction_index += self._fates.ended.packed()
            out.cleaned.aborted += 1
        horizon_ms = header.delete_horizon_ms
        over = horizon_ms is not None and horizon_ms <= self._job.now_ms
        if header.record_count and not (gone and (over or not header.is_control)):
            if header.is_control:
                statistics.records_kept += header.record_count
                if not gone or horizon_ms is not None:
                    return buffer[at : at + header.size]
                section = record_bytes(buffer, at, header)
                return rewritten(header, section, spans(section, header), self._horizon())
            kept = self._retain(header, buffer, at, over=over)
            if kept is not None:
                return kept
        if last or self._survey.is_last_of_producer(header):
            return emptied(header)
        return None

    def _retain(self, header: BatchHeader, buffer: bytes, at: int, *, over: bool) -> bytes | bytearray | None:
        """Return the batch with its remaining records; None if no record remains."""
        section = record_bytes(buffer, at, header)
        base_offset, latest, last = header.base_offset, self._map.latest, self._map.last
        kept = []
        tombstones = False
        for span in spans(section, header):
            key, has_value = span[4], span[5]
            offset = base_offset + span[3]
            if offset <= latest:
                if key is None:
                    self.statistics.records_without_key += 1
                    continue
                if last.get(key, -1) > offset or (over and not has_value):
                    continue
            if not has_value:
                tombstones = True
            kept.append(span)
        if not kept:
            return None
        self.statistics.records_kept += len(kept)
        horizon_ms = self._horizon() if tombstones and header.delete_horizon_ms is None else None
        if horizon_ms is None and len(kept) == header.record_count:
            return buffer[at : at + header.size]
        return rewritten(header, section, kept, horizon_ms)

    def _horizon(self) -> int:
        return self._job.now_ms + self._job.delete_retention_ms

    # Files

    def _new_path(self, base_offset: int, suffix: str) -> str:
        return cleaned_path(self._job.directory, base_offset, suffix, self._job.tag)

    def _open(self, group: list[SegmentSize]) -> _Output:
        base_offset = group[0].base_offset
        file = self._disk.open(self._new_path(base_offset, LOG_SUFFIX), create=True)
        file.truncate(0)
        cleaned = Cleaned([segment.base_offset for segment in group], max_timestamp_offset=base_offset)
        return _Output(cleaned, Segment(self._job.directory, base_offset, on_disk=False), file)

    def _write(self, out: _Output, batch: bytes | bytearray) -> None:
        header = BatchHeader._make(HEADER.unpack_from(batch))
        segment = out.segment
        entry, time_entry = segment.note_batch(
            segment.size, header.last_offset, header.max_timestamp, len(batch), self._job.index_interval_bytes
        )
        out.index += entry
        out.time_index += time_entry
        out.buffer += batch
        segment.size += len(batch)
        if len(out.buffer) >= self._job.io_bytes:
            self._drain(out)

    def _drain(self, out: _Output) -> None:
        out.file.pwrite(out.buffer, out.segment.size - len(out.buffer))
        self._throttle.passed(len(out.buffer))
        out.buffer.clear()

    def _flush(self, out: _Output) -> None:
        self._drain(out)
        self._sync(out.file)
        cleaned, segment = out.cleaned, out.segment
        out.time_index += segment.time_index_entry()
        for suffix, data in (
            (INDEX_SUFFIX, out.index),
            (TIME_INDEX_SUFFIX, out.time_index),
            (TRANSACTION_INDEX_SUFFIX, out.transaction_index),
        ):
            if suffix != TRANSACTION_INDEX_SUFFIX or data:
                self._write_whole(self._new_path(cleaned.base_offset, suffix), data)
        cleaned.log_bytes = segment.size
        cleaned.index_bytes, cleaned.time_index_bytes = len(out.index), len(out.time_index)
        cleaned.max_timestamp, cleaned.max_timestamp_offset = segment.max_timestamp, segment.max_timestamp_offset

    def _write_whole(self, path: str, data: bytearray) -> None:
        file = self._disk.open(path, create=True)
        try:
            file.truncate(0)
            if data:
                file.pwrite(data, 0)
            self._sync(file)
        finally:
            file.close()

    def _sync(self, file: File) -> None:
        """Flush a file. Every new file is flushed before any old file may be removed."""
        file.datasync()


def cleaned_path(directory: str, base_offset: int, suffix: str, tag: str) -> str:
    """Return the path of a new segment's file during the rewriting."""
    return f"{directory}/{segment_name(base_offset)}{suffix}.{tag}{CLEANED_SUFFIX}"
