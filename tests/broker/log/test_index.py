"""Searching an index of any size."""

from __future__ import annotations

import random

import pytest

from coordinatord.broker.log.index import OFFSET_ENTRY, floor_entry
from coordinatord.broker.log.simulated_disk import SimulatedDisk


@pytest.mark.parametrize("count", [0, 1, 2, 7, 2_048, 2_049, 5_000])
def test_the_floor_is_the_last_entry_that_is_not_greater(count: int) -> None:
    chance = random.Random(count)
    entries = [
        (offset, chance.randrange(3) + 4_200 * number)
        for number, offset in enumerate(sorted(chance.sample(range(20_000), count)))
    ]
    disk = SimulatedDisk()
    disk.makedirs("/log")
    file = disk.open("/log/index", create=True)
    file.pwrite(b"".join(OFFSET_ENTRY.pack(*entry) for entry in entries) + b"torn", 0)
    for field, top in ((0, 20_000), (1, 4_200 * count)):
        for value in [-1, top, *(chance.randrange(top + 1) for _ in range(30)), *(each[field] for each in entries[:3])]:
            below = [(number, entry) for number, entry in enumerate(entries) if entry[field] <= value]
            assert floor_entry(file, OFFSET_ENTRY, count, field, value) == (below[-1] if below else None)
