"""Opening of one partition's directory: lists its segments and, after an unclean stop, repairs the last one.

Only the last segment can hold data that was not flushed: a segment is flushed, with its indexes, before its successor
gets a byte. In the last segment,

1. the journal's writes are repeated;
2. index entries at or above the recovery point are dropped, and everything from the last remaining entry on is read,
   CRC checked and indexed again;
3. an invalid batch below the offset known to be flushed is damage: LogDamaged is raised, and nothing is changed. Any
   other invalid batch is left from the crash and is cut off, and its records are counted for the log. Without a journal
   (log.flush=never) the flushed offset is unknown; then bytes are only cut off if no valid batch follows them.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from coordinatord.broker.log import segment_swap
from coordinatord.broker.log.disk import Disk, File, FilePool
from coordinatord.broker.log.errors import LogDamaged
from coordinatord.broker.log.index import OFFSET_ENTRY, TIME_ENTRY, ascending, floor_entry
from coordinatord.broker.log.journal import JournalEntry
from coordinatord.broker.log.names import segment_base, segment_bases
from coordinatord.broker.log.scan import find_position, scan, walk
from coordinatord.broker.log.segment import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    MAX_INT32,
    NO_TIMESTAMP,
    TIME_INDEX_SUFFIX,
    Segment,
)
from kafka_wire.errors import DecodeError
from kafka_wire.records.batch import HEADER, HEADER_BYTES, LENGTH_OVERHEAD, MAGIC, BatchHeader, check_crc, read_header

#: Bytes after a bad batch that are searched for a valid one (log.flush=never only).
SEARCH_BYTES = 1 << 20
#: Size in bytes above which a segment must have index entries; otherwise its index is rebuilt.
UNINDEXED_BYTES = 64 * 1024


@dataclass(slots=True)
class PartitionRecovery:
    """Repairs of one partition after an unclean stop. Positions are in the last segment."""

    topic: str
    partition: int
    path: str
    journal_writes: int = 0
    truncated_bytes: int = 0
    #: counted as far as the headers can be read
    truncated_records: int = 0
    reason: str = ""


@dataclass(slots=True)
class Known:
    """Known flush state of a partition after an unclean stop."""

    #: the recovery point: the last segment and its indexes are flushed below this offset
    recovery_point: int
    #: the journal's writes to the partition
    writes: Sequence[JournalEntry]
    #: true if there was a journal: then data that is not in the journal was not flushed
    has_journal: bool
    #: recovery point and journal together: everything below this offset was flushed
    flushed_offset: int = 0


@dataclass(slots=True)
class Opened:
    segments: list[Segment]
    end_offset: int
    recovery: PartitionRecovery | None = None


def list_segments(disk: Disk, directory: str) -> list[Segment]:
    """Return the segments in a partition's directory, oldest first. Finishes or undoes an interrupted removal or
    cleaning. Raises LogDamaged if a segment's log is missing or is not a file.
    """
    segment_swap.recover(disk, directory)
    names = disk.listdir(directory)
    segments = [Segment(directory, base, on_disk=True) for base in segment_bases(names)]
    _refuse_missing(disk, directory, names, segments)
    for segment in segments:
        kind = disk.kind(segment.log_path)
        if kind != "file":
            raise LogDamaged(segment.log_path, 0, f"it is a {kind}, not a file")
    return segments


def _refuse_missing(disk: Disk, directory: str, names: Sequence[str], segments: Sequence[Segment]) -> None:
    """Raise LogDamaged if an index shows that another program has removed the log of its segment. coordinatord removes
    segments oldest first; a removal that a crash has interrupted leaves an index below the first segment.
    """
    present = {segment.base_offset for segment in segments}
    for name in sorted(names):
        base = segment_base(name) if name.endswith((INDEX_SUFFIX, TIME_INDEX_SUFFIX)) else None
        if base is None or base in present or not segments or base < segments[0].base_offset:
            continue
        path = f"{directory}/{name}"
        if disk.kind(path) == "file" and _has_bytes(disk, path):
            log_path = path.removesuffix(os.path.splitext(name)[1]) + LOG_SUFFIX
            raise LogDamaged(log_path, 0, f"the file is missing, but {name} is there")


def open_clean(disk: Disk, files: FilePool, directory: str, interval_bytes: int, *, flushed_offset: int = 0) -> Opened:
    """Open a partition after a clean stop: sizes from the files, the end from the last segment's last headers. Raises
    LogDamaged if the end is below `flushed_offset`: another program has removed data.
    """
    segments = list_segments(disk, directory)
    for segment in segments:
        _measure(disk, files, segment, interval_bytes, is_last=segment is segments[-1])
    opened = Opened(segments, _find_end(files, segments[-1]) if segments else 0)
    if opened.end_offset < flushed_offset:
        _refuse_end(directory, opened, flushed_offset)
    return opened


def _refuse_end(directory: str, opened: Opened, flushed_offset: int) -> NoReturn:
    if not opened.segments:
        raise LogDamaged(directory, 0, f"no segment is left, but offsets below {flushed_offset} were flushed")
    last = opened.segments[-1]
    raise LogDamaged(
        last.log_path,
        last.size,
        f"the log ends at offset {opened.end_offset}, but offsets below {flushed_offset} were flushed",
    )


def open_recovering(
    disk: Disk,
    files: FilePool,
    directory: str,
    topic: str,
    partition: int,
    known: Known,
    interval_bytes: int,
) -> Opened:
    """Open a partition after an unclean stop. Raises LogDamaged if flushed data is missing or invalid."""
    if known.recovery_point and not known.writes:
        unchanged = _open_unchanged(disk, files, directory, known.recovery_point, interval_bytes)
        if unchanged:
            return unchanged
    recovery = PartitionRecovery(topic, partition, directory)
    segments = list_segments(disk, directory)
    reached = _repeat_writes(disk, directory, segments, known.writes, recovery, interval_bytes)
    known.flushed_offset = max(known.recovery_point, reached)
    for segment in segments[:-1]:
        _measure(disk, files, segment, interval_bytes)
    if not segments:
        if known.flushed_offset:
            _refuse_end(directory, Opened([], 0), known.flushed_offset)
        return Opened([], 0, recovery)
    end_offset = _recover_last(disk, segments[-1], recovery, known, interval_bytes)
    return Opened(segments, end_offset, recovery)


def _open_unchanged(
    disk: Disk, files: FilePool, directory: str, recovery_point: int, interval_bytes: int
) -> Opened | None:
    """Open a partition that ends at its recovery point, as most do after a crash, in the same way as after a clean
    stop: all of it is flushed, and it needs no repair. Return None for any other partition.
    """
    try:
        opened = open_clean(disk, files, directory, interval_bytes)
        for segment in opened.segments[-1:]:
            index = files.get(segment.index_path)
            if ascending(index, OFFSET_ENTRY, segment.index_count) < segment.index_count:
                return None  # entries of lost batches, or torn entries
            start = segment.indexed_position_before(files, segment.size)
            for _batch in scan(files.get(segment.log_path), segment.log_path, start, segment.size):
                pass  # check the CRCs of the last writes only
    except LogDamaged:
        return None
    return opened if opened.end_offset == recovery_point else None


def _repeat_writes(
    disk: Disk,
    directory: str,
    segments: list[Segment],
    writes: Sequence[JournalEntry],
    recovery: PartitionRecovery,
    interval_bytes: int,
) -> int:
    """Repeat the journal's writes; return the end offset after them.

    Segments before the last were finished before the last one was created: their writes are skipped. The repair keeps
    that order, too, because it may be interrupted.
    """
    last = segments[-1].base_offset if segments else -1
    end_offset = 0
    for write in writes:
        if write.base_offset < last:
            continue
        if write.base_offset > last:
            if segments:
                _finish(disk, segments[-1], interval_bytes)
            segments.append(Segment(directory, write.base_offset, on_disk=True))
            last = write.base_offset
        path = segments[-1].log_path
        file = disk.open(path, create=True)
        try:
            size = file.size()
            if write.position > size:
                raise LogDamaged(path, size, f"the file ends here, but {write.position} bytes of it were flushed")
            file.pwrite(write.data, write.position)
        finally:
            file.close()
        recovery.journal_writes += 1
        for header in _headers(write.data):
            end_offset = header.next_offset
    return end_offset


def _finish(disk: Disk, segment: Segment, interval_bytes: int) -> None:
    """Flush a complete segment and its indexes."""
    file = disk.open(segment.log_path)
    try:
        file.datasync()
    finally:
        file.close()
    rebuild_indexes(disk, segment, interval_bytes)


def _headers(data: bytes) -> list[BatchHeader]:
    headers, at = [], 0
    while at < len(data):
        headers.append(read_header(data, at))
        at += headers[-1].size
    return headers


def _measure(disk: Disk, files: FilePool, segment: Segment, interval_bytes: int, *, is_last: bool = False) -> None:
    """Read the sizes and the greatest timestamp of a finished segment. Missing or invalid indexes are rebuilt: they are
    only hints. But an index with entries proves that an empty segment has lost all its data: Kafka's cleaner may leave
    an empty segment, with empty indexes, whereas the indexes of a finished segment with data have an entry.
    """
    segment.size = segment.visible_bytes = files.get(segment.log_path).size()
    if not segment.size and not is_last and _has_index(disk, segment):
        raise LogDamaged(segment.log_path, 0, "the segment is empty, but its index is not")
    for suffix, entry in ((INDEX_SUFFIX, OFFSET_ENTRY), (TIME_INDEX_SUFFIX, TIME_ENTRY)):
        path = segment.path + suffix
        size = files.get(path, create=True).size()
        if size % entry.size:
            rebuild_indexes(disk, segment, interval_bytes)
            return
        if suffix == INDEX_SUFFIX:
            segment.index_count = size // entry.size
        else:
            segment.time_index_count = size // entry.size
    segment.load_max_timestamp(files)
    if (segment.size or segment.index_count or segment.time_index_count) and not _indexes_sound(files, segment):
        rebuild_indexes(disk, segment, interval_bytes)


def _has_index(disk: Disk, segment: Segment) -> bool:
    """Return whether a segment's indexes have an entry."""
    paths = (segment.index_path, segment.time_index_path)
    return any(disk.exists(path) and _has_bytes(disk, path) for path in paths)


