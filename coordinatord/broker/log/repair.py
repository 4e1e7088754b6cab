"""Repair of a damaged partition: removes everything from a position on, so that the rest can be opened.

`plan` only reads: it lists what would be kept and removed, and which removed records are still readable. `carry_out`
executes the plan:

1. the segment's bytes from the position on are copied into a side file, later segments are renamed to side files;
2. the entries of the removed part are deleted from the journals and checkpoints; otherwise the next start would demand
   them;
3. a leader epoch begins at the new end, for clients that have read removed records (KIP-320);
4. the segment is cut, its indexes are rebuilt, snapshots beyond the new end are removed.

After each step the partition can still be repaired. Nothing reads the side files (`….removed`): they can be inspected
with `coordinatord log dump`, and deleted.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from coordinatord.broker.log import checkpoint, leader_epoch_cache, worker_checkpoints
from coordinatord.broker.log.disk import Disk, File, Lock, write_bytes
from coordinatord.broker.log.errors import LogDamaged, LogError
from coordinatord.broker.log.journal import JournalEntry, JournalWrite, encode, first_epoch, journal_names, read_journal
from coordinatord.broker.log.names import is_of_a_partition, partition_of, segment_base, segment_bases
from coordinatord.broker.log.recovery import rebuild_indexes
from coordinatord.broker.log.scan import scan
from coordinatord.broker.log.segment import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    Segment,
)
from coordinatord.broker.log.transaction_scan import ABORTED_ENTRY
from kafka_wire.errors import DecodeError
from kafka_wire.records.batch import HEADER, HEADER_BYTES, LENGTH_OVERHEAD, MAGIC, BatchHeader, check_crc, records

REMOVED_SUFFIX = ".removed"
_SNAPSHOT_SUFFIX = ".snapshot"
_COPY_BYTES = 4 << 20
_SEARCH_BYTES = 1 << 20
_MAGIC_AT = 16


class RepairRefused(LogError):
    """The repair cannot be done; the message says why and what can be done."""


@dataclass(slots=True)
class Extent:
    """A range of bytes in one segment, and the records that can be read in it."""

    path: str
    begin: int
    end: int
    record_count: int = 0
    #: first and last offset of the readable batches
    first_offset: int | None = None
    last_offset: int | None = None

    def note(self, header: BatchHeader, count: int) -> None:
        self.record_count += count
        if self.first_offset is None:
            self.first_offset = header.base_offset
        self.last_offset = header.last_offset


@dataclass(slots=True)
class Plan:
    """The effect of a repair. `removed` begins with the damaged segment's extent."""

    data_path: str
    directory: str
    segment: Segment
    position: int
    end_offset: int
    kept: list[Extent] = field(default_factory=list)
    removed: list[Extent] = field(default_factory=list)

    @property
    def name(self) -> str:
        """topic-partition"""
        return os.path.basename(self.directory)


#: called with (key, value) of each readable record that is removed
Witness = Callable[[bytes | None, bytes | None], object]


def lock(disk: Disk, segment_path: str) -> Lock:
    """Lock the data directory of a segment. Raises RepairRefused if it is in use, or no data directory."""
    data_path = os.path.dirname(os.path.dirname(segment_path))
    for path in (segment_path, os.path.dirname(segment_path)):
        if disk.kind(path) == "symbolic link":
            raise RepairRefused(f"{path} is a symbolic link: what it leads to is not in the data directory")
    if not disk.exists(f"{data_path}/{checkpoint.META_PROPERTIES}"):
        reason = f"{data_path} has no {checkpoint.META_PROPERTIES}"
        raise RepairRefused(f"{segment_path} is not in a data directory: {reason}")
    try:
        return disk.lock(f"{data_path}/{checkpoint.LOCK}", str(os.getpid()))
    except BlockingIOError:
        raise RepairRefused(f"data directory {data_path} is in use: stop the daemon first") from None


