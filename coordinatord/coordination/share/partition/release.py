"""Ends acquisitions without an acknowledgement: a member's share session has ended, or a lock has timed out.

Records at their delivery limit are archived, after their dead letters if the group has a queue of them; the others are
available again. A release waits until it is persisted, as an acknowledgement does; the end of a lock does not.
"""

from __future__ import annotations

from coordinatord.coordination.share.partition.result import NOTHING, Result
from coordinatord.coordination.share.partition.state import (
    DeadLetters,
    InFlightBatch,
    Pending,
    RecordState,
    Run,
    SharePartition,
    Writing,
)
from coordinatord.coordination.share.partition.writes import start_write, write_of
from coordinatord.coordination.share.persister import StateBatch


def release(partition: SharePartition, member_id: str) -> Result:
    """Release what a member has acquired."""
    pending: Pending = []
    letters: list[DeadLetters] = []
    for batch in partition.batches:
        for first, last, record in _acquired(partition, batch):
            if record.member_id != member_id or not record.begin(_next(partition, last), partition.limits):
                continue
            pending.append((record, StateBatch(first, last, record.state, record.delivery_count)))
            if record.state is RecordState.ARCHIVING:
                letters.append(DeadLetters(first, last, record.delivery_count, is_rejected=False))
            if record.state.is_terminal:
                partition.delivery_complete_count += partition.in_window(first, last)
    return Result(write=start_write(partition, pending, letters))


def time_out(partition: SharePartition, now_ms: int) -> Result:
    """Release the records whose locks have timed out."""
    if partition.deadline_ms is None or now_ms < partition.deadline_ms:
        return NOTHING
    letters: list[DeadLetters] = []
    next_ms: int | None = None
    released: list[StateBatch] = []
    for batch in partition.batches:
        if batch.whole is not None and (batch.whole.deadline_ms is None or batch.whole.deadline_ms > now_ms):
            records = batch.states()
        else:
            records = _acquired(partition, batch)
        for first, last, record in records:
            deadline_ms = record.deadline_ms
            if deadline_ms is None:
                continue
            if deadline_ms > now_ms:
                next_ms = deadline_ms if next_ms is None else min(next_ms, deadline_ms)
            elif record.change(_next(partition, last), partition.limits):
                record.deadline_ms = None
                released.append(StateBatch(first, last, record.state, record.delivery_count))
                if record.state is RecordState.AVAILABLE:
                    partition.may_have_available = True
                elif record.state is RecordState.ARCHIVING:
                    letters.append(DeadLetters(first, last, record.delivery_count, is_rejected=False))
                else:
                    partition.delivery_complete_count += partition.in_window(first, last)
    partition.deadline_ms = next_ms
    return Result(write=write_of(partition, released, Writing([], letters)), wakes=bool(released))


def _next(partition: SharePartition, last: int) -> RecordState:
    """Return the state of records up to `last` that are released: below the start offset they are gone."""
    return RecordState.ARCHIVED if last < partition.start_offset else RecordState.AVAILABLE


def _acquired(partition: SharePartition, batch: InFlightBatch) -> list[Run]:
    """Return the states of a batch with their offsets. An acquired batch that the start offset divides is split: only
    its upper part becomes available.
    """
    whole = batch.whole
    if whole is not None and whole.state is RecordState.ACQUIRED and batch.first < partition.start_offset <= batch.last:
        batch.split()
    if batch.whole is None:
        batch.cut(partition.start_offset)
    return batch.states()
