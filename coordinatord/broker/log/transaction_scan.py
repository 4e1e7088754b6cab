"""Survey of a log before its cleaning: transactions and producers, read from the batch headers alone.

The survey reads the log itself, to its end, not the indexes of aborted transactions or the producers in memory. So it
works for logs that were never loaded, and needs no state that is kept up to date.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from coordinatord.broker.log.disk import Disk
from coordinatord.broker.log.errors import LogDamaged
from coordinatord.broker.log.segment import LOG_SUFFIX, segment_name
from kafka_wire.errors import DecodeError
from kafka_wire.records.batch import (
    CONTROL,
    HEADER_BYTES,
    LENGTH_OVERHEAD,
    TRANSACTIONAL,
    BatchHeader,
    control_type,
    read_header,
)
from kafka_wire.records.control import ControlType

#: base offset, length, attributes, last offset delta, max timestamp, producer id and epoch
_FIELDS = struct.Struct(">qi9xhi8xqqh")
ABORTED_ENTRY = struct.Struct(">hqqqq")
_CHUNK_BYTES = 1 << 20


class Aborted(NamedTuple):
    """An aborted transaction: an entry of Kafka's transaction index."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int

    def packed(self) -> bytes:
        return ABORTED_ENTRY.pack(0, *self)


class LastBatch(NamedTuple):
    """A producer's last data batch; `last_offset` is -1 if a marker of a newer producer epoch follows it."""

    epoch: int
    last_offset: int
    timestamp: int


@dataclass(slots=True)
class Survey:
    """Result of `survey`."""

    #: aborted transactions, in the order of their markers
    aborted: list[Aborted] = field(default_factory=list)
    #: last batch of every active producer, by producer id
    last: dict[int, LastBatch] = field(default_factory=dict)
    #: first offset of the first open transaction, or the log's end
    first_unstable: int = 0
    end_offset: int = 0

    def is_last_of_producer(self, header: BatchHeader) -> bool:
        """Return whether this batch is the only one with an active producer's last sequence number, or with its
        producer epoch.
        """
        last = self.last.get(header.producer_id)
        if last is None:
            return False
        if last.last_offset >= 0:
            return header.last_offset == last.last_offset
        return header.is_control and header.producer_epoch == last.epoch


def survey(
    disk: Disk,
    directory: str,
    segments: Iterable[tuple[int, int]],
    *,
    active_since_ms: int,
    passed: Callable[[int], object] = lambda size: None,
) -> Survey:
    """Read the headers of (base offset, bytes) segments. `passed` is called with the number of bytes read. Raises
    LogDamaged if a batch header or a marker is invalid.
    """
    reading = _Reading()
    for base_offset, size in segments:
        if not size:
            continue  # the active segment may not have its file yet
        path = f"{directory}/{segment_name(base_offset)}{LOG_SUFFIX}"
        file = disk.open(path)
        try:
            position = 0
            while position < size:
                buffer = file.pread(min(_CHUNK_BYTES, size - position), position)
                advanced = reading.chunk(buffer, path, position)
                passed(min(advanced, len(buffer)))
                position += advanced
        finally:
            file.close()
    found = reading.found
    found.first_unstable = min(reading.open.values(), default=found.end_offset)
    found.last = {number: last for number, last in reading.last.items() if last.timestamp > active_since_ms}
    return found


class _Reading:
    """State of the survey between batches."""

    def __init__(self) -> None:
        self.found = Survey()
        self.open: dict[int, int] = {}  # producer id -> first offset of its transaction
        self.last: dict[int, LastBatch] = {}

    def chunk(self, buffer: bytes, path: str, position: int) -> int:
        """Read the batches in `buffer`, which begins at `position` of the file; return the bytes consumed."""
        at, have, unpack = 0, len(buffer), _FIELDS.unpack_from
        while at + HEADER_BYTES <= have:
            base_offset, length, attributes, delta, timestamp, producer_id, epoch = unpack(buffer, at)
            size = length + LENGTH_OVERHEAD
            if size < HEADER_BYTES or delta < 0 or base_offset < self.found.end_offset:
                raise LogDamaged(path, position + at, f"no batch header (length {length}, offset {base_offset})")
            if producer_id >= 0:
                if attributes & CONTROL:
                    if at + size > have and at:
                        break
                    self._marker(buffer, at, path, position)
                else:
                    self.last[producer_id] = LastBatch(epoch, base_offset + delta, timestamp)
                    if attributes & TRANSACTIONAL:
                        self.open.setdefault(producer_id, base_offset)
            self.found.end_offset = base_offset + delta + 1
            at += size
        if not at:
            raise LogDamaged(path, position, f"the segment ends inside a batch header, {have} bytes")
        return at

    def _marker(self, buffer: bytes, at: int, path: str, position: int) -> None:
        try:
            header = read_header(buffer, at)
            if not header.record_count:
                return  # the marker of a transaction whose records were removed
            marker = control_type(buffer, at, header)
        except DecodeError as error:
            raise LogDamaged(path, position + at, f"no transaction marker: {error}") from None
        if marker is ControlType.UNKNOWN:
            return
        producer_id = header.producer_id
        known = self.last.get(producer_id)
        last_offset = known.last_offset if known is not None and known.epoch == header.producer_epoch else -1
        self.last[producer_id] = LastBatch(header.producer_epoch, last_offset, header.max_timestamp)
        first_offset = self.open.pop(producer_id, None)
        if first_offset is not None and marker is ControlType.ABORT:
            stable = min(self.open.values(), default=header.base_offset + 1)
            self.found.aborted.append(Aborted(producer_id, first_offset, header.base_offset, stable))


class Fates:
    """Selection of the batches that may be removed because of their transaction. Batches are passed one after the other
    from some offset on (Kafka's CleanedTransactionMetadata).
    """

    def __init__(self, aborted: Iterable[Aborted], begin: int) -> None:
        """Prepare for batches from the offset `begin` on."""
        coming = (each for each in aborted if each.last_offset >= begin)
        self._coming = sorted(coming, key=lambda each: each.first_offset, reverse=True)
        self._under_way: dict[int, tuple[Aborted, bool]] = {}
        self._committed: set[int] = set()
        #: the aborted transaction ended by the last judged batch, if the log still had records of it
        self.ended: Aborted | None = None

    def judge(self, header: BatchHeader, buffer: bytes, at: int) -> bool:
        """Return whether the batch may be removed: it is part of an aborted transaction, or a marker of a transaction
        without any records left.
        """
        self.ended = None
        if header.producer_id < 0:
            return False
        while self._coming and self._coming[-1].first_offset <= header.last_offset:
            entry = self._coming.pop()
            self._under_way.setdefault(entry.producer_id, (entry, False))
        if header.is_control:
            return self._marker(header, buffer, at)
        if not header.is_transactional:
            return False
        found = self._under_way.get(header.producer_id)
        if found is None:
            self._committed.add(header.producer_id)
            return False
        self._under_way[header.producer_id] = found[0], True
        return True

    def _marker(self, header: BatchHeader, buffer: bytes, at: int) -> bool:
        if not header.record_count:
            return True
        marker = control_type(buffer, at, header)
        if marker is ControlType.ABORT:
            found = self._under_way.pop(header.producer_id, None)
            if found is None or not found[1]:
                return True
            self.ended = found[0]
            return False
        if marker is ControlType.COMMIT:
            there = header.producer_id in self._committed
            self._committed.discard(header.producer_id)
            return not there
        return False
