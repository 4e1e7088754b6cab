"""Journal: one file that is flushed instead of many.

Flushing fifty dirty segments costs fifty `fdatasync`s (5 ms here), however little was written to each; the offsets
topic has fifty partitions. So the writer first writes a flush epoch to the journal, as one record, and flushes only the
journal (0.13 ms): from then on the epoch is durable. Right after that it writes the same bytes to the segments,
unflushed. When the journal reaches its size limit, a new journal begins. Meanwhile the segments that the old journal
covers are flushed, their ends stored in `recovery-point-offset-checkpoint`, and the old journal dropped (flusher.py). A
clean stop leaves no journal. After a crash the journals are read first, oldest first, and each write is repeated: same
file, position and bytes.

Flushing a file that has not grown writes its data and nothing else. If the file has grown, the file system must commit
its own journal, and ext4 first writes the pending data of all other files: with fifty segments being written, that is a
tail of tens of milliseconds. So a journal's file grows by steps of zeros, which the records overwrite, and the file is
reused: once its segments are flushed it becomes `spare-journal`, and the next journal is that file under a new name,
with records written over the old ones. The first spare is filled with zeros once the first journal has reached a
mebibyte; that journal ends as soon as the spare is ready. If the disk has no room for a step, the file grows with each
write.

The journal also determines whether an invalid byte is damage. Everything below the recovery point and in the journal
was flushed: an invalid byte there is damage, and opening fails. Later bytes were not flushed: an invalid byte there is
a torn tail, which is cut off. All of a journal was flushed before the next journal got its first record; the last
record of the journal is marked as the last.

`journal-<first epoch, 20 digits>` (`journal-worker-1-<first epoch>` if several processes share the directory, see
worker_checkpoints.py) is a sequence of records, each starting where the previous one ended. The last record is followed
by zeros, or by the file's earlier content, whose records all have lower epochs than the one in the file's name: ``` 0
4  "CdJ1" 4  4  record length 8  4  CRC-32C of what follows, to the record's end 12  8  flush epoch 20  4  flags (1:
everything before this record was flushed when it was written; 2: the journal's last one) 24  4  entries 28     per
entry: 16 topic id, 8 segment base offset, 4 position, 4 data length, 2 name length, name "topic-partition", data ```
"""

from __future__ import annotations

import errno
import re
import struct
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from coordinatord.broker.log.disk import Disk, File
from coordinatord.broker.log.errors import LogDamaged
from kafka_wire.message_parts import joined
from kafka_wire.records.crc import crc32c

PREFIX = "journal-"
#: Size of the journal in bytes at which segments are flushed and a new journal begins.
JOURNAL_BYTES = 16 * 1024 * 1024

#: Smallest and largest step of growth in bytes; between them, a step equals the file's size.
STEP_BYTES = 4 * 1024, 1024 * 1024
_ZEROS = bytes(STEP_BYTES[1])
#: Errors for a step without room: on the disk, in the quota, or under the file size limit.
_NO_ROOM = errno.ENOSPC, errno.EDQUOT, errno.EFBIG

_NAME = re.compile(rf"{PREFIX}(worker-[0-9]+-)?[0-9]{{20}}")
_EPOCH = re.compile(r"[0-9]+$")
SPARE = "spare-journal"
_SPARE_NAME = re.compile(rf"(worker-[0-9]+-)?{SPARE}")

MAGIC = b"CdJ1"
FLUSHED = 1
LAST = 2

_RECORD = struct.Struct(">4sIIQII")
_ENTRY = struct.Struct(">16sQIIH")
_CRC_FROM = 12
#: Size in bytes above which a flush epoch is split, so that recovery need not hold all of it in memory.
SPLIT_BYTES = 32 * 1024 * 1024
#: Bytes per read at positions where no record is expected.
_CHUNK_BYTES = 1 << 20
#: Largest possible record: one partition's largest batch and the records that share its flush epoch.
MAX_RECORD_BYTES = (1 << 31) - 1


class JournalEntry(NamedTuple):
    """Bytes to be written at `position` of segment `base_offset` of partition `name` ("topic-partition")."""

    topic_id: bytes
    name: str
    base_offset: int
    position: int
    data: bytes


