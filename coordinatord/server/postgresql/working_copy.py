"""The working copy: a data directory made from the store's rows at each start, and discarded at the next.

A standby node makes it in advance (standby_copy.py). When that node takes the leadership it reads all rows again, and
writes those that differ.

The path is `<data.dir>/working-copy`. The segments are those that the rows were written to, so retention and compaction
have the same input as on the node that wrote the rows. Indexes, snapshots of producers and the indexes of aborted
transactions are not in the store: they are rebuilt from the batches, when they are first needed.
"""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Set
from operator import itemgetter
from pathlib import Path
from typing import Any, Protocol

from coordinatord.broker.log import checkpoint, leader_epoch_cache
from coordinatord.broker.log.data_dir import random_id
from coordinatord.broker.log.disk import Disk, Lock, OsDisk, replace_bytes, replace_text
from coordinatord.broker.log.errors import DataDirectoryError
from coordinatord.broker.log.names import METADATA_TOPIC_ID
from coordinatord.broker.log.segment import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, segment_name
from coordinatord.broker.topics import catalogue_file
from coordinatord.server.postgresql.contract import Held, PartitionKey
from coordinatord.server.postgresql.store import EPOCHS

NAME = "working-copy"
LOCK = "working-copy.lock"
DISK = OsDisk()

NO_TOPIC = (b"", 0)
NO_GROUP: tuple[None, Iterator[Any]] = (None, iter(()))


class Source(Protocol):
    """Source of a copy: a part of contract.Store."""

    def files(self) -> dict[str, bytes]: ...

    def partitions(self) -> list[Held]: ...

    def batches(self) -> Iterator[tuple[PartitionKey, int, bytes]]: ...


def lock(directory: Path) -> Lock:
    """Lock `directory` for its working copy. Raises DataDirectoryError if another process has the lock, or if
    `directory` is itself a data directory.
    """
    DISK.makedirs(str(directory))
    if (directory / checkpoint.META_PROPERTIES).exists():
        raise DataDirectoryError(
            f"{directory} is a data directory, and storage=postgresql:// keeps only a working copy in a directory: "
            "name another one, and put this one's records into the database with `coordinatord store load`"
        )
    try:
        return DISK.lock(str(directory / LOCK), str(os.getpid()))
    except BlockingIOError:
        raise DataDirectoryError(
            f"{directory / NAME} is in use by another process: give this one another directory"
        ) from None


def make(
    source: Source,
    path: Path,
    *,
    cluster_id: str,
    node_id: int,
    disk: Disk = DISK,
    on_read: Callable[[int], object] = int,
) -> int:
    """Make a data directory from the content of the store. Returns the bytes of its records. `path` is empty or
    missing, or has an earlier copy of the same store that this process has made: then unchanged files are kept.
    Partitions of deleted topics, which `topics.json` does not name, are left out. `on_read` is called for each batch,
    with the bytes of all batches read so far.
    """
    path.mkdir(parents=True, exist_ok=True)
    files = source.files()
    own = {name: content for name, content in files.items() if not name.startswith(EPOCHS)}
    for name, content in own.items():
        _put(disk, path / name, content)
    if not own.keys() >= {catalogue_file.FILE}:
        (path / catalogue_file.FILE).unlink(missing_ok=True)
    catalogued = catalogue_file.catalogued(disk, str(path))
    if not (path / checkpoint.META_PROPERTIES).exists():
        properties = {
            "version": str(checkpoint.META_VERSION),
            "cluster.id": cluster_id,
            "node.id": str(node_id),
            "directory.id": random_id(),
        }
        checkpoint.write_properties(disk, str(path / checkpoint.META_PROPERTIES), properties)

    def is_wanted(held: Held) -> bool:
        """Return True if the partition has had records, and its topic was neither deleted nor created again."""
        is_known = not catalogued or catalogued.topics.get(held.topic, NO_TOPIC)[0] == held.key.topic_id
        return held.end_offset > 0 and (is_known or held.key.topic_id == METADATA_TOPIC_ID)

    ends: dict[tuple[str, int], int] = {}
    size = 0
    wanted = sorted(filter(is_wanted, source.partitions()), key=lambda held: _order(held.key))
    for held, batches in _by_partition(wanted, _counted(source.batches(), on_read)):
        ends[held.topic, held.key.partition] = held.end_offset
        directory = path / f"{held.topic}-{held.key.partition}"
        loaded = files.get(EPOCHS + directory.name)
        known = () if loaded is None else leader_epoch_cache.parsed(loaded.decode(), EPOCHS + directory.name)
        size += _make_partition(disk, directory, held, batches, known)
    _keep(path, {*own, checkpoint.META_PROPERTIES, *(f"{topic}-{partition}" for topic, partition in ends)})
    # The database's content is durable already: damage in the copy must not be taken for an unfinished write.
    checkpoint.write_offsets(disk, str(path / checkpoint.RECOVERY_POINT), ends)
    replace_text(disk, str(path / checkpoint.CLEAN_SHUTDOWN), checkpoint.CLEAN_SHUTDOWN_TEXT)
    return size