def plan(disk: Disk, segment_path: str, position: int, witness: Witness = lambda _key, _value: None) -> Plan:
    """Plan to remove everything from `position` of a segment on. The caller holds the lock."""
    directory, name = os.path.split(segment_path)
    base_offset = segment_base(name)
    if base_offset is None or not name.endswith(LOG_SUFFIX) or partition_of(os.path.basename(directory)) is None:
        reason = f"their names are 20 digits and {LOG_SUFFIX}, in a directory TOPIC-NUMBER"
        raise RepairRefused(f"{segment_path} is no segment: {reason}")
    segment = Segment(directory, base_offset, on_disk=True)
    bases = segment_bases(disk.listdir(directory))
    made = Plan(os.path.dirname(directory), directory, segment, position, segment.base_offset)
    for base in bases:
        path = Segment(directory, base, on_disk=True).log_path
        file = disk.open(path)
        try:
            size = file.size()
            if base < segment.base_offset:
                made.kept.append(Extent(path, 0, size))
            elif base > segment.base_offset:
                made.removed.append(_removed(file, Extent(path, 0, size), witness))
            else:
                if not 0 <= position <= size:
                    raise RepairRefused(f"{path} has {size} bytes, there is no position {position}")
                made.kept.append(_kept(file, Extent(path, 0, position), made))
                made.removed.append(_removed(file, Extent(path, position, size), witness))
        finally:
            file.close()
    return made


def _kept(file: File, extent: Extent, made: Plan) -> Extent:
    """Check that the kept part is valid and ends with a whole batch."""
    end = 0
    try:
        for batch in scan(file, extent.path, 0, extent.end):
            extent.note(batch.header, batch.header.record_count)
            end = batch.position + batch.header.size
            made.end_offset = batch.header.next_offset
    except LogDamaged as damage:
        raise RepairRefused(
            f"{extent.path} is not sound up to byte {extent.end}: {damage.reason} at byte {damage.position}. "
            f"Give that position."
        ) from None
    assert end == extent.end
    return extent


def _removed(file: File, extent: Extent, witness: Witness) -> Extent:
    for header, batch in salvage(file, extent.begin, extent.end):
        try:
            found = list(records(batch))
        except DecodeError:
            continue
        extent.note(header, len(found))
        for record in found:
            witness(record.key, record.value)
    return extent


def salvage(file: File, begin: int, end: int) -> Iterator[tuple[BatchHeader, bytes]]:
    """Yield every batch with a valid CRC between two positions, wherever it begins."""
    at = begin
    while at + HEADER_BYTES <= end:
        header = BatchHeader._make(HEADER.unpack(file.pread(HEADER_BYTES, at)))
        if header.magic == MAGIC and HEADER_BYTES - LENGTH_OVERHEAD <= header.length <= end - at - LENGTH_OVERHEAD:
            batch = file.pread(header.size, at)
            try:
                check_crc(batch, 0, header)
            except DecodeError:
                pass
            else:
                yield header, batch
                at += header.size
                continue
        at = _next_candidate(file, at + 1, end)


def _next_candidate(file: File, at: int, end: int) -> int:
    """Return the next position where a batch's magic would be valid."""
    while at + HEADER_BYTES <= end:
        data = file.pread(min(_SEARCH_BYTES, end - at - _MAGIC_AT), at + _MAGIC_AT)
        found = data.find(MAGIC)
        if found >= 0:
            return at + found
        at += max(len(data), 1)
    return end


def carry_out(disk: Disk, made: Plan, interval_bytes: int) -> list[str]:
    """Execute a plan, durably. Returns the side files. The caller holds the lock. Nothing is lost before `truncate`."""
    side_files = _set_aside(disk, made)
    side_files += _clear_journals(disk, made)
    _lower_checkpoints(disk, made)
    _begin_epoch(disk, made)
    file = disk.open(made.segment.log_path)
    try:
        file.truncate(made.position)
        file.datasync()
    finally:
        file.close()
    for extent in made.removed[1:]:
        for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX):
            _unlink(disk, extent.path.removesuffix(LOG_SUFFIX) + suffix)
    for name in disk.listdir(made.directory):
        digits = name.removesuffix(_SNAPSHOT_SUFFIX)
        is_snapshot = name.endswith(_SNAPSHOT_SUFFIX) and is_of_a_partition(name)
        if is_snapshot and digits.isdigit() and int(digits) > made.end_offset:
            _unlink(disk, f"{made.directory}/{name}")
    _cut_transaction_index(disk, made)
    rebuild_indexes(disk, made.segment, interval_bytes)
    disk.sync_dir(made.directory)
    return side_files


