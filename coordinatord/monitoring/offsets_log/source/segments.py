"""A directory of segments: its logs, the positions of their batches, and the cuts into ranges.

A range is identified by its offsets; file and positions are those at planning time. So a range can still be read after
the log cleaner has replaced the file, and a streaming query can continue from the offsets in its checkpoint.

Index files are hints: every position from one is checked against the batch there. Damage is ignored here; `ranges`
reports it when it reads.
"""

from __future__ import annotations

import glob
import os
import re
import struct
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from coordinatord.monitoring.offsets_log.decode import compiling, kernels
from coordinatord.monitoring.offsets_log.decode.kernels import (
    AFTER,
    BASE_OFFSET,
    BATCH_COLUMNS,
    COUNT,
    LAST_DELTA,
    MAX_TIMESTAMP,
    POSITION,
    SOUND,
    Bytes,
    Ints,
)
from kafka_wire.errors import DecodeError
from kafka_wire.records.batch import HEADER_BYTES, LENGTH_OVERHEAD, MAGIC, check_crc, read_header

OFFSETS_TOPIC = "__consumer_offsets"
#: Bytes of one read.
CHUNK_BYTES = 4 << 20
#: An entry of Kafka's offset index: relative offset, position.
INDEX_ENTRY = struct.Struct(">ii")
#: Bytes of one read of an index file: whole entries of either kind, of 8 and of 12 bytes.
INDEX_CHUNK_BYTES = 48 << 10

#: Attempts, and the pause between them in seconds. The cleaner renames files one by one, so a segment may be missing
#: for this long.
RELOOKS, RELOOK_S = 20, 0.05

_SEGMENT = re.compile(r"(\d{20})\.log")
_PARTITION = re.compile(r"(.+)-(\d+)")
_SCHEME = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*):/")


class SourceError(Exception):
    """An error that the user can fix, in one sentence."""


class Refused(SourceError):
    """No broker listens at the address, or there is no such host: an interactive command does not wait for that."""


@contextmanager
def reading_files() -> Iterator[None]:
    """Run a block, or a function, in which an OSError becomes a SourceError with the file's path."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            raise
        raise SourceError(unreadable(error)) from None


def unreadable(error: OSError) -> str:
    """Return the sentence, without its full stop, for a file or a directory that cannot be read."""
    return f"{os.fsdecode(error.filename)} cannot be read: {error.strerror or error}"


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment's file when it was listed. `identity` is (device, inode), which differs for another file."""

    path: str
    base_offset: int
    size: int
    identity: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Log:
    """A partition's log. `name` is its directory's name, or its path if the name contains no partition. `only` are the
    files that were requested individually.
    """

    name: str
    directory: str
    partition: int | None
    only: tuple[str, ...] = field(default=())

    def segments(self) -> list[Segment]:
        """Return the present segments by base offset, without those already deleted or not yet in place.

        A `.swap` is a cleaned segment about to replace others, which may already be deleted: at that moment the log
        would seem to have a hole. Raises SourceError if a `.swap` stays.
        """
        for _ in range(RELOOKS):
            names = os.listdir(self.directory)
            if not any(name.endswith(".log.swap") for name in names):
                return self._segments(names)
            time.sleep(RELOOK_S)
        raise SourceError(
            f"{self.directory} has a .swap file: its log was being cleaned when the broker ended. Start the broker "
            "once, or rename the file as the broker would (without .swap) and remove the segments that it replaces"
        )

    def _segments(self, names: Sequence[str]) -> list[Segment]:
        found = []
        for name in names:
            match = _SEGMENT.fullmatch(name)
            if match is None or (self.only and name not in self.only):
                continue
            path = os.path.join(self.directory, name)
            try:
                stat = os.stat(path)
            except FileNotFoundError:  # removed between the two calls
                continue
            found.append(Segment(path, int(match[1]), stat.st_size, (stat.st_dev, stat.st_ino)))
        return sorted(found, key=lambda segment: segment.base_offset)


