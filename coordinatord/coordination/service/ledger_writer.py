"""The writer of the rebalance ledger's records: soon, in batches, with a time limit per turn of the event loop.

No response waits for the ledger, and one append per record would cost more than the record itself. So records wait for
a quarter of a second and are written with one append per partition. If ten thousand groups complete a rebalance within
a second, their records are written over as many turns as needed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from coordinatord.base.budget import Budget
from coordinatord.broker.log.data_dir import DataDirectory
from coordinatord.broker.log.errors import LogFailed, StoreAway
from coordinatord.broker.log.partition_log import PartitionLog
from coordinatord.broker.log.writer import LogWriter
from coordinatord.broker.topics import Topics
from coordinatord.broker.topics.names import LEDGER_TOPIC, OFFSETS_TOPIC
from coordinatord.transport.cluster.partitioner import partition_for
from kafka_wire.records.batch import KeyValues

DELAY_S = 0.25
"""Seconds for which records are collected. A crash loses the collected records; their log lines are written already."""


class Named(Protocol):
    """Something that has a group's id."""

    @property
    def group_id(self) -> str: ...


class LedgerWriter:
    """A buffer of records. The ledgers call `append` for each; `record` encodes the record when it is written."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        topics: Topics,
        data: DataDirectory,
        writer: LogWriter,
        now_ms: Callable[[], int],
        on_failure: Callable[[BaseException], object],
        to_topic: bool = True,
    ) -> None:
        """Without `to_topic` records are encoded for the admin page only, and not written."""
        self._loop = loop
        self._topics = topics
        self._data = data
        self._writer = writer
        self._now_ms = now_ms
        self._on_failure = on_failure
        self._to_topic = to_topic
        self._unwritten: dict[int, list[tuple[str, Callable[[], bytes]]]] = {}  # (group id, record) by partition

    def append(self, group: Named, record: Callable[[], bytes]) -> None:
        """Write a record within `DELAY_S`, or as soon after as turns allow."""
        if not self._unwritten:
            self._loop.call_later(DELAY_S, self._write)
        partition = partition_for(group.group_id, self._topics.internal(OFFSETS_TOPIC).count())
        self._unwritten.setdefault(partition, []).append((group.group_id, record))

    def flush(self) -> None:
        """Write all collected records now."""
        while self._unwritten:
            self._write()

    def _write(self) -> None:
        """Write collected records for one turn. The first record creates the topic, as with Kafka's internal topics."""
        unwritten = self._unwritten
        if not unwritten:
            return
        if self._writer.failed is not None:
            unwritten.clear()
            return
        if self._to_topic and LEDGER_TOPIC not in self._topics.catalogue.by_name:
            try:
                self._topics.create_ledger_topic()
            except StoreAway:  # the next record retries; these records are in the log lines
                unwritten.clear()
                return
            except OSError as error:
                unwritten.clear()
                self._on_failure(error)
                return
        now_ms, budget, is_over = self._now_ms(), Budget(), False
        while unwritten and not is_over:
            partition = next(iter(unwritten))
            records = unwritten.pop(partition)
            made = []
            for group_id, record in records:
                made.append((group_id.encode("utf-8", "replace"), record()))
                is_over = budget.is_spent()  # a record of a few members takes 10 µs, of thousands of members 2 ms
                if is_over:
                    break
            if len(made) < len(records):
                unwritten[partition] = records[len(made) :]
            log = self._log_of(partition) if self._to_topic else None
            # None if the topic is disabled, or was imported with fewer partitions: the records are dropped.
            if log is not None:
                try:
                    self._writer.append_records(log, KeyValues(made), now_ms)
                except LogFailed:  # the log was closed meanwhile
                    unwritten.clear()
        if unwritten:
            self._loop.call_soon(self._write)

    def _log_of(self, partition: int) -> PartitionLog | None:
        """Return the group's partition of the topic, or the next one that this node leads: of several nodes, another
        one than the group's coordinator may deliver records to a share group.
        """
        count = len(self._topics.catalogue.by_name[LEDGER_TOPIC].partitions)
        following = () if partition >= count else ((partition + step) % count for step in range(count))
        logs = (self._data.get(LEDGER_TOPIC, index) for index in following)
        return next((log for log in logs if log is not None), None)
