"""One segment of a partition's log: the files `<base offset, 20 digits>.log`, `.index`, `.timeindex`, and its state."""

from __future__ import annotations

from coordinatord.broker.log.disk import FilePool
from coordinatord.broker.log.index import OFFSET_ENTRY, TIME_ENTRY, floor_entry, last_entry

LOG_SUFFIX = ".log"
INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
#: Suffix of the transaction index, which broker/topics writes; removed with the segment.
TRANSACTION_INDEX_SUFFIX = ".txnindex"
#: Kafka's three suffixes: of a file that is being written, is about to replace others, or is about to be removed.
CLEANED_SUFFIX = ".cleaned"
SWAP_SUFFIX = ".swap"
DELETED_SUFFIX = ".deleted"

#: Largest position and relative offset: both are int32 in the indexes.
MAX_INT32 = (1 << 31) - 1

NO_TIMESTAMP = -1


def segment_name(base_offset: int) -> str:
    return f"{base_offset:020d}"


class Segment:
    """One segment. It has two kinds of sizes: `size` includes everything with an assigned position; `visible_bytes` and
    the index counts include only what is in the files and may be read.
    """

    __slots__ = (
        "base_offset",
        "bytes_since_index",
        "first_timestamp",
        "index_count",
        "index_path",
        "last_indexed_timestamp",
        "log_path",
        "max_timestamp",
        "max_timestamp_offset",
        "on_disk",
        "path",
        "size",
        "time_index_count",
        "time_index_path",
        "visible_bytes",
    )

    def __init__(self, directory: str, base_offset: int, *, on_disk: bool) -> None:
        self.path = f"{directory}/{segment_name(base_offset)}"
        self.named("")
        self.base_offset = base_offset
        self.on_disk = on_disk
        self.size = 0
        self.visible_bytes = 0
        self.index_count = 0
        self.time_index_count = 0
        self.bytes_since_index = 0
        self.last_indexed_timestamp = NO_TIMESTAMP
        #: the greatest timestamp, and the last offset of the first batch that has it (as in Kafka's time index)
        self.max_timestamp = NO_TIMESTAMP
        self.max_timestamp_offset = base_offset
        #: timestamp of the first batch, for segment.ms; None if unknown
        self.first_timestamp: int | None = None

    def named(self, suffix: str) -> None:
        """Set the suffix of the segment's file names: SWAP_SUFFIX while it replaces others (segment_swap.py)."""
        # Built once, so that the hash of each string is computed once: every read and write looks up a file by these
        # names.
        self.log_path = self.path + LOG_SUFFIX + suffix
        self.index_path = self.path + INDEX_SUFFIX + suffix
        self.time_index_path = self.path + TIME_INDEX_SUFFIX + suffix

    def note_batch(
        self, position: int, last_offset: int, max_timestamp: int, batch_bytes: int, interval_bytes: int
    ) -> tuple[bytes, bytes]:
        """Account for a batch at `position`: update the greatest timestamp. Return the offset and time index entries
        that are due for the batch; b"" for none.
        """
        if max_timestamp > self.max_timestamp:
            self.max_timestamp, self.max_timestamp_offset = max_timestamp, last_offset
        entry = time_entry = b""
        if self.bytes_since_index > interval_bytes:
            entry = OFFSET_ENTRY.pack(last_offset - self.base_offset, position)
            time_entry = self.time_index_entry()
            self.bytes_since_index = 0
        self.bytes_since_index += batch_bytes
        return entry, time_entry

    def time_index_entry(self) -> bytes:
        """Return the entry for the greatest timestamp; b"" if the index has the entry. Also written
        at a segment's end.
        """
        if self.max_timestamp <= self.last_indexed_timestamp:
            return b""
        self.last_indexed_timestamp = self.max_timestamp
        return TIME_ENTRY.pack(self.max_timestamp, self.max_timestamp_offset - self.base_offset)

    def position_at_or_before(self, files: FilePool, offset: int) -> int:
        """Return the position of a batch from which a forward walk finds `offset`."""
        if not self.index_count:
            return 0
        found = floor_entry(files.get(self.index_path), OFFSET_ENTRY, self.index_count, 0, offset - self.base_offset)
        return found[1][1] if found else 0

    def indexed_position_before(self, files: FilePool, position: int) -> int:
        """Return the last batch boundary in the index at or before `position`."""
        if not self.index_count:
            return 0
        found = floor_entry(files.get(self.index_path), OFFSET_ENTRY, self.index_count, 1, position)
        return found[1][1] if found else 0

    def offset_before_timestamp(self, files: FilePool, timestamp_ms: int) -> int:
        """Return an offset such that every earlier record of the segment is older than `timestamp_ms`."""
        if not self.time_index_count:
            return self.base_offset
        found = floor_entry(files.get(self.time_index_path), TIME_ENTRY, self.time_index_count, 0, timestamp_ms - 1)
        return self.base_offset + found[1][1] if found else self.base_offset

    def load_max_timestamp(self, files: FilePool) -> None:
        """Set the greatest timestamp of a finished segment from its time index."""
        entry = last_entry(files.get(self.time_index_path), TIME_ENTRY, self.time_index_count)
        if entry:
            self.max_timestamp = self.last_indexed_timestamp = entry[0]
            self.max_timestamp_offset = self.base_offset + entry[1]