def discard(path: Path) -> None:
    """Remove an old copy. The caller holds the lock."""
    if path.exists():
        shutil.rmtree(path)


def _order(key: PartitionKey) -> tuple[bytes, int]:
    """Return the sort key that has the database's order."""
    return key.topic_id, key.partition


def _counted(
    rows: Iterator[tuple[PartitionKey, int, bytes]], on_read: Callable[[int], object]
) -> Iterator[tuple[PartitionKey, int, bytes]]:
    size = 0
    for row in rows:
        size += len(row[2])
        on_read(size)
        yield row


def _by_partition(
    wanted: Iterable[Held], rows: Iterator[tuple[PartitionKey, int, bytes]]
) -> Iterator[tuple[Held, Iterator[tuple[int, bytes]]]]:
    """Yield each partition with (segment, batch) of its rows, if it has any. Both arguments are in the order of keys;
    rows of other partitions are skipped.
    """
    groups = itertools.groupby(rows, key=itemgetter(0))
    key, group = next(groups, NO_GROUP)
    for held in wanted:
        while key is not None and _order(key) < _order(held.key):
            key, group = next(groups, NO_GROUP)
        yield held, ((segment, batch) for _key, segment, batch in (group if key == held.key else ()))
    for _passed_over in groups:
        pass


def _make_partition(
    disk: Disk,
    directory: Path,
    held: Held,
    batches: Iterable[tuple[int, bytes]],
    known: leader_epoch_cache.LeaderEpochs,
) -> int:
    """Return the partition's bytes. `known` are its leader epochs when it was loaded; the batches have later ones."""
    if checkpoint.read_topic_id(disk, str(directory)) != held.key.topic_id:
        discard(directory)
        directory.mkdir()
        checkpoint.write_topic_id(disk, str(directory), held.key.topic_id)
    size, end = 0, 0
    names = {checkpoint.PARTITION_METADATA, leader_epoch_cache.FILE}
    current = -1
    segment = None
    try:
        for base_offset, batch in batches:
            if base_offset != current or segment is None:
                if segment is not None:
                    segment.close()
                current = base_offset
                segment = _SegmentCopy(directory, base_offset)
                names |= segment.names
            segment.add(batch)
            epoch = int.from_bytes(batch[12:16], "big", signed=True)
            if epoch > (known[-1][0] if known else -1):
                known = leader_epoch_cache.assigned(known, epoch, int.from_bytes(batch[:8], "big"))
            size += len(batch)
            end = int.from_bytes(batch[:8], "big") + int.from_bytes(batch[23:27], "big") + 1
    finally:
        if segment is not None:
            segment.close()
    if end < held.end_offset:  # the name of the last segment is the log end offset
        empty = _SegmentCopy(directory, held.end_offset)
        empty.close()
        names |= empty.names
    _put(disk, directory / leader_epoch_cache.FILE, leader_epoch_cache.text(known or leader_epoch_cache.FIRST).encode())
    _keep(directory, names)
    return size


class _SegmentCopy:
    """Writes a segment's batches over those of an earlier copy. Equal batches are kept, and so are the segment's
    indexes if all batches are equal.
    """

    def __init__(self, directory: Path, base_offset: int) -> None:
        stem = segment_name(base_offset)
        self._log = directory / (stem + LOG_SUFFIX)
        self._indexes = [directory / (stem + INDEX_SUFFIX), directory / (stem + TIME_INDEX_SUFFIX)]
        self.names = {path.name for path in (self._log, *self._indexes)}
        descriptor = os.open(self._log, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._file = open(descriptor, "r+b")  # noqa: SIM115  # one after the other
        self._is_same = True
        self._size = 0

    def add(self, batch: bytes) -> None:
        """Write the next batch, unless the earlier copy has it."""
        if self._is_same and self._file.read(len(batch)) != batch:
            self._change()
        if not self._is_same:
            self._file.write(batch)
        self._size += len(batch)

    def close(self) -> None:
        """Truncate the segment after the last batch, and close its file."""
        try:
            if self._is_same and self._file.read(1):
                self._change()
        finally:
            self._file.close()

    def _change(self) -> None:
        """Begin to write: the rest differs. The indexes go first: they must not be taken for those of other batches."""
        for path in self._indexes:
            path.unlink(missing_ok=True)
        self._is_same = False
        self._file.seek(self._size)
        self._file.truncate()


def _put(disk: Disk, path: Path, content: bytes) -> None:
    """Write a small file, unless it has this content already."""
    try:
        is_same = path.read_bytes() == content
    except FileNotFoundError:
        is_same = False
    if not is_same:
        replace_bytes(disk, str(path), content)


def _keep(path: Path, names: Set[str]) -> None:
    """Remove all other entries of an earlier copy."""
    for entry in list(os.scandir(path)):
        if entry.name not in names:
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path)
            else:
                os.unlink(entry.path)
