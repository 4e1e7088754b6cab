"""Gives records to a member that fetches (Kafka's SharePartition.acquire).

The batches that a fetch has read may be in the window already, wholly or in part: their available records are acquired
again. What is behind the window, or in the gap window, is acquired for the first time (new_batches.py).
"""

from __future__ import annotations

from collections.abc import Sequence

from coordinatord.coordination.share.partition.events import Acquire, OffsetRange
from coordinatord.coordination.share.partition.new_batches import acquire_new
from coordinatord.coordination.share.partition.result import NOTHING, AcquiredRecords, Result
from coordinatord.coordination.share.partition.state import InFlightBatch, RecordState, SharePartition, Status
from coordinatord.coordination.share.partition.throttle import Throttle, is_throttled
from coordinatord.coordination.share.partition.window import advance_gap, archive, archive_missing


def acquire(partition: SharePartition, event: Acquire, now_ms: int) -> Result:
    """Acquire up to `max_records` records of the batches read."""
    if partition.status is not Status.ACTIVE or event.max_records <= 0 or not event.batches:
        return NOTHING
    if event.batches[-1].last < partition.start_offset:
        return NOTHING
    last, max_records = _room(partition, event)
    if max_records <= 0:
        return NOTHING
    read_from = event.batches[0].first
    archive_missing(partition, event.fetch_offset, read_from)
    base = read_from
    floor = partition.floor(base)
    if floor is not None and floor.last >= base:
        base = floor.first
    else:
        base = max(base, partition.start_offset)
    known = partition.from_to(min(read_from, base), last)
    acquiring = _Acquiring(partition, event, now_ms, last, max_records)
    if not known:
        acquiring.new(base, last)
    else:
        acquiring.known(known, base)
    return acquiring.result()


def _room(partition: SharePartition, event: Acquire) -> tuple[int, int]:
    """Return (last offset, number of records) to acquire at most. A full window may still deliver its own records."""
    last = event.batches[-1].last
    room = partition.limits.partition_max_record_locks - partition.in_flight_count
    max_records = min(event.max_records, room)
    end = partition.end_offset
    if max_records <= 0 and event.fetch_offset <= end:
        return min(last, end), min(event.max_records, end - event.fetch_offset + 1)
    return last, max_records


class _Acquiring:
    """One acquisition: offsets of the read batches up to `last`, `max_records` of them."""

    __slots__ = ("acquired", "count", "event", "first", "last", "max_records", "now_ms", "partition")

    def __init__(self, partition: SharePartition, event: Acquire, now_ms: int, last: int, max_records: int) -> None:
        self.partition = partition
        self.event = event
        self.now_ms = now_ms
        self.first = event.batches[0].first
        self.last = last
        self.max_records = max_records
        self.acquired: list[AcquiredRecords] = []
        self.count = 0

    def result(self) -> Result:
        """Return what was acquired, without the records of aborted transactions."""
        acquired: Sequence[AcquiredRecords] = self.acquired
        if self.event.aborted and acquired:
            for gone in self.event.aborted:
                self._archive(gone)
            acquired = without(acquired, self.event.aborted)
            self.count = sum(each.last - each.first + 1 for each in acquired)
        return Result(acquired=acquired, count=self.count)

    def _archive(self, gone: OffsetRange) -> None:
        partition = self.partition
        floor = partition.floor(gone.first)
        batches = partition.from_to(gone.first if floor is None else floor.first, gone.last)
        archive(partition, batches, gone.first, gone.last + 1, RecordState.ACQUIRED, counted=True)

    def new(self, first: int, last: int) -> None:
        """Acquire records that no member had before."""
        left = self.max_records - self.count
        acquired, count = acquire_new(self.partition, self.event, first, last, left, self.now_ms)
        self.acquired += acquired
        self.count += count

    def known(self, batches: list[InFlightBatch], base: int) -> None:
        """Acquire what is available of batches in the window, what is in gaps between them, and what is behind."""
        partition = self.partition
        gap_start = base
        for batch in batches:
            if self.count >= self.max_records:
                break
            if partition.has_gaps:
                if gap_start < batch.first:
                    self.new(gap_start, batch.first - 1)
                gap_start = batch.last + 1
                if self.count >= self.max_records:
                    break
            throttled = is_throttled(batch, self.first, self.last, partition.limits.delivery_count_limit)
            found = 0 if throttled and self.count else self._from(batch, throttled=throttled)
            if throttled and (found or self.count):
                self.max_records = 0  # suspected records are delivered in a fetch of their own
        if self.count < self.max_records and batches[-1].last < self.last:
            self.new(batches[-1].last + 1, self.last)
        if self.acquired:
            advance_gap(partition, self.acquired[-1].last + 1)

    def _from(self, batch: InFlightBatch, *, throttled: bool) -> int:
        """Acquire records of a batch. Return their number."""
        left = self.max_records - self.count
        whole = batch.whole
        if whole is not None and not whole.is_acquirable:
            return 0
        is_cut = not batch.is_within(self.first, self.last) or (self.event.record_limit and batch.count > left)
        if whole is None or is_cut or throttled:
            batch.split()
            found = self._records(batch, left)
        else:
            whole.acquire(self.event.member_id, self.partition.lock(self.now_ms))
            self.acquired.append(AcquiredRecords(batch.first, batch.last, whole.delivery_count))
            found = batch.count
        self.count += found
        return found

    def _records(self, batch: InFlightBatch, left: int) -> int:
        """Acquire records of a batch that is split. Return their number."""
        throttle = Throttle(self.partition.limits.delivery_count_limit, batch.count)
        deadline_ms = self.partition.lock(self.now_ms)
        found: list[AcquiredRecords] = []
        count = 0
        for first, run_last, record in batch.cut_out(self.first, self.last):
            if not record.is_acquirable:
                continue
            if throttle.holds_back(record.delivery_count, count):
                break
            most = throttle.most_of(record.delivery_count, count, run_last - first + 1)
            if self.event.record_limit:
                most = min(most, left - count)
            last = first + most - 1
            batch.cut(last + 1)
            record.acquire(self.event.member_id, deadline_ms)
            _append(found, first, last, record.delivery_count)
            count += most
            if throttle.is_last_attempt(record.delivery_count) or count == throttle.most:
                break
            if self.event.record_limit and count == left:
                break
        self.acquired += found
        return count


def _append(found: list[AcquiredRecords], first: int, last: int, delivery_count: int) -> None:
    """Add offsets to the last records if they continue these."""
    if found and found[-1].last + 1 == first and found[-1].delivery_count == delivery_count:
        found[-1] = AcquiredRecords(found[-1].first, last, delivery_count)
    else:
        found.append(AcquiredRecords(first, last, delivery_count))


def without(acquired: Sequence[AcquiredRecords], gone: Sequence[OffsetRange]) -> list[AcquiredRecords]:
    """Return `acquired` without the offsets of `gone`. Both are sorted and do not overlap."""
    left: list[AcquiredRecords] = []
    for first, last, delivery_count in acquired:
        start = first
        for hole in gone:
            if hole.last < start or hole.first > last:
                continue
            if hole.first > start:
                left.append(AcquiredRecords(start, hole.first - 1, delivery_count))
            start = hole.last + 1
        if start <= last:
            left.append(AcquiredRecords(start, last, delivery_count))
    return left