class JournalWrite(NamedTuple):
    """A `JournalEntry` before it is encoded: its data is still in pieces."""

    topic_id: bytes
    name: str
    base_offset: int
    position: int
    buffers: list[bytes | bytearray]
    size: int


def encode(epoch: int, writes: Iterable[JournalWrite], *, after_flush: bool, last: bool = False) -> bytearray:
    """Encode one record. `after_flush`: all earlier records of the journal are flushed. `last`: the journal ends."""
    parts: list[bytes | bytearray] = [bytes(_RECORD.size)]
    count = 0
    for topic_id, name, base_offset, position, buffers, size in writes:
        encoded = name.encode()
        parts.append(_ENTRY.pack(topic_id, base_offset, position, size, len(encoded)))
        parts.append(encoded)
        parts += buffers
        count += 1
    out = joined(parts)
    flags = (FLUSHED if after_flush else 0) | (LAST if last else 0)
    _RECORD.pack_into(out, 0, MAGIC, len(out), 0, epoch, flags, count)
    struct.pack_into(">I", out, 8, crc32c(memoryview(out)[_CRC_FROM:]))
    return out


class Journal:
    """A journal to be written, or a spare. Not thread-safe."""

    def __init__(self, disk: Disk, directory: str, first_epoch: int | None, owner: str = "") -> None:
        """Create a new file: a spare one if `first_epoch` is None, which `begin` turns into a journal."""
        self._disk = disk
        self._directory = directory
        self._owner = owner
        self.path = f"{directory}/{_name(first_epoch, owner)}"
        #: size of the records; bytes after them are ignored
        self.size = 0
        #: flush epoch of the last record
        self.epoch = 0
        self._file_size = 0
        self._grows_by_steps = True
        self._file: File = disk.open(self.path, create=True)
        self._file.truncate(0)
        disk.sync_dir(directory)

    def begin(self, first_epoch: int) -> None:
        """Turn a spare into a journal."""
        self._rename(first_epoch)

    def append(self, epoch: int, writes: Iterable[JournalWrite], *, after_flush: bool, last: bool = False) -> None:
        record = encode(epoch, writes, after_flush=after_flush, last=last)
        size = self.size + len(record)
        if size > self._file_size and self._grows_by_steps:
            smallest, largest = STEP_BYTES
            self._grow(size, min(max(size, smallest), largest))
        self._file.pwrite(record, self.size)
        self.size = size
        self.epoch = epoch

    def _grow(self, position: int, step: int) -> None:
        """Write zeros for later records."""
        try:
            self._file.pwrite(_ZEROS[:step], position)
            self._file_size = position + step
        except OSError as error:
            if error.errno not in _NO_ROOM:
                raise
            self._grows_by_steps = False  # the record itself may still fit; if not, its write fails

    def fill(self, size: int) -> bool:
        """Do one step towards a file of `size` bytes, flushed. Return False if the file has `size` bytes, or if there
        is no room.
        """
        step = min(size - self._file_size, STEP_BYTES[1])
        if step <= 0 or not self._grows_by_steps:
            return False
        self._grow(self._file_size, step)
        self._file.datasync()
        return self._grows_by_steps

    def flush(self) -> None:
        self._file.datasync()

    def spare(self) -> None:
        """Turn a journal into a spare: its content is flushed to the segments."""
        self._rename(None)
        self.size = 0

    def _rename(self, first_epoch: int | None) -> None:
        """Rename the file, durably."""
        path = f"{self._directory}/{_name(first_epoch, self._owner)}"
        self._disk.rename(self.path, path)
        self.path = path
        self._disk.sync_dir(self._directory)

    def close(self) -> None:
        self._file.close()

    def remove(self) -> None:
        self._file.close()
        self._disk.unlink(self.path)


def owner_of(worker: int) -> str:
    """Return the worker's part of its journals' names."""
    return f"worker-{worker}-"


def _name(first_epoch: int | None, owner: str) -> str:
    """Return a file's name. A spare's name cannot be that of a partition's directory, which ends with a number."""
    return f"{owner}{SPARE}" if first_epoch is None else f"{PREFIX}{owner}{first_epoch:020d}"


