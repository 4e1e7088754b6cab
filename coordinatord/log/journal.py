"""One file that is flushed instead of many.

A flush of fifty dirty segments costs fifty `fdatasync`s (5 ms here), however little each got; the offsets topic has
fifty partitions. So an epoch is first written to the journal, all of it in one record, and only the journal is
flushed (0.13 ms): from then on the epoch is durable. The segments get the same bytes right after, unflushed. When the
journal has grown to its limit the segments it covers are flushed, their ends noted in
`recovery-point-offset-checkpoint`, and a new journal begins; a clean stop ends without one. After a crash the journal
is read first and every write in it is done again: same file, same position, same bytes.

That also settles what a damaged byte means. Below the recovery point and in the journal everything was flushed, so it
is damage and opening refuses; after that nothing was, so it is a torn tail and is cut off.

`journal-<first epoch, 20 digits>` (`journal-worker-1-<first epoch>` where several processes share the directory, see
shares.py), a sequence of records, each starting where the one before ended:
```
 0  4  "CdJ1"
 4  4  record length
 8  4  CRC-32C of what follows, to the record's end
12  8  epoch
20  4  flags (1: everything before this record was flushed when it was written)
24  4  entries
28     per entry: 16 topic id, 8 segment base offset, 4 position, 4 data length, 2 name length,
       name "topic-partition", data
```
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from crc32c import crc32c

from coordinatord.log.disk import Disk, File
from coordinatord.log.errors import LogDamaged

PREFIX = "journal-"
#: The journal's size at which segments are flushed and a new one begins.
JOURNAL_BYTES = 16 * 1024 * 1024

_NAME = re.compile(rf"{PREFIX}(worker-\d+-)?\d+$")

MAGIC = b"CdJ1"
FLUSHED = 1

_RECORD = struct.Struct(">4sIIQII")
_ENTRY = struct.Struct(">16sQIIH")
_CRC_FROM = 12
#: An epoch with more than this is split, so that recovery does not have to hold it at once.
SPLIT_BYTES = 32 * 1024 * 1024
#: The largest there can be: one partition's largest batch and what came with it.
MAX_RECORD_BYTES = (1 << 31) - 1


class JournalEntry(NamedTuple):
    """Bytes that belong at `position` of segment `base_offset` of partition `name` ("topic-partition")."""

    topic_id: bytes
    name: str
    base_offset: int
    position: int
    data: bytes


class JournalWrite(NamedTuple):
    """The same while it is being written: the data still in pieces."""

    topic_id: bytes
    name: str
    base_offset: int
    position: int
    buffers: list[bytes | bytearray]
    size: int


def encode(epoch: int, writes: Iterable[JournalWrite], *, after_flush: bool) -> bytearray:
    """One record. `after_flush`: all that the journal held before is flushed."""
    parts: list[bytes | bytearray] = []
    count = 0
    for write in writes:
        name = write.name.encode()
        parts.append(_ENTRY.pack(write.topic_id, write.base_offset, write.position, write.size, len(name)))
        parts.append(name)
        parts += write.buffers
        count += 1
    body = b"".join(parts)
    out = bytearray(_RECORD.pack(MAGIC, _RECORD.size + len(body), 0, epoch, FLUSHED if after_flush else 0, count))
    out += body
    struct.pack_into(">I", out, 8, crc32c(memoryview(out)[_CRC_FROM:]))
    return out


class Journal:
    """The journal being written. Used by the writer's thread only."""

    def __init__(self, disk: Disk, directory: str, first_epoch: int, owner: str = "") -> None:
        self.path = f"{directory}/{PREFIX}{owner}{first_epoch:020d}"
        self.size = 0
        self._disk = disk
        self._file: File = disk.open(self.path, create=True)
        self._file.truncate(0)
        disk.sync_dir(directory)

    def append(self, record: bytearray) -> None:
        self._file.pwrite(record, self.size)
        self.size += len(record)

    def flush(self) -> None:
        self._file.datasync()

    def close(self) -> None:
        self._file.close()

    def remove(self) -> None:
        """What it held is flushed elsewhere."""
        self._file.close()
        self._disk.unlink(self.path)


def owner_of(worker: int) -> str:
    """What stands in the names of a worker's journals."""
    return f"worker-{worker}-"


def journal_names(names: Iterable[str], worker: int | None = None) -> list[str]:
    """Those of a data directory's names that are journals, each owner's oldest first; or those of one worker."""
    found = [(match[1] or "", name) for name in names if (match := _NAME.match(name))]
    return [name for owner, name in sorted(found) if worker is None or owner == owner_of(worker)]


def read_journal(disk: Disk, path: str) -> Iterator[JournalEntry]:
    """Everything that was flushed, in the order of writing. A torn last record is left out; LogDamaged when a
    sound one follows an unsound one.
    """
    file = disk.open(path)
    try:
        end = file.size()
        position = 0
        epoch: int | None = None
        while position < end:
            record = _read_record(file, position, end)
            if record is None or (epoch is not None and _epoch(record) < epoch):
                if _flushed_record_after(file, position, end):
                    raise LogDamaged(
                        path, position, "a journal record is damaged, and one that was written after it is not"
                    )
                return
            epoch = _epoch(record)
            yield from _entries(record)
            position += len(record)
    finally:
        file.close()


def _epoch(record: bytes) -> int:
    epoch: int = _RECORD.unpack_from(record)[3]
    return epoch


def _read_record(file: File, position: int, end: int) -> bytes | None:
    """The record at `position`, None when there is no sound one."""
    head = file.pread(_RECORD.size, position)
    if len(head) < _RECORD.size:
        return None
    magic, length, crc, *_ = _RECORD.unpack(head)
    if magic != MAGIC or not _RECORD.size <= length <= min(end - position, MAX_RECORD_BYTES):
        return None
    record = file.pread(length, position)
    if len(record) < length or crc32c(memoryview(record)[_CRC_FROM:]) != crc:
        return None
    return record


def _flushed_record_after(file: File, position: int, end: int) -> bool:
    """Whether a record begins anywhere behind `position` that was written when all before it was flushed: then the
    one there was, too.
    """
    chunk = 1 << 20
    while position < end:
        data = file.pread(chunk, position)
        at = data.find(MAGIC, 1)
        while at >= 0:
            record = _read_record(file, position + at, end)
            if record is not None and _RECORD.unpack_from(record)[4] & FLUSHED:
                return True
            at = data.find(MAGIC, at + 1)
        if len(data) < chunk:
            break
        position += chunk - len(MAGIC)
    return False


def _entries(record: bytes) -> Iterator[JournalEntry]:
    count = _RECORD.unpack_from(record)[5]
    at = _RECORD.size
    for _ in range(count):
        topic_id, base_offset, position, size, name_size = _ENTRY.unpack_from(record, at)
        at += _ENTRY.size
        name = record[at : at + name_size].decode()
        at += name_size
        yield JournalEntry(topic_id, name, base_offset, position, record[at : at + size])
        at += size
