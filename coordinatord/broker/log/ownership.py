"""Ownership of the entries of a data directory. Foreign entries are not removed, emptied or followed.

| entry | action at a start |
|---|---|
| `TOPIC-N`, a partition in the catalogue, or one whose flushed offsets are in a checkpoint | opens it |
| `TOPIC-N` of such a partition, empty or with only its first files | removes it: a crash interrupted its creation |
| `TOPIC-N` with segments or a topic id, not a partition of ours | renames it to `TOPIC-N.<32 hex digits>-stray` |
| `TOPIC-N.<topic id>-delete` with that id in it | removes it: an interrupted removal |
| `__cluster_metadata-0` with the id of the log of Kafka's controllers, not ours | leaves it alone |
| symbolic links and other directories, whatever their names | leaves them alone |

Kafka's LogManager, too, renames a partition to a stray if its topic id is not in the cluster: the files are kept, and
the name is free. In a directory with an owner but no catalogue yet, such as a Kafka broker's, every directory with
segments or a topic id is a partition. A removal removes only files with names that we write; the topic id is removed
last, because it shows that the directory is ours.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from coordinatord.broker.log import checkpoint, leader_epoch_cache, names
from coordinatord.broker.log.checkpoint import TopicPartition
from coordinatord.broker.log.disk import Disk, read_text
from coordinatord.broker.log.errors import DataDirectoryError, LogDamaged

NO_ID = bytes(16)
"""Topic id of a partition that a Kafka broker created before topics had ids."""

_MOST_BEGUN_BYTES = 100
_FIRST_EPOCH = re.compile(r"0\n1\n[0-9]+ 0\n")
"""Content of the checkpoint of leader epochs of a partition without records."""


class Catalogued(NamedTuple):
    """The catalogue: each topic's id and number of partitions, and the names of topics that are being deleted."""

    topics: Mapping[str, tuple[bytes, int]]
    deleting: Mapping[bytes, str]


ReadCatalogued = Callable[[Disk, str], Catalogued | None]
"""Called with the disk and the data directory; returns None if there is no catalogue."""


def no_catalogue(_disk: Disk, _path: str) -> None:
    """Return no catalogue: every directory with the form of a partition is one."""


def or_empty(catalogued: ReadCatalogued) -> ReadCatalogued:
    """Return a reader for a directory without an owner: without a catalogue, no directory is a partition."""
    return lambda disk, path: catalogued(disk, path) or Catalogued({}, {})


class Foreign(NamedTuple):
    """A foreign entry, the reason, and its new name if it was renamed."""

    name: str
    reason: str
    renamed_to: str | None = None


class Found(NamedTuple):
    """A partition's directory."""

    key: TopicPartition
    name: str
    topic_id: bytes


@dataclass(slots=True)
class Judged:
    """Actions for the entries of a data directory."""

    partitions: list[Found] = field(default_factory=list)
    #: directories that were created but not filled
    begun: list[str] = field(default_factory=list)
    #: directories of partitions that were being removed
    unfinished: list[str] = field(default_factory=list)
    strays: list[Foreign] = field(default_factory=list)
    left_alone: list[Foreign] = field(default_factory=list)

    @property
    def ours(self) -> set[str]:
        """Names of directories that are partitions, or will be after the next record."""
        return {*self.begun, *(found.name for found in self.partitions)}