def spare_names(names: Iterable[str], worker: int | None = None) -> list[str]:
    """Return the spare files among a data directory's names: all, or those of one worker."""
    wanted = None if worker is None else _name(None, owner_of(worker))
    return [name for name in names if _SPARE_NAME.fullmatch(name) and wanted in (None, name)]


def journal_names(names: Iterable[str], worker: int | None = None) -> list[str]:
    """Return the journals among a data directory's names, each owner's oldest first: all, or those of one worker."""
    found = [(match[1] or "", name) for name in names if (match := _NAME.fullmatch(name))]
    return [name for owner, name in sorted(found) if worker is None or owner == owner_of(worker)]


def refuse_foreign(disk: Disk, directory: str, names: Iterable[str]) -> None:
    """Raise LogDamaged if a file with the name of a journal or a spare is neither, because opening the directory
    removes all journals. A file whose first write was interrupted may have zeros anywhere.
    """
    for name in names:
        path = f"{directory}/{name}"
        file = disk.open(path)
        try:
            head = file.pread(len(MAGIC), 0)
        finally:
            file.close()
        if any(byte not in (0, expected) for byte, expected in zip(head, MAGIC, strict=False)):
            reason = "it does not begin like a journal; if it is not ours, move it out of the data directory"
            raise LogDamaged(path, 0, reason)


def read_journals(disk: Disk, directory: str, names: Iterable[str]) -> Iterator[JournalEntry]:
    """Yield the entries of journals, in the order of `journal_names`. Raises LogDamaged also if a journal before
    another one has no last record.
    """
    unended: dict[str, tuple[str, int]] = {}
    for name in names:
        path = f"{directory}/{name}"
        owner = name.rpartition("-")[0]
        stopped_at: list[int] = []
        for entry in read_journal(disk, path, stopped_at.append):
            if owner in unended:
                raise LogDamaged(*unended[owner], f"a journal record is damaged, and {name} was begun after it")
            yield entry
        for at in stopped_at:
            unended.setdefault(owner, (path, at))


def read_journal(
    disk: Disk, path: str, on_unended: Callable[[int], object] = lambda _position: None
) -> Iterator[JournalEntry]:
    """Yield all flushed entries, in the order of writing, without a torn last record. Unless the last record read is
    marked as the last, `on_unended` is called with the position where reading stopped. Raises LogDamaged if a valid
    record follows an invalid one.
    """
    file = disk.open(path)
    try:
        end = file.size()
        position = 0
        epoch = first_epoch(path)
        while position < end:
            record = _read_record(file, position, end)
            if record is None or _epoch(record) < epoch:
                if _flushed_record_after(file, position, end, epoch):
                    raise LogDamaged(path, position, "a journal record is damaged, but a later one is valid")
                break
            epoch = _epoch(record)
            yield from _entries(record)
            if _flags(record) & LAST:
                return
            position += len(record)
        on_unended(position)
    finally:
        file.close()


def first_epoch(path: str) -> int:
    """Return the first flush epoch of a journal's file; older records in the file do not belong to it. 0 for any other
    name.
    """
    digits = _EPOCH.search(path)
    return int(digits[0]) if digits else 0


def _epoch(record: bytes) -> int:
    epoch: int = _RECORD.unpack_from(record)[3]
    return epoch


def _flags(record: bytes) -> int:
    flags: int = _RECORD.unpack_from(record)[4]
    return flags


def _read_record(file: File, position: int, end: int) -> bytes | None:
    """Return the record at `position`; None if there is no valid one."""
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


def _flushed_record_after(file: File, position: int, end: int, epoch: int) -> bool:
    """Return whether a record of `epoch` or later after `position` was written when all before it was flushed: then the
    record at `position` was flushed, too.
    """
    while position < end:
        data = file.pread(_CHUNK_BYTES, position)
        at = data.find(MAGIC, 1)
        while at >= 0:
            record = _read_record(file, position + at, end)
            if record is not None and _flags(record) & FLUSHED and _epoch(record) >= epoch:
                return True
            at = data.find(MAGIC, at + 1)
        if len(data) < _CHUNK_BYTES:
            break
        position += _CHUNK_BYTES - len(MAGIC)
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
