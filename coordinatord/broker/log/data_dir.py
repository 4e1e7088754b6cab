"""The data directory: its owner, its partitions, and the recovery that precedes their use.

Opening takes the lock, checks `meta.properties`, and, unless the last owner stopped cleanly, repeats the journal and
checks the last segment of every partition (recovery.py). Partitions are directories `<topic>-<partition>`; a removal
first renames the directory to `….<id>-delete`, so that a crash leaves no half partition. Other entries are foreign and
stay (ownership.py).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence

from coordinatord.broker.log import checkpoint, leader_epoch_cache, names, ownership, worker_checkpoints
from coordinatord.broker.log.config import LogConfig
from coordinatord.broker.log.disk import Disk, FilePool, Lock, OsDisk, read_text, replace_text
from coordinatord.broker.log.errors import DataDirectoryError, LogDamaged
from coordinatord.broker.log.journal import (
    JournalEntry,
    journal_names,
    owner_of,
    read_journals,
    refuse_foreign,
    spare_names,
)
from coordinatord.broker.log.ownership import Foreign, Found, Judged, ReadCatalogued, no_catalogue, or_empty
from coordinatord.broker.log.partition_log import PartitionLog
from coordinatord.broker.log.recovery import Known, Opened, PartitionRecovery, open_clean, open_recovering
from coordinatord.broker.log.remote_log import AbsentLog
from coordinatord.broker.log.segment_write import Writable
from coordinatord.broker.log.versions import brought_up
from coordinatord.broker.log.worker_checkpoints import WorkerShare

READ_FILES = 128
"""Open files kept for reading. A service has 1,024 descriptors by default, and connections need most of them."""

TopicPartition = tuple[str, int]
_ABSENT_CONFIG = LogConfig()


def default_config(_topic: str) -> LogConfig:
    return LogConfig()


def _ignore_foreign(_foreign: Foreign) -> None:
    """Do nothing: the default of `on_foreign`."""


def _ignore_progress(_opened: int, _of: int) -> None:
    """Do nothing: the default of `on_opened`."""


class DataDirectory:
    """An open, locked data directory. One thread uses it: the event loop's."""

    def __init__(
        self, path: str, disk: Disk, lock: Lock | None, cluster_id: str, node_id: int, share: WorkerShare | None = None
    ) -> None:
        """Use an open directory. Without a `lock`, another process holds the lock of the directory."""
        self.path = path
        self.share = share
        self.journal_owner = "" if share is None else owner_of(share.worker)
        self.disk = disk
        self.cluster_id = cluster_id
        self.node_id = node_id
        self.logs: dict[TopicPartition, PartitionLog] = {}
        #: results of recovery, without partitions that needed no repair
        self.recovered: list[PartitionRecovery] = []
        self.was_clean = False
        #: recovery-point-offset-checkpoint: each partition is flushed at least up to this offset
        self.flushed_offsets: dict[TopicPartition, int] = {}
        #: log start offsets that differ from the first segment's base offset
        self.start_offsets: dict[TopicPartition, int] = {}
        #: cleaner-offset-checkpoint: each partition is compacted up to this offset
        self.cleaned_offsets: dict[TopicPartition, int] = {}
        #: least leader epoch of appends; a partition whose own leader epoch is higher keeps that
        self.leader_epoch = 0
        self._cleaned_lock = threading.Lock()
        self._flushed_lock = threading.Lock()
        self.files = FilePool(disk, READ_FILES)
        self._lock = lock
        self._on_foreign: Callable[[Foreign], object] = _ignore_foreign

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
        on_foreign: Callable[[Foreign], object] = _ignore_foreign,
        on_opened: Callable[[int, int], object] = _ignore_progress,
        leader_epoch: int = 0,
        disk: Disk | None = None,
    ) -> DataDirectory:
        """Lock, check and recover a directory. Raises DataDirectoryError if it must not be used, LogDamaged if its
        content is damaged.

        A new directory gets `cluster_id`, or a random one. `catalogued` reads the list of our partitions; `on_foreign`
        is called for each foreign entry, on any thread, and `on_opened` after each partition, with the number of open
        partitions and the number of all. After an unclean stop a new leader epoch begins; otherwise the least one is
        `leader_epoch`.
        """
        disk = disk or OsDisk()
        path = path.rstrip(os.sep) or os.sep
        lock = _acquire(disk, path)
        try:
            is_new = disk.kind(f"{path}/{checkpoint.META_PROPERTIES}") is None
            if is_new:
                catalogued = or_empty(catalogued)
            properties = _check_owner(disk, path, node_id, cluster_id)
            data = cls(path, disk, lock, properties["cluster.id"], node_id)
            data.leader_epoch = max(leader_epoch, checkpoint.leader_epoch_of(disk, path))
            data._open_partitions(config_for, catalogued, on_foreign, on_opened, is_new=is_new)
            return data
        except BaseException:
            lock.release()
            raise

    @classmethod
    def open_share(
        cls,
        path: str,
        share: WorkerShare,
        *,
        cluster_id: str,
        node_id: int,
        config_for: Callable[[str], LogConfig] = default_config,
        catalogued: ReadCatalogued = no_catalogue,
        on_foreign: Callable[[Foreign], object] = _ignore_foreign,
        on_opened: Callable[[int, int], object] = _ignore_progress,
        disk: Disk | None = None,
    ) -> DataDirectory:
        """Open one worker's share of a directory that its supervisor opened and divided (worker_checkpoints.py)."""
        data = cls(path.rstrip(os.sep) or os.sep, disk or OsDisk(), None, cluster_id, node_id, share)
        data.leader_epoch = checkpoint.leader_epoch_of(data.disk, data.path)
        data._open_partitions(config_for, catalogued, on_foreign, on_opened)
        return data

    def _open_partitions(
        self,
        config_for: Callable[[str], LogConfig],
        catalogued: ReadCatalogued,
        on_foreign: Callable[[Foreign], object],
        on_opened: Callable[[int, int], object],
        *,
        is_new: bool = False,
    ) -> None:
        disk, share, entries = self.disk, self.share, self.disk.listdir(self.path)
        worker = None if share is None else share.worker
        self._on_foreign = on_foreign
        journals, spares = journal_names(entries, worker), spare_names(entries, worker)
        stale = [*journals, *spares]
        if share is None:
            stale += [
                name for name in entries if name == checkpoint.CLEAN_SHUTDOWN or worker_checkpoints.is_checkpoint(name)
            ]
        ownership.refuse_others(disk, self.path, [*stale, *worker_checkpoints.CHECKPOINTS])
        writes: dict[str, list[JournalEntry]] = {}
        for entry in read_journals(disk, self.path, journals):
            writes.setdefault(entry.name, []).append(entry)
        refuse_foreign(disk, self.path, [*journals, *spares])
        self.was_clean = checkpoint.CLEAN_SHUTDOWN in entries and not journals if share is None else share.is_recovered
        self.start_offsets = worker_checkpoints.read_checkpoint(disk, self.path, entries, checkpoint.LOG_START, worker)
        flushed = worker_checkpoints.read_checkpoint(disk, self.path, entries, checkpoint.RECOVERY_POINT, worker)
        judge = ownership.Judge(disk, self.path, catalogued(disk, self.path), flushed)
        judged = judge.judge(entries, None if share is None else share.owns)
        self._refuse_missing(flushed, entries, judged.ours)
        # Nothing has been changed so far.
        self._put_in_order(judged)
        for number, found in enumerate(judged.partitions, 1):
            config, flushed_offset = config_for(found.key[0]), flushed.get(found.key, 0)
            has_journal, known = bool(journals), writes.get(found.name, [])
            self._open_partition(found, config, known, flushed_offset, has_journal, is_clean=self.was_clean)
            on_opened(number, len(judged.partitions))
        if share is None and not is_new and not self.was_clean:
            self._begin_epoch()
        self.write_recovery_points()
        for name in judged.begun:  # not before the recovery points, which would demand them
            ownership.remove_begun(disk, self._file(name))
        if self.start_offsets:
            self.start_offsets = {key: offset for key, offset in self.start_offsets.items() if key in self.logs}
            self.write_start_offsets()
        self.cleaned_offsets = {
            key: offset
            for key, offset in worker_checkpoints.read_checkpoint(
                disk, self.path, entries, checkpoint.CLEANER, worker
            ).items()
            if key in self.logs and offset <= self.logs[key].end_offset
        }
        if self.cleaned_offsets:
            self.write_cleaned_offsets()  # perhaps from workers' files, which are removed now
        # From here on a crash is an unclean stop. The old journals' data is flushed.
        for name in stale:
            disk.unlink(self._file(name))
        if stale:
            disk.sync_dir(self.path)

    def _refuse_missing(self, flushed: Mapping[TopicPartition, int], entries: Sequence[str], ours: set[str]) -> None:
        """Raise if a flushed partition is missing. A removal of ours deletes the partition's line in the checkpoint
        first, so another program has removed this one.
        """
        lost = sorted(key for key, offset in flushed.items() if offset and f"{key[0]}-{key[1]}" not in ours)
        if lost:
            name = f"{lost[0][0]}-{lost[0][1]}"
            what = "is not a directory now" if name in entries else "is missing"
            raise DataDirectoryError(
                f"{self._file(name)} {what} ({len(lost)} such partitions), but offsets below {flushed[lost[0]]} were "
                f"flushed there: restore it, or make an empty directory of that name to start with an empty partition"
            )

    def _put_in_order(self, judged: Judged) -> None:
        """Rename stray partitions, and finish interrupted removals."""
        for foreign in judged.strays:
            self._on_foreign(ownership.set_aside(self.disk, self.path, foreign))
        if judged.strays:
            self.disk.sync_dir(self.path)
        if self.share is None:  # otherwise the supervisor has reported them
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
        *,
        is_clean: bool,
    ) -> None:
        key, topic_id, directory = found.key, found.topic_id, self._file(found.name)
        opened: Opened
        if is_clean:
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
        stored = leader_epoch_cache.read(self.disk, directory)
        first = opened.segments[0].base_offset if opened.segments else 0
        start = min(max(self.start_offsets.get(key, 0), first), max(opened.end_offset, first))
        if key in self.start_offsets:
            # An unflushed log may end below that offset: new records there are not the deleted ones.
            self.start_offsets[key] = start
        log.adopt(opened.segments, start, max(opened.end_offset, first))
        log.lead(max(self.leader_epoch, stored[-1][0]), stored)
        self.logs[key] = log
        self.flushed_offsets[key] = log.end_offset

    def _begin_epoch(self) -> None:
        """Begin, durably, a leader epoch that no partition has had: records that clients have read may be lost. There
        is one number for the directory, so that a start writes one file, not one for each partition.
        """
        self.leader_epoch = 1 + max([self.leader_epoch, *(log.leader_epoch for log in self.logs.values())])
        if self.leader_epoch > leader_epoch_cache.MAX_EPOCH:
            raise DataDirectoryError(f"{self.path} has the last leader epoch that there is: it cannot be led any more")
        checkpoint.write_leader_epoch(self.disk, self.path, self.leader_epoch)
        for log in self.logs.values():
            log.lead(self.leader_epoch, log.leader_epochs)

    # --- partitions ---------------------------------------------------------------------------------------------------

    def get(self, topic: str, partition: int) -> PartitionLog | None:
        return self.logs.get((topic, partition))

    def topics(self) -> dict[str, bytes]:
        """The ids of all topics with a partition here, by name."""
        return {log.topic: log.topic_id for log in self.logs.values()}

    def create(
        self, topic: str, partitions: Sequence[int], topic_id: bytes, config: LogConfig, *, lazy: bool = False
    ) -> list[PartitionLog]:
        """Create partitions of a topic, durably. With `lazy`, the first write creates a partition's directory."""
        created = []
        first = ((self.leader_epoch, 0),) if self.leader_epoch else leader_epoch_cache.FIRST
        for partition in partitions:
            key = topic, partition
            if key in self.logs:
                raise ValueError(f"partition {topic}-{partition} exists")
            directory = self._file(f"{topic}-{partition}")
            log = PartitionLog(directory, topic, partition, topic_id, config, self.files, on_disk=not lazy)
            log.leader_epoch, log.leader_epochs = self.leader_epoch, first
            if not lazy:
                self.make_directory(log)
            created.append(log)
        if not lazy:
            self.disk.sync_dir(self.path)
        for log in created:
            self.logs[log.topic, log.partition] = log
        return created

    def take(self, topic: str, partition: int, topic_id: bytes, config: LogConfig) -> PartitionLog:
        """Open a partition that another process has just given up (partition_transfer.py), or create it if it has no
        directory. Blocks: its last segment is read.
        """
        found = Found((topic, partition), f"{topic}-{partition}", topic_id)
        if checkpoint.read_topic_id(self.disk, self._file(found.name)) == topic_id:
            self._open_partition(found, config, (), 0, False, is_clean=False)
        else:
            self.create(topic, [partition], topic_id, config, lazy=True)
        return self.logs[found.key]

    def elsewhere(self, topic: str, partition: int, topic_id: bytes, leader_epoch: int | None = None) -> PartitionLog:
        """Return a placeholder for a partition that another process writes: it rejects appends and is not stored here.
        Without a `leader_epoch`, a process of the same directory writes it.
        """
        directory = self._file(f"{topic}-{partition}")
        log = AbsentLog(directory, topic, partition, topic_id, _ABSENT_CONFIG, self.files, on_disk=False)
        log.leader_epoch = self.leader_epoch if leader_epoch is None else leader_epoch
        if leader_epoch is None and checkpoint.read_topic_id(self.disk, directory) == topic_id:
            log.leader_epoch = max(log.leader_epoch, leader_epoch_cache.read(self.disk, directory)[-1][0])
        return log

    def make_directory(self, log: Writable) -> None:
        """Create a partition's directory and its first files. The caller flushes the data directory."""
        try:
            self.disk.mkdir(log.directory)
        except FileExistsError:
            if not ownership.is_begun(self.disk, log.directory):
                foreign = Foreign(log.name, "it has the name of one of our partitions")
                self._on_foreign(ownership.set_aside(self.disk, self.path, foreign))
                self.disk.mkdir(log.directory)
        leader_epoch_cache.write(self.disk, log.directory, log.leader_epochs, is_named=False)  # the next line does it
        checkpoint.write_topic_id(self.disk, log.directory, log.topic_id)

    def remove(self, logs: Sequence[PartitionLog]) -> list[str]:
        """Remove partitions durably by renaming their directories. Returns the new paths; the caller passes them to
        remove_trees later.
        """
        self._forget_offsets([(log.topic, log.partition) for log in logs])
        renamed = []
        for log in logs:
            key = log.topic, log.partition
            self.logs.pop(key, None)
            log.forget_files()
            if log.on_disk:
                if checkpoint.read_topic_id(self.disk, log.directory) is None:
                    checkpoint.write_topic_id(self.disk, log.directory, log.topic_id)  # shows that it is ours
                target = self._free_name(log)
                self.disk.rename(log.directory, target)
                renamed.append(target)
        if renamed:
            self.disk.sync_dir(self.path)
        return renamed

    def _free_name(self, log: PartitionLog) -> str:
        """Return a free name for a partition's directory until it is removed."""
        number, unique = 0, log.topic_id.hex()
        while True:
            ending = f".{number}" if number else ""
            target = self._file(names.aside(log.topic, log.partition, unique + ending, names.DELETE_SUFFIX))
            if self.disk.kind(target) is None:
                return target
            number += 1

    def remove_trees(self, directories: Sequence[str]) -> None:
        """Remove renamed partitions. Foreign files in them stay."""
        for directory in directories:
            others = ownership.remove(self.disk, directory)
            if others:
                reason = f"{others[0]} in it is not ours" + (f", nor are {len(others) - 1} more" if others[1:] else "")
                self._on_foreign(Foreign(os.path.basename(directory), reason))

    def write_start_offsets(self) -> None:
        """Persist log start offsets that lie inside a segment (DeleteRecords)."""
        checkpoint.write_offsets(self.disk, self._checkpoint(checkpoint.LOG_START), dict(self.start_offsets))

    def write_recovery_points(self) -> None:
        """Write the recovery points. Called on the flushing thread, and on the event loop's when partitions are
        removed.
        """
        with self._flushed_lock:
            checkpoint.write_offsets(self.disk, self._checkpoint(checkpoint.RECOVERY_POINT), dict(self.flushed_offsets))

    def write_cleaned_offsets(self) -> None:
        """Write the cleaner's offsets. Called on the cleaner's thread, so that the event loop does not wait."""
        with self._cleaned_lock:
            checkpoint.write_offsets(self.disk, self._checkpoint(checkpoint.CLEANER), dict(self.cleaned_offsets))

    def mark_clean(self) -> None:
        """Mark a clean stop: everything is flushed and nothing more is written, so the next start need not recover. For
        workers, the supervisor does it once.
        """
        if self.share is None:
            replace_text(self.disk, self._file(checkpoint.CLEAN_SHUTDOWN), checkpoint.CLEAN_SHUTDOWN_TEXT)

    def close(self) -> None:
        """Close files and release the lock. Call LogWriter.close() before; it decides whether the stop was clean."""
        self.files.close()
        if self._lock is not None:
            self._lock.release()

    # --- within -------------------------------------------------------------------------------------------------------

    def _file(self, name: str) -> str:
        return f"{self.path}/{name}"

    def _checkpoint(self, name: str) -> str:
        return self._file(name if self.share is None else worker_checkpoints.checkpoint_name(name, self.share.worker))

    def _forget_offsets(self, keys: Sequence[TopicPartition]) -> None:
        """Drop a removed partition's offsets from the checkpoints: a new partition may get its name."""
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
    """Create the data directory if needed, and lock it."""
    lock_path = f"{path}/{checkpoint.LOCK}"
    try:
        _make_durably(disk, path)
        ownership.refuse_others(disk, path, (checkpoint.LOCK, checkpoint.META_PROPERTIES))
        return disk.lock(lock_path, str(os.getpid()))
    except BlockingIOError:
        owner = (read_text(disk, lock_path) or "").strip()
        who = f"process {owner}" if owner.isdigit() else "another process (a Kafka broker?)"
        raise DataDirectoryError(
            f"data directory {path} is in use by {who}: stop that, or give this one another data directory"
        ) from None
    except (FileExistsError, NotADirectoryError):
        raise DataDirectoryError(f"data directory {path} is not a directory, or a file is part of its path") from None
    except OSError as error:
        raise DataDirectoryError(f"data directory {path} is not writable: {error.strerror or error}") from None


def _make_durably(disk: Disk, path: str) -> None:
    """Create a directory and its parents; each name is flushed in its parent."""
    if disk.is_dir(path):
        return
    parent = os.path.dirname(path) or os.curdir
    if parent != path:
        _make_durably(disk, parent)
    disk.makedirs(path)
    disk.sync_dir(parent)


def _check_owner(disk: Disk, path: str, node_id: int, cluster_id: str | None) -> dict[str, str]:
    """Write meta.properties if there is none; otherwise check its version, node and cluster. Returns its properties."""
    file = f"{path}/{checkpoint.META_PROPERTIES}"
    if disk.is_dir(f"{path}/{checkpoint.IMPORTING}"):
        raise DataDirectoryError(f"{path} has an unfinished import: remove its content and import again")
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
    """Return a random UUID as Kafka makes it: never with a dash first, which tools would take for an option."""
    while True:
        text = checkpoint.uuid_text(os.urandom(16))
        if not text.startswith("-"):
            return text
