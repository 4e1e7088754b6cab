"""The data directory: whose it is, which partitions it holds, and what has to be done before they may be used.

Opening takes the lock, checks `meta.properties`, and, unless the last owner stopped cleanly, repeats the journal and
checks the last segment of every partition (recovery.py). Partitions are directories `<topic>-<partition>`; one that
is being removed is renamed to `….<id>-delete` first, so that a crash cannot leave half of it behind under its name.
What else lies there is not ours (ownership.py): it stays.
"""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Callable, Mapping, Sequence

from coordinatord.log import checkpoint, epochs, names, ownership, shares
from coordinatord.log.absent import AbsentLog
from coordinatord.log.config import LogConfig
from coordinatord.log.disk import Disk, FilePool, Lock, OsDisk, read_text, replace_text
from coordinatord.log.errors import DataDirectoryError, LogDamaged
from coordinatord.log.journal import JournalEntry, journal_names, owner_of, read_journals, refuse_foreign, spare_names
from coordinatord.log.ownership import Catalogued, Foreign, Found, Judged, ReadCatalogued
from coordinatord.log.partition_log import PartitionLog
from coordinatord.log.recovery import Known, Opened, PartitionRecovery, open_clean, open_recovering
from coordinatord.log.segment_write import Writable
from coordinatord.log.shares import Share
from coordinatord.log.versions import brought_up

#: Open files kept for reading. A service has 1,024 descriptors by default, and connections need most of them.
READ_FILES = 128

TopicPartition = tuple[str, int]

_ABSENT_CONFIG = LogConfig()


def default_config(_topic: str) -> LogConfig:
    return LogConfig()


def no_catalogue(_disk: Disk, _path: str) -> None:
    """Nobody says which partitions are ours: all that look like one are."""


def _or_nothing(catalogued: ReadCatalogued) -> ReadCatalogued:
    """In a directory that has no owner yet no partition is ours, whatever it looks like."""
    return lambda disk, path: catalogued(disk, path) or Catalogued({}, {})


def _untold(_foreign: Foreign) -> None:
    """Nobody wants to know."""


