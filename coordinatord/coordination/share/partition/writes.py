"""Changes that are being persisted: their beginning, and their end (Kafka's rollbackOrProcessStateUpdates)."""

from __future__ import annotations

from collections.abc import Sequence

from coordinatord.coordination.share.partition.result import NOTHING, Result, Write
from coordinatord.coordination.share.partition.state import DeadLetters, Pending, RecordState, SharePartition, Writing
from coordinatord.coordination.share.partition.window import advance_start
from coordinatord.coordination.share.persister import StateBatch


def start_write(partition: SharePartition, pending: Pending, letters: Sequence[DeadLetters]) -> Write | None:
    """Return the write of these changes, None if there are none."""
    return write_of(partition, [batch for _, batch in pending], Writing(pending, letters))


def write_of(partition: SharePartition, batches: list[StateBatch], writing: Writing) -> Write | None:
    """Return the write of `batches`."""
    if not batches:
        return None
    write_id = partition.next_write_id
    partition.next_write_id += 1
    partition.writes[write_id] = writing
    return Write(
        write_id, partition.state_epoch, partition.start_offset, partition.delivery_complete_count, tuple(batches)
    )


def written(partition: SharePartition, write_id: int, *, committed: bool, now_ms: int) -> Result:
    """End a write: keep or revert its changes, and move the start offset. The state after a lock has timed out is kept
    even if it could not be persisted.
    """
    writing = partition.writes.pop(write_id, None)
    if writing is None:
        return NOTHING
    pending, letters = writing
    became_available = finish(partition, pending, committed=committed, now_ms=now_ms)
    if not committed and pending:
        return Result(wakes=became_available)
    moved = advance_start(partition)
    return Result(wakes=moved or became_available, letters=letters)


def archive_letters(partition: SharePartition, letters: Sequence[DeadLetters]) -> Result:
    """Archive the records of these dead letters. That stays so even if it cannot be persisted; after a restart the
    letters are then written again (SharePartition.initiateDLQAndArchive).
    """
    archived: list[StateBatch] = []
    for letter in letters:
        batch = partition.floor(letter.first)
        if batch is None:
            continue
        runs = batch.states() if batch.whole is not None else batch.cut_out(letter.first, letter.last)
        for first, last, record in runs:
            if record.state is RecordState.ARCHIVING:
                record.archive()
                partition.delivery_complete_count += partition.in_window(first, last)
                archived.append(StateBatch(first, last, RecordState.ARCHIVED, letter.delivery_count))
    return Result(write=write_of(partition, archived, Writing([], ())))


def finish(partition: SharePartition, pending: Pending, *, committed: bool, now_ms: int) -> bool:
    """Keep or revert changes. Return whether a record is available now."""
    became_available = False
    limit = partition.limits.delivery_count_limit
    for changed, batch in pending:
        for first, last, record in changed.parts(batch.first_offset, batch.last_offset):
            record.complete(committed=committed, delivery_count_limit=limit, now_ms=now_ms)
            if record.state is RecordState.AVAILABLE:
                became_available = True
            if not committed and RecordState(batch.delivery_state).is_terminal and not record.state.is_terminal:
                partition.delivery_complete_count -= partition.in_window(first, last)
    if became_available:
        partition.may_have_available = True
    return became_available