def _has_bytes(disk: Disk, path: str) -> bool:
    file = disk.open(path)
    try:
        return file.size() > 0
    finally:
        file.close()


def _indexes_sound(files: FilePool, segment: Segment) -> bool:
    """Return whether the last offset entry points to a batch that ends with it, and the last timestamp is at least that
    of the first batch.
    """
    if segment.size < HEADER_BYTES:
        return False
    first = BatchHeader._make(HEADER.unpack(files.get(segment.log_path).pread(HEADER_BYTES, 0)))
    if segment.max_timestamp < first.max_timestamp:
        return False
    if not segment.index_count:
        return segment.size <= UNINDEXED_BYTES
    data = files.get(segment.index_path).pread(OFFSET_ENTRY.size, (segment.index_count - 1) * OFFSET_ENTRY.size)
    relative, position = OFFSET_ENTRY.unpack(data)
    if position + HEADER_BYTES > segment.size or (segment.index_count > 1 and not position):
        return False  # zeros at the end: Kafka preallocates index files and trims them on a clean stop
    header = BatchHeader._make(HEADER.unpack(files.get(segment.log_path).pread(HEADER_BYTES, position)))
    return bool(header.last_offset - segment.base_offset == relative)


def rebuild_indexes(disk: Disk, segment: Segment, interval_bytes: int) -> None:
    """Read the whole segment and rewrite both indexes."""
    segment.max_timestamp = segment.last_indexed_timestamp = NO_TIMESTAMP
    segment.bytes_since_index = 0
    file = disk.open(segment.log_path)
    try:
        index = _Indexer(segment, interval_bytes)
        for position, header in walk(file, segment.log_path, 0, file.size()):
            index.add(position, header)
        index.finish()
        index.write(disk, 0, 0)
    finally:
        file.close()


