"""The state of share partitions: the same as the share coordinator's for all records, and the sentences about it."""

from __future__ import annotations

import random

import pytest

from coordinatord.coordination.share.coordinator.combiner import combine
from coordinatord.coordination.share.coordinator.replay import replay
from coordinatord.coordination.share.coordinator.state import ShareCoordinatorSettings, SharePartitionState
from coordinatord.coordination.share.partition.throttle import throttled_from
from coordinatord.coordination.share.persister import StateBatch as Stored
from coordinatord.monitoring.analysis.share_state import (
    ACKNOWLEDGED,
    ARCHIVED,
    ARCHIVING,
    AVAILABLE,
    MAX_STEPS,
    MAX_UPDATES,
    Batch,
    Deliveries,
    Replayed,
    ShareState,
    Step,
    combined,
    deliveries,
    progress,
    suspected_from,
)
from kafka_wire.records.share_state import ShareSnapshotValue, ShareUpdateValue, StateBatch

Record = ShareSnapshotValue | ShareUpdateValue | None


def batches(chance: random.Random, most: int) -> list[Batch]:
    found = []
    for _ in range(chance.randrange(most)):
        first = chance.randrange(40)
        state, count = chance.choice((AVAILABLE, ACKNOWLEDGED, ARCHIVED)), chance.randrange(4)
        found.append(Batch(first, first + chance.randrange(12), state, count))
    return found


def record(chance: random.Random) -> Record:
    kind = chance.randrange(20)
    if not kind:
        return None
    stored = [StateBatch(*each) for each in batches(chance, 4)]
    epoch, start, done = chance.randrange(-1, 5), chance.randrange(-1, 30), chance.randrange(-1, 9)
    if kind < 4:
        return ShareSnapshotValue(chance.randrange(9), chance.randrange(9), epoch, start, done, 1, 2, stored)
    return ShareUpdateValue(0, epoch, start, done, stored)


def test_batches_are_combined_as_the_share_coordinator_combines_them() -> None:
    chance = random.Random(20)
    seen = set()
    for _ in range(3_000):
        given, start = batches(chance, 9), chance.randrange(-1, 40)
        wanted = combine([Stored(*each) for each in given], start)
        assert [tuple(each) for each in combined(given, start)] == [tuple(each) for each in wanted]
        seen.add(len(wanted))
    assert seen >= set(range(8))


@pytest.mark.parametrize("seed", range(40))
def test_records_are_replayed_as_the_share_coordinator_replays_them(seed: int) -> None:
    chance = random.Random(seed)
    theirs = SharePartitionState("g", b"t" * 16, 0, ShareCoordinatorSettings())
    ours = Replayed()
    for _ in range(60):
        value = record(chance)
        replay(theirs, value)
        ours.add(value, 0)
        state = ours.state()
        assert (state is not None) == theirs.exists
        if state is not None:
            assert state == ShareState(
                theirs.state_epoch,
                theirs.leader_epoch,
                theirs.start_offset,
                theirs.delivery_complete_count,
                tuple(Batch(*each) for each in theirs.batches),
            )


def test_updates_without_end_are_combined_in_bounded_memory() -> None:
    replayed = Replayed()
    replayed.add(ShareSnapshotValue(0, 3, 1, 0, 0, 1, 2, []), 0)
    for offset in range(2 * MAX_UPDATES + 7):
        replayed.add(ShareUpdateValue(0, 1, -1, offset + 1, [StateBatch(offset, offset, ACKNOWLEDGED, 1)]), offset)
        assert len(replayed._updates) < MAX_UPDATES
    last = 2 * MAX_UPDATES + 6
    assert replayed.state() == ShareState(3, 1, 0, last + 1, (Batch(0, last, ACKNOWLEDGED, 1),))


def state(*stored: Batch, start: int = 10, done: int = -1) -> ShareState:
    return ShareState(1, 1, start, done, stored)


def test_counts() -> None:
    stored = (
        Batch(10, 12, ARCHIVED, 1), Batch(13, 13, AVAILABLE, 1), Batch(14, 17, ACKNOWLEDGED, 2),
        Batch(19, 19, AVAILABLE, 2),
    )  # fmt: skip
    assert deliveries(state(*stored), 5) == Deliveries(
        start_offset=10, done=7, acknowledged=4, archived=3, archiving=0, available=2, redelivered=5, oldest=13,
        most_deliveries=2, at_offset=14, suspected=0, suspected_at=None,
        why="offsets 10-12 archived at delivery count 1",
    )  # fmt: skip
    assert deliveries(state(*stored, done=8), 5).done == 8, "the cluster counts offset 18, too"
    limited = deliveries(state(*stored), 4)
    assert (limited.suspected, limited.suspected_at) == (1, 19)
    assert deliveries(state(Batch(10, 12, ARCHIVING, 5)), 5)[1:8] == (0, 0, 0, 3, 0, 3, 10), "a dead letter on its way"
    assert deliveries(state(start=-1), 5)[:3] == (None, 0, 0)
    assert deliveries(state(start=-1), 5).oldest is None


