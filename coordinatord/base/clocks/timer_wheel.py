"""A hierarchical timing wheel: any number of timers, set, cancelled and expired in constant time. Pure: time is passed
in.

Time is counted in ticks. Level 0 has a slot for each of the 64 ticks of the current block, level 1 a slot for each of
the 64 blocks of the current block of blocks, and so on: a timer sits at the level of the highest base-64 digit in
which its tick differs from the current one. When time enters a slot of a higher level, its timers move down; when it
enters a slot of level 0, they expire. A bit mask per level marks the slots in use, so that hours without a timer are
skipped at once.

A timer never fires early, and at most one tick late if `advance` is called every tick. `advance` moves or expires no
more than `limit` timers per call, so that a hundred thousand timers that fall due together do not stall the caller. The
next call continues where it stopped; until then `next_deadline_ms` returns a time in the past. Timers that fall due in
the same tick expire in no particular order.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

BITS = 6
SLOTS = 1 << BITS
SLOT_MASK = SLOTS - 1
LEVELS = 10
"""64**10 ticks: 36 million years of milliseconds."""

K = TypeVar("K", bound=Hashable)


class TimerWheel(Generic[K]):
    """Timers by key. All times are milliseconds of one clock, which never goes back."""

    __slots__ = ("_current", "_draining", "_due", "_levels", "_masks", "_slot_of", "tick_ms")

    def __init__(self, tick_ms: int, now_ms: int = 0) -> None:
        assert tick_ms > 0
        self.tick_ms = tick_ms
        self._current = now_ms // tick_ms  # all ticks up to this one have been processed
        self._levels: list[list[dict[K, int]]] = [[{} for _ in range(SLOTS)] for _ in range(LEVELS)]
        self._masks = [0] * LEVELS
        self._due: dict[K, int] = {}  # returned by the next `advance`
        self._draining: dict[K, int] = self._due  # the slot that the last `advance` did not finish
        self._slot_of: dict[K, dict[K, int]] = {}  # key -> the slot that holds it; a slot maps keys to ticks

    def __len__(self) -> int:
        return len(self._slot_of)

    def __contains__(self, key: object) -> bool:
        return key in self._slot_of

    def schedule(self, key: K, deadline_ms: int) -> None:
        """Set the timer of `key` to expire at `deadline_ms` or within a tick after it; replaces an existing timer."""
        old = self._slot_of.pop(key, None)
        if old is not None:
            del old[key]
        tick_ms = self.tick_ms
        # With ticks of a millisecond the slot keeps the caller's integer, not another of the same value.
        self._place(key, deadline_ms if tick_ms == 1 else -(-deadline_ms // tick_ms))

    def cancel(self, key: K) -> bool:
        """Cancel the timer. Returns False if there is none."""
        slot = self._slot_of.pop(key, None)
        if slot is None:
            return False
        del slot[key]  # the mask may now point to an empty slot: `advance` clears the bit when it reaches the slot
        return True

    def advance(self, now_ms: int, limit: int = 10_000) -> list[K]:
        """Move time to `now_ms` and return the keys that expired, at most `limit`, doing at most `limit` moves."""
        target = now_ms // self.tick_ms
        expired: list[K] = []
        work = limit
        while work > 0:
            if self._draining:
                work = self._drain(expired, work)
            elif self._due:
                self._draining = self._due
            elif not self._enter_next_slot(target):
                break
        return expired

    def next_deadline_ms(self) -> int | None:
        """Return the time at which `advance` next has work: never after the earliest timer, sometimes before. None
        without timers.
        """
        if not self._slot_of:
            return None
        if self._due or self._draining:
            return self._current * self.tick_ms
        level, slot = self._first_slot()
        return self._start_of(level, slot) * self.tick_ms

    def _place(self, key: K, tick: int) -> None:
        current = self._current
        if tick <= current:
            slot = self._due
        else:
            level = ((tick ^ current).bit_length() - 1) // BITS
            index = (tick >> (level * BITS)) & SLOT_MASK
            slot = self._levels[level][index]
            self._masks[level] |= 1 << index
        slot[key] = tick
        self._slot_of[key] = slot

    def _first_slot(self) -> tuple[int, int]:
        """Return the (level, index) of the first slot in use; clear the mask bits of empty slots. There must be a
        timer.
        """
        for level, mask in enumerate(self._masks):
            while mask:
                index = (mask & -mask).bit_length() - 1
                if self._levels[level][index]:
                    return level, index
                mask &= mask - 1
                self._masks[level] = mask
        raise AssertionError("no slot holds the timers")

    def _start_of(self, level: int, index: int) -> int:
        """Return the first tick of a slot. Slots of a level share the higher digits of the current tick and come after
        it.
        """
        shift = level * BITS
        return (self._current >> (shift + BITS) << (shift + BITS)) | (index << shift)

    def _enter_next_slot(self, target: int) -> bool:
        """Move time to the first slot in use, to be drained; if that slot is later than `target`, move time to `target`
        and return False.
        """
        if self._slot_of:
            level, index = self._first_slot()
            start = self._start_of(level, index)
            if start <= target:
                self._current = start
                self._draining = self._levels[level][index]
                self._masks[level] &= ~(1 << index)
                return True
        self._current = max(self._current, target)
        self._draining = self._due  # an emptied slot is reused in the wheel's next turn
        return False

    def _drain(self, expired: list[K], work: int) -> int:
        """Take timers out of the slot that time has entered: due timers expire, all others move to a lower level."""
        slot, slot_of, current = self._draining, self._slot_of, self._current
        while slot and work > 0:
            key, tick = slot.popitem()
            del slot_of[key]
            work -= 1
            if tick <= current:
                expired.append(key)
            else:
                self._place(key, tick)
        if not slot:
            slot.clear()  # an empty dict keeps its table, which may have been for a hundred thousand timers
        return work