def _find_end(files: FilePool, segment: Segment) -> int:
    """Return the offset after the last batch of a segment that needs no repair. Also sets the first timestamp, for
    segment.ms, and the greatest one: without a clean stop, the time index ends where the offset index does.
    """
    file, path = files.get(segment.log_path), segment.log_path
    end_offset = segment.base_offset
    start = segment.indexed_position_before(files, segment.size)
    for position, header in walk(file, path, start, segment.size):
        end_offset = header.next_offset
        segment.bytes_since_index = position + header.size - start
        if header.max_timestamp > segment.max_timestamp:
            segment.max_timestamp, segment.max_timestamp_offset = header.max_timestamp, header.last_offset
    first = find_position(file, path, 0, segment.size, 0)
    if first:
        segment.first_timestamp = first[1].base_timestamp
    return end_offset


class _Indexer:
    """Collector of index entries while a segment is read."""

    def __init__(self, segment: Segment, interval_bytes: int) -> None:
        self._segment = segment
        self._interval_bytes = interval_bytes
        self.index = bytearray()
        self.time_index = bytearray()

    def add(self, position: int, header: BatchHeader) -> None:
        segment = self._segment
        if not 0 <= header.last_offset - segment.base_offset <= MAX_INT32:
            reason = f"offset {header.last_offset} does not belong to this segment"
            raise LogDamaged(segment.log_path, position, reason)
        if segment.first_timestamp is None and position == 0:
            segment.first_timestamp = header.base_timestamp
        entry, time_entry = segment.note_batch(
            position, header.last_offset, header.max_timestamp, header.size, self._interval_bytes
        )
        self.index += entry
        self.time_index += time_entry

    def finish(self) -> None:
        self.time_index += self._segment.time_index_entry()

    def write(self, disk: Disk, index_count: int, time_index_count: int) -> None:
        """Write the entries after the first `index_count` and `time_index_count`, and cut off the rest."""
        segment = self._segment
        _overwrite(disk, segment.index_path, index_count * OFFSET_ENTRY.size, self.index)
        _overwrite(disk, segment.time_index_path, time_index_count * TIME_ENTRY.size, self.time_index)
        segment.index_count = index_count + len(self.index) // OFFSET_ENTRY.size
        segment.time_index_count = time_index_count + len(self.time_index) // TIME_ENTRY.size


