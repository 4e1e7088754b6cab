"""Lookups of a log by time: the first record of a timestamp or later, and the record with the greatest timestamp.

Both read batches, and a batch of a few kilobytes may have a hundred megabytes of records. So a lookup is a generator,
which another thread runs for a while at a time. A lookup uses the log's segments as they are when it is made, on the
event loop's thread, and opens its own files. If a segment has been removed or replaced meanwhile, a file is missing:
then the caller begins again.

`TimeLookups` remembers batches that are looked up repeatedly: of each, the records whose timestamp is greater than all
before them. No lookup needs other records.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from coordinatord.base.budget import SLICE_ITEMS
from coordinatord.broker.log.disk import FilePool
from coordinatord.broker.log.index import OFFSET_ENTRY, TIME_ENTRY, last_entry
from coordinatord.broker.log.partition_log import PartitionLog
from coordinatord.broker.log.scan import walk
from coordinatord.broker.log.segment import Segment
from kafka_wire.records.batch import BatchHeader, record_section
from kafka_wire.records.stamps import stamps

MAX_REMEMBERED: Final = 64
MAX_RISES: Final = 1_000
"""Limits of remembered batches, and of remembered records of each: at most 10 MB."""

REMEMBERED_BYTES: Final = 64 * 1024
"""Batches whose records have fewer bytes are not remembered: reading them again is as fast as the lookup itself."""


class TimestampOffset(NamedTuple):
    """A record's timestamp (ms) and offset, and its batch's leader epoch."""

    timestamp: int
    offset: int
    leader_epoch: int = 0


Lookup = Generator[None, None, TimestampOffset | None]
"""Pauses at each yield. Raises OSError, LogError or DecodeError if the log cannot be read; FileNotFoundError also if
its files have changed.
"""


class _Part(NamedTuple):
    """A segment, and its state when the lookup began. `end`: number of bytes that may be read."""

    segment: Segment
    path: str
    end: int
    max_timestamp: int
    max_timestamp_offset: int


class _Batch(NamedTuple):
    """The place of a batch."""

    path: str
    position: int
    header: BatchHeader


class TimeLookups:
    """Lookups in all logs, with remembered batches. Only one thread runs lookups."""

    def __init__(self) -> None:
        #: (topic id, partition, base offset, CRC, length) of a batch -> its records that are later than all before them
        self._remembered: OrderedDict[tuple[bytes, int, int, int, int], list[TimestampOffset]] = OrderedDict()

    def first_at(self, log: PartitionLog, timestamp_ms: int) -> Lookup:
        """Find the first visible record, from the log's start on, whose timestamp is at least `timestamp_ms`."""
        parts = [part for part in _parts(log) if part.max_timestamp >= timestamp_ms]
        return self._first_at(log, parts, timestamp_ms, log.log_start_offset)

    def greatest(self, log: PartitionLog) -> Lookup:
        """Find the visible record with the greatest timestamp, the first one if several have it. As in Kafka
        (UnifiedLog's fetchOffsetByTimestamp), it may be before the log's start.
        """
        return self._greatest(log, _parts(log), log.high_watermark)

    def _first_at(self, log: PartitionLog, parts: list[_Part], timestamp_ms: int, start_offset: int) -> Lookup:
        for part in parts:
            with _files(log) as files:
                segment = part.segment
                offset = segment.offset_before_timestamp(files, timestamp_ms)
                position = segment.position_at_or_before(files, offset)
                for count, (at, header) in enumerate(walk(files.get(part.path), part.path, position, part.end)):
                    if header.max_timestamp >= timestamp_ms and header.last_offset >= start_offset:
                        batch = _Batch(part.path, at, header)
                        found = self._first_of(log, files, batch, timestamp_ms, start_offset)
                        if found is not None:
                            return found
                        yield None
                    elif count % SLICE_ITEMS == SLICE_ITEMS - 1:
                        yield None
        return None

    def _greatest(self, log: PartitionLog, parts: list[_Part], high_watermark: int) -> Lookup:
        """Find the record with the greatest timestamp. Of each segment at most three kilobytes of headers are read."""
        best: _Batch | None = None
        with _files(log) as files:
            for part in parts:
                if best is not None and part.max_timestamp <= best.header.max_timestamp:
                    continue
                offset, end = part.max_timestamp_offset, part.end
                if offset < high_watermark:
                    best = _later(best, _batch_at(part, files, offset))
                else:  # the batch is not written yet
                    segment = part.segment
                    entry = last_entry(files.get(segment.time_index_path), TIME_ENTRY, segment.time_index_count)
                    if entry is not None:
                        best = _later(best, _batch_at(part, files, segment.base_offset + entry[1]))
                    indexed = last_entry(files.get(segment.index_path), OFFSET_ENTRY, segment.index_count)
                    for at, header in walk(files.get(part.path), part.path, indexed[1] if indexed else 0, end):
                        best = _later(best, _Batch(part.path, at, header))
                yield None
            if best is None:
                return None
            return self._first_of(log, files, best, best.header.max_timestamp, 0)

    def _first_of(
        self, log: PartitionLog, files: FilePool, batch: _Batch, timestamp_ms: int, start_offset: int
    ) -> TimestampOffset | None:
        """Find the first record of a batch with this timestamp or a later one."""
        header = batch.header
        key = log.topic_id, log.partition, header.base_offset, header.crc, header.length
        rises = self._remembered.get(key)
        if rises is not None and start_offset <= header.base_offset:
            self._remembered.move_to_end(key)
            at = bisect_left(rises, timestamp_ms, key=_timestamp)
            return rises[at] if at < len(rises) else None
        section = record_section(files.get(batch.path).pread(header.size, batch.position), 0, header)
        found: TimestampOffset | None = None
        rises = []
        for offset, timestamp, _no_key in stamps(section, header):
            if (not rises or timestamp > rises[-1].timestamp) and len(rises) <= MAX_RISES:
                rises.append(TimestampOffset(timestamp, offset, header.leader_epoch))
            if found is None and timestamp >= timestamp_ms and offset >= start_offset:
                found = TimestampOffset(timestamp, offset, header.leader_epoch)
            if found is not None and (len(rises) > MAX_RISES or rises[-1].timestamp >= header.max_timestamp):
                break
        if len(section) >= REMEMBERED_BYTES and len(rises) <= MAX_RISES:
            self._remembered[key] = rises
            if len(self._remembered) > MAX_REMEMBERED:
                self._remembered.popitem(last=False)
        return found


def _timestamp(record: TimestampOffset) -> int:
    return record.timestamp


def _parts(log: PartitionLog) -> list[_Part]:
    return [
        _Part(each, each.log_path, each.visible_bytes, each.max_timestamp, each.max_timestamp_offset)
        for each in log.segments
        if each.visible_bytes
    ]


@contextmanager
def _files(log: PartitionLog) -> Iterator[FilePool]:
    """Open files for one lookup: the log's own files belong to the event loop's thread."""
    files = FilePool(log.disk, 3)
    try:
        yield files
    finally:
        files.close()


def _batch_at(part: _Part, files: FilePool, offset: int) -> _Batch | None:
    """Return the batch with an offset, or the first one after it."""
    position = part.segment.position_at_or_before(files, offset)
    for at, header in walk(files.get(part.path), part.path, position, part.end):
        if header.last_offset >= offset:
            return _Batch(part.path, at, header)
    return None


def _later(one: _Batch | None, other: _Batch | None) -> _Batch | None:
    """Return the batch with the later record, or `one` if both are equal."""
    if one is None or other is None:
        return one or other
    return one if one.header.max_timestamp >= other.header.max_timestamp else other
