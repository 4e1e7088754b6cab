"""Ranges of a log: planned from its segments, read chunk by chunk, even if the files change meanwhile."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from io import FileIO

import pyarrow as pa

from coordinatord.monitoring.offsets_log.decode import kernels, quarantine
from coordinatord.monitoring.offsets_log.decode.chunk import decode
from coordinatord.monitoring.offsets_log.decode.columns import batch_of_rows
from coordinatord.monitoring.offsets_log.decode.kernels import Bytes
from coordinatord.monitoring.offsets_log.decode.projection import Wanted
from coordinatord.monitoring.offsets_log.decode.row_types import QUARANTINE
from coordinatord.monitoring.offsets_log.source.segments import (
    CHUNK_BYTES,
    RELOOK_S,
    RELOOKS,
    Log,
    Segment,
    SourceError,
    cuts,
    header_at,
    next_batch,
    position_of,
    pread,
    reading_files,
    whole_batch_bytes,
)
from kafka_wire.errors import DecodeError
from kafka_wire.records.batch import HEADER_BYTES, read_header

#: (kind, record batch)
KindBatch = tuple[str, pa.RecordBatch]


class SegmentReplaced(SourceError):
    """A segment's file has been replaced since the read was planned, and the user has requested an error
    (`onReplaced`).
    """


@dataclass(frozen=True, slots=True)
class Range:
    """Batches of one segment. `first_offset` is that of the batch at `at`, unless offsets are `filtered`; `next_offset`
    is the offset at which the next range begins; None at the end of the log.
    """

    log: Log
    segment: Segment
    at: int
    end: int
    first_offset: int
    next_offset: int | None
    filtered: bool = False

    @property
    def bytes(self) -> int:
        return self.end - self.at


@reading_files()
def plan(log: Log, step: int, first_offset: int = 0, next_offset: int | None = None) -> list[Range]:
    """Cut the log from one offset to another into ranges of about `step` bytes. Raises SegmentReplaced."""
    for _ in range(RELOOKS):
        try:
            return _plan(log, step, first_offset, next_offset)
        except FileNotFoundError:  # removed by the cleaner meanwhile
            time.sleep(RELOOK_S)
    raise SegmentReplaced(f"{log.directory} does not keep still: its segments are replaced faster than they are opened")


def _plan(log: Log, step: int, first_offset: int, next_offset: int | None) -> list[Range]:
    found: list[Range] = []
    segments = log.segments()
    filtered = first_offset > 0 or next_offset is not None
    for number, segment in enumerate(segments):
        after = segments[number + 1].base_offset if number + 1 < len(segments) else None
        if (after is not None and after <= first_offset) or (
            next_offset is not None and segment.base_offset >= next_offset
        ):
            continue
        with open(segment.path, "rb", buffering=0) as opened:
            file = opened.fileno()
            at = position_of(segment, file, first_offset)
            end = segment.size if next_offset is None else position_of(segment, file, next_offset, beyond=True)
            if at >= end:
                continue
            stops = min((o for o in (after, next_offset) if o is not None), default=None)
            places = [(at, max(first_offset, segment.base_offset)), *cuts(segment, file, at, end, step), (end, stops)]
        for (begin, offset), (finish, following) in itertools.pairwise(places):
            assert offset is not None
            found.append(Range(log, segment, begin, finish, offset, following, filtered))
    return found


def read(part: Range, wanted: Wanted, on_replaced: str = "reread") -> Iterator[KindBatch]:
    """Return the record batches of a range. If the segment was replaced, read it again by its offsets, or raise
    SegmentReplaced with `on_replaced` = fail.
    """
    wanted = replace(wanted, log_partition=part.log.partition)
    opened = _open(part.segment.path)
    if opened is not None:
        with opened:
            if _is_still(part, opened.fileno()):
                if part.filtered:
                    wanted = replace(wanted, first_offset=part.first_offset, next_offset=part.next_offset)
                wanted = replace(wanted, source=part.segment.path)
                yield from _stretch(opened.fileno(), part.at, part.end, wanted)
                return
    if on_replaced == "fail":
        raise SegmentReplaced(
            f"{part.segment.path} was replaced or removed after this read was planned, as the log cleaner does: read "
            "again, or let what is there now be read with the option onReplaced=reread"
        )
    yield from _reread(part, wanted)


@reading_files()
def _open(path: str) -> FileIO | None:
    try:
        return open(path, "rb", buffering=0)  # the caller closes it
    except FileNotFoundError:
        return None


def _is_still(part: Range, file: int) -> bool:
    stat = os.fstat(file)
    if (stat.st_dev, stat.st_ino) != part.segment.identity or stat.st_size < part.end:
        return False
    if part.at == 0:
        return True
    # Another log may have been written into the same file (a restore): the batch must be the planned one.
    head = header_at(file, part.at)
    return head is not None and (head[0] == part.first_offset or (part.filtered and head[0] < part.first_offset))


def _reread(part: Range, wanted: Wanted) -> Iterator[KindBatch]:
    """Read the range by its offsets, from the segments that have them now."""
    for attempt in range(RELOOKS):
        parts = _files_of(part)
        if parts is not None:
            break
        if attempt == RELOOKS - 1:
            raise SegmentReplaced(f"{part.log.directory} has no segment for the offsets from {part.first_offset} on")
        time.sleep(RELOOK_S)
    assert parts is not None
    wanted = replace(wanted, first_offset=part.first_offset, next_offset=part.next_offset)
    for segment, opened, end in parts:
        with opened:
            at = position_of(segment, opened.fileno(), part.first_offset)
            yield from _stretch(opened.fileno(), at, end, replace(wanted, source=segment.path))


def _files_of(part: Range) -> list[tuple[Segment, FileIO, int]] | None:
    """Return the segments that have a range's offsets now, opened; None while they are being renamed."""
    log = replace(part.log, only=()) if part.log.partition is not None else part.log
    segments = log.segments()
    if not segments or segments[0].base_offset > part.segment.base_offset:
        return None
    found: list[tuple[Segment, FileIO, int]] = []
    for number, segment in enumerate(segments):
        after = segments[number + 1].base_offset if number + 1 < len(segments) else None
        if after is not None and after <= part.first_offset:
            continue
        if part.next_offset is not None and segment.base_offset >= part.next_offset:
            break
        opened = _open(segment.path)
        if opened is None:
            for _, other, _ in found:
                other.close()
            return None
        stat = os.fstat(opened.fileno())
        now = replace(segment, size=stat.st_size, identity=(stat.st_dev, stat.st_ino))
        end = now.size if part.next_offset is None else position_of(now, opened.fileno(), part.next_offset, beyond=True)
        found.append((now, opened, end))
    return found


