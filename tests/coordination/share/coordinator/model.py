"""An independent model of the stored state, which has a state for each offset instead of batches; and random events."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

from coordinatord.coordination.share.coordinator import events
from coordinatord.coordination.share.persister import StateBatch

OFFSETS = 40


class Model:
    """What a share partition's state must be, offset by offset."""

    def __init__(self) -> None:
        self.epochs: tuple[int, int] | None = None  # state epoch, leader epoch
        self.fence = [-1, -1]  # the highest state epoch and leader epoch
        self.start_offset = self.complete = -1
        self.offsets: dict[int, tuple[int, int]] = {}  # delivery count, delivery state

    def tell(self, event: Any) -> str:
        """The name of the error."""
        name = type(event).__name__
        if min(getattr(event, "leader_epoch", 0), getattr(event, "state_epoch", 0)) < 0:
            return "INVALID_REQUEST"
        if name in ("Read", "Write") and self.epochs is None:
            return "INVALID_REQUEST"
        if name in ("Read", "Write") and event.leader_epoch < self.fence[1]:
            return "FENCED_LEADER_EPOCH"
        if name in ("Initialize", "Write") and event.state_epoch < self.fence[0]:
            return "FENCED_STATE_EPOCH"
        if not getattr(event, "topic_exists", True):
            return "UNKNOWN_TOPIC_OR_PARTITION"
        getattr(self, f"_{name.lower()}", lambda _event: None)(event)
        return "NONE"

    def _initialize(self, event: events.Initialize) -> None:
        self.epochs = event.state_epoch, 0
        self.fence = [max(self.fence[0], event.state_epoch), max(self.fence[1], 0)]
        self.start_offset, self.offsets = event.start_offset, {}
        self.complete = -1 if event.start_offset == -1 else 0

    def _read(self, event: events.Read) -> None:
        if event.leader_epoch != self.fence[1]:
            assert self.epochs is not None
            self.epochs = self.epochs[0], event.leader_epoch
            self.fence[1] = max(self.fence[1], event.leader_epoch)

    def _write(self, event: events.Write) -> None:
        before = (self.start_offset, self.complete)
        self.start_offset = max(event.start_offset, self.start_offset)
        # the first of two leaders' writes, or of two writes on their way, does not count
        self.complete = max(before, (event.start_offset, event.delivery_complete_count))[1]
        for first, last, state, count in event.batches:
            for offset in range(first, last + 1):
                self.offsets[offset] = max(self.offsets.get(offset, (-1, -1)), (count, state))
        self.offsets = {at: what for at, what in self.offsets.items() if at >= self.start_offset}

    def _delete(self, event: events.Delete) -> None:
        self.__init__()  # type: ignore[misc]

    _topicdeleted = _delete


def by_offset(batches: Iterable[StateBatch]) -> dict[int, tuple[int, int]]:
    """The state of each offset; batches must be sorted and must not overlap."""
    found: dict[int, tuple[int, int]] = {}
    for first, last, state, count in batches:
        assert not found or first > max(found), "batches overlap or are not sorted"
        found.update((offset, (count, state)) for offset in range(first, last + 1))
    return found


def random_batches(chance: random.Random) -> list[StateBatch]:
    made = []
    for _ in range(chance.randrange(6)):
        first = chance.randrange(OFFSETS)
        last = min(OFFSETS, first + chance.randrange(10))
        made.append(StateBatch(first, last, chance.choice((0, 2, 4)), chance.randrange(1, 5)))
    return made


def random_event(chance: random.Random) -> Any:
    """An event with small epochs and offsets, so that fences and overlaps are frequent."""
    exists = chance.random() > 0.03
    kind = chance.randrange(100)
    if kind < 10:
        return events.Initialize(chance.randrange(-1, 4), chance.choice((-1, -1, 0, chance.randrange(OFFSETS))), exists)
    if kind < 20:
        return events.Read(chance.randrange(-1, 5), exists)
    if kind < 25:
        return events.ReadSummary(exists)
    if kind < 28:
        return events.Delete(exists)
    start = -1 if chance.random() < 0.5 else chance.randrange(OFFSETS) // (1 + chance.randrange(8))
    return events.Write(
        chance.choice((3, 3, 3, chance.randrange(-1, 4))),
        chance.choice((4, 4, 4, chance.randrange(-1, 5))),
        start,
        chance.randrange(-1, 20),
        random_batches(chance),
        exists,
    )
