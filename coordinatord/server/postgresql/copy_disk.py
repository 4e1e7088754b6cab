"""The disk of a working copy: the operating system's disk, except that the store receives every file that a restart
needs before the copy does, and that nothing is flushed: each start discards the copy.

Files of two kinds are renamed into place, and both renames pass through this class. The small files beside the segments
are replaced whole (broker/log/disk.py). A compacted segment is committed by renaming its log to `….log.swap`
(broker/log/segment_swap.py): at that moment its batches replace the old ones' rows; if that fails, the cleaning has
failed and is done again later.

After a failed change of a small file, the copy has the old version, but the store may have the new one: the next leader
could treat a topic that is served here as deleted. So `settle` stores the old version again, before any more records
are committed. Where several nodes lead, the store's version counts instead: sharing.py copies it here.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterator
from typing import Protocol

from coordinatord.broker.log import checkpoint
from coordinatord.broker.log.disk import File, OsDisk, OsFile, open_file
from coordinatord.broker.log.errors import LogError
from coordinatord.broker.log.scan import walk
from coordinatord.broker.log.segment import LOG_SUFFIX, SWAP_SUFFIX
from coordinatord.server.postgresql.contract import Away, PartitionKey, Row, Store, Unusable, row_of
from coordinatord.server.postgresql.store import SHARED

FILES = frozenset({"topics.json", "producer_ids.json", "groups.json", checkpoint.LOG_START, checkpoint.CLEANER})
"""The small files that a restart needs. tests/server/postgresql compares them with those that the daemon writes."""

WAITING = frozenset({checkpoint.LOG_START})
"""The files that the writer's thread writes, as part of an epoch of the log: that write waits for the database."""

_SWAP = re.compile(rf"(\d{{20}}){re.escape(LOG_SUFFIX)}{re.escape(SWAP_SUFFIX)}")


class Putting(Protocol):
    """The interface of sharing.SharedFiles, for several leading nodes."""

    def put(self, name: str, content: bytes, then: Callable[[], object]) -> None: ...


class UnflushedFile(OsFile):
    """A file whose content may be lost in a power failure."""

    __slots__ = ()

    def datasync(self) -> None:
        """Check that the file still exists, as a flush does."""
        self.check_exists()


class UnflushedDisk(OsDisk):
    """The operating system's disk without flushes, for files that are not needed after a power failure. Flushing each
    of two hundred small files takes a second on a busy disk, and a node that takes the lead writes them while clients
    wait.
    """

    def open(self, path: str, *, create: bool = False) -> File:
        """Open a file (Disk.open)."""
        return UnflushedFile(open_file(path, create=create))

    def sync_dir(self, path: str) -> None:
        """Do nothing."""


class CopyDisk(UnflushedDisk):
    """The disk of a working copy at `path`."""

    def __init__(self, store: Store, path: str) -> None:
        self._store = store
        self._path = path
        self.sharing: Putting | None = None
        """Set if other nodes change some of the files, too."""
        self._changing = threading.Lock()
        self._unsettled: set[str] = set()

    def rename(self, source: str, target: str) -> None:
        """Rename a file. Before that, send to the store the content that the new name makes valid."""
        directory, name = os.path.split(target)
        if directory == self._path and name in SHARED and self.sharing is not None:
            self.sharing.put(name, _read(source), lambda: super(CopyDisk, self).rename(source, target))
            return
        if directory == self._path and name in FILES:
            with self._changing:
                self._put(name, _read(source))
                super().rename(source, target)
            return
        if (swap := _SWAP.fullmatch(name)) is not None:
            self._replace(directory, source, int(swap[1]))
        super().rename(source, target)

    def _put(self, name: str, content: bytes) -> None:
        if name in WAITING:
            self._store.put_file(name, content, waits=True)
            return
        self._unsettled.add(name)
        try:
            self._store.put_file(name, content)
        except LogError as error:  # callers expect a disk's exceptions; the lease reports the cause to the daemon
            raise Away(str(error)) from error
        self._unsettled.discard(name)

    @property
    def is_settled(self) -> bool:
        """True if the store's files are those of the copy, as far as is known."""
        return not self._unsettled

    def settle(self) -> None:
        """Store the copy's version again of each file whose change failed and may have reached the store. Raises
        Away.
        """
        with self._changing:
            for name in sorted(self._unsettled):
                path = f"{self._path}/{name}"
                if self.exists(path):
                    self._store.put_file(name, _read(path))
                self._unsettled.discard(name)

    def _replace(self, directory: str, source: str, base_offset: int) -> None:
        topic_id = checkpoint.read_topic_id(self, directory)
        if topic_id is None:
            raise Unusable(f"{directory} has no {checkpoint.PARTITION_METADATA}")
        key = PartitionKey(topic_id, int(directory.rsplit("-", 1)[1]))
        end = base_offset
        file = self.open(source)
        try:
            for _position, header in walk(file, source, 0, file.size()):
                end = header.next_offset
        finally:
            file.close()
        self._store.replace(key, base_offset, end, self._rows(key, source, base_offset))

    def _rows(self, key: PartitionKey, source: str, segment: int) -> Iterator[Row]:
        file = self.open(source)
        try:
            for position, header in walk(file, source, 0, file.size()):
                yield row_of(key, segment, file.pread(header.size, position))
        finally:
            file.close()


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()
