"""Replay: every record of a partition, once, in order, in one pass and bounded memory.

`replay(log)` yields batches; each has its records as plain tuples (offset, timestamp, key, value), made by one flat
loop, because a start with a million commits has to be through in seconds. Only one chunk of the file and one batch's
records are in memory at a time. Each CRC is checked.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from coordinatord.log.disk import File
from coordinatord.log.errors import LogDamaged
from coordinatord.log.partition_log import PartitionLog
from coordinatord.log.scan import LOAD_BUFFER_BYTES, scan
from protocol.errors import DecodeError
from protocol.records.batch import CONTROL, BatchHeader
from protocol.records.control import ControlType, decode_key
from protocol.records.key_values import OffsetKeyValue, key_values


@dataclass(slots=True)
class ReplayedBatch:
    """One batch. A control batch has `control` (its marker's type) and its record, which is not data, in `records`."""

    header: BatchHeader
    records: list[OffsetKeyValue]
    control: ControlType | None
    #: bytes of the partition read so far, this batch included: for progress
    bytes_read: int


def replay(log: PartitionLog, *, chunk_bytes: int = LOAD_BUFFER_BYTES) -> Iterator[ReplayedBatch]:
    """All visible batches of `log` from its start on. LogDamaged names the file and the position of the first that is
    not sound.

    What is visible is fixed when it begins, and the cleaner leaves the log as it is until it ends. Segments are opened
    one at a time; a generator that is dropped halfway closes its file.
    """
    with log.pinned():
        yield from _replay(log, chunk_bytes)


def _replay(log: PartitionLog, chunk_bytes: int) -> Iterator[ReplayedBatch]:
    done = 0
    next_offset = 0
    for segment, visible_bytes in [(segment, segment.visible_bytes) for segment in log.segments]:
        if not visible_bytes:
            continue
        path = segment.log_path
        file = log.disk.open(path)
        try:
            yield from _replay_segment(
                file, path, visible_bytes, max(next_offset, segment.base_offset), done, chunk_bytes
            )
        finally:
            file.close()
        done += visible_bytes


def _replay_segment(
    file: File, path: str, end: int, next_offset: int, done: int, chunk_bytes: int
) -> Iterator[ReplayedBatch]:
    for position, header, buffer, at in scan(file, path, 0, end, next_offset=next_offset, chunk_bytes=chunk_bytes):
        try:
            records = key_values(buffer, at, header)
            control = None
            if header.attributes & CONTROL:
                control = decode_key(records[0][2]) if records else ControlType.UNKNOWN
        except DecodeError as error:
            raise LogDamaged(path, position, f"the CRC matches, but the records cannot be read: {error}") from None
        yield ReplayedBatch(header, records, control, done + position + header.size)