def _overwrite(disk: Disk, path: str, position: int, data: bytearray) -> None:
    file = disk.open(path, create=True)
    try:
        file.truncate(position)
        if data:
            file.pwrite(data, position)
        file.datasync()
    finally:
        file.close()


def _recover_last(disk: Disk, segment: Segment, recovery: PartitionRecovery, known: Known, interval_bytes: int) -> int:
    """Check, cut and index the last segment; flush everything. Return the partition's end offset."""
    path = recovery.path = segment.log_path
    file = disk.open(path)
    try:
        size = file.size()
        kept, time_kept, start, end_offset = _trusted_entries(disk, segment, known.recovery_point, size)
        index = _Indexer(segment, interval_bytes)
        end = start
        try:
            for batch in scan(file, path, start, size, next_offset=end_offset):
                index.add(batch.position, batch.header)
                end_offset = batch.header.next_offset
                end = batch.position + batch.header.size
        except LogDamaged as damage:
            _judge(file, damage, end_offset, known, size)
            recovery.truncated_bytes = size - end
            recovery.truncated_records = _records_in(file, end, size)
            recovery.reason = damage.reason
        if end_offset < known.flushed_offset:
            raise LogDamaged(
                path, end, f"the log ends at offset {end_offset}, but offsets below {known.flushed_offset} were flushed"
            )
        if recovery.truncated_bytes:
            file.truncate(end)
        file.datasync()
    finally:
        file.close()
    index.write(disk, kept, time_kept)
    disk.sync_dir(os.path.dirname(path))
    segment.size = segment.visible_bytes = end
    return end_offset


