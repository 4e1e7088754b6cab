"""Whose the entries of a data directory are. What somebody else has put there is not removed, emptied or followed.

| what lies there | what becomes of it |
|---|---|
| `TOPIC-N`, a partition that the catalogue has, or of which a checkpoint says that something was flushed | is opened |
| `TOPIC-N` of such a partition, with nothing in it, or with what we begin with | is removed: a crash has left it |
| `TOPIC-N` with segments or a topic's id, but no partition of ours | is renamed to `TOPIC-N.<32 hex digits>-stray` |
| `TOPIC-N.<topic's id>-delete`, and that id is in it | goes: a removal that did not end |
| symbolic links and other directories, whatever their names | are left alone |

A stray is what Kafka's LogManager makes of a partition that its cluster does not know (by the topic's id): it keeps the
files, and its name is free. Where there is no catalogue yet, but an owner, as in a Kafka broker's directory, everything
with segments or a topic's id is a partition. Of a directory that goes, only files go that have names which we write,
and the id comes last: it is what shows whose the directory is.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from coordinatord.log import checkpoint, epochs, names
from coordinatord.log.checkpoint import TopicPartition
from coordinatord.log.disk import Disk, read_text
from coordinatord.log.errors import DataDirectoryError, LogDamaged

NO_ID = bytes(16)
"""Of a partition that a Kafka broker made before topics had ids."""

_CONTROLLERS = "__cluster_metadata"
"""The log of Kafka's controllers, which no broker takes for a topic's."""

_MOST_BEGUN_BYTES = 100


class Catalogued(NamedTuple):
    """What the catalogue says: each topic's id and number of partitions; the names of topics that are being deleted."""

    topics: Mapping[str, tuple[bytes, int]]
    deleting: Mapping[bytes, str]


ReadCatalogued = Callable[[Disk, str], Catalogued | None]
"""Given the disk and the data directory. None: there is no catalogue."""


class Foreign(NamedTuple):
    """An entry that is not ours, why, and where to it was renamed, if it was."""

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
    """What is to become of the entries of a data directory."""

    partitions: list[Found] = field(default_factory=list)
    #: made, and not filled yet
    begun: list[str] = field(default_factory=list)
    #: of partitions that were being removed
    unfinished: list[str] = field(default_factory=list)
    strays: list[Foreign] = field(default_factory=list)
    left_alone: list[Foreign] = field(default_factory=list)

    @property
    def ours(self) -> set[str]:
        """Names of directories that are partitions', or will be with the next record."""
        return {*self.begun, *(found.name for found in self.partitions)}


class Judge:
    """Looks at a data directory; changes nothing. LogDamaged where what is ours cannot be understood."""

    def __init__(
        self, disk: Disk, path: str, catalogued: Catalogued | None, flushed: Mapping[TopicPartition, int]
    ) -> None:
        """`flushed`: what the checkpoint of recovery points says, which only we write."""
        self._disk = disk
        self._path = path
        self._catalogued = catalogued
        self._flushed = flushed
        self._judged = Judged()

    def judge(self, entries: Sequence[str], owns: Callable[[str, int], bool] | None) -> Judged:
        """All entries; or, where several processes share the directory, those that have a name of our partitions."""
        for name in sorted(entries):
            key = names.partition_of(name)
            if owns is not None and (key is None or not owns(*key)):
                continue
            kind = self._disk.kind(f"{self._path}/{name}")
            if kind == "symbolic link":
                self._leave(name, "it is a symbolic link, which is not followed")
            elif kind == "directory":
                if key is not None and key[0] != _CONTROLLERS:
                    self._partition(name, key)
                else:
                    self._other(name)
        return self._judged

    def _leave(self, name: str, reason: str) -> None:
        self._judged.left_alone.append(Foreign(name, reason))

    def _other(self, name: str) -> None:
        topic_id = names.deleted_topic(name)
        if topic_id is None:
            is_stray = name.endswith(names.STRAY_SUFFIX)
            self._leave(name, "it is a stray partition" if is_stray else "it is no partition")
        elif self._is_unfinished(f"{self._path}/{name}", topic_id):
            self._judged.unfinished.append(name)
        else:
            self._leave(name, "its topic's id is not in it")

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
                self._leave(name, f"it cannot be looked into: {error.strerror}")
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
        """Whether a directory of this name is ours, or was."""
        if self._flushed.get(key):
            return True
        if self._catalogued is None:
            return False
        entry = self._catalogued.topics.get(key[0])
        return (entry is not None and key[1] < entry[1]) or key[0] in self._catalogued.deleting.values()

    def _why_stray(self, key: TopicPartition, topic_id: bytes | None) -> str | None:
        catalogued = self._catalogued
        if catalogued is None or self._flushed.get(key) or topic_id in catalogued.deleting:
            return None  # whatever is wrong with it, it is ours
        entry = catalogued.topics.get(key[0])
        if entry is None:
            return "there is no such topic"
        if key[1] >= entry[1]:
            return f"the topic has {entry[1]} partitions"
        if topic_id in (None, NO_ID):  # of a broker before there were ids: then it was opened before
            return None if key in self._flushed else "it has no topic's id"
        return None if topic_id == entry[0] else "it is of another topic's id"

    def _stray(self, name: str, reason: str) -> None:
        self._judged.strays.append(Foreign(name, reason))


def is_begun(disk: Disk, directory: str) -> bool:
    """Whether there is nothing in a directory but what we put into it first. Such a one may be filled or removed."""
    return disk.kind(directory) == "directory" and all(
        _is_beginning(disk, f"{directory}/{name}", name) for name in disk.listdir(directory)
    )


def _is_beginning(disk: Disk, path: str, name: str) -> bool:
    if disk.kind(path) != "file" or not names.is_of_a_partition(name):
        return False
    text = read_text(disk, path, _MOST_BEGUN_BYTES + 1) or ""
    if name == epochs.FILE:
        return text == epochs.text(epochs.FIRST)
    return name.endswith(names.TEMPORARY_SUFFIX) and len(text) <= _MOST_BEGUN_BYTES


def remove_begun(disk: Disk, directory: str) -> None:
    """Undo what a crash has interrupted. What cannot be removed now will be filled."""
    with contextlib.suppress(OSError):
        if is_begun(disk, directory):
            for name in disk.listdir(directory):
                disk.unlink(f"{directory}/{name}")
            disk.rmdir(directory)


def remove(disk: Disk, directory: str) -> Sequence[str]:
    """Remove a partition's directory; or, where something in it is not ours, what is, and say what stays."""
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
        with contextlib.suppress(OSError):  # what has come just now is found by the next start
            disk.rmdir(directory)
    return others


def set_aside(disk: Disk, path: str, foreign: Foreign) -> Foreign:
    """Rename what has a partition's name as Kafka does; the caller flushes the data directory."""
    key = names.partition_of(foreign.name)
    assert key is not None, "no other name is in anybody's way"
    renamed_to = names.aside(*key, secrets.token_hex(16), names.STRAY_SUFFIX)
    disk.rename(f"{path}/{foreign.name}", f"{path}/{renamed_to}")
    return foreign._replace(renamed_to=renamed_to)


def refuse_others(disk: Disk, path: str, files: Sequence[str]) -> None:
    """DataDirectoryError where something else than a file has the name of one of ours."""
    for name in files:
        kind = disk.kind(f"{path}/{name}")
        if kind not in (None, "file"):
            raise DataDirectoryError(
                f"{path}/{name} is a {kind}, where there would be a file of ours: move it out of the data directory"
            )