def test_a_snapshot_that_repeats_the_state_changes_nothing() -> None:
    replayed = Replayed()
    stored = [StateBatch(3, 4, AVAILABLE, 1)]
    replayed.add(ShareSnapshotValue(0, 1, 0, 3, 0, 5, 5, []), 5)
    replayed.add(ShareUpdateValue(0, 0, -1, 0, stored), 6)
    assert replayed.changed_ms == 6
    replayed.add(ShareSnapshotValue(1, 1, 0, 3, 0, 5, 7, stored), 7)
    assert replayed.changed_ms == 6
    assert replayed.steps == [Step(5, 3, 0), Step(6, 3, 0), Step(7, 3, 0)]
    replayed.add(ShareSnapshotValue(2, 1, 0, 1, 0, 5, 8, []), 8)
    assert (replayed.changed_ms, replayed.steps) == (8, [Step(8, 1, 0)]), "a start offset that was set back is another"
    replayed.add(None, 9)
    assert (replayed.changed_ms, replayed.steps) == (None, [])


def test_steps_are_thinned() -> None:
    """The first one stays, since when the start offset stands."""
    replayed = Replayed()
    for time_ms in range(10_000):
        replayed.add(ShareUpdateValue(0, 0, time_ms // 5_000, 0, []), time_ms)
        assert len(replayed.steps) <= 2 * MAX_STEPS
    assert replayed.steps[0].time_ms == 0
    assert [each.time_ms for each in replayed.steps] == sorted({each.time_ms for each in replayed.steps})
    assert replayed.steps[-1] == Step(9_999, 1, 0)


BEFORE = [Batch(10, 12, AVAILABLE, 1), Batch(13, 13, ARCHIVED, 2), Batch(20, 29, AVAILABLE, 2)]


@pytest.mark.parametrize(
    ("after", "redelivered", "archived"),
    [
        ([Batch(30, 34, ACKNOWLEDGED, 1)], 0, 0),
        ([Batch(30, 34, AVAILABLE, 2)], 5, 0),
        ([Batch(30, 31, ARCHIVED, 1)], 0, 2),
        ([Batch(10, 12, ACKNOWLEDGED, 2)], 3, 0),
        ([Batch(11, 11, ARCHIVED, 3)], 2, 1),
        ([Batch(13, 13, ARCHIVED, 2)], 0, 0),
        # 12 again, 13 unchanged, 14 to 19 for the first time, 20 and 21 unchanged.
        ([Batch(12, 21, ARCHIVED, 2)], 1 + 6, 1 + 6 + 2),
        ([Batch(5, 40, AVAILABLE, 1)], 0, 0),
        (BEFORE, 0, 0),
        ([Batch(25, 25, AVAILABLE, 3), Batch(26, 26, ARCHIVED, 5)], 1 + 3, 1),
    ],
)
def test_progress(after: list[Batch], redelivered: int, archived: int) -> None:
    """What batches that are stored say of deliveries since the state before."""
    assert progress(BEFORE, after) == (redelivered, archived)
    assert progress((), BEFORE) == (1 + 10, 1)


@pytest.mark.parametrize(
    ("stored", "why"),
    [
        ([Batch(10, 10, AVAILABLE, 2)], ""),
        ([Batch(10, 10, AVAILABLE, 3)], "delivery count 3 of limit 5 at offset 10: a suspected poison record"),
        (
            [Batch(10, 10, AVAILABLE, 3), Batch(12, 14, AVAILABLE, 4), Batch(20, 20, AVAILABLE, 4)],
            "delivery count 4 of limit 5 at offsets 12-14: suspected poison records",
        ),
        ([Batch(10, 10, ACKNOWLEDGED, 4)], ""),
        ([Batch(10, 10, ARCHIVED, 1), Batch(11, 11, AVAILABLE, 1)], "offset 10 archived at delivery count 1"),
        (
            [Batch(10, 10, ARCHIVED, 1), Batch(11, 12, ARCHIVED, 5)],
            "offsets 11-12 archived after 5 deliveries, the limit is 5",
        ),
        (
            [Batch(10, 10, ARCHIVED, 5), Batch(11, 11, AVAILABLE, 3)],
            "delivery count 3 of limit 5 at offset 11: a suspected poison record",
        ),
    ],
)
def test_sentences(stored: list[Batch], why: str) -> None:
    assert deliveries(state(*stored), 5).why == why


def test_records_are_suspected_where_delivery_is_throttled() -> None:
    assert [suspected_from(limit) for limit in range(2, 11)] == [throttled_from(limit) for limit in range(2, 11)]