class DataDirectory:
    """An open, locked data directory. One thread uses it: the event loop's."""

    def __init__(
        self, path: str, disk: Disk, lock: Lock | None, cluster_id: str, node_id: int, share: Share | None = None
    ) -> None:
        """Without a `lock` somebody else holds it for us."""
        self.path = path
        self.share = share
        self.journal_owner = "" if share is None else owner_of(share.worker)
        self.disk = disk
        self.cluster_id = cluster_id
        self.node_id = node_id
        self.logs: dict[TopicPartition, PartitionLog] = {}
        #: what recovery did, partitions that needed nothing left out
        self.recovered: list[PartitionRecovery] = []
        self.was_clean = False
        #: what recovery-point-offset-checkpoint says: every partition is flushed up to there at least
        self.flushed_offsets: dict[TopicPartition, int] = {}
        #: log start offsets that no segment's name tells
        self.start_offsets: dict[TopicPartition, int] = {}
        #: what cleaner-offset-checkpoint says: compacted up to there
        self.cleaned_offsets: dict[TopicPartition, int] = {}
        self._cleaned_lock = threading.Lock()
        self._flushed_lock = threading.Lock()
        self.files = FilePool(disk, READ_FILES)
        self._lock = lock
        self._on_foreign: Callable[[Foreign], object] = _untold

    # --- opening ------------------------------------------------------------------------------------------------------

    @classmethod
    def open(
        cls,
        path: str,
        *,
        node_id: int = 0,
        cluster_id: str | None = None,
        config_for: Callable[[str], LogConfig] = default_config,
        catalogued: ReadCatalogued = no_catalogue,
        on_foreign: Callable[[Foreign], object] = _untold,
        disk: Disk | None = None,
    ) -> DataDirectory:
        """Lock, check and recover. DataDirectoryError when the directory must not be used, LogDamaged when its
        contents must not.

        A new directory gets `cluster_id`, or a random one. `catalogued` reads which partitions are ours; `on_foreign`
        is told of each entry that is not, by any thread.
        """
        disk = disk or OsDisk()
        path = path.rstrip(os.sep) or os.sep
        lock = _acquire(disk, path)
        try:
            if disk.kind(f"{path}/{checkpoint.META_PROPERTIES}") is None:
                catalogued = _or_nothing(catalogued)
            properties = _check_owner(disk, path, node_id, cluster_id)
            data = cls(path, disk, lock, properties["cluster.id"], node_id)
            data._open_partitions(config_for, catalogued, on_foreign)
            return data
        except BaseException:
            lock.release()
            raise

    @classmethod
    def open_share(
        cls,
        path: str,
        share: Share,
        *,
        cluster_id: str,
        node_id: int,
        config_for: Callable[[str], LogConfig] = default_config,
        catalogued: ReadCatalogued = no_catalogue,
        on_foreign: Callable[[Foreign], object] = _untold,
        disk: Disk | None = None,
    ) -> DataDirectory:
        """One worker's part of a directory that its supervisor has opened and handed out (shares.py)."""
        data = cls(path.rstrip(os.sep) or os.sep, disk or OsDisk(), None, cluster_id, node_id, share)
        data._open_partitions(config_for, catalogued, on_foreign)
        return data

    def _open_partitions(
        self,
        config_for: Callable[[str], LogConfig],
        catalogued: ReadCatalogued,
        on_foreign: Callable[[Foreign], object],
    ) -> None:
        disk, share, entries = self.disk, self.share, self.disk.listdir(self.path)
        worker = None if share is None else share.worker
        self._on_foreign = on_foreign
        journals, spares = journal_names(entries, worker), spare_names(entries, worker)
        stale = [*journals, *spares]
        if share is None:
            stale += [name for name in entries if name == checkpoint.CLEAN_SHUTDOWN or shares.is_checkpoint(name)]
        ownership.refuse_others(disk, self.path, [*stale, *shares.CHECKPOINTS])
        writes: dict[str, list[JournalEntry]] = {}
        for entry in read_journals(disk, self.path, journals):
            writes.setdefault(entry.name, []).append(entry)
        refuse_foreign(disk, self.path, [*journals, *spares])
        self.was_clean = checkpoint.CLEAN_SHUTDOWN in entries and not journals if share is None else share.is_recovered
        self.start_offsets = shares.read_checkpoint(disk, self.path, entries, checkpoint.LOG_START, worker)
        flushed = shares.read_checkpoint(disk, self.path, entries, checkpoint.RECOVERY_POINT, worker)
        judge = ownership.Judge(disk, self.path, catalogued(disk, self.path), flushed)
        judged = judge.judge(entries, None if share is None else share.owns)
        self._refuse_missing(flushed, entries, judged.ours)
        # Nothing has been changed until here.
        self._put_in_order(judged)
        for found in judged.partitions:
            config, flushed_offset = config_for(found.key[0]), flushed.get(found.key, 0)
            self._open_partition(found, config, writes.get(found.name, []), flushed_offset, bool(journals))
        self.write_recovery_points()
        for name in judged.begun:  # not before the recovery points, which would demand them
            ownership.remove_begun(disk, self._file(name))
        if self.start_offsets:
            self.start_offsets = {key: offset for key, offset in self.start_offsets.items() if key in self.logs}
            self.write_start_offsets()
        self.cleaned_offsets = {
            key: offset
            for key, offset in shares.read_checkpoint(disk, self.path, entries, checkpoint.CLEANER, worker).items()
            if key in self.logs and offset <= self.logs[key].end_offset
        }
        if self.cleaned_offsets:
            self.write_cleaned_offsets()  # of workers, maybe, whose files go now
        # From here on a crash is an unclean stop, and what the old journals held is flushed.
        for name in stale:
            disk.unlink(self._file(name))
        if stale:
            disk.sync_dir(self.path)

    def _refuse_missing(self, flushed: Mapping[TopicPartition, int], entries: Sequence[str], ours: set[str]) -> None:
        """A removed partition's line is taken out before its directory is: who removed this one was not us."""
        lost = sorted(key for key, offset in flushed.items() if offset and f"{key[0]}-{key[1]}" not in ours)
        if lost:
            name = f"{lost[0][0]}-{lost[0][1]}"
            what = "is something else now" if name in entries else "is missing"
            raise DataDirectoryError(
                f"{self._file(name)} {what} ({len(lost)} such partitions), but offsets below {flushed[lost[0]]} were "
                f"flushed there: bring it back, or make an empty directory of that name to begin anew"
            )

    def _put_in_order(self, judged: Judged) -> None:
        """Set aside what is a stranger's partition, and finish what we were removing."""
        for foreign in judged.strays:
            self._on_foreign(ownership.set_aside(self.disk, self.path, foreign))
        if judged.strays:
            self.disk.sync_dir(self.path)
        if self.share is None:  # a worker's supervisor has told of them
            for foreign in judged.left_alone:
                self._on_foreign(foreign)
        self.remove_trees([self._file(name) for name in judged.unfinished])

    def _open_partition(
        self,
        found: Found,
        config: LogConfig,
        writes: Sequence[JournalEntry],
        flushed_offset: int,
        has_journal: bool,
    ) -> None:
        key, topic_id, directory = found.key, found.topic_id, self._file(found.name)
        opened: Opened
        if self.was_clean:
            opened = open_clean(
                self.disk, self.files, directory, config.index_interval_bytes, flushed_offset=flushed_offset
            )
        else:
            opened = open_recovering(
                self.disk,
                self.files,
                directory,
                *key,
                Known(flushed_offset, [write for write in writes if write.topic_id == topic_id], has_journal),
                config.index_interval_bytes,
            )
            if opened.recovery and (opened.recovery.truncated_bytes or opened.recovery.journal_writes):
                self.recovered.append(opened.recovery)
        log = PartitionLog(directory, *key, topic_id, config, self.files, on_disk=True)
        log.leader_epochs = epochs.read(self.disk, directory)
        log.leader_epoch = log.leader_epochs[-1][0]
        first = opened.segments[0].base_offset if opened.segments else 0
        start = min(max(self.start_offsets.get(key, 0), first), max(opened.end_offset, first))
        if key in self.start_offsets:
            # An unflushed log may end below: what comes next there is not what was deleted.
            self.start_offsets[key] = start
        log.adopt(opened.segments, start, max(opened.end_offset, first))
        self.logs[key] = log
        self.flushed_offsets[key] = log.end_offset

    # --- partitions ---------------------------------------------------------------------------------------------------

    def get(self, topic: str, partition: int) -> PartitionLog | None:
        return self.logs.get((topic, partition))

    def topics(self) -> dict[str, bytes]:
        """Topic name -> id of every topic that has a partition here."""
        return {log.topic: log.topic_id for log in self.logs.values()}

    def create(
        self, topic: str, partitions: Sequence[int], topic_id: bytes, config: LogConfig, *, lazy: bool = False
    ) -> list[PartitionLog]:
        """New partitions of a topic, durable on return. With `lazy` a partition's directory is made by its first
        write.
        """
        created = []
        for partition in partitions:
            key = topic, partition
            if key in self.logs:
                raise ValueError(f"partition {topic}-{partition} exists")
            directory = self._file(f"{topic}-{partition}")
            log = PartitionLog(directory, topic, partition, topic_id, config, self.files, on_disk=not lazy)
            if not lazy:
                self.make_directory(log)
            created.append(log)
        if not lazy:
            self.disk.sync_dir(self.path)
        for log in created:
            self.logs[log.topic, log.partition] = log
        return created

    def elsewhere(self, topic: str, partition: int, topic_id: bytes) -> PartitionLog:
        """Stands for a partition that another process writes: nothing can be appended to it, and it is not kept."""
        directory = self._file(f"{topic}-{partition}")
        log = AbsentLog(directory, topic, partition, topic_id, _ABSENT_CONFIG, self.files, on_disk=False)
        if checkpoint.read_topic_id(self.disk, directory) == topic_id:
            log.leader_epochs = epochs.read(self.disk, directory)
            log.leader_epoch = log.leader_epochs[-1][0]
        return log

    def make_directory(self, log: Writable) -> None:
        """A partition's directory with what belongs into it before the first batch. The caller flushes the data
        directory.
        """
        try:
            self.disk.mkdir(log.directory)
        except FileExistsError:
            if not ownership.is_begun(self.disk, log.directory):
                foreign = Foreign(log.name, "it has the name of a partition of ours")
                self._on_foreign(ownership.set_aside(self.disk, self.path, foreign))
                self.disk.mkdir(log.directory)
        epochs.write(self.disk, log.directory)
        checkpoint.write_topic_id(self.disk, log.directory, log.topic_id)

    def remove(self, logs: Sequence[PartitionLog]) -> list[str]:
        """Take partitions out, durably: renamed directories, which the caller passes to remove_trees when it has
        time.
        """
        self._forget_offsets([(log.topic, log.partition) for log in logs])
        renamed = []
        for log in logs:
            key = log.topic, log.partition
            self.logs.pop(key, None)
            log.forget_files()
            if log.on_disk:
                if checkpoint.read_topic_id(self.disk, log.directory) is None:
                    checkpoint.write_topic_id(self.disk, log.directory, log.topic_id)  # shows whose it is
                target = self._free_name(log)
                self.disk.rename(log.directory, target)
                renamed.append(target)
        if renamed:
            self.disk.sync_dir(self.path)
        return renamed

    def _free_name(self, log: PartitionLog) -> str:
        """What a partition's directory is called until it is gone; something else may have the first such name."""
        number, unique = 0, log.topic_id.hex()
        while True:
            ending = f".{number}" if number else ""
            target = self._file(names.aside(log.topic, log.partition, unique + ending, names.DELETE_SUFFIX))
            if self.disk.kind(target) is None:
                return target
            number += 1

    def remove_trees(self, directories: Sequence[str]) -> None:
        """Remove partitions that have been renamed; what is not ours in them stays."""
        for directory in directories:
            others = ownership.remove(self.disk, directory)
            if others:
                reason = f"{others[0]} in it is not ours" + (f", nor are {len(others) - 1} more" if others[1:] else "")
                self._on_foreign(Foreign(os.path.basename(directory), reason))

    def write_start_offsets(self) -> None:
        """Persist log start offsets which lie inside a segment (DeleteRecords)."""
        checkpoint.write_offsets(self.disk, self._checkpoint(checkpoint.LOG_START), dict(self.start_offsets))

    def write_recovery_points(self) -> None:
        """On any thread: that which flushes does it, and this one when partitions are removed."""
        with self._flushed_lock:
            checkpoint.write_offsets(self.disk, self._checkpoint(checkpoint.RECOVERY_POINT), dict(self.flushed_offsets))

    def write_cleaned_offsets(self) -> None:
        """On any thread: the cleaner's own does it, so that nobody waits."""
        with self._cleaned_lock:
            checkpoint.write_offsets(self.disk, self._checkpoint(checkpoint.CLEANER), dict(self.cleaned_offsets))

    def mark_clean(self) -> None:
        """Everything is flushed and nothing will be written any more: the next start need not recover. A worker's
        supervisor says so for all of them.
        """
        if self.share is None:
            replace_text(self.disk, self._file(checkpoint.CLEAN_SHUTDOWN), checkpoint.CLEAN_SHUTDOWN_TEXT)

    def close(self) -> None:
        """Close files and give up the lock. LogWriter.close() comes before and decides whether the stop was clean."""
        self.files.close()
        if self._lock is not None:
            self._lock.release()

    # --- within -------------------------------------------------------------------------------------------------------

    def _file(self, name: str) -> str:
        return f"{self.path}/{name}"

    def _checkpoint(self, name: str) -> str:
        return self._file(name if self.share is None else shares.checkpoint_name(name, self.share.worker))

    def _forget_offsets(self, keys: Sequence[TopicPartition]) -> None:
        """What the checkpoints say of a removed partition must not be taken for its successor's of the same name."""
        for offsets, write in (
            (self.flushed_offsets, self.write_recovery_points),
            (self.start_offsets, self.write_start_offsets),
            (self.cleaned_offsets, self.write_cleaned_offsets),
        ):
            known = [key for key in keys if key in offsets]
            for key in known:
                del offsets[key]
            if known:
                write()


