"""The next offset to read, the moves of the start offset, and the records that are gone from the log."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import takewhile

from coordinatord.coordination.share.partition.state import InFlightBatch, RecordState, SharePartition


def can_acquire(partition: SharePartition) -> bool:
    """Return whether a fetch may acquire records: some are available again, or the window may grow."""
    if next_fetch_offset(partition) != partition.end_offset + 1:
        return True
    return partition.in_flight_count < partition.limits.partition_max_record_locks


def next_fetch_offset(partition: SharePartition) -> int:
    """Return the offset at which a fetch reads: of the first available record, or behind the window."""
    batches = partition.batches
    if not batches or partition.start_offset > batches[-1].last:
        # The end offset is that of the next record here, not of the last one.
        partition.may_have_available = False
        return partition.end_offset
    if partition.may_have_available:
        found = _first_available(partition)
        if found is not None:
            return found
        partition.may_have_available = False
    return partition.end_offset + 1


def _first_available(partition: SharePartition) -> int | None:
    gap = partition.gap
    gap_start = gap.start if gap is not None and partition.has_gaps else None
    for batch in partition.batches:
        if gap_start is not None:
            if batch.first > gap_start:
                return gap_start
            gap_start = max(batch.last + 1, gap_start)
        if batch.whole is not None:
            if batch.whole.is_acquirable:
                return batch.first
            continue
        for first, _, record in batch.states():
            if record.is_acquirable:
                return first
    return None


def advance_gap(partition: SharePartition, offset: int) -> None:
    """Note that a fetch has acquired everything below `offset` in the gap window."""
    gap = partition.gap
    if gap is None:
        return
    if gap.end == partition.end_offset and offset <= gap.end:
        gap.start = offset
    else:
        partition.gap = None


# The start offset


def advance_start(partition: SharePartition) -> bool:
    """Move the start offset behind the records that are done, and forget their batches. Return whether it moved."""
    if not _may_advance(partition):
        return False
    last, terminal_count = _last_done(partition)
    if last is None:
        return False
    batches = partition.batches
    if last == batches[-1].last:
        # The log's start may have moved behind the window: the start offset never moves back.
        partition.start_offset = partition.end_offset = max(partition.start_offset, last + 1)
        batches.clear()
        partition.delivery_complete_count = 0
        return True
    at = next(index for index, batch in enumerate(batches) if batch.last >= last)
    if batches[at].last == last:
        at += 1
        partition.start_offset = max(partition.start_offset, batches[at].first)
        if partition.gap is not None and partition.has_gaps:
            partition.start_offset = min(partition.gap.start, partition.start_offset)
    else:
        partition.start_offset = max(partition.start_offset, last + 1)
    partition.delivery_complete_count -= terminal_count
    del batches[:at]
    return True


def _may_advance(partition: SharePartition) -> bool:
    """Return whether the record at the start offset is done; True if the log has no such record."""
    batch = partition.floor(partition.start_offset)
    if batch is None or batch.last < partition.start_offset:
        return bool(partition.batches)
    record = batch.at(partition.start_offset)
    return record.before is None and record.state.is_terminal


def _last_done(partition: SharePartition) -> tuple[int | None, int]:
    """Return the last offset before which all are done, and the number of terminal offsets in the window up to it."""
    last: int | None = None
    count = 0
    gap = partition.gap
    for batch in partition.batches:
        if gap is not None and partition.has_gaps and batch.last >= gap.start:
            break
        if batch.whole is not None:
            if batch.whole.before is not None or not batch.whole.state.is_terminal:
                break
            last = batch.last
            count += partition.in_window(batch.first, batch.last)
            continue
        runs = batch.states()
        done = list(takewhile(lambda run: run[2].before is None and run[2].state.is_terminal, runs))
        if done:
            last = done[-1][1]
            count += partition.in_window(batch.first, last)
        if len(done) < len(runs):
            break
    return last, count


# Records that are gone


def move_log_start(partition: SharePartition, log_start_offset: int) -> None:
    """Archive the available records below the log's new start, and begin the window there. Acquired records keep their
    locks: they are archived when these end.
    """
    if log_start_offset <= partition.start_offset:
        return
    if not partition.batches:
        partition.start_offset = partition.end_offset = log_start_offset
        partition.delivery_complete_count = 0
        return
    gone = _terminal_below(partition, log_start_offset)
    if archive(
        partition, partition.batches, partition.start_offset, log_start_offset, RecordState.AVAILABLE, counted=False
    ):
        partition.may_have_available = True
    partition.start_offset = log_start_offset
    partition.delivery_complete_count -= gone
    partition.end_offset = max(partition.end_offset, log_start_offset)


def _terminal_below(partition: SharePartition, offset: int) -> int:
    count = 0
    for batch in partition.batches:
        if batch.first >= offset:
            break
        if batch.last < partition.start_offset:
            continue
        if batch.whole is None:
            for first, last, record in batch.between(partition.start_offset, offset - 1):
                count += last - first + 1 if record.state.is_terminal else 0
        elif batch.whole.state.is_terminal:
            count += partition.in_window(batch.first, min(offset - 1, batch.last))
    return count


def archive_missing(partition: SharePartition, fetch_offset: int, base_offset: int) -> None:
    """Archive available records that the log does not have: a read at `fetch_offset` returned batches from
    `base_offset` on, since compaction has removed what was before.
    """
    if not partition.batches or fetch_offset >= base_offset:
        return
    floor = partition.floor(fetch_offset)
    first = floor.first if floor is not None and floor.last >= fetch_offset else fetch_offset
    missing = partition.from_to(first, base_offset - 1)
    if archive(partition, missing, fetch_offset, base_offset, RecordState.AVAILABLE, counted=True):
        partition.may_have_available = True


def archive(
    partition: SharePartition, batches: Iterable[InFlightBatch], start: int, end: int, state: RecordState, *,
    counted: bool,
) -> bool:  # fmt: skip
    """Archive the records of `batches` in [start, end) that have this state, and with `counted` count them as done.
    Return whether there was one.
    """
    count = 0
    for batch in batches:
        if batch.first >= end:
            break
        if batch.whole is not None:
            if batch.whole.state is not state:
                continue
            if batch.is_within(start, end - 1):
                batch.whole.archive()
                count += batch.count
                continue
            batch.split()
        for first, last, record in batch.cut_out(start, end - 1):
            if record.state is state:
                record.archive()
                count += last - first + 1
    if counted:
        partition.delivery_complete_count += count
    return count > 0