@reading_files()
def find_logs(paths: Sequence[str], topic: str, partitions: frozenset[int] | None) -> list[Log]:
    """Return the logs of `topic` below `paths`: data directories, partitions' directories, segments, globs of any.
    Raises SourceError if a path has none, or two directories have the same log.
    """
    found: dict[str, Log] = {}
    for path in paths:
        path = _local(path)
        matched = sorted(glob.glob(path))
        if not matched:
            raise SourceError(f"{path} does not exist")
        logs = [log for one in matched for log in _logs_at(one, topic)]
        if not logs:
            raise SourceError(
                f"no segments of {topic} in {path}: give a broker's log directory, a directory {topic}-N or a file "
                "of twenty digits and .log (for another topic the data source has the option `topic`)"
            )
        for log in logs:
            other = found.get(log.name)
            if other is None or other.directory == log.directory:
                only = (*other.only, *log.only) if other is not None and other.only and log.only else log.only
                found[log.name] = Log(log.name, log.directory, log.partition, only)
            else:
                raise SourceError(
                    f"{log.name} is both in {other.directory} and in {log.directory}: give the directories of one "
                    "replica only, or every record counts twice"
                )
    chosen = [log for log in found.values() if partitions is None or log.partition in partitions]
    return sorted(chosen, key=lambda log: (log.partition is None, log.partition or 0, log.name))


def _local(path: str) -> str:
    scheme = _SCHEME.match(path)
    if scheme is None:
        return path
    if scheme[1] != "file":
        raise SourceError(f"{path}: segments are read from local directories only, or from a broker with `bootstrap`")
    return "/" + path.removeprefix("file:").lstrip("/")


def _logs_at(path: str, topic: str) -> Iterator[Log]:
    if os.path.isfile(path):
        if _SEGMENT.fullmatch(os.path.basename(path)):
            yield _log(os.path.dirname(os.path.abspath(path)), topic, (os.path.basename(path),))
        return
    names = os.listdir(path)
    if any(_SEGMENT.fullmatch(name) for name in names):
        match = _PARTITION.fullmatch(os.path.basename(os.path.abspath(path)))
        if match is None or match[1] == topic:
            yield _log(os.path.abspath(path), topic)
        return
    for name in names:
        match = _PARTITION.fullmatch(name)
        directory = os.path.join(os.path.abspath(path), name)
        if match is not None and match[1] == topic and os.path.isdir(directory):
            yield _log(directory, topic)


def _log(directory: str, topic: str, only: tuple[str, ...] = ()) -> Log:
    name = os.path.basename(directory)
    match = _PARTITION.fullmatch(name)
    if match is not None and match[1] == topic:
        return Log(name, directory, int(match[2]), only)
    return Log(directory, directory, None, only)


# --- within a segment -------------------------------------------------------------------------------------------------


def pread(file: int, size: int, position: int) -> Bytes:
    """Return bytes of a file as a writable array (numba compiles for one kind of array)."""
    buffer = np.empty(size, np.uint8)
    view = memoryview(buffer.data)
    got = 0
    while got < size:
        more = os.preadv(file, [view[got:]], position + got)
        if not more:
            break
        got += more
    return buffer[:got]


def header_at(file: int, position: int) -> tuple[int, int] | None:
    """Return (base offset, bytes) of the batch at a position; None if there is none."""
    head = os.pread(file, HEADER_BYTES, position)
    if len(head) < HEADER_BYTES or head[16] != MAGIC:
        return None
    size = LENGTH_OVERHEAD + int.from_bytes(head[8:12], "big", signed=True)
    return (int.from_bytes(head[:8], "big", signed=True), size) if size >= HEADER_BYTES else None


def index_bytes(segment: Segment, suffix: str, entry_bytes: int) -> bytes:
    """Return the whole entries of one of the segment's index files (`.index`, `.timeindex`); b"" if it cannot be read.

    A broker preallocates the index of its active segment at its greatest size (log.index.size.max.bytes, 10 MiB) and
    fills it with zeros. The read ends with the chunk in which the zeros begin.
    """
    data, empty = bytearray(), bytes(entry_bytes)
    try:
        with open(segment.path.removesuffix(".log") + suffix, "rb", buffering=0) as file:
            while chunk := file.read(INDEX_CHUNK_BYTES):
                data += chunk
                if len(data) % entry_bytes == 0 and data.endswith(empty):
                    break
    except OSError:
        return b""
    return bytes(data[: len(data) - len(data) % entry_bytes])


def index_entries(segment: Segment) -> Ints:
    """Return (offset, position) rows of the segment's offset index, as far as they ascend and are within the file."""
    data = index_bytes(segment, ".index", INDEX_ENTRY.size)
    entries = np.frombuffer(data, ">i4").reshape(-1, 2).astype(np.int64)
    sound = (entries[:, 1] > 0) & (entries[:, 1] < segment.size)  # Kafka fills its active index with zeros
    sound[1:] &= (np.diff(entries[:, 0]) > 0) & (np.diff(entries[:, 1]) > 0)
    stop = np.flatnonzero(~sound)
    entries = entries[: stop[0]] if len(stop) else entries
    entries[:, 0] += segment.base_offset
    return entries