def _acquire(disk: Disk, path: str) -> Lock:
    """The data directory, existing, writable and ours alone."""
    lock_path = f"{path}/{checkpoint.LOCK}"
    try:
        _make_durably(disk, path)
        ownership.refuse_others(disk, path, (checkpoint.LOCK, checkpoint.META_PROPERTIES))
        return disk.lock(lock_path, str(os.getpid()))
    except BlockingIOError:
        owner = (read_text(disk, lock_path) or "").strip()
        who = f"process {owner}" if owner.isdigit() else "another process (a Kafka broker?)"
        raise DataDirectoryError(
            f"data directory {path} is in use by {who}: stop that, or give this one another directory"
        ) from None
    except (FileExistsError, NotADirectoryError):
        raise DataDirectoryError(f"data directory {path} is not a directory, or lies in a file") from None
    except OSError as error:
        raise DataDirectoryError(f"data directory {path} is not writable: {error.strerror or error}") from None


def _make_durably(disk: Disk, path: str) -> None:
    """The directory and those above it, each name flushed into its parent."""
    if disk.is_dir(path):
        return
    parent = os.path.dirname(path) or os.curdir
    if parent != path:
        _make_durably(disk, parent)
    disk.makedirs(path)
    disk.sync_dir(parent)


def _check_owner(disk: Disk, path: str, node_id: int, cluster_id: str | None) -> dict[str, str]:
    """meta.properties: made when there is none, otherwise it has to be of our version, node and cluster."""
    file = f"{path}/{checkpoint.META_PROPERTIES}"
    if disk.is_dir(f"{path}/{checkpoint.IMPORTING}"):
        raise DataDirectoryError(f"{path} holds an import that did not end: remove what is in it, and import again")
    try:
        properties = checkpoint.read_properties(disk, file)
        if properties is None:
            properties = {
                "version": str(checkpoint.META_VERSION),
                "cluster.id": cluster_id or random_id(),
                "node.id": str(node_id),
                "directory.id": random_id(),
            }
            checkpoint.write_properties(disk, file, properties)
            return properties
        properties = brought_up(disk, path, properties)
    except OSError as error:
        raise DataDirectoryError(f"data directory {path} is not writable: {error.strerror or error}") from None
    if properties.get("node.id", str(node_id)) != str(node_id):
        raise DataDirectoryError(
            f"{file} belongs to node {properties['node.id']}, this is node {node_id} (setting node.id)"
        )
    if "cluster.id" not in properties:
        raise LogDamaged(file, 0, "no cluster.id")
    if cluster_id is not None and properties["cluster.id"] != cluster_id:
        raise DataDirectoryError(
            f"{file} belongs to cluster {properties['cluster.id']}, not {cluster_id} (setting cluster.id)"
        )
    return properties


def random_id() -> str:
    """As Kafka's random UUIDs: never one that begins with a dash, which tools would take for an option."""
    while True:
        text = checkpoint.uuid_text(secrets.token_bytes(16))
        if not text.startswith("-"):
            return text