class Judge:
    """Decides about the entries of a data directory; changes nothing. Raises LogDamaged if an entry of ours is not
    valid.
    """

    def __init__(
        self, disk: Disk, path: str, catalogued: Catalogued | None, flushed: Mapping[TopicPartition, int]
    ) -> None:
        """`flushed`: the recovery points of the checkpoint, which only we write."""
        self._disk = disk
        self._path = path
        own = {names.METADATA_TOPIC: (names.METADATA_TOPIC_ID, 1)}
        self._catalogued = catalogued and catalogued._replace(topics={**catalogued.topics, **own})
        self._flushed = flushed
        self._judged = Judged()

    def judge(self, entries: Sequence[str], owns: Callable[[str, int], bool] | None) -> Judged:
        """Decide about all entries; or, if several processes share the directory, about those named like a partition of
        this process.
        """
        for name in sorted(entries):
            key = names.partition_of(name)
            if owns is not None and (key is None or not owns(*key)):
                continue
            kind = self._disk.kind(f"{self._path}/{name}")
            if kind == "symbolic link":
                self._leave(name, "it is a symbolic link, which is not followed")
            elif kind == "directory":
                if key is not None and (key[0] != names.METADATA_TOPIC or self._is_our_metadata(name)):
                    self._partition(name, key)
                else:
                    self._other(name)
        return self._judged

    def _is_our_metadata(self, name: str) -> bool:
        """Return whether a directory is our log of ACLs and other metadata, not the log of Kafka's controllers."""
        directory = f"{self._path}/{name}"
        if self._disk.kind(f"{directory}/{checkpoint.PARTITION_METADATA}") != "file":
            return False
        try:
            return checkpoint.read_topic_id(self._disk, directory) == names.METADATA_TOPIC_ID
        except (LogDamaged, OSError):
            return False

    def _leave(self, name: str, reason: str) -> None:
        self._judged.left_alone.append(Foreign(name, reason))

    def _other(self, name: str) -> None:
        topic_id = names.deleted_topic(name)
        if topic_id is None:
            is_stray = name.endswith(names.STRAY_SUFFIX)
            self._leave(name, "it is a stray partition" if is_stray else "it is not a partition")
        elif self._is_unfinished(f"{self._path}/{name}", topic_id):
            self._judged.unfinished.append(name)
        else:
            self._leave(name, "it does not have its topic's id")

    def _is_unfinished(self, directory: str, topic_id: bytes) -> bool:
        try:
            return checkpoint.read_topic_id(self._disk, directory) == topic_id or not self._disk.listdir(directory)
        except (LogDamaged, OSError):
            return False

    def _partition(self, name: str, key: TopicPartition) -> None:
        directory = f"{self._path}/{name}"
        is_ours = self._is_expected(key)
        kind = self._disk.kind(f"{directory}/{checkpoint.PARTITION_METADATA}")
        if kind not in (None, "file"):
            self._leave(name, f"its {checkpoint.PARTITION_METADATA} is a {kind}")
            return
        try:
            topic_id = checkpoint.read_topic_id(self._disk, directory)
            looks_like_one = topic_id is not None or bool(names.segment_bases(self._disk.listdir(directory)))
        except (LogDamaged, OSError) as error:
            if is_ours or self._catalogued is None:
                raise
            if isinstance(error, LogDamaged):
                self._stray(name, "its topic's id cannot be read")
            else:
                self._leave(name, f"it cannot be read: {error.strerror}")
            return
        reason = self._why_stray(key, topic_id)
        if not looks_like_one and is_ours and is_begun(self._disk, directory):
            self._judged.begun.append(name)
        elif not looks_like_one:
            self._leave(name, "it has neither a segment nor a topic's id")
        elif reason is not None:
            self._stray(name, reason)
        else:
            self._judged.partitions.append(Found(key, name, topic_id or NO_ID))

    def _is_expected(self, key: TopicPartition) -> bool:
        """Return whether a directory of this name is or was ours."""
        if self._flushed.get(key):
            return True
        if self._catalogued is None:
            return False
        entry = self._catalogued.topics.get(key[0])
        return (entry is not None and key[1] < entry[1]) or key[0] in self._catalogued.deleting.values()

    def _why_stray(self, key: TopicPartition, topic_id: bytes | None) -> str | None:
        catalogued = self._catalogued
        if catalogued is None or self._flushed.get(key) or topic_id in catalogued.deleting:
            return None  # the partition is ours, even if it is damaged
        entry = catalogued.topics.get(key[0])
        if entry is None:
            return "there is no such topic"
        if key[1] >= entry[1]:
            return f"the topic has {entry[1]} partitions"
        if topic_id in (None, NO_ID):  # created by a broker before topic ids: the recovery points decide
            return None if key in self._flushed else "it has no topic's id"
        return None if topic_id == entry[0] else "it has the id of another topic"

    def _stray(self, name: str, reason: str) -> None:
        self._judged.strays.append(Foreign(name, reason))


def is_begun(disk: Disk, directory: str) -> bool:
    """Return whether a directory has only its first files. Such a directory may be filled or removed."""
    return disk.kind(directory) == "directory" and all(
        _is_beginning(disk, f"{directory}/{name}", name) for name in disk.listdir(directory)
    )


def _is_beginning(disk: Disk, path: str, name: str) -> bool:
    if disk.kind(path) != "file" or not names.is_of_a_partition(name):
        return False
    text = read_text(disk, path, _MOST_BEGUN_BYTES + 1) or ""
    if name == leader_epoch_cache.FILE:
        return _FIRST_EPOCH.fullmatch(text) is not None
    return name.endswith(names.TEMPORARY_SUFFIX) and len(text) <= _MOST_BEGUN_BYTES


def remove_begun(disk: Disk, directory: str) -> None:
    """Remove a directory whose creation a crash interrupted. If that fails, it will be filled."""
    with contextlib.suppress(OSError):
        if is_begun(disk, directory):
            for name in disk.listdir(directory):
                disk.unlink(f"{directory}/{name}")
            disk.rmdir(directory)


def remove(disk: Disk, directory: str) -> Sequence[str]:
    """Remove a partition's directory. If it has foreign entries, remove only our files and return those entries."""
    others = []
    for name in disk.listdir(directory):
        path = f"{directory}/{name}"
        if not names.is_of_a_partition(name) or disk.kind(path) != "file":
            others.append(name)
        elif name != checkpoint.PARTITION_METADATA:
            with contextlib.suppress(FileNotFoundError):
                disk.unlink(path)
    if not others:
        with contextlib.suppress(FileNotFoundError):
            disk.unlink(f"{directory}/{checkpoint.PARTITION_METADATA}")
        with contextlib.suppress(OSError):  # the next start finds an entry that was added meanwhile
            disk.rmdir(directory)
    return others


def set_aside(disk: Disk, path: str, foreign: Foreign) -> Foreign:
    """Rename an entry with a partition's name, as Kafka does. The caller flushes the data directory."""
    key = names.partition_of(foreign.name)
    assert key is not None, "no other name is in anybody's way"
    renamed_to = names.aside(*key, os.urandom(16).hex(), names.STRAY_SUFFIX)
    disk.rename(f"{path}/{foreign.name}", f"{path}/{renamed_to}")
    return foreign._replace(renamed_to=renamed_to)


def refuse_others(disk: Disk, path: str, files: Sequence[str]) -> None:
    """Raise DataDirectoryError if an entry with the name of one of our files is not a file."""
    for name in files:
        kind = disk.kind(f"{path}/{name}")
        if kind not in (None, "file"):
            raise DataDirectoryError(
                f"{path}/{name} is a {kind}, where coordinatord keeps a file: move it out of the data directory"
            )
