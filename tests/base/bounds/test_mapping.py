"""A mapping holds what its limit says, whatever the keys are."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import pytest

from coordinatord.base.bounds.mapping import ENTRY_BYTES, BoundedMapping, size_of

MIB = 1 << 20


def mapping(most_bytes: int) -> BoundedMapping[str, int]:
    return BoundedMapping(most_bytes, lambda key, _: len(key))


def test_the_oldest_entries_make_room() -> None:
    kept = mapping(3 * (ENTRY_BYTES + 1))
    for key in "abcd":
        kept.put(key, ord(key))
    assert list(kept) == ["b", "c", "d"]
    assert kept.touch("b") == ord("b")
    kept.put("e", 5)
    assert list(kept) == ["d", "b", "e"]
    assert (kept.get("a"), kept.touch("a"), "a" in kept) == (None, None, False)


def test_bytes_are_those_of_what_is_there() -> None:
    kept = mapping(1000)
    kept.put("aa", 1)
    kept.put("aa", 2)
    kept.put("b", 3)
    assert (kept.bytes, kept.get("aa"), len(kept)) == (2 * ENTRY_BYTES + 3, 2, 2)
    kept.discard("aa")
    kept.discard("aa")
    assert kept.bytes == ENTRY_BYTES + 1
    kept.clear()
    assert (kept.bytes, len(kept)) == (0, 0)


def test_what_is_larger_than_all_is_not_kept() -> None:
    kept = mapping(1000)
    kept.put("a", 1)
    kept.put("x" * 1000, 2)
    assert list(kept) == ["a"]
    kept.put("a", 3)
    kept.put("a" * 780, 4)
    assert list(kept) == ["a" * 780]


KEYS: dict[str, Callable[[int], tuple[object, ...]]] = {
    "short": lambda number: (f"User:{number}", "10.0.0.1", 3),
    "long": lambda number: (f"User:{number}", "x" * 30_000 + str(number), 3),
    "wide": lambda number: (f"User:{number}", "x" * 30_000 + str(number) + "\U0001f600", 3),
}


@pytest.mark.parametrize("kind", sorted(KEYS))
def test_the_memory_is_what_is_counted(kind: str) -> None:
    """Measured with the allocator: the count is not smaller, and not much larger."""
    make = KEYS[kind]
    tracemalloc.start()
    try:
        kept = BoundedMapping[tuple[object, ...], bool](4 * MIB, lambda key, _: size_of(key))
        before = tracemalloc.get_traced_memory()[0]
        for number in range(30_000 if kind == "short" else 500):
            kept.put(make(number), True)
        held = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert 0.5 * kept.bytes <= held <= 1.05 * kept.bytes
    assert 3.8 * MIB <= kept.bytes <= 4 * MIB
