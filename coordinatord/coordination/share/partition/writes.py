"""Changes that are being persisted: their beginning, and their end (Kafka's rollbackOrProcessStateUpdates)."""

from __future__ import annotations

from coordinatord.coordination.share.partition.result import NOTHING, Result, Write
from coordinatord.coordination.share.partition.state import Pending, RecordState, SharePartition
from coordinatord.coordination.share.partition.window import advance_start
from coordinatord.coordination.share.persister import StateBatch


def start_write(partition: SharePartition, pending: Pending) -> Write | None:
    """Return the write of these changes, None if there are none."""
    return write_of(partition, [batch for _, batch in pending], pending)


def write_of(partition: SharePartition, batches: list[StateBatch], pending: Pending) -> Write | None:
    """Return the write of `batches`; `pending` are the changes to revert if it fails."""
    if not batches:
        return None
    write_id = partition.next_write_id
    partition.next_write_id += 1
    partition.writes[write_id] = pending
    return Write(
        write_id, partition.state_epoch, partition.start_offset, partition.delivery_complete_count, tuple(batches)
    )


def written(partition: SharePartition, write_id: int, *, committed: bool, now_ms: int) -> Result:
    """End a write: keep or revert its changes, and move the start offset. The state after a lock has timed out is kept
    even if it could not be persisted.
    """
    pending = partition.writes.pop(write_id, None)
    if pending is None:
        return NOTHING
    became_available = finish(partition, pending, committed=committed, now_ms=now_ms)
    moved = advance_start(partition) if committed or not pending else False
    return Result(wakes=moved or became_available)


def finish(partition: SharePartition, pending: Pending, *, committed: bool, now_ms: int) -> bool:
    """Keep or revert changes. Return whether a record is available now."""
    became_available = False
    limit = partition.limits.delivery_count_limit
    for record, batch in pending:
        record.complete(committed=committed, delivery_count_limit=limit, now_ms=now_ms)
        if record.state is RecordState.AVAILABLE:
            became_available = True
        if not committed and RecordState(batch.delivery_state).is_terminal and not record.state.is_terminal:
            partition.delivery_complete_count -= partition.in_window(batch.first_offset, batch.last_offset)
    if became_available:
        partition.may_have_available = True
    return became_available
