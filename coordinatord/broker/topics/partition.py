"""One partition of a topic: its log, the rules for appends, its producers, and the fetches that wait for its records.

Producer state, which includes the start of open transactions, is loaded when first needed: from a snapshot, then the
headers of the batches after it. A snapshot is written after every `SNAPSHOT_INTERVAL_BATCHES` batches and at a clean
stop, so that loading after a crash reads few headers however long the log is. A snapshot is a hint, not the authority:
a snapshot that is damaged or ahead of the log is discarded.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Final

from coordinatord.base.observe.logger import get_logger
from coordinatord.broker.log import leader_epoch_cache
from coordinatord.broker.log.disk import Disk
from coordinatord.broker.log.errors import LogError
from coordinatord.broker.log.partition_log import PartitionLog
from coordinatord.broker.topics import snapshots
from coordinatord.broker.topics.aborted import AbortedTransactions
from coordinatord.broker.topics.configs import Configs
from coordinatord.broker.topics.producers import Aborted, Producers
from kafka_wire.api.fetch import FetchPartition
from kafka_wire.errors import DecodeError, ErrorCode
from kafka_wire.records.batch import BatchHeader, read_header
from kafka_wire.records.control import ControlType, read_end_marker
from kafka_wire.records.key_values import key_values

log = get_logger("coordinatord.broker.topics")

NO_LEADER_EPOCH: Final = -1

UNREADABLE: Final = (OSError, LogError, DecodeError)
"""The exceptions raised by reads of a log whose disk or files are damaged."""

SNAPSHOT_INTERVAL_BATCHES = 10_000
"""Batches between two snapshots: about 50 ms of reading headers after a crash. A snapshot of a hundred producers takes
0.2 ms."""

SNAPSHOTS_KEPT = 2
"""Number of snapshots kept: several, because snapshots are not flushed and a power failure may destroy the newest."""

MAX_REREAD_OFFSETS = 1_000_000
"""Maximum length, in offsets, of a log that is read from its start because it has only one snapshot."""


class Partition:
    """A partition. `topic_id` is 16 bytes. `last_epoch` is the flush epoch of the last append to this partition,
    `markers` the number of transactions ended in it since the start. Where `is_here` is false, another node leads the
    partition: then only `leader_id` is valid, and the log cannot be used.
    """

    __slots__ = (
        "_aborted",
        "_disk",
        "_producers",
        "_since_snapshot",
        "_unreadable",
        "configs",
        "is_here",
        "last_epoch",
        "leader_id",
        "log",
        "markers",
        "topic_id",
        "waiters",
    )

    def __init__(
        self, topic_id: bytes, log: PartitionLog, configs: Configs, disk: Disk, leader_id: int, *, is_here: bool
    ) -> None:
        self.topic_id = topic_id
        self.log = log
        self.leader_id = leader_id
        self.is_here = is_here
        self.last_epoch = 0
        self.markers = 0
        self.waiters: dict[object, Callable[[], object]] = {}
        self._disk = disk
        self._producers: Producers | None = None
        self._aborted = AbortedTransactions(log, disk)
        self._since_snapshot = 0
        self._unreadable = ""
        log.on_replaced = self._aborted.compacted
        self.configure(configs)

    def configure(self, configs: Configs) -> None:
        """Apply the topic's changed settings."""
        self.configs = configs
        self.log.config = configs.log_config

    @property
    def last_stable_offset(self) -> int:
        """Return the end for read_committed consumers: the offset of the first record of an undecided transaction."""
        high_watermark = self.log.high_watermark
        producers = self._producers
        if producers is None:
            producers = self.producers
        if not producers.has_unstable:
            return high_watermark
        first = producers.first_unstable_offset(high_watermark)
        return high_watermark if first is None else max(min(first, high_watermark), self.log.log_start_offset)

    @property
    def first_unstable_offset(self) -> int:
        """Return the last stable offset, or the log end offset while the producer state has not been loaded."""
        return self.log.end_offset if self._producers is None else self.last_stable_offset

    @property
    def has_aborted(self) -> bool:
        """Return whether `aborted_transactions` may return any."""
        return not self._aborted.is_empty

    def aborted_transactions(self, offset: int, end_offset: int) -> list[Aborted]:
        """Return the aborted transactions with records in [offset, end_offset), for consumers to skip."""
        return self._aborted.between(offset, end_offset)

    def epoch_error(self, current_leader_epoch: int) -> ErrorCode | None:
        """Return the error of a client's leader epoch (KIP-320), None when it is current or negative (not checked)."""
        known = self.log.leader_epoch
        if current_leader_epoch < 0 or current_leader_epoch == known:
            return None
        return ErrorCode.FENCED_LEADER_EPOCH if current_leader_epoch < known else ErrorCode.UNKNOWN_LEADER_EPOCH

    def end_of(self, leader_epoch: int) -> tuple[int, int] | None:
        """Return (the last leader epoch up to `leader_epoch`, its end offset); None for an unknown leader epoch."""
        return leader_epoch_cache.end_of(self.log.leader_epochs, leader_epoch, self.log.end_offset)

    def divergence(self, offset: int, last_epoch: int) -> tuple[int, int] | ErrorCode | None:
        """Return (leader epoch, end offset) up to which the log agrees with that of a reader at `offset` whose last
        record had the leader epoch `last_epoch`; None if all of it agrees. The errors and their order are those of
        Kafka's Partition.readRecords.
        """
        found = self.end_of(last_epoch)
        if found is None or offset < self.log.log_start_offset:
            return ErrorCode.OFFSET_OUT_OF_RANGE
        return found if found[0] < last_epoch or found[1] < offset else None

    def hinders(self, asked: FetchPartition, *, is_follower: bool) -> ErrorCode | tuple[int, int] | None:
        """Return why a fetch gets no records: an error, or (leader epoch, end offset) up to which the logs agree."""
        log = self.log
        if log.deleted:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if not self.is_here:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if asked.current_leader_epoch not in (NO_LEADER_EPOCH, log.leader_epoch):
            error = self.epoch_error(asked.current_leader_epoch)
            if error is not None:
                return error
        if is_follower:
            # There are no followers here.
            known = asked.current_leader_epoch >= 0
            return ErrorCode.UNKNOWN_LEADER_EPOCH if known else ErrorCode.NOT_LEADER_OR_FOLLOWER
        if asked.last_fetched_epoch >= 0:
            diverging = self.divergence(asked.fetch_offset, asked.last_fetched_epoch)
            if diverging is not None:
                return diverging
        if not log.log_start_offset <= asked.fetch_offset <= log.end_offset:
            return ErrorCode.OFFSET_OUT_OF_RANGE
        return None

    def cannot_read(self, error: Exception) -> ErrorCode:
        """Return the error code for a log that could not be read: the client retries later and continues with its other
        partitions. The failure is logged once, not at each attempt.
        """
        if str(error) != self._unreadable:
            self._unreadable = str(error)
            log.error("partition cannot be read", partition=self.log.name, error=str(error))
        return ErrorCode.KAFKA_STORAGE_ERROR

    # Waiting readers

    def wait(self, waiter: object, wake: Callable[[], object]) -> None:
        """Call `wake` whenever more can be read or the partition is deleted, until `forget`."""
        self.waiters[waiter] = wake
        self.log.on_visible = self.wake

    def forget(self, waiter: object) -> None:
        """Stop calling this waiter."""
        self.waiters.pop(waiter, None)
        if not self.waiters:
            self.log.on_visible = None

    def wake(self) -> None:
        """Call every waiter because more can be read. The first exception of a waiter is raised after all calls."""
        broken: Exception | None = None
        for wake in list(self.waiters.values()):
            try:
                wake()
            except Exception as error:
                broken = broken or error
        if broken is not None:
            raise broken

    # Producers

    @property
    def producers(self) -> Producers:
        """Return the state of idempotent producers."""
        if self._producers is None:
            self._producers = self._load_producers()
        return self._producers

    def appended(self, header: BatchHeader, base_offset: int) -> None:
        """Record an appended batch. A batch without a producer id only counts towards the next snapshot, so that loads
        stay short.
        """
        if header.producer_id >= 0:
            self.producers.appended(header, base_offset)
        elif self._producers is None:
            return
        else:
            self._producers.end_offset = header.last_offset_delta + base_offset + 1
        self._count_batch()

    def marked(self, header: BatchHeader, offset: int, *, aborted: bool, coordinator_epoch: int) -> None:
        """Record an appended commit or abort marker."""
        self.markers += 1
        found = self.producers.marked(header, offset, aborted=aborted, coordinator_epoch=coordinator_epoch)
        if found is not None:
            self._aborted.add(found)
        self._count_batch()

    def loaded(self, producers: Producers, aborted: list[Aborted]) -> None:
        """Take over producer state that the caller has rebuilt by reading the whole log."""
        self._producers = producers
        self._aborted.load(0)
        for entry in aborted:
            self._aborted.add(entry)

    def _count_batch(self) -> None:
        self._since_snapshot += 1
        if self._since_snapshot >= SNAPSHOT_INTERVAL_BATCHES:
            self.write_snapshot()

    def expire_producers(self, now_ms: int, idle_ms: int) -> int:
        """Drop producers that have been idle for `idle_ms`; returns how many."""
        return self._producers.expire(now_ms, idle_ms) if self._producers is not None else 0

    def write_snapshot(self, *, flush: bool = False) -> None:
        """Write the producer state, unless nothing has changed. A failed write only costs time at the next start."""
        if not self._since_snapshot or self._producers is None or self.log.deleted or not self.log.on_disk:
            return
        self._since_snapshot = 0
        with contextlib.suppress(OSError):
            self._aborted.save()
            self._write_snapshot(self._producers, flush=flush)

    def _write_snapshot(self, producers: Producers, *, flush: bool) -> None:
        file = self._disk.open(f"{self.log.directory}/{snapshots.file_name(producers.end_offset)}", create=True)
        try:
            file.truncate(0)
            file.pwrite(snapshots.encode(producers), 0)
            if flush:
                file.datasync()
        finally:
            file.close()
        for offset in self._snapshots()[:-SNAPSHOTS_KEPT]:
            self._remove(offset)

    def drop_snapshots_ahead(self) -> None:
        """Drop snapshots beyond the log's end. Call this after an unclean stop, before any append: the log may have
        lost batches that a snapshot includes.
        """
        for offset in self._snapshots():
            if offset > self.log.end_offset:
                self._remove(offset)

    def _load_producers(self) -> Producers:
        producers = Producers(self.log.log_start_offset)
        for offset in reversed(self._snapshots_to_begin_at()):
            try:
                producers.load(snapshots.decode(self._read(offset)), offset)
                break
            except (snapshots.SnapshotDamaged, OSError):
                self._remove(offset)
        self._aborted.load(producers.end_offset)
        for header in self.log.batches(producers.end_offset):
            if header.base_offset >= producers.end_offset:
                self._replay(producers, header)
                self._since_snapshot += 1
        return producers

    def _snapshots_to_begin_at(self) -> list[int]:
        """Return all snapshots but the newest, ascending. A snapshot holds only the last batch of each producer
        (Kafka's format). A producer that had several batches in flight when this process was killed sends all of them
        again, and they must be recognised as duplicates. So the batches before the newest snapshot are read, too,
        except where that would be the whole of a long log from another broker.
        """
        offsets = self._snapshots()
        if len(offsets) == 1 and offsets[0] - self.log.log_start_offset > MAX_REREAD_OFFSETS:
            return offsets
        return offsets[:-1]

    def _replay(self, producers: Producers, header: BatchHeader) -> None:
        marker = self._marker(header) if header.is_control and header.producer_id >= 0 else None
        if marker is None:
            producers.replay(header)
            return
        control_type, coordinator_epoch = marker
        aborted = control_type is ControlType.ABORT
        found = producers.marked(header, header.base_offset, aborted=aborted, coordinator_epoch=coordinator_epoch)
        if found is not None:
            self._aborted.add(found)

    def _marker(self, header: BatchHeader) -> tuple[ControlType, int] | None:
        """Return type and coordinator epoch of the control batch with this header; None if it ends no transaction."""
        data = self.log.read(header.base_offset, 0)
        entries = key_values(data, 0, read_header(data))
        return read_end_marker(*entries[0][2:]) if entries else None

    def _snapshots(self) -> list[int]:
        """Return the offsets of the existing snapshots, ascending."""
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
        path = f"{self.log.directory}/{snapshots.file_name(offset)}"
        with contextlib.suppress(OSError):
            if self._disk.kind(path) == "file":  # we make no links
                self._disk.unlink(path)
