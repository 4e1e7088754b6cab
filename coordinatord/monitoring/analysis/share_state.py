"""State of share partitions (KIP-932) from the records of `__share_group_state`, and what it says of deliveries.

A share partition is a topic partition that a share group reads. Its state is its last snapshot, changed by the updates
after it. Numbers are those of Kafka's ShareCoordinatorShard and PersisterStateBatchCombiner.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from itertools import pairwise
from typing import NamedTuple

from kafka_wire.records.share_state import ShareSnapshotValue, ShareUpdateValue

AVAILABLE, ACKNOWLEDGED, ARCHIVING, ARCHIVED = 0, 2, 3, 4
"""Delivery states that are stored. That a record is acquired by a member is not."""
UNKNOWN = -1
"""A start offset before `share.auto.offset.reset` was applied, or a count from a cluster that does not count."""

DELIVERY_COUNT_LIMIT = 5
"""Default of group.share.delivery.count.limit."""

MAX_UPDATES = 1_000
"""Updates that are kept until their state is computed. Kafka writes a snapshot after 500, by default."""

MAX_STEPS = 120
"""Steps that are kept of a share partition: beyond twice as many, every second one of the older half is dropped."""


class Batch(NamedTuple):
    """Consecutive offsets with the same delivery state and delivery count."""

    first_offset: int
    last_offset: int
    delivery_state: int
    delivery_count: int

    @property
    def size(self) -> int:
        """Number of offsets."""
        return self.last_offset - self.first_offset + 1


@dataclass(frozen=True, slots=True)
class ShareState:
    """The stored state of a share partition. Offsets from `start_offset` on that no batch has were never returned."""

    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    """Number of records from the start offset on that are acknowledged or archived (KIP-1226); -1 if not counted."""
    batches: tuple[Batch, ...]


class Step(NamedTuple):
    """The start offset of a share partition, and the records behind it that are done, from `time_ms` on. `done` is -1
    where the cluster does not count it.
    """

    time_ms: int
    start_offset: int
    done: int


@dataclass(slots=True)
class Replayed:
    """The records of a share partition, in the order of the log. They are combined only for `state`: most updates of a
    log are superseded by a later snapshot.
    """

    steps: list[Step] = field(default_factory=list)
    """A step for each record, oldest first, since the start offset was moved back last."""
    changed_ms: int | None = None
    """When the state changed last: the time of the record. A snapshot that repeats the state changes nothing; one whose
    earlier records are no longer in the log counts as a change.
    """
    _base: ShareState | None = None
    _updates: list[ShareUpdateValue] = field(default_factory=list)

    def add(self, value: ShareSnapshotValue | ShareUpdateValue | None, time_ms: int) -> None:
        """Apply one record that was written at `time_ms`; None is a tombstone."""
        if isinstance(value, ShareUpdateValue):
            self._step(value, time_ms)
            self.changed_ms = time_ms
            self._updates.append(value)
            if len(self._updates) < MAX_UPDATES:
                return
            self._base = self.state()
        elif value is None:
            self._base = self.changed_ms = None
            self.steps.clear()
        else:
            self._step(value, time_ms)
            before, self._base = self.state(), _begun(value, value.state_epoch)
            if before is None or replace(before, leader_epoch=value.leader_epoch) != self._base:
                self.changed_ms = time_ms
        self._updates.clear()

    def _step(self, value: ShareSnapshotValue | ShareUpdateValue, time_ms: int) -> None:
        before = self.steps[-1].start_offset if self.steps else UNKNOWN
        start_offset = before if value.start_offset == UNKNOWN else value.start_offset
        if start_offset < before:
            self.steps.clear()  # it was reset
        self.steps.append(Step(time_ms, start_offset, value.delivery_complete_count))
        if len(self.steps) > 2 * MAX_STEPS:
            self.steps[:MAX_STEPS] = self.steps[:MAX_STEPS:2]

    def state(self) -> ShareState | None:
        """Return the present state; None if it was deleted, or never initialised."""
        state = self._base
        for update in self._updates:
            state = _updated(state, update)
        return state


def _updated(state: ShareState | None, update: ShareUpdateValue) -> ShareState:
    if state is None:  # the snapshot was lost with damaged records: the state begins with the update, as in Kafka
        return _begun(update, 0)
    start_offset = state.start_offset if update.start_offset == UNKNOWN else update.start_offset
    return replace(
        state,
        leader_epoch=state.leader_epoch if update.leader_epoch == UNKNOWN else update.leader_epoch,
        start_offset=start_offset,
        delivery_complete_count=update.delivery_complete_count,
        batches=combined((*state.batches, *stored_batches(update)), start_offset),
    )


def _begun(value: ShareSnapshotValue | ShareUpdateValue, state_epoch: int) -> ShareState:
    return ShareState(
        state_epoch, value.leader_epoch, value.start_offset, value.delivery_complete_count, stored_batches(value)
    )


def stored_batches(value: ShareSnapshotValue | ShareUpdateValue) -> tuple[Batch, ...]:
    """Return the batches of a record."""
    return tuple(
        Batch(each.first_offset, each.last_offset, each.delivery_state, each.delivery_count)
        for each in value.state_batches
    )


def combined(batches: Iterable[Batch], start_offset: int) -> tuple[Batch, ...]:
    """Return batches without overlaps, in the order of offsets, and without offsets before `start_offset`.

    Of overlapping batches, the one with the highest delivery count holds, then the one with the highest state.
    Neighbours of equal state are one batch.
    """
    cut = sorted(
        each._replace(first_offset=max(each.first_offset, start_offset))
        for each in batches
        if max(each.first_offset, start_offset) <= each.last_offset
    )
    edges = sorted({each.first_offset for each in cut} | {each.last_offset + 1 for each in cut})
    found: list[Batch] = []
    begun: list[tuple[int, int, int]] = []
    """Batches of the present offset, the one that holds first: (-count, -state, last offset)."""
    at = 0
    for first, following in pairwise(edges):
        while at < len(cut) and cut[at].first_offset == first:
            heappush(begun, (-cut[at].delivery_count, -cut[at].delivery_state, cut[at].last_offset))
            at += 1
        while begun and begun[0][2] < first:
            heappop(begun)
        if not begun:
            continue
        batch = Batch(first, following - 1, -begun[0][1], -begun[0][0])
        if found and found[-1].last_offset + 1 == first and found[-1][2:] == batch[2:]:
            batch = batch._replace(first_offset=found.pop().first_offset)
        found.append(batch)
    return tuple(found)


class Deliveries(NamedTuple):
    """The progress of a share partition. Counts are of offsets from the start offset on: what is before is done."""

    start_offset: int | None
    """None before the group has started to read."""
    done: int
    """Number of offsets that are acknowledged or archived, as the cluster counts them if it does."""
    acknowledged: int
    archived: int
    archiving: int
    """Number of records whose dead letter is being written (KIP-1191)."""
    available: int
    """Number of records that wait for another delivery: they were released, or the time of a member's lock ended."""
    redelivered: int
    """Number of records with a delivery count above 1, whatever became of them."""
    oldest: int | None
    """The first offset that is neither acknowledged nor archived. It may not have a record yet."""
    most_deliveries: int
    """The highest stored delivery count; 0 without any."""
    at_offset: int | None
    """The first offset with that count."""
    suspected: int
    """Number of available records whose delivery count is near the limit: `suspected_from`."""
    suspected_at: int | None
    """The first one with the highest count of them."""
    why: str
    """A sentence on records that are rejected or delivered again and again; empty if there is none."""