def _stretch(file: int, at: int, end: int, wanted: Wanted) -> Iterator[KindBatch]:
    """Return the batches in [at, end) of a file; bytes without a batch become a row of the quarantine."""
    size = CHUNK_BYTES
    while at < end:
        buffer = pread(file, min(size, end - at), at)
        if not len(buffer):
            return  # the file was truncated during the read: the lost part was never committed
        decoded = decode(buffer, 0, len(buffer), at, wanted)
        for kind, batches in decoded.tables.items():
            for batch in batches:
                yield kind, batch
        at += decoded.at
        size = CHUNK_BYTES
        if decoded.ended not in (kernels.CUT_SHORT, kernels.NO_BATCH):
            continue
        whole = whole_batch_bytes(file, at, end)
        if decoded.ended == kernels.CUT_SHORT:
            if whole is not None and whole > len(buffer):
                size = whole
                continue
            if decoded.at and at + len(buffer) - decoded.at < end:
                continue
        sound = next_batch(file, at + 1, end)
        yield from _lost(file, at, sound, end, wanted)
        at = sound


def _lost(file: int, at: int, sound: int, end: int, wanted: Wanted) -> Iterator[KindBatch]:
    """Return a row of the quarantine for a section without a batch. Zeros up to the end are space preallocated by
    Kafka, and have no row.
    """
    if QUARANTINE not in wanted.kinds:
        return
    if sound == end and _is_zero(file, at, end):
        return
    data = os.pread(file, min(sound - at, quarantine.MAX_BYTES), at)
    try:
        header = read_header(data)
        reason = f"the batch of offset {header.base_offset} has neither its CRC nor a batch behind it"
    except DecodeError as error:
        reason = str(error)
        head = header_at(file, at) if sound == end and end - at >= HEADER_BYTES else None
        if head is not None and head[1] > end - at:
            reason = f"the last batch is cut short: {end - at} of {head[1]} bytes (still being written, or torn)"
    row = quarantine.bytes_row(quarantine.BYTES, None, None, data, sound - at, at, reason)
    yield QUARANTINE, batch_of_rows(QUARANTINE, [row], wanted.log_partition, wanted.source)


def _is_zero(file: int, at: int, end: int) -> bool:
    while at < end:
        buffer: Bytes = pread(file, min(CHUNK_BYTES, end - at), at)
        if not len(buffer) or buffer.any():
            return False
        at += len(buffer)
    return True