def _set_aside(disk: Disk, made: Plan) -> list[str]:
    side_files = []
    first = made.removed[0]
    if first.end > first.begin:
        target = _free_name(disk, f"{first.path}.{first.begin}")
        source, copy = disk.open(first.path), disk.open(target, create=True)
        try:
            for at in range(first.begin, first.end, _COPY_BYTES):
                copy.pwrite(source.pread(min(_COPY_BYTES, first.end - at), at), at - first.begin)
            copy.datasync()
        finally:
            source.close()
            copy.close()
        side_files.append(target)
    # Backwards from the last one, so that the remaining segments never have a gap.
    for extent in reversed(made.removed[1:]):
        target = _free_name(disk, f"{extent.path}.0")
        disk.rename(extent.path, target)
        side_files.append(target)
    disk.sync_dir(made.directory)
    return side_files


def _free_name(disk: Disk, base: str) -> str:
    number = 0
    while disk.kind(target := f"{base}{f'.{number}' if number else ''}{REMOVED_SUFFIX}") is not None:
        number += 1
    return target


def _clear_journals(disk: Disk, made: Plan) -> list[str]:
    """Remove the partition's entries from the position on from the journals. Entries that no segment has are copied to
    side files.
    """
    side_files = []
    sizes = {extent.path: extent.end for extent in made.removed}
    for name in journal_names(disk.listdir(made.data_path)):
        path = f"{made.data_path}/{name}"
        entries = list(read_journal(disk, path))
        kept = [short for entry in entries if (short := _shortened(entry, made)) is not None]
        if kept == entries:
            continue
        for entry in entries:
            segment_path = Segment(made.directory, entry.base_offset, on_disk=True).log_path
            is_gone = _shortened(entry, made) != entry
            if is_gone and entry.position + len(entry.data) > sizes.get(segment_path, 0):
                target = _free_name(disk, f"{segment_path}.{entry.position}.journal")
                write_bytes(disk, target, entry.data)
                side_files.append(target)
        writes = [JournalWrite(*entry[:4], [entry.data], len(entry.data)) for entry in kept]
        temporary = f"{path}.tmp"
        epoch = first_epoch(path)
        rewritten = encode(epoch, writes, after_flush=False) if writes else b""
        write_bytes(disk, temporary, bytes(rewritten) + bytes(encode(epoch, (), after_flush=True, last=True)))
        disk.rename(temporary, path)
        disk.sync_dir(made.data_path)
    return side_files


def _shortened(entry: JournalEntry, made: Plan) -> JournalEntry | None:
    """Return the part of a journal entry that is kept."""
    if entry.name != made.name or entry.base_offset < made.segment.base_offset:
        return entry
    if entry.base_offset > made.segment.base_offset or entry.position >= made.position:
        return None
    return entry._replace(data=entry.data[: made.position - entry.position])


def _lower_checkpoints(disk: Disk, made: Plan) -> None:
    topic, _, partition = made.name.rpartition("-")
    key = topic, int(partition)
    for name in disk.listdir(made.data_path):
        if name in worker_checkpoints.CHECKPOINTS or worker_checkpoints.is_checkpoint(name):
            offsets = checkpoint.read_offsets(disk, f"{made.data_path}/{name}")
            if offsets.get(key, 0) > made.end_offset:
                offsets[key] = made.end_offset
                checkpoint.write_offsets(disk, f"{made.data_path}/{name}", offsets)


def _begin_epoch(disk: Disk, made: Plan) -> None:
    """Begin a leader epoch above all that removed records may have, and another one if a repair is repeated."""
    known = leader_epoch_cache.read(disk, made.directory)
    epoch = max(known[-1][0], checkpoint.leader_epoch_of(disk, made.data_path)) + 1
    if epoch > leader_epoch_cache.MAX_EPOCH:
        raise RepairRefused(f"{made.name} has the last leader epoch that there is: it cannot be led any more")
    leader_epoch_cache.write(disk, made.directory, leader_epoch_cache.assigned(known, epoch, made.end_offset))


def _cut_transaction_index(disk: Disk, made: Plan) -> None:
    path = made.segment.path + TRANSACTION_INDEX_SUFFIX
    if not disk.exists(path):
        return
    file = disk.open(path)
    try:
        size = file.size()
        data = file.pread(size - size % ABORTED_ENTRY.size, 0)
        kept = 0
        for _version, _producer_id, _first, last_offset, _stable in ABORTED_ENTRY.iter_unpack(data):
            if last_offset >= made.end_offset:
                break
            kept += ABORTED_ENTRY.size
        file.truncate(kept)
        file.datasync()
    finally:
        file.close()


def _unlink(disk: Disk, path: str) -> None:
    if disk.kind(path) == "file":
        disk.unlink(path)
