"""The log of one topic partition: its segments, its offsets, and the limit up to which it may be read.

All of this runs on the event loop's thread and never waits for a flush. An append gets its offsets and its place at
once (`end_offset`, a segment and a position in it) and goes into `pending`. LogWriter takes the pending writes at the
end of the turn, writes and flushes them on its own thread, and calls `written`, which moves `high_watermark` and the
segments' visible sizes. Reads use the files and stop at those limits, so reader and writer never touch the same bytes,
and no batch is kept in memory once it is written. Readers that wait for records are called while the batches that have
just become visible are still in memory: they get these batches, and read no file.

Compaction leaves gaps. As in Kafka, the lookup of an offset finds the first batch whose last offset is at least that
offset.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from operator import attrgetter

from coordinatord.broker.log import leader_epoch_cache
from coordinatord.broker.log.config import MAX_BATCH_BYTES, LogConfig
from coordinatord.broker.log.disk import FilePool
from coordinatord.broker.log.errors import LogDamaged, OffsetOutOfRange
from coordinatord.broker.log.index import OFFSET_ENTRY, TIME_ENTRY
from coordinatord.broker.log.large_read import LARGE_READ_BYTES, LargeRead
from coordinatord.broker.log.scan import find_position, walk
from coordinatord.broker.log.segment import MAX_INT32, Segment
from coordinatord.broker.log.segment_write import SegmentWrite
from kafka_wire.records.batch import (
    HEADER_BYTES,
    LENGTH_OVERHEAD,
    BatchBuilder,
    BatchHeader,
    Records,
    assign_offset,
    read_header,
)

#: Records of one turn share a batch of up to this many bytes (Kafka's max.message.bytes); those of one call always do.
MAX_SHARED_BATCH_BYTES = 1_000_000
#: One read returns at most this many bytes, whatever is requested: the broker's fetch.max.bytes.
MAX_READ_BYTES = 55 * 1024 * 1024
#: Waiting readers get up to this many bytes from memory. Larger responses are sent from the read data, without a copy.
MAX_NEWS_BYTES = 16 * 1024

OnNewSegment = Callable[["PartitionLog"], object]

_base_offset = attrgetter("base_offset")


class PartitionLog:
    """The log of one partition. Constructed by DataDirectory only."""

    __slots__ = (
        "_builder", "_files", "_index_entries", "_news", "_read_hint", "_tail_hint", "_time_index_entries",
        "cleaning", "config", "deleted", "directory", "disk", "end_offset", "has_new_epoch", "high_watermark",
        "leader_epoch", "leader_epochs", "log_start_offset", "name", "on_disk", "on_replaced", "on_visible",
        "partition", "pending", "pins", "segments", "topic", "topic_id",
    )  # fmt: skip

    def __init__(
        self,
        directory: str,
        topic: str,
        partition: int,
        topic_id: bytes,
        config: LogConfig,
        files: FilePool,
        *,
        on_disk: bool,
    ) -> None:
        self.directory = directory
        self.disk = files.disk
        self.topic = topic
        self.partition = partition
        #: the directory's name
        self.name = f"{topic}-{partition}"
        self.topic_id = topic_id
        self.config = config
        self.leader_epochs = leader_epoch_cache.FIRST
        self.leader_epoch = 0
        #: the current leader epoch is not in the checkpoint: it must be stored before a record of it is visible
        self.has_new_epoch = False
        self.log_start_offset = 0
        self.end_offset = 0
        self.high_watermark = 0
        self.segments: list[Segment] = []
        self.pending: list[SegmentWrite] = []
        self.on_disk = on_disk
        #: called when the high watermark moves; set only while a reader waits for that
        self.on_visible: Callable[[], object] | None = None
        #: called with the base offset and the end of the rewritten part
        self.on_replaced: Callable[[int, int], object] | None = None
        self.deleted = False
        #: the cleaner is rewriting the log: no segment may be removed
        self.cleaning = False
        #: number of readers of the whole log
        self.pins = 0
        self._files = files
        self._builder: BatchBuilder | None = None
        #: entries assigned to the active segment's index files, written or not
        self._index_entries = 0
        self._time_index_entries = 0
        #: the batch after the last one read: (offset, segment, position)
        self._read_hint: tuple[int, Segment, int] | None = None
        #: position of the batches that became visible last: all groups that read at the log's end want them
        self._tail_hint: tuple[int, Segment, int] | None = None
        #: (offset, batches) that have just become visible, while `on_visible` is called
        self._news: tuple[int, bytes] | None = None

    @property
    def size_bytes(self) -> int:
        """Size of all segments in bytes, including pending ones."""
        return sum(segment.size for segment in self.segments)

    @property
    def visible_bytes(self) -> int:
        """Size in bytes of the readable part of all segments."""
        return sum(segment.visible_bytes for segment in self.segments)

    def adopt(self, segments: list[Segment], log_start_offset: int, end_offset: int) -> None:
        """Take over the state of the files at opening."""
        self.segments = segments
        self.log_start_offset = log_start_offset
        self.end_offset = self.high_watermark = end_offset
        if segments:
            self._index_entries = segments[-1].index_count
            self._time_index_entries = segments[-1].time_index_count

    def lead(self, epoch: int, stored: leader_epoch_cache.LeaderEpochs) -> None:
        """Append with leader epoch `epoch` from now on. `stored`: the leader epochs in the checkpoint, none above
        `epoch`. Those from the log's end on have no records and are dropped, as in Kafka's LogLoader and
        Partition.makeLeader.
        """
        kept = leader_epoch_cache.from_start(
            leader_epoch_cache.cut_from(stored, self.end_offset), self.log_start_offset
        )
        self.leader_epoch = epoch
        self.leader_epochs = leader_epoch_cache.assigned(kept, epoch, self.end_offset)
        self.has_new_epoch = stored[-1][0] != epoch

    def start_at(self, offset: int) -> None:
        """Move the log's start up to `offset`. The checkpoint of leader epochs keeps lower entries until it is next
        written: opening the log drops them, too.
        """
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            self.leader_epochs = leader_epoch_cache.from_start(self.leader_epochs, offset)

    # --- appending ----------------------------------------------------------------------------------------------------

    def append(
        self, batch: bytearray, header: BatchHeader | None = None, on_new_segment: OnNewSegment | None = None
    ) -> int:
        """Assign offsets to one valid batch, which the log owns from now on, and return its base offset; it is written
        later. `header` is the batch's header if the caller has read it. `on_new_segment` is called before a file is
        written for the batch: a new segment or the checkpoint of leader epochs.
        """
        if self._builder is not None:
            self.seal()
        if on_new_segment is not None and self.has_new_epoch and not self.pending:
            on_new_segment(self)
            on_new_segment = None
        header = header or read_header(batch)
        base_offset = self.end_offset
        assign_offset(batch, base_offset, self.leader_epoch)
        self.end_offset = base_offset + header.last_offset_delta + 1
        self._place(batch, self.end_offset - 1, header.base_timestamp, header.max_timestamp, on_new_segment)
        return base_offset

    def append_records(self, records: Records, timestamp_ms: int) -> None:
        """Add records to this turn's batch. The records of one call share a batch: they are replayed together or not
        at all.
        """
        if not records.count:
            return
        builder = self._builder
        if builder is None or builder.size > MAX_SHARED_BATCH_BYTES:
            builder = self._next_batch()
        records.put_into(builder, timestamp_ms)
        self.end_offset += records.count

    def _next_batch(self) -> BatchBuilder:
        if self._builder is not None:
            self.seal()
        builder = self._builder = BatchBuilder()
        return builder

    def seal(self) -> None:
        """Complete the turn's batch and assign its place."""
        builder = self._builder
        self._builder = None
        if builder is None:
            return
        base_timestamp, max_timestamp = builder.base_timestamp, builder.max_timestamp
        batch = builder.finish(self.end_offset - builder.count, leader_epoch=self.leader_epoch)
        self._place(batch, self.end_offset - 1, base_timestamp, max_timestamp)

    def _place(
        self,
        batch: bytearray,
        last_offset: int,
        first_timestamp: int,
        max_timestamp: int,
        on_new_segment: OnNewSegment | None = None,
    ) -> None:
        size = len(batch)
        if size > MAX_BATCH_BYTES:
            raise ValueError(f"{self.name}: a batch of {size} bytes; the log takes at most {MAX_BATCH_BYTES}")
        segments = self.segments
        if not segments or self._rolls(segments[-1], size, last_offset, max_timestamp):
            if on_new_segment is not None:
                on_new_segment(self)
            self._roll(int.from_bytes(batch[:8], "big"))
        segment = segments[-1]
        if segment.first_timestamp is None:
            segment.first_timestamp = first_timestamp
        write = self._write_to(segment)
        entry, time_entry = segment.note_batch(
            segment.size, last_offset, max_timestamp, size, self.config.index_interval_bytes
        )
        if entry:
            write.index += entry
            self._index_entries += 1
        if time_entry:
            write.time_index += time_entry
            self._time_index_entries += 1
        write.buffers.append(batch)
        write.size += size
        write.end_offset = last_offset + 1
        segment.size += size

    def _write_to(self, segment: Segment) -> SegmentWrite:
        if self.pending and self.pending[-1].segment is segment:
            return self.pending[-1]
        write = SegmentWrite(self, segment, segment.size)
        write.index_position = self._index_entries * OFFSET_ENTRY.size
        write.time_index_position = self._time_index_entries * TIME_ENTRY.size
        self.pending.append(write)
        return write

    def _rolls(self, segment: Segment, size: int, last_offset: int, max_timestamp: int) -> bool:
        """Return whether a batch needs a new segment (Kafka's LogSegment.shouldRoll)."""
        if not segment.size:
            return last_offset - segment.base_offset > MAX_INT32
        limit = min(self.config.segment_bytes, MAX_INT32)
        if segment.size + size > limit or last_offset - segment.base_offset > MAX_INT32:
            return True
        first = segment.first_timestamp
        return first is not None and first >= 0 and max_timestamp - first > self.config.roll_ms

    def _roll(self, base_offset: int) -> None:
        """Finish the active segment and begin one at `base_offset`."""
        if self.segments:
            self._finish_indexes().finish = True
        self.segments.append(Segment(self.directory, base_offset, on_disk=False))
        self._index_entries = self._time_index_entries = 0
        # Its file must exist before any removal: the last segment's name stores the log's end.
        self._write_to(self.segments[-1])

    def _finish_indexes(self) -> SegmentWrite:
        segment = self.segments[-1]
        write = self._write_to(segment)
        entry = segment.time_index_entry()
        if entry:
            write.time_index += entry
            self._time_index_entries += 1
        return write

    def roll(self) -> None:
        """Finish the active segment now, so that all present records can be cleaned or removed."""
        self.seal()
        if self.segments and self.segments[-1].size:
            self._roll(self.end_offset)

    def finish_indexes(self) -> None:
        """Add the active segment's last time index entry before a clean stop, as Kafka does on close."""
        if self.segments and self.segments[-1].max_timestamp > self.segments[-1].last_indexed_timestamp:
            self._finish_indexes()

    def take_pending(self) -> list[SegmentWrite]:
        """Return the writes for the next flush, and clear `pending`."""
        if self._builder is not None:
            self.seal()
        pending, self.pending = self.pending, []
        return pending

    def written(self, write: SegmentWrite) -> None:
        """Make `write` visible: it is in the files, as durable as the flush policy requires."""
        segment = write.segment
        segment.visible_bytes = max(segment.visible_bytes, write.position + write.size)
        segment.index_count = (write.index_position + len(write.index)) // OFFSET_ENTRY.size
        segment.time_index_count = (write.time_index_position + len(write.time_index)) // TIME_ENTRY.size
        began = self.high_watermark
        self.high_watermark = max(began, write.end_offset)
        if write.size:
            self._tail_hint = began, segment, write.position
        if self.on_visible is not None:
            if 0 < write.size <= MAX_NEWS_BYTES:
                self._news = began, b"".join(write.buffers)
            try:
                self.on_visible()
            finally:
                self._news = None

    # --- reading ------------------------------------------------------------------------------------------------------

    def read(self, offset: int, max_bytes: int, *, at_least_one: bool = True) -> bytes | memoryview:
        """Return whole batches of one segment from the batch with `offset` on, below the high watermark, up to
        `max_bytes`.

        The first batch is returned even if it is larger, unless `at_least_one` is false. Returns b"" from the high
        watermark up to end_offset. Raises OffsetOutOfRange outside log_start_offset .. end_offset. The first batch may
        begin before `offset`: consumers skip the earlier records.
        """
        data = self.begin_read(offset, max_bytes, at_least_one=at_least_one)
        if isinstance(data, LargeRead):
            large = data
            try:
                return large.read()
            finally:
                large.close()
        return data

    def begin_read(self, offset: int, max_bytes: int, *, at_least_one: bool = True) -> bytes | memoryview | LargeRead:
        """Return what `read` returns, or, if it has more than LARGE_READ_BYTES, what reads it."""
        if not self.log_start_offset <= offset <= self.end_offset:
            raise OffsetOutOfRange(
                f"{self.name}: offset {offset} is not within [{self.log_start_offset}, {self.end_offset}]"
            )
        if offset >= self.high_watermark:
            return b""
        news = self._news
        if news is not None and news[0] == offset and len(news[1]) <= max_bytes:
            return news[1]
        found = self._locate(offset)
        if found is None:
            return b""
        segment, position = found
        file = self._files.get(segment.log_path)
        max_bytes = min(max_bytes, MAX_READ_BYTES)
        left = segment.visible_bytes - position
        limit = min(left, max(max_bytes, HEADER_BYTES))
        data = file.pread(min(limit, LARGE_READ_BYTES), position)
        if left <= max_bytes and (len(data) == left or left > LARGE_READ_BYTES):
            size = left
        else:
            size = self._whole_batches(segment, position, data, limit if limit > LARGE_READ_BYTES else len(data))
        if size > max_bytes and not at_least_one:
            return b""
        if len(data) < size <= LARGE_READ_BYTES:
            data = file.pread(size, position)
        self._set_read_hint(segment, position + size, data[size : size + 8])
        if size > LARGE_READ_BYTES:
            return LargeRead(self.disk, segment.log_path, position, size)
        if size >= len(data):
            return data
        # A view: copying a megabyte costs as much as reading it. But a view keeps all bytes of the read alive: if the
        # next batch is large, the result for many partitions could be a hundredth of the memory that it holds.
        return memoryview(data)[:size] if 2 * size >= len(data) else data[:size]

    def _locate(self, offset: int) -> tuple[Segment, int] | None:
        """Return the visible batch that holds `offset`, or the first after it, as (segment, position)."""
        for hint in (self._read_hint, self._tail_hint):
            if hint is not None and hint[0] == offset and hint[2] < hint[1].visible_bytes:
                return hint[1], hint[2]
        segments = self.segments
        for number in range(max(bisect_right(segments, offset, key=_base_offset) - 1, 0), len(segments)):
            segment = segments[number]
            if not segment.visible_bytes:
                continue
            start = segment.position_at_or_before(self._files, offset)
            found = find_position(
                self._files.get(segment.log_path), segment.log_path, start, segment.visible_bytes, offset
            )
            if found:
                return segment, found[0]
        return None

    def _whole_batches(self, segment: Segment, position: int, data: bytes, limit: int) -> int:
        """Return the bytes of whole batches in the `limit` bytes from `position` on, or of the first batch if it is cut
        off. `data`: the first of these bytes.
        """
        first = read_size(data, 0)
        if not HEADER_BYTES <= first <= segment.visible_bytes - position:
            raise LogDamaged(segment.log_path, position, f"no batch header (length {first - LENGTH_OVERHEAD})")
        if first >= limit:
            return first
        # The index saves iterating over the batches: all batches before an indexed boundary are whole.
        at = max(segment.indexed_position_before(self._files, position + limit) - position, 0)
        while at + HEADER_BYTES <= limit:
            if at + HEADER_BYTES <= len(data):
                size = read_size(data, at)
            else:
                size = read_size(self._files.get(segment.log_path).pread(HEADER_BYTES, position + at), 0)
            if size < HEADER_BYTES:
                raise LogDamaged(segment.log_path, position + at, f"no batch header (length {size - LENGTH_OVERHEAD})")
            if at + size > limit:
                break
            at += size
        return at

    def _set_read_hint(self, segment: Segment, position: int, base_offset: bytes) -> None:
        """Store `position`, where the reader will continue, to save the lookup. `base_offset`: the first bytes there,
        if they have been read already.
        """
        if position < segment.visible_bytes:
            if len(base_offset) < 8:
                base_offset = self._files.get(segment.log_path).pread(8, position)
            self._read_hint = int.from_bytes(base_offset, "big"), segment, position
        elif segment is self.segments[-1]:
            self._read_hint = self.high_watermark, segment, position
        else:
            self._read_hint = None

    def batches(self, from_offset: int) -> Iterator[BatchHeader]:
        """Iterate over headers of the visible batches from the one with `from_offset` on. Nothing is decoded or kept.

        The generator has its own files, so it may be paused, resumed or dropped.
        """
        high_watermark = self.high_watermark
        first = max(bisect_right(self.segments, from_offset, key=_base_offset) - 1, 0)
        position = self.segments[first].position_at_or_before(self._files, from_offset) if self.segments else 0
        for segment in self.segments[first:]:
            if not segment.visible_bytes:
                continue
            file = self.disk.open(segment.log_path)
            try:
                for _position, header in walk(file, segment.log_path, position, segment.visible_bytes):
                    if header.base_offset >= high_watermark:
                        return
                    if header.last_offset >= from_offset:
                        yield header
            finally:
                file.close()
            position = 0

    # --- removing and replacing ---------------------------------------------------------------------------------------

    def drop_segments(self, count: int) -> list[Segment]:
        """Drop the oldest `count` segments from the list; the caller removes their files."""
        dropped, self.segments = self.segments[:count], self.segments[count:]
        if dropped:
            self.start_at(self.segments[0].base_offset)
            self.close_files(dropped)
        return dropped

    def replace_segments(self, old: Sequence[Segment], new: Segment) -> None:
        """Replace the neighbouring, finished `old` segments with `new`, which readers use from now on."""
        at = self.segments.index(old[0])
        assert self.segments[at : at + len(old)] == list(old)
        end_offset = self.segments[at + len(old)].base_offset
        self.segments[at : at + len(old)] = [new]
        self.close_files(old)
        if self.on_replaced is not None:
            self.on_replaced(new.base_offset, end_offset)

    def close_files(self, segments: Iterable[Segment]) -> None:
        """Close files that will be removed or renamed."""
        self._read_hint = self._tail_hint = None
        for segment in segments:
            self._files.drop(segment.log_path)
            self._files.drop(segment.index_path)
            self._files.drop(segment.time_index_path)

    @property
    def in_use(self) -> bool:
        """Return whether finished segments must stay for now."""
        return self.cleaning or bool(self.pins)

    @contextmanager
    def pinned(self) -> Iterator[None]:
        """Keep all segments while the caller reads the whole log in steps: none is removed or replaced, so that the
        reader does not miss a tombstone whose record it has read (KAFKA-19862).
        """
        self.pins += 1
        try:
            yield
        finally:
            self.pins -= 1

    def forget_files(self) -> None:
        """Close all files before the directory is removed; no reads may follow."""
        self.deleted = True
        self.pending.clear()
        self._builder = None
        self._read_hint = self._tail_hint = None
        self._files.drop_below(self.directory)


def read_size(data: bytes, at: int) -> int:
    """Return the total bytes of the batch whose header begins at `at`."""
    return int.from_bytes(data[at + 8 : at + 12], "big", signed=True) + 12
