"""One partition as the topics see it: its log, the rules for what goes into it, its producers, and who waits for it.

Producer state is loaded when it is first needed: from the newest snapshot, then the headers of the batches after it. A
snapshot is written after every `SNAPSHOT_INTERVAL_BATCHES` and at a clean stop, so that loading after a crash reads few
headers however long the log is. Snapshots are hints, not truth: one that is damaged or ahead of the log is thrown away.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from coordinatord.log.disk import Disk
from coordinatord.log.partition_log import PartitionLog
from coordinatord.topics import snapshots
from coordinatord.topics.configs import Configs
from coordinatord.topics.producers import Producers
from protocol.errors import ErrorCode
from protocol.records.batch import BatchHeader

SNAPSHOT_INTERVAL_BATCHES = 10_000
"""Some 50 ms of reading headers after a crash; a snapshot of a hundred producers takes 0.2 ms."""

SNAPSHOTS_KEPT = 2
"""They are not flushed, so a power cut may take the newest."""


class Partition:
    """`topic_id` is 16 bytes. `last_epoch` is the log writer's epoch of the last append here."""

    __slots__ = ("_disk", "_producers", "_since_snapshot", "configs", "last_epoch", "log", "topic_id", "waiters")

    def __init__(self, topic_id: bytes, log: PartitionLog, configs: Configs, disk: Disk) -> None:
        self.topic_id = topic_id
        self.log = log
        self.last_epoch = 0
        self.waiters: dict[object, Callable[[], object]] = {}
        self._disk = disk
        self._producers: Producers | None = None
        self._since_snapshot = 0
        self.configure(configs)

    def configure(self, configs: Configs) -> None:
        """The topic's settings have changed."""
        self.configs = configs
        self.log.config = configs.log_config

    @property
    def last_stable_offset(self) -> int:
        """What read_committed consumers see ends here. No transaction is ever open: transactional ids are refused."""
        return self.log.high_watermark

    def epoch_error(self, current_leader_epoch: int) -> ErrorCode | None:
        """Whether a client knows the present leader (KIP-320); below 0 it does not say."""
        known = self.log.leader_epoch
        if current_leader_epoch < 0 or current_leader_epoch == known:
            return None
        return ErrorCode.FENCED_LEADER_EPOCH if current_leader_epoch < known else ErrorCode.UNKNOWN_LEADER_EPOCH

    # Who waits for more to read

    def wait(self, waiter: object, wake: Callable[[], object]) -> None:
        """Call `wake` whenever more can be read, or the partition goes, until `forget`."""
        self.waiters[waiter] = wake
        self.log.on_visible = self.wake

    def forget(self, waiter: object) -> None:
        """No longer call it."""
        self.waiters.pop(waiter, None)
        if not self.waiters:
            self.log.on_visible = None

    def wake(self) -> None:
        """More can be read."""
        for wake in list(self.waiters.values()):
            wake()

    # Producers

    @property
    def producers(self) -> Producers:
        """What is remembered of idempotent producers."""
        if self._producers is None:
            self._producers = self._load_producers()
        return self._producers

    def appended(self, header: BatchHeader, base_offset: int) -> None:
        """A batch with a producer id went into the log."""
        self.producers.appended(header, base_offset)
        self._since_snapshot += 1
        if self._since_snapshot >= SNAPSHOT_INTERVAL_BATCHES:
            self.write_snapshot()

    def expire_producers(self, now_ms: int, idle_ms: int) -> int:
        """Forget producers that have been idle for so long; how many they were."""
        return self._producers.expire(now_ms, idle_ms) if self._producers is not None else 0

    def write_snapshot(self, *, flush: bool = False) -> None:
        """Write what is remembered, unless nothing has changed. A failure costs nothing but time at the next start."""
        if not self._since_snapshot or self._producers is None or self.log.deleted or not self.log.on_disk:
            return
        self._since_snapshot = 0
        path = f"{self.log.directory}/{snapshots.file_name(self._producers.end_offset)}"
        with contextlib.suppress(OSError):
            file = self._disk.open(path, create=True)
            try:
                file.truncate(0)
                file.pwrite(snapshots.encode(self._producers), 0)
                if flush:
                    file.datasync()
            finally:
                file.close()
            for offset in self._snapshots()[:-SNAPSHOTS_KEPT]:
                self._remove(offset)

    def drop_snapshots_ahead(self) -> None:
        """After an unclean stop, before anything is appended: the log may have lost what a snapshot has seen."""
        for offset in self._snapshots():
            if offset > self.log.end_offset:
                self._remove(offset)

    def _load_producers(self) -> Producers:
        producers = Producers(self.log.log_start_offset)
        for offset in reversed(self._snapshots()):
            try:
                producers.load(snapshots.decode(self._read(offset)), offset)
                break
            except (snapshots.SnapshotDamaged, OSError):
                self._remove(offset)
        for header in self.log.batches(producers.end_offset):
            if header.base_offset >= producers.end_offset:
                producers.replay(header)
                self._since_snapshot += 1
        return producers

    def _snapshots(self) -> list[int]:
        """Offsets of the snapshots there are, rising."""
        if not self.log.on_disk:
            return []
        try:
            names = self._disk.listdir(self.log.directory)
        except FileNotFoundError:
            return []
        offsets = (snapshots.offset_of(name) for name in names)
        return sorted(offset for offset in offsets if offset is not None)

    def _read(self, offset: int) -> bytes:
        file = self._disk.open(f"{self.log.directory}/{snapshots.file_name(offset)}")
        try:
            return file.pread(file.size(), 0)
        finally:
            file.close()

    def _remove(self, offset: int) -> None:
        with contextlib.suppress(OSError):
            self._disk.unlink(f"{self.log.directory}/{snapshots.file_name(offset)}")
