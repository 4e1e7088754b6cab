"""Owners of partitions, and the time without an owner: the cost of a rebalance.

A partition has an owner while a running process holds it: a process that is dead or paused holds no partition, whatever
the coordinator's state is. A process that was expelled but has not learned so yet still holds its partitions beside the
new owner: for that time a partition has two owners.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Protocol

from coordinatord.testing.member.assignors.java_hash import TopicPartition
from coordinatord.testing.simulation.engine import Engine


class Holder(Protocol):
    """A process that holds partitions."""

    number: int

    @property
    def generation_id(self) -> int:
        """Generation of its current assignment; -1 during a rebalance."""

    @property
    def is_member(self) -> bool:
        """True if both the process and the coordinator consider it a member of the group."""


class Ownership:
    """Ownership of all partitions of the topic. All times are milliseconds."""

    def __init__(self, engine: Engine, partitions: Iterable[TopicPartition]) -> None:
        self.engine = engine
        self.holders: dict[TopicPartition, dict[Holder, None]] = {each: {} for each in partitions}
        self._given: dict[TopicPartition, tuple[int, int]] = {}  # (generation, process number) of the last assignment
        self._last: dict[TopicPartition, int] = {}  # number of the process with the last assignment
        self._why: dict[TopicPartition, str] = dict.fromkeys(self.holders, "start")
        self.conflicts: list[tuple[TopicPartition, int]] = []  # two members in one generation: never
        self.begin()

    def begin(self) -> None:
        """Start counting."""
        now_ms = self.engine.now_ms
        self.began_ms = now_ms
        self.moved = 0
        self.redone_ms = 0
        self.unowned_ms: dict[TopicPartition, int] = dict.fromkeys(self.holders, 0)
        self.unowned_by: Counter[str] = Counter()
        self.longest_gap_ms = 0
        self.doubled_ms = 0
        self.held_ms = 0  # sum over processes and partitions
        self._free_since = {each: now_ms for each, holders in self.holders.items() if not holders}
        self._doubled_since = {each: now_ms for each, holders in self.holders.items() if len(holders) > 1}
        self._held_since = {(each, it): now_ms for each, holders in self.holders.items() for it in holders}

    def end(self) -> None:
        """Stop counting: include the intervals that are still open, up to now."""
        now_ms = self.engine.now_ms
        for partition in list(self._free_since):
            self._close_gap(partition)
        for since_ms in self._doubled_since.values():
            self.doubled_ms += now_ms - since_ms
        for since_ms in self._held_since.values():
            self.held_ms += now_ms - since_ms

    def take(self, who: Holder, partitions: Iterable[TopicPartition]) -> None:
        """Add a running process as owner of these partitions."""
        now_ms = self.engine.now_ms
        for partition in partitions:
            holders = self.holders[partition]
            if not holders:
                self._close_gap(partition)
            elif len(holders) == 1 and who not in holders:
                self._doubled_since[partition] = now_ms
            holders[who] = None
            self._held_since.setdefault((partition, who), now_ms)

    def let_go(self, who: Holder, partitions: Iterable[TopicPartition], why: str) -> None:
        """Remove a process as owner of these partitions; ignores partitions that it did not hold."""
        now_ms = self.engine.now_ms
        for partition in partitions:
            holders = self.holders[partition]
            if who not in holders:
                continue
            del holders[who]
            self.held_ms += now_ms - self._held_since.pop((partition, who))
            if len(holders) == 1:
                self.doubled_ms += now_ms - self._doubled_since.pop(partition)
            elif not holders:
                self._free_since[partition] = now_ms
                self._why[partition] = why

    def assigned(
        self, who: Holder, partitions: Iterable[TopicPartition], generation_id: int, *, has_epochs: bool = False
    ) -> None:
        """Record the assignment of these partitions in this generation, or with `has_epochs` in this member epoch.

        In a generation a partition has one owner. Member epochs guarantee less: no other member may own the partition
        now.
        """
        for partition in partitions:
            generation, other = self._given.get(partition, (-1, -1))
            others = [each for each in self.holders[partition] if each is not who]
            # A static member that restarts gets its former partitions in the same generation.
            if has_epochs:
                is_conflict = any(each.is_member for each in others)
            else:
                is_conflict = (generation == generation_id and other != who.number) or any(
                    each.generation_id == generation_id for each in others
                )
            if is_conflict:
                self.conflicts.append((partition, generation_id))
            self._given[partition] = (generation_id, who.number)
            if self._last.get(partition, who.number) != who.number:
                self.moved += 1
            self._last[partition] = who.number

    def redone(self, work_ms: int) -> None:
        """Count work that was not committed when its partition was lost: the next owner repeats it."""
        self.redone_ms += work_ms

    def _close_gap(self, partition: TopicPartition) -> None:
        gap_ms = self.engine.now_ms - self._free_since.pop(partition)
        self.unowned_ms[partition] += gap_ms
        self.unowned_by[self._why[partition]] += gap_ms
        self.longest_gap_ms = max(self.longest_gap_ms, gap_ms)