def deliveries(state: ShareState, limit: int = DELIVERY_COUNT_LIMIT) -> Deliveries:
    """Return the progress of a share partition. `limit` is the group's share.delivery.count.limit."""
    sizes = Counter[int]()
    for each in state.batches:
        sizes[each.delivery_state] += each.size
    acknowledged, archived = sizes[ACKNOWLEDGED], sizes[ARCHIVED]
    counted = state.delivery_complete_count
    most = max(state.batches, key=_deliveries_first, default=None)
    near = [
        each
        for each in state.batches
        if each.delivery_state == AVAILABLE and each.delivery_count >= suspected_from(limit)
    ]
    worst = max(near, key=_deliveries_first, default=None)
    return Deliveries(
        None if state.start_offset == UNKNOWN else state.start_offset,
        acknowledged + archived if counted == UNKNOWN else counted,
        acknowledged,
        archived,
        sizes[ARCHIVING],
        sizes[AVAILABLE],
        sum(each.size for each in state.batches if each.delivery_count > 1),
        _oldest(state),
        0 if most is None else most.delivery_count,
        None if most is None else most.first_offset,
        sum(each.size for each in near),
        None if worst is None else worst.first_offset,
        _why(worst, state.batches, limit),
    )


def _oldest(state: ShareState) -> int | None:
    """Return the first offset that is neither acknowledged nor archived; None before the group has started to read."""
    oldest = None if state.start_offset == UNKNOWN else state.start_offset
    for each in state.batches:
        if each.first_offset != oldest or each.delivery_state not in (ACKNOWLEDGED, ARCHIVED):
            break
        oldest = each.last_offset + 1
    return oldest


