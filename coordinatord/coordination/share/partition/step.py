"""The step of a share partition: picks the function for an event."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from coordinatord.coordination.share.partition import events
from coordinatord.coordination.share.partition.acknowledge import acknowledge
from coordinatord.coordination.share.partition.acquire import acquire
from coordinatord.coordination.share.partition.release import release, time_out
from coordinatord.coordination.share.partition.result import NOTHING, Result
from coordinatord.coordination.share.partition.state import (
    DeadLetters,
    GapWindow,
    InFlightBatch,
    InFlightState,
    RecordState,
    SharePartition,
    Status,
)
from coordinatord.coordination.share.partition.window import advance_start, move_log_start
from coordinatord.coordination.share.partition.writes import archive_letters, written


def step(partition: SharePartition, event: events.Event, now_ms: int) -> Result:
    """Apply an event to a share partition."""
    return _STEPS[type(event)](partition, event, now_ms)


def _initialize(partition: SharePartition, event: events.Initialize, _now_ms: int) -> Result:
    """Load the persisted state. It must not contradict itself; then the share partition has failed."""
    start = event.start_offset
    gap_start: int | None = None
    end = start - 1
    letters: list[DeadLetters] = []
    for first, last, state, delivery_count in event.batches:
        if first < start or last < first or first <= end or not 0 <= state <= RecordState.ARCHIVED:
            partition.status = Status.FAILED
            partition.batches.clear()
            return NOTHING
        if gap_start is None and first > end + 1:
            gap_start = end + 1
        end = last
        found = RecordState(state)
        if found is RecordState.ARCHIVING:  # the letter may have been written; it is written again, as in Kafka
            is_rejected = delivery_count < partition.limits.delivery_count_limit
            letters.append(DeadLetters(first, last, delivery_count, is_rejected))
        batch = InFlightBatch(first, last, InFlightState(found, delivery_count))
        partition.batches.append(batch)
        if found.is_terminal:
            partition.delivery_complete_count += batch.count
    partition.start_offset = start
    partition.state_epoch = event.state_epoch
    partition.end_offset = start
    partition.status = Status.ACTIVE
    if partition.batches:
        partition.end_offset = end
        partition.may_have_available = True
        if gap_start is not None:
            partition.gap = GapWindow(gap_start, end)
        advance_start(partition)
    return Result(wakes=True, letters=letters)


def _fail(partition: SharePartition, _event: events.InitializeFailed, _now_ms: int) -> Result:
    partition.status = Status.FAILED
    return Result(wakes=True)


def _fence(partition: SharePartition, _event: events.Fence, _now_ms: int) -> Result:
    partition.status = Status.FENCED
    return Result(wakes=True)


def _acknowledge(partition: SharePartition, event: events.Acknowledge, now_ms: int) -> Result:
    return acknowledge(partition, event.member_id, event.batches, now_ms)


def _release(partition: SharePartition, event: events.Release, _now_ms: int) -> Result:
    return release(partition, event.member_id)


def _time_out(partition: SharePartition, _event: events.LockTimeout, now_ms: int) -> Result:
    return time_out(partition, now_ms)


def _move(partition: SharePartition, event: events.MoveLogStart, _now_ms: int) -> Result:
    move_log_start(partition, event.offset)
    return NOTHING


def _written(partition: SharePartition, event: events.Written, now_ms: int) -> Result:
    return written(partition, event.write_id, committed=event.committed, now_ms=now_ms)


def _archive(partition: SharePartition, event: events.LettersDone, _now_ms: int) -> Result:
    return archive_letters(partition, event.letters)


_STEPS: Final[dict[type, Callable[[SharePartition, Any, int], Result]]] = {
    events.Initialize: _initialize,
    events.InitializeFailed: _fail,
    events.Fence: _fence,
    events.Acquire: acquire,
    events.Acknowledge: _acknowledge,
    events.Release: _release,
    events.LockTimeout: _time_out,
    events.MoveLogStart: _move,
    events.Written: _written,
    events.LettersDone: _archive,
}
