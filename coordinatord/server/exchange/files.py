"""File operations of import and export: check that a directory is unused, list its partitions, check and copy them."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from coordinatord.broker.log import checkpoint, leader_epoch_cache, locks
from coordinatord.broker.log.disk import OsDisk, ReadOnlyDisk
from coordinatord.broker.log.errors import LogDamaged
from coordinatord.broker.log.names import is_aside, partition_of, segment_base, segment_bases
from coordinatord.broker.log.scan import Scanned, scan
from coordinatord.broker.log.segment import (
    CLEANED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    MAX_INT32,
    SWAP_SUFFIX,
    TIME_INDEX_SUFFIX,
    segment_name,
)
from coordinatord.broker.topics.snapshots import offset_of

DISK = OsDisk()
SOURCE = ReadOnlyDisk()

METADATA_DIRECTORY = "__cluster_metadata-0"

#: Kafka's name for a directory that it has deleted, moved or found stray: `NAME.<32 hex digits>-WORD`
_RENAMED = re.compile(r".*\.[0-9a-f]{32}-(delete|future|stray)\Z")


class ExchangeError(Exception):
    """The reason why the import or export is not possible: a sentence that names a remedy."""


@dataclass(slots=True)
class Partition:
    """A partition's directory."""

    topic: str
    index: int
    path: Path


@dataclass(slots=True)
class Copied:
    """Findings from copying a partition."""

    records: int = 0
    bytes: int = 0
    end_offset: int = 0
    #: the greatest producer id of any batch, -1 for none
    producer_id: int = -1
    #: bytes after the last valid batch, left to the next start's recovery
    torn_bytes: int = 0


@dataclass(slots=True)
class Row:
    """A topic's row in the report."""

    topic: str
    partitions: int = 0
    records: int = 0
    bytes: int = 0


@dataclass(slots=True)
class Report:
    """The topics that were processed, or would be: one row per topic, and notes."""

    rows: list[Row]
    remarks: list[str] = field(default_factory=list)


@contextlib.contextmanager
def unused(path: Path) -> Iterator[None]:
    """Lock a data directory against other processes, as its owner would. Raises ExchangeError while a process uses it.

    Nothing is written, and a read-only directory is sufficient: the lock is a shared one.
    """
    try:
        fd = os.open(path / checkpoint.LOCK, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        yield  # no lock file: a copy, or never used
        return
    except NotADirectoryError:
        raise ExchangeError(f"{path} is not a directory.") from None
    try:
        locks.hold(fd, shared=True)
    except OSError:
        os.close(fd)
        raise ExchangeError(f"{path} is in use: stop the process that owns it first.") from None
    try:
        yield
    finally:
        os.close(fd)


def properties(path: Path, *, versions: tuple[str, ...] = (str(checkpoint.META_VERSION),)) -> dict[str, str]:
    """Return meta.properties of a formatted directory, in one of these versions; brokers before KRaft wrote version 0.
    Raises ExchangeError for any other directory.
    """
    if not path.is_dir():
        raise ExchangeError(f"{path} is not a directory.")
    file = path / checkpoint.META_PROPERTIES
    found = checkpoint.read_properties(SOURCE, str(file))
    if found is None:
        raise ExchangeError(f"{path} has no {checkpoint.META_PROPERTIES}: it is not the data directory of a broker.")
    if found.get("version") not in versions:
        raise ExchangeError(f"{file} has version {found.get('version')}: only {' and '.join(versions)} can be read.")
    if "broker.id" in found:
        found.setdefault("node.id", found["broker.id"])
    for name in ("cluster.id", "node.id"):
        if name not in found:
            raise ExchangeError(f"{file} has no {name}: it is not the data directory of a broker.")
    return found


def partitions(path: Path) -> tuple[list[Partition], list[str]]:
    """Return the partitions of a data directory, and the names of directories that Kafka has renamed out of use.
    Directories with neither a segment nor a topic id belong to no partition and are skipped.
    """
    found, aside = [], []
    for entry in sorted(path.iterdir()):
        if not entry.is_dir() or entry.name == METADATA_DIRECTORY:
            continue
        key = partition_of(entry.name)
        if _RENAMED.match(entry.name):
            aside.append(entry.name)
        elif key is not None and _looks_like_one(entry):
            found.append(Partition(*key, entry))
    return sorted(found, key=lambda each: (each.topic, each.index)), aside


def _looks_like_one(directory: Path) -> bool:
    names = [each.name for each in directory.iterdir()]
    return checkpoint.PARTITION_METADATA in names or bool(segment_bases(names))


def batches(path: Path, next_offset: int = 0) -> Iterator[Scanned]:
    """Return every batch of a segment, with its CRC checked, of offsets from `next_offset` on. Raises LogDamaged at the
    first invalid one.
    """
    file = SOURCE.open(str(path))
    try:
        yield from scan(file, str(path), 0, file.size(), next_offset=next_offset)
    finally:
        file.close()


def examine(partition: Partition, *, clean: bool) -> Copied:
    """Read a whole partition and return its totals. Every batch must be valid, except at the last segment's end after
    an unclean stop. The files that `copy` would copy must be regular files: Kafka makes no others, and a link could
    lead to any file of this machine. Raises LogDamaged and ExchangeError.
    """
    found = Copied()
    names = sorted(each.name for each in partition.path.iterdir())
    for name in names:
        if _belongs(name, indexes=True) and not stat.S_ISREG((partition.path / name).lstat().st_mode):
            raise ExchangeError(f"{partition.path / name} is not a regular file: put the file itself there.")
    leader_epoch_cache.read(SOURCE, str(partition.path))  # damage is found before anything is copied
    unfinished = [name for name in names if name.endswith((SWAP_SUFFIX, CLEANED_SUFFIX)) and is_aside(name)]
    if unfinished:
        raise ExchangeError(
            f"{partition.path / unfinished[0]} was left behind by a cleaning that did not end: start and stop its "
            "broker once, so that it can clean up."
        )
    segments = [partition.path / f"{segment_name(base)}{LOG_SUFFIX}" for base in segment_bases(names)]
    for segment in segments:
        size = segment.stat().st_size
        sound = 0
        base = int(segment.name[: -len(LOG_SUFFIX)])
        found.end_offset = max(found.end_offset, base)
        try:
            for position, header, _buffer, _at in batches(segment, found.end_offset):
                if header.last_offset - base > MAX_INT32:
                    reason = f"offset {header.last_offset} does not belong to this segment"
                    raise LogDamaged(str(segment), position, reason)
                sound += header.size
                found.end_offset = header.next_offset
                found.records += header.record_count
                found.producer_id = max(found.producer_id, header.producer_id)
        except LogDamaged:
            if clean or segment is not segments[-1]:
                raise
            found.torn_bytes = size - sound
        found.bytes += size
    return found


def copy(partition: Partition, target: Path, *, indexes: bool) -> None:
    """Copy a partition's files into a new directory, durably. The indexes of a partition that was not closed end in
    zeros; without `indexes` they are left out, and both sides rebuild them.
    """
    for entry in partition.path.iterdir():
        if not _belongs(entry.name, indexes=indexes):
            continue
        shutil.copyfile(entry, target / entry.name)
        _flush(target / entry.name)
    _flush(target)


def _belongs(name: str, *, indexes: bool) -> bool:
    if segment_base(name) is not None:
        return indexes or not name.endswith((INDEX_SUFFIX, TIME_INDEX_SUFFIX))
    return name in (leader_epoch_cache.FILE, checkpoint.PARTITION_METADATA) or offset_of(name) is not None


def _flush(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
