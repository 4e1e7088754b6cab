"""The working copy: a data directory made from the store's rows at each start, and discarded at the next.

It lies in `<data.dir>/working-copy`. The segments are those that the rows were written to, so retention and compaction
find what they would find on the node that wrote them. Indexes, snapshots of producers and the indexes of aborted
transactions are not in the store: they are made again from the batches, when they are first needed.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Protocol

from coordinatord.log import checkpoint, epochs
from coordinatord.log.data_dir import random_id
from coordinatord.log.disk import Disk, Lock, OsDisk, replace_bytes, replace_text
from coordinatord.log.errors import DataDirectoryError
from coordinatord.log.names import METADATA_TOPIC_ID
from coordinatord.log.segment import LOG_SUFFIX, segment_name
from coordinatord.postgresql.contract import Held, PartitionKey
from coordinatord.topics import catalogue_file

NAME = "working-copy"
LOCK = "working-copy.lock"
EPOCHS = "epochs/"
"""What the names of the leader epochs of partitions begin with, of those that a Kafka broker has led before."""

DISK = OsDisk()

NO_TOPIC = (b"", 0)


class Source(Protocol):
    """What a copy is made from: contract.Store."""

    def files(self) -> dict[str, bytes]: ...

    def partitions(self) -> list[Held]: ...

    def batches(self, key: PartitionKey) -> Iterator[tuple[int, bytes]]: ...


def lock(directory: Path) -> Lock:
    """Lock `directory` for its working copy. DataDirectoryError if another process has it, or if it is a data directory
    of its own.
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


def make(source: Source, path: Path, *, cluster_id: str, node_id: int, disk: Disk = DISK) -> int:
    """Make a data directory of what the store has, in an empty or missing `path`; returns its bytes of records.
    Partitions of deleted topics are left out if `topics.json` does not name them.
    """
    path.mkdir(parents=True, exist_ok=True)
    files = source.files()
    for name, content in files.items():
        if not name.startswith(EPOCHS):
            replace_bytes(disk, str(path / name), content)
    catalogued = catalogue_file.catalogued(disk, str(path))
    checkpoint.write_properties(
        disk,
        str(path / checkpoint.META_PROPERTIES),
        {
            "version": str(checkpoint.META_VERSION),
            "cluster.id": cluster_id,
            "node.id": str(node_id),
            "directory.id": random_id(),
        },
    )
    ends: dict[tuple[str, int], int] = {}
    size = 0
    for held in source.partitions():
        key = held.key
        is_known = not catalogued or catalogued.topics.get(held.topic, NO_TOPIC)[0] == key.topic_id
        if not held.end_offset or not (is_known or key.topic_id == METADATA_TOPIC_ID):
            continue  # nothing was written yet, or the topic was deleted and perhaps made again
        ends[held.topic, key.partition] = held.end_offset
        directory = path / f"{held.topic}-{key.partition}"
        size += _make_partition(disk, directory, held, source.batches(key))
        if (known := files.get(EPOCHS + directory.name)) is not None:
            replace_bytes(disk, str(directory / epochs.FILE), known)
    # What the database has is as durable as it gets: damage in it must not be taken for an unfinished write.
    checkpoint.write_offsets(disk, str(path / checkpoint.RECOVERY_POINT), ends)
    replace_text(disk, str(path / checkpoint.CLEAN_SHUTDOWN), checkpoint.CLEAN_SHUTDOWN_TEXT)
    return size


def discard(path: Path) -> None:
    """Remove an old copy. The caller holds the lock."""
    if path.exists():
        shutil.rmtree(path)


def _make_partition(disk: Disk, directory: Path, held: Held, batches: Iterable[tuple[int, bytes]]) -> int:
    directory.mkdir()
    checkpoint.write_topic_id(disk, str(directory), held.key.topic_id)
    epochs.write(disk, str(directory))
    size, end = 0, 0
    current = -1
    file = None
    try:
        for segment, batch in batches:
            if segment != current or file is None:
                if file is not None:
                    file.close()
                current = segment
                file = open(directory / (segment_name(segment) + LOG_SUFFIX), "wb")  # noqa: SIM115  # one after the other
            file.write(batch)
            size += len(batch)
            end = int.from_bytes(batch[:8], "big") + int.from_bytes(batch[23:27], "big") + 1
    finally:
        if file is not None:
            file.close()
    if end < held.end_offset:  # the last segment's name says where the log ends
        (directory / (segment_name(held.end_offset) + LOG_SUFFIX)).touch()
    return size
