"""The combination of state batches, as Kafka's PersisterStateBatchCombiner.

Where batches overlap, the one with the higher delivery count counts, then the one with the higher delivery state.
Neighbours with equal state are joined while they are compared with each other; a batch that was passed is final, so
some equal neighbours stay apart. Records contain the result, so it must equal Kafka's batch for batch.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heappop, heappush

from coordinatord.coordination.share.persister import StateBatch

_Sorted = tuple[int, int, int, int]
"""A batch in Kafka's order of comparison: first offset, last offset, delivery count, delivery state."""


def combine(batches: Iterable[StateBatch], start_offset: int) -> list[StateBatch]:
    """Return non-overlapping batches in the order of offsets, without what is before `start_offset` (-1: no limit).

    Each batch must have first_offset ≤ last_offset. A single batch, or none, is only cut at `start_offset`.
    """
    heap = [
        (max(first, start_offset), last, count, state) for first, last, state, count in batches if last >= start_offset
    ]
    heapify(heap)
    final: list[_Sorted] = []
    while heap:
        batch = heappop(heap)
        if heap and _is_mergeable(batch, heap[0]):
            for each in _merge(batch, heappop(heap)):
                heappush(heap, each)
        else:
            final.append(batch)
    return [StateBatch(first, last, state, count) for first, last, count, state in final]


def _is_mergeable(batch: _Sorted, following: _Sorted) -> bool:
    """Return whether two batches overlap, or are neighbours with equal state."""
    return following[0] <= batch[1] or (following[0] == batch[1] + 1 and following[2:] == batch[2:])


def _merge(batch: _Sorted, following: _Sorted) -> Iterable[_Sorted]:
    """Return the batches that replace two mergeable ones; `following` is the later one in the order of comparison."""
    first, last, *_ = batch
    next_first, next_last, *_ = following
    state, next_state = batch[2:], following[2:]
    if state == next_state:
        return ((first, max(last, next_last), *state),)
    if next_state < state:
        rest = ((last + 1, next_last, *next_state),) if next_last > last else ()
        return (batch, *rest)
    before = ((first, next_first - 1, *state),) if first < next_first else ()
    after = ((next_last + 1, last, *state),) if next_last < last else ()
    return (*before, following, *after)
