"""The combination of state batches: rows for the cases of overlap, and random batches by offset."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from coordinatord.coordination.share.coordinator.combiner import combine
from coordinatord.coordination.share.persister import StateBatch
from tests.coordination.share.coordinator.model import by_offset, random_batches

Row = tuple[int, int, int, int]
A1, A2, ACK1 = (0, 1), (0, 2), (2, 1)  # delivery state, delivery count

ROWS: list[tuple[str, list[Row], int, list[Row]]] = [
    ("nothing", [], -1, []),
    ("one", [(5, 9, *A1)], -1, [(5, 9, *A1)]),
    ("one before the start", [(5, 9, *A1)], 10, []),
    ("one at the start", [(5, 9, *A1)], 9, [(9, 9, *A1)]),
    ("twice the same", [(0, 9, *A1), (0, 9, *A1)], -1, [(0, 9, *A1)]),
    ("equal neighbours", [(0, 4, *A1), (5, 9, *A1)], -1, [(0, 9, *A1)]),
    ("other neighbours", [(0, 4, *A1), (5, 9, *A2)], -1, [(0, 4, *A1), (5, 9, *A2)]),
    ("equal with a gap", [(0, 4, *A1), (6, 9, *A1)], -1, [(0, 4, *A1), (6, 9, *A1)]),
    ("equal, overlapping", [(0, 6, *A1), (4, 9, *A1)], -1, [(0, 9, *A1)]),
    ("equal, inside", [(0, 9, *A1), (4, 6, *A1)], -1, [(0, 9, *A1)]),
    ("1: same range", [(0, 9, *A1), (0, 9, *A2)], -1, [(0, 9, *A2)]),
    ("1: state decides", [(0, 9, *ACK1), (0, 9, *A1)], -1, [(0, 9, *ACK1)]),
    ("1: count decides first", [(0, 9, *ACK1), (0, 9, *A2)], -1, [(0, 9, *A2)]),
    ("3: longer and higher", [(0, 4, *A1), (0, 9, *A2)], -1, [(0, 9, *A2)]),
    ("3: longer and lower", [(0, 4, *A2), (0, 9, *A1)], -1, [(0, 4, *A2), (5, 9, *A1)]),
    ("4: inside and higher", [(0, 9, *A1), (3, 5, *A2)], -1, [(0, 2, *A1), (3, 5, *A2), (6, 9, *A1)]),
    ("4: inside and lower", [(0, 9, *A2), (3, 5, *A1)], -1, [(0, 9, *A2)]),
    ("5: ends together, higher", [(0, 9, *A1), (5, 9, *A2)], -1, [(0, 4, *A1), (5, 9, *A2)]),
    ("5: ends together, lower", [(0, 9, *A2), (5, 9, *A1)], -1, [(0, 9, *A2)]),
    ("6: later and higher", [(0, 6, *A1), (4, 9, *A2)], -1, [(0, 3, *A1), (4, 9, *A2)]),
    ("6: later and lower", [(0, 6, *A2), (4, 9, *A1)], -1, [(0, 6, *A2), (7, 9, *A1)]),
    ("a neighbour of what is left", [(0, 4, *A2), (5, 6, *A1), (5, 9, *A2)], -1, [(0, 9, *A2)]),
    ("the start cuts before merging", [(0, 9, *A1), (2, 5, *A2)], 4, [(4, 5, *A2), (6, 9, *A1)]),
    ("the last offset", [(0, 2**63 - 1, *A1), (5, 5, *A2)], -1, [(0, 4, *A1), (5, 5, *A2), (6, 2**63 - 1, *A1)]),
]


@pytest.mark.parametrize(("batches", "start", "combined"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_combinations(batches: list[Row], start: int, combined: list[Row]) -> None:
    for given in (batches, batches[::-1]):  # the order does not count
        assert combine([StateBatch(*each) for each in given], start) == combined


def test_random_batches_by_offset() -> None:
    """Each offset has the highest state of those that have it; nothing before the start is left."""
    for seed in range(2_000):
        chance = random.Random(seed)
        batches = random_batches(chance) + random_batches(chance)
        start = chance.choice((-1, chance.randrange(30)))
        highest: dict[int, tuple[int, int]] = {}
        for first, last, state, count in batches:
            for offset in range(max(first, start), last + 1):
                highest[offset] = max(highest.get(offset, (-1, -1)), (count, state))
        combined = combine(batches, start)
        assert by_offset(combined) == highest, seed
        assert not any(a[1] + 1 == b[0] and a[2:] == b[2:] for a, b in pairwise(combined)), seed
        assert combine(combined, start) == combined, seed


def test_many_overlapping_batches() -> None:
    """Each is above the ones before it at its end only."""
    batches = [StateBatch(each, 20_000 + each, 0, 10_000 - each) for each in range(10_000)]
    combined = combine(batches, -1)
    assert combined[0] == StateBatch(0, 20_000, 0, 10_000)
    assert combined[1:] == [StateBatch(20_000 + each, 20_000 + each, 0, 10_000 - each) for each in range(1, 10_000)]