def _judge(file: File, damage: LogDamaged, end_offset: int, known: Known, size: int) -> None:
    """Raise `damage` unless it is a torn tail."""
    if end_offset < known.flushed_offset:
        reason = f"{damage.reason}; offsets below {known.flushed_offset} were flushed"
        raise LogDamaged(damage.path, damage.position, reason) from None
    if not known.has_journal and _sound_batch_after(file, damage.position, size, end_offset):
        raise LogDamaged(damage.path, damage.position, f"{damage.reason}; sound batches follow") from None


def _sound_batch_after(file: File, position: int, size: int, next_offset: int) -> bool:
    """Return whether a batch with a valid CRC begins within SEARCH_BYTES after `position`."""
    data = file.pread(min(SEARCH_BYTES, size - position), position)
    at = data.find(MAGIC, 17)
    while at >= 0:
        begin = at - 16
        try:
            header = read_header(data, begin)
            check_crc(data, begin, header)
            if header.base_offset >= next_offset:
                return True
        except DecodeError:
            pass
        at = data.find(MAGIC, at + 1)
    return False


def _records_in(file: File, position: int, size: int) -> int:
    """Return the number of records according to the headers in a torn tail."""
    count = 0
    while position + HEADER_BYTES <= size:
        header = BatchHeader._make(HEADER.unpack(file.pread(HEADER_BYTES, position)))
        if (
            header.magic != MAGIC
            or header.length < HEADER_BYTES - LENGTH_OVERHEAD
            or not 0 <= header.record_count <= header.length
        ):
            break
        count += header.record_count
        position += header.size
    return count


def _trusted_entries(disk: Disk, segment: Segment, recovery_point: int, size: int) -> tuple[int, int, int, int]:
    """Return the index entries below the recovery point, which are flushed: (offset entries, time entries, position
    from which to read on, offset expected there).
    """
    if (
        recovery_point <= segment.base_offset
        or not disk.exists(segment.index_path)
        or not disk.exists(segment.time_index_path)
    ):
        return 0, 0, 0, segment.base_offset
    log, index, time_index = (
        disk.open(segment.log_path),
        disk.open(segment.index_path),
        disk.open(segment.time_index_path),
    )
    try:
        below = recovery_point - segment.base_offset - 1
        count = ascending(index, OFFSET_ENTRY, index.size() // OFFSET_ENTRY.size)
        found = floor_entry(index, OFFSET_ENTRY, count, 0, below)
        if found is None:
            return 0, 0, 0, segment.base_offset
        number, (relative, position) = found
        head = log.pread(HEADER_BYTES, position) if position + HEADER_BYTES <= size else b""
        if len(head) < HEADER_BYTES:
            return 0, 0, 0, segment.base_offset
        header = BatchHeader._make(HEADER.unpack(head))
        # A torn entry of zeros may point to zeros.
        if header.magic != MAGIC or header.last_offset - segment.base_offset != relative:
            return 0, 0, 0, segment.base_offset
        time_number = _take_times(segment, time_index, relative)
        first = log.pread(HEADER_BYTES, 0)
        segment.first_timestamp = BatchHeader._make(HEADER.unpack(first)).base_timestamp
        # The batch of that entry is read again, so the entry is written again, too.
        return number, time_number, position, header.base_offset
    finally:
        for file in (log, index, time_index):
            file.close()


def _take_times(segment: Segment, time_index: File, relative: int) -> int:
    """Keep the time entries below `relative` and set the segment's timestamps from them. Return the
    number of entries.
    """
    count = ascending(time_index, TIME_ENTRY, time_index.size() // TIME_ENTRY.size)
    found = floor_entry(time_index, TIME_ENTRY, count, 1, relative - 1)
    if found is None:
        return 0
    number, (timestamp, offset) = found
    segment.max_timestamp = segment.last_indexed_timestamp = timestamp
    segment.max_timestamp_offset = segment.base_offset + offset
    return number + 1
