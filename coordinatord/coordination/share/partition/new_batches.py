"""Acquires records that no member had before (Kafka's SharePartition.acquireNewBatchRecords).

With batch_optimized the batches of the window end where record batches end, so one acquisition may exceed the number of
records asked for. With record_limit it does not: the rest of the last record batch is in the window, and available.
"""

from __future__ import annotations

from collections.abc import Sequence

from coordinatord.coordination.share.partition.events import Acquire, OffsetRange
from coordinatord.coordination.share.partition.result import AcquiredRecords
from coordinatord.coordination.share.partition.state import (
    InFlightBatch,
    InFlightState,
    RecordState,
    SharePartition,
)
from coordinatord.coordination.share.partition.window import advance_gap


def acquire_new(
    partition: SharePartition, event: Acquire, first: int, last: int, max_records: int, now_ms: int
) -> tuple[list[AcquiredRecords], int]:
    """Acquire offsets from `first` to `last`. Return (acquired records, their number)."""
    if not partition.batches:
        first = max(first, partition.end_offset)
    if last - first + 1 > max_records:
        end_of_batch = _end_of_batch(event.batches, first + max_records - 1)
        last = min(last, end_of_batch) if partition.has_gaps else end_of_batch
    if first > last:
        return [], 0
    if event.record_limit:
        acquired = [_limited(partition, event.member_id, OffsetRange(first, last), max_records, now_ms)]
    else:
        acquired = _whole_batches(partition, event, first, last, now_ms)
    if partition.batches[0].first == first:
        partition.start_offset = first
    partition.end_offset = max(partition.end_offset, last)
    if event.record_limit:
        last = acquired[0].last
    advance_gap(partition, last + 1)
    return acquired, last - first + 1


def _end_of_batch(batches: Sequence[OffsetRange], offset: int) -> int:
    """Return the last offset of the record batch that contains `offset`; `offset` itself if none does."""
    for batch in batches:
        if batch.first <= offset <= batch.last:
            return batch.last
    return offset


def _limited(
    partition: SharePartition, member_id: str, offsets: OffsetRange, max_records: int, now_ms: int
) -> AcquiredRecords:
    """Put `offsets` into the window, and acquire the first `max_records` of them."""
    first, last = offsets
    batch = InFlightBatch(first, last, InFlightState(RecordState.AVAILABLE, 0))
    if batch.count > max_records:
        last = first + max_records - 1
        batch.split()
        batch.cut(last + 1)
        partition.may_have_available = True
    batch.at(first).acquire(member_id, partition.lock(now_ms))
    partition.put(batch)
    return AcquiredRecords(first, last, 1)


def _whole_batches(
    partition: SharePartition, event: Acquire, first: int, last: int, now_ms: int
) -> list[AcquiredRecords]:
    """Acquire all offsets, in batches that begin where record batches begin and have `batch_size` offsets or more."""
    size = max(1, event.batch_size)
    firsts = [first]
    if last - first + 1 > size:
        for batch in event.batches:
            if batch.first <= last and batch.first - firsts[-1] >= size:
                firsts.append(batch.first)
    deadline_ms = partition.lock(now_ms)
    acquired = []
    for at, next_first in zip(firsts, [*firsts[1:], last + 1], strict=True):
        state = InFlightState(RecordState.ACQUIRED, 1, event.member_id, deadline_ms)
        partition.put(InFlightBatch(at, next_first - 1, state))
        acquired.append(AcquiredRecords(at, next_first - 1, 1))
    return acquired
