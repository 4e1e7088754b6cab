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
    AVAILABLE,
    MAX_UPDATES,
    Batch,
    Replayed,
    ShareState,
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
        ours.add(value)
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
    replayed.add(ShareSnapshotValue(0, 3, 1, 0, 0, 1, 2, []))
    for offset in range(2 * MAX_UPDATES + 7):
        replayed.add(ShareUpdateValue(0, 1, -1, offset + 1, [StateBatch(offset, offset, ACKNOWLEDGED, 1)]))
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
    assert deliveries(state(*stored), 5)[:6] == (10, 7, 3, 2, 14, 0)
    assert deliveries(state(*stored, done=8), 5)[:5] == (10, 8, 3, 2, 14), "the cluster counts offset 18, too"
    assert deliveries(state(*stored), 4)[5:7] == (1, 19)
    assert deliveries(state(start=-1), 5) == (None, 0, 0, 0, None, 0, None, "")


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
