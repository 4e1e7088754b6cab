"""The combination of state batches, as PersisterStateBatchCombiner of Kafka 4.4 (that of 4.3 joins fewer neighbours).

Where batches overlap, the one with the higher delivery count counts, then the one with the higher delivery state.
Neighbours with equal state become one batch.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush

from coordinatord.coordination.share.persister import StateBatch


def combine(batches: Iterable[StateBatch], start_offset: int) -> list[StateBatch]:
    """Return non-overlapping batches in the order of offsets, without what is before `start_offset` (-1: no limit).
    Each batch must have first_offset ≤ last_offset.
    """
    coming = sorted(
        (max(first, start_offset), last, state, count) for first, last, state, count in batches if last >= start_offset
    )
    if len(coming) < 2:  # most writes
        return [StateBatch(*each) for each in coming]
    open_: list[tuple[int, int, int]] = []  # batches that have begun, the highest first: (-count, -state, last offset)
    combined: list[StateBatch] = []
    offset = at = 0
    while at < len(coming) or open_:
        if not open_:
            offset = coming[at][0]
        while at < len(coming) and coming[at][0] == offset:
            _, last, state, count = coming[at]
            heappush(open_, (-count, -state, last))
            at += 1
        while open_ and open_[0][2] < offset:
            heappop(open_)
        if open_:
            count, state, last = open_[0]
            end = min(last, coming[at][0] - 1) if at < len(coming) else last
            _append(combined, StateBatch(offset, end, -state, -count))
            offset = end + 1
    return combined


def _append(combined: list[StateBatch], batch: StateBatch) -> None:
    if combined:
        before = combined[-1]
        if before.last_offset + 1 == batch.first_offset and before[2:] == batch[2:]:
            combined[-1] = StateBatch(before.first_offset, *batch[1:])
            return
    combined.append(batch)