@dataclass(frozen=True, slots=True)
class Walked:
    """One batch in a walk over headers."""

    position: int
    after: int
    base_offset: int
    last_offset: int
    records: int
    max_timestamp: int
    sound: bool


def walk(file: int, position: int, end: int, *, with_crc: bool = False) -> Iterator[Walked]:
    """Return the whole batches from `position` on; sections without any are skipped."""
    while position < end:
        buffer = pread(file, min(CHUNK_BYTES, end - position), position)
        table = np.empty((len(buffer) // HEADER_BYTES + 1, BATCH_COLUMNS), np.int64)
        compiling.maybe_compile(len(buffer))
        found, at, ended = kernels.scan_batches(buffer, 0, len(buffer), with_crc, table)
        for row in table[:found]:
            base_offset = int(row[BASE_OFFSET])
            yield Walked(
                position + int(row[POSITION]),
                position + int(row[AFTER]),
                base_offset,
                base_offset + int(row[LAST_DELTA]),
                max(0, int(row[COUNT])),
                int(row[MAX_TIMESTAMP]),
                bool(row[SOUND]),
            )
        position += at
        if ended == kernels.CUT_SHORT and found:
            continue
        if ended in (kernels.CUT_SHORT, kernels.NO_BATCH):
            size = whole_batch_bytes(file, position, end)
            if ended == kernels.CUT_SHORT and size is not None and size > len(buffer):
                head = header_at(file, position)
                assert head is not None
                last_delta, max_ms, records = (
                    int.from_bytes(os.pread(file, count, position + at), "big", signed=True)
                    for at, count in ((23, 4), (35, 8), (57, 4))
                )
                yield Walked(position, position + size, head[0], head[0] + last_delta, max(0, records), max_ms, True)
                position += size
                continue
            position = next_batch(file, position + 1, end)


def whole_batch_bytes(file: int, position: int, end: int) -> int | None:
    """Return the size in bytes of the batch at `position` according to its header; None if it does not end by `end`."""
    head = header_at(file, position)
    return head[1] if head is not None and position + head[1] <= end else None


def next_batch(file: int, position: int, end: int) -> int:
    """Return the position of the first valid batch from `position` on; `end` if there is none. Checks at most
    RESYNC_BYTES: after that the rest counts as lost.
    """
    budget = RESYNC_BYTES
    while position < end:
        buffer = pread(file, min(CHUNK_BYTES, end - position), position)
        for at in (np.flatnonzero(buffer[16:] == MAGIC)).tolist():
            size = whole_batch_bytes(file, position + at, end)
            if size is None:
                continue
            budget -= size
            if budget < 0:
                return end
            data = os.pread(file, size, position + at)
            try:
                check_crc(data, 0, read_header(data))
            except DecodeError:
                continue
            return position + at
        if len(buffer) <= HEADER_BYTES or position + len(buffer) >= end:
            break
        position += len(buffer) - HEADER_BYTES
    return end


#: Number of bytes after damage that are searched for the next valid batch.
RESYNC_BYTES = 256 << 20


def position_of(segment: Segment, file: int, offset: int, *, beyond: bool = False) -> int:
    """Return the position of the first batch that ends at `offset` or later or, with `beyond`, that begins there or
    later; the segment's size if there is none.
    """
    if offset <= segment.base_offset:
        return 0
    entries = index_entries(segment)
    before = int(np.searchsorted(entries[:, 0], offset, "right")) - 1
    position = 0
    for row in range(before, max(-1, before - 2), -1):
        head = header_at(file, int(entries[row, 1]))
        if head is not None and segment.base_offset <= head[0] <= min(offset, int(entries[row, 0])):
            position = int(entries[row, 1])
            break
    for batch in walk(file, position, segment.size):
        if (batch.base_offset if beyond else batch.last_offset) >= offset:
            return batch.position
    return segment.size


def cuts(segment: Segment, file: int, position: int, end: int, step: int) -> list[tuple[int, int]]:
    """Return (position, base offset) of the batches at which to cut [position, end) into parts of `step` bytes or
    slightly more, without the two ends.
    """
    entries = index_entries(segment)
    if len(entries) < (segment.size // step):
        positions = [(b.position, b.base_offset) for b in walk(file, position, end)]
    else:
        positions = [(int(at), -1) for _, at in entries]
    found: list[tuple[int, int]] = []
    due = position + step
    for at, base_offset in positions:
        if at < due or at <= position or at >= end:
            continue
        if base_offset < 0:
            head = header_at(file, at)
            if head is None or head[0] < segment.base_offset:
                continue
            base_offset = head[0]
        found.append((at, base_offset))
        due = at + step
    return found
