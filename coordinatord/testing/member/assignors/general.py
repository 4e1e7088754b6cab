"""Sticky assignment if subscriptions differ: as balanced as they allow.

1. Members keep the partitions that they own and still subscribe to. 2. Each remaining partition goes to the subscriber
   with the fewest partitions. 3. Partitions move from a member to a subscriber with at least two fewer until no such
   move is left: first those with the fewest possible owners; back to an earlier owner if that helps; and the reverse of
   an earlier movement rather than a new one. If owned partitions moved and the balance is no better than before, step 3
   is undone.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping, Sequence

from coordinatord.coordination.group.consumer.java_collections.hash_map import string_order as utf16
from coordinatord.testing.member.assignors.base import NO_GENERATION, Assignment, Subscription, Topics
from coordinatord.testing.member.assignors.constrained import difference
from coordinatord.testing.member.assignors.java_hash import TopicPartition
from coordinatord.testing.member.assignors.movements import Movements
from coordinatord.testing.member.assignors.racks import RackInfo


class _BySize:
    """Member ids by their number of partitions; that number must not change while a member is in the set."""

    def __init__(self, current: Assignment) -> None:
        self._current = current
        self._sorted: list[tuple[int, bytes, str]] = []

    def __iter__(self) -> Iterator[str]:
        return (member_id for _, _, member_id in self._sorted)

    def _key(self, member_id: str) -> tuple[int, bytes, str]:
        return (len(self._current[member_id]), utf16(member_id), member_id)

    def add(self, member_id: str) -> None:
        """Insert a member at its position."""
        insort(self._sorted, self._key(member_id))

    def remove(self, member_id: str) -> None:
        """Remove a member, if present."""
        key = self._key(member_id)
        at = bisect_left(self._sorted, key)
        if at < len(self._sorted) and self._sorted[at] == key:
            del self._sorted[at]

    def fewest(self) -> int:
        """Return the smallest number of partitions."""
        return self._sorted[0][0]

    def most(self) -> int:
        """Return the largest number of partitions."""
        return self._sorted[-1][0]


class GeneralAssignment:
    """One assignment."""

    def __init__(
        self,
        topics: Topics,
        racks: RackInfo,
        current: Assignment,
        members: Mapping[str, Subscription],
        claims: Mapping[str, tuple[Sequence[TopicPartition], int | None]],
        max_generation: int,
    ) -> None:
        self.topics = topics
        self.racks = racks
        self.current = current
        self.members = members
        self.topics_of = {
            member_id: dict.fromkeys(topic for topic in member.topics if topic in topics)
            for member_id, member in members.items()
        }
        self.members_of: dict[str, list[str]] = {topic: [] for topic in topics}
        for member_id, subscribed in self.topics_of.items():
            for topic in subscribed:
                self.members_of[topic].append(member_id)
        self.owner = {partition: member_id for member_id, each in current.items() for partition in each}
        self.partitions = [
            (topic, number)
            for topic in sorted(topics, key=lambda each: (len(self.members_of[each]), each))
            for number in range(len(topics[topic]))
        ]
        self.total = len(self.partitions)
        self.by_size = _BySize(current)
        self.must_revoke = False
        self.movements = Movements()
        self.previous = _previous_owners(claims, max_generation)

    def build(self) -> Assignment:
        """Compute the assignment; see the module's docstring."""
        kept = self._keep_owned()
        kept.sort(key=lambda each: (len(self.members_of[each[0]]), each))
        unassigned = difference(self.partitions, kept)
        for member_id in self.current:
            self.by_size.add(member_id)
        initializing = self.by_size.most() == 0
        self._assign(unassigned)
        fixed_topics = {topic for topic, members in self.members_of.items() if len(members) < 2}
        self.partitions = [each for each in self.partitions if each[0] not in fixed_topics]
        unassigned = [each for each in unassigned if each[0] not in fixed_topics]
        fixed = self._take_out_fixed(fixed_topics)
        self._balance(unassigned, initializing)
        self.current.update(fixed)
        return self.current

    def _keep_owned(self) -> list[TopicPartition]:
        kept: list[TopicPartition] = []
        for member_id, partitions in self.current.items():
            subscribed = self.topics_of[member_id]
            mine = [each for each in partitions if each[0] in subscribed and not self.racks.mismatch(member_id, each)]
            if len(mine) < len(partitions):
                self.must_revoke = True
            partitions[:] = mine
            kept += mine
        return kept

    def _assign(self, unassigned: Sequence[TopicPartition]) -> None:
        """Assign each partition to the subscriber with the fewest; first within racks, if possible."""
        left = unassigned
        if self.racks.consumer_racks:
            left = [each for each in unassigned if not self._assign_one(each, near=True)]
        for partition in left:
            self._assign_one(partition, near=False)

    def _assign_one(self, partition: TopicPartition, near: bool) -> bool:
        if not self.members_of[partition[0]]:
            return False
        for member_id in self.by_size:
            if partition[0] in self.topics_of[member_id] and not (near and self.racks.mismatch(member_id, partition)):
                self.by_size.remove(member_id)
                self.current[member_id].append(partition)
                self.owner[partition] = member_id
                self.by_size.add(member_id)
                return True
        return False

    def _take_out_fixed(self, fixed_topics: set[str]) -> Assignment:
        """Remove the members that can neither gain nor lose partitions: they have all that they may, and no other
        member may have them. Return their partitions.
        """
        fixed: Assignment = {}
        for member_id in self.members:
            partitions = self.current[member_id]
            if len(partitions) < self._most_for(member_id):
                continue
            if all(topic in fixed_topics for topic, _ in partitions):
                self.by_size.remove(member_id)
                fixed[member_id] = self.current.pop(member_id)
        return fixed

    def _balance(self, unassigned: Sequence[TopicPartition], initializing: bool) -> None:
        before = {member_id: list(partitions) for member_id, partitions in self.current.items()}
        if not self.must_revoke:
            # Partitions without an owner first: moving them costs nothing.
            self._reassign(unassigned)
        moved = self._reassign(self.partitions)
        if not initializing and moved and _imbalance(self.current) >= _imbalance(before):
            self.current.clear()
            self.current.update(before)

    def _reassign(self, partitions: Sequence[TopicPartition]) -> bool:
        """Move partitions until a whole pass moves none. Return whether any moved."""
        moved = False
        modified = True
        while modified:
            modified = False
            for partition in partitions:
                if self._is_balanced():
                    break
                if self._reassign_one(partition):
                    modified = moved = True
        return moved

    def _reassign_one(self, partition: TopicPartition) -> bool:
        size = len(self.current[self.owner[partition]])
        earlier = self.previous.get(partition)
        # A removed member no longer subscribes to the partition. Kafka's lookup then fails: a NullPointerException.
        if earlier is not None and earlier in self.current and size > len(self.current[earlier]) + 1:
            self._move(partition, earlier)
            return True
        # Kafka first searches the partition's rack, but moves the partition to the same member in either case.
        if any(size > len(self.current[each]) + 1 for each in self.members_of[partition[0]]):
            smallest = (each for each in self.by_size if partition[0] in self.topics_of[each])
            self._move(partition, next(smallest))
            return True
        return False

    def _move(self, partition: TopicPartition, target: str) -> None:
        partition = self.movements.better(partition, self.owner[partition], target)
        source = self.owner[partition]
        self.by_size.remove(source)
        self.by_size.remove(target)
        self.movements.move(partition, source, target)
        self.current[source].remove(partition)
        self.current[target].append(partition)
        self.owner[partition] = target
        self.by_size.add(target)
        if source != target:
            self.by_size.add(source)

    def _is_balanced(self) -> bool:
        """Return whether no member could take a partition from one with at least two more."""
        if self.by_size.fewest() >= self.by_size.most() - 1:
            return True
        largest: dict[str, int] = {}  # by topic: the most partitions of any owner of one of its partitions
        for partitions in self.current.values():
            size = len(partitions)
            for topic in {topic for topic, _ in partitions}:
                if size > largest.get(topic, 0):
                    largest[topic] = size
        for member_id in self.by_size:
            size = len(self.current[member_id])
            if size == self._most_for(member_id):
                continue
            if any(largest.get(topic, 0) > size + 1 for topic in self.topics_of[member_id]):
                return False
        return True

    def _most_for(self, member_id: str) -> int:
        return sum(len(self.topics[topic]) for topic in self.topics_of[member_id])


def _previous_owners(
    claims: Mapping[str, tuple[Sequence[TopicPartition], int | None]], max_generation: int
) -> dict[TopicPartition, str]:
    """Return the owner of each partition before the latest generation, from the latest earlier claim."""
    found: dict[TopicPartition, tuple[str, int]] = {}
    for member_id, (partitions, generation) in claims.items():
        if generation is None:
            if max_generation <= NO_GENERATION:
                continue
            generation = NO_GENERATION
        elif generation >= max_generation:
            continue
        for partition in partitions:
            if partition not in found or generation > found[partition][1]:
                found[partition] = (member_id, generation)
    return {partition: member_id for partition, (member_id, _) in found.items()}


def _imbalance(assignment: Assignment) -> int:
    """Return the sum of the differences in size over all pairs of members."""
    sizes = sorted(len(partitions) for partitions in assignment.values())
    return sum(size * (2 * index - len(sizes) + 1) for index, size in enumerate(sizes))