class Progress(NamedTuple):
    """Changes of records between two states of a share partition, in numbers of records."""

    redelivered: int
    """Deliveries of records that had been delivered before."""
    archived: int


def progress(before: Sequence[Batch], after: Iterable[Batch]) -> Progress:
    """Return what batches that are stored after a state say of deliveries. `before` are without overlaps, in order;
    offsets that it does not have were not delivered, as far as is stored.
    """
    redelivered = archived = 0
    for new in after:
        unknown = new.size
        for old in before[bisect_left(before, new.first_offset, key=lambda each: each.last_offset) :]:
            if old.first_offset > new.last_offset:
                break
            both = min(old.last_offset, new.last_offset) - max(old.first_offset, new.first_offset) + 1
            unknown -= both
            redelivered += both * max(0, new.delivery_count - max(1, old.delivery_count))
            archived += both * (new.delivery_state == ARCHIVED != old.delivery_state)
        redelivered += unknown * max(0, new.delivery_count - 1)
        archived += unknown * (new.delivery_state == ARCHIVED)
    return Progress(redelivered, archived)


def suspected_from(limit: int) -> int:
    """Return the delivery count from which Kafka throttles delivery as that of a suspected poison record: half of the
    limit, rounded up, and at least 2.
    """
    return max(2, (limit + 1) // 2)


def _deliveries_first(batch: Batch) -> tuple[int, int]:
    """Return the sort key of the first batch with the most deliveries."""
    return batch.delivery_count, -batch.first_offset


def _why(suspect: Batch | None, batches: Iterable[Batch], limit: int) -> str:
    """Return the worst: available records near the limit, then archived ones."""
    if suspect is not None:
        return (
            f"delivery count {suspect.delivery_count} of limit {limit} at {_offsets(suspect)}: "
            f"{'a suspected poison record' if suspect.size == 1 else 'suspected poison records'}"
        )
    archived = [each for each in batches if each.delivery_state == ARCHIVED]
    at_limit = [each for each in archived if each.delivery_count >= limit]
    if at_limit:
        return f"{_offsets(at_limit[0])} archived after {at_limit[0].delivery_count} deliveries, the limit is {limit}"
    return f"{_offsets(archived[0])} archived at delivery count {archived[0].delivery_count}" if archived else ""


def _offsets(batch: Batch) -> str:
    return f"offset {batch.first_offset}" if batch.size == 1 else f"offsets {batch.first_offset}-{batch.last_offset}"
