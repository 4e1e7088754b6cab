"""Replay of a partition: every record once, in order, in one pass and bounded memory.

`replay(log)` yields batches. Each has its records as bytes and, on request, as plain tuples (offset, timestamp, key,
value): a start with a million commits must take seconds, and does not need most of the tuples. Only one chunk of the
file is in memory at a time. Every CRC is checked.
"""

from __future__ import annotations

from collections.abc import Iterator

from coordinatord.broker.log.disk import File
from coordinatord.broker.log.errors import LogDamaged
from coordinatord.broker.log.partition_log import PartitionLog
from coordinatord.broker.log.scan import LOAD_BUFFER_BYTES, scan
from kafka_wire.errors import DecodeError
from kafka_wire.records.batch import CODEC_MASK, CONTROL, HEADER_BYTES, LENGTH_OVERHEAD, BatchHeader, record_bytes
from kafka_wire.records.control import ControlType, decode_key
from kafka_wire.records.key_values import OffsetKeyValue, key_values


class ReplayedBatch:
    """One batch. `records` decodes its records to tuples; `span` returns the position of their bytes. A control batch
    has `control` (its marker's type), and its one record is not data.
    """

    __slots__ = ("_at", "_buffer", "_path", "_position", "bytes_read", "control", "header")

    def __init__(self, header: BatchHeader, buffer: bytes, at: int, path: str, position: int, bytes_read: int) -> None:
        self.header = header
        #: bytes of the partition read so far, including this batch: for progress
        self.bytes_read = bytes_read
        self._buffer = buffer
        self._at = at
        self._path = path
        self._position = position
        self.control: ControlType | None = self._control_type() if header.attributes & CONTROL else None

    @property
    def records(self) -> list[OffsetKeyValue]:
        """(offset, timestamp, key, value) of each record; each access decodes them again."""
        try:
            return key_values(self._buffer, self._at, self.header)
        except DecodeError as error:
            raise self.damaged(error) from None

    def span(self) -> tuple[bytes, int, int]:
        """Return (buffer, begin, end) of the decompressed records. Raises LogDamaged if they cannot be decompressed."""
        header, at = self.header, self._at
        if not header.attributes & CODEC_MASK:
            return self._buffer, at + HEADER_BYTES, at + header.length + LENGTH_OVERHEAD
        try:
            section = record_bytes(self._buffer, at, header)
        except DecodeError as error:
            raise self.damaged(error) from None
        return section, 0, len(section)

    def damaged(self, error: DecodeError) -> LogDamaged:
        """Return the error to raise if the records cannot be decoded."""
        return LogDamaged(self._path, self._position, f"the CRC matches, but the records cannot be read: {error}")

    def _control_type(self) -> ControlType:
        records = self.records
        try:
            return decode_key(records[0][2]) if records else ControlType.UNKNOWN
        except DecodeError as error:
            raise self.damaged(error) from None


def replay(log: PartitionLog, *, chunk_bytes: int = LOAD_BUFFER_BYTES) -> Iterator[ReplayedBatch]:
    """Yield all visible batches of `log` from its start. Raises LogDamaged with the file and position of the first
    invalid one.

    The visible part is fixed at the beginning, and the cleaner does not change the log until the end. Segments are
    opened one at a time; a generator that is dropped halfway closes its file.
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
        yield ReplayedBatch(header, buffer, at, path, position, done + position + header.length + LENGTH_OVERHEAD)
