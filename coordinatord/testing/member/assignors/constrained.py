"""Sticky assignment if all members have the same subscription: each member gets minQuota partitions or one more.

1. Members keep the partitions that they own, up to their quota. 2. With racks: members below quota get partitions with
   a replica in their rack. 3. The remaining partitions are dealt in turn to members below quota, then to those that may
   have one more.
"""

from __future__ import annotations

from collections.abc import Sequence

from coordinatord.coordination.group.consumer.java_collections.hash_map import string_order as utf16
from coordinatord.testing.member.assignors.base import Assignment, AssignmentError, Topics
from coordinatord.testing.member.assignors.java_hash import TopicPartition
from coordinatord.testing.member.assignors.racks import RackInfo


class ConstrainedAssignment:
    """One assignment. `transferring` collects the partitions that move from one owner to another member."""

    def __init__(
        self,
        topics: Topics,
        racks: RackInfo,
        current: Assignment,
        doubly_claimed: set[TopicPartition],
        transferring: dict[TopicPartition, str],
    ) -> None:
        self.topics = topics
        self.racks = racks
        self.current = current
        self.doubly_claimed = doubly_claimed
        self.transferring = transferring
        self.given_up: dict[TopicPartition, str] = {}  # by partition: its owner, which may get it back
        total = sum(len(partitions) for partitions in topics.values())
        self.min_quota, self.expected_over = divmod(total, len(current))
        self.max_quota = self.min_quota + (self.expected_over > 0)
        self.over = 0  # number of members that have max_quota
        self.below: list[str] = []  # members with fewer than min_quota
        self.at_min: list[str] = []  # members with min_quota that may get one more
        self.assignment: Assignment = {member_id: [] for member_id in current}

    def build(self) -> Assignment:
        """Compute the assignment; see the module's docstring."""
        kept = self._keep_owned()
        unassigned = self._unassigned(kept)
        self.below.sort(key=utf16)
        self.at_min.sort(key=utf16)
        if self.racks.near_count:
            unassigned = self.racks.sorted_by_choice(unassigned)
        if self.racks.consumer_racks:
            unassigned = self._deal_near(unassigned)
        self._deal(unassigned)
        self._check_quotas()
        return self.assignment

    def _keep_owned(self) -> list[TopicPartition]:
        kept: list[TopicPartition] = []
        for member_id, partitions in self.current.items():
            far = {each for each in partitions if self.racks.mismatch(member_id, each)}
            self.given_up.update((each, member_id) for each in far)
            owned = [each for each in partitions if each not in far and each not in self.doubly_claimed]
            owned.sort(key=lambda each: (each[1], each[0]))
            if len(owned) < self.min_quota:
                quota = len(owned)
                self.below.append(member_id)
            elif len(owned) >= self.max_quota and self.over < self.expected_over:
                quota = self.max_quota
                self.over += 1
                if self.over == self.expected_over:
                    self.at_min.clear()
            else:
                quota = self.min_quota
                if self.over < self.expected_over:
                    self.at_min.append(member_id)
            self.assignment[member_id] += owned[:quota]
            kept += owned[:quota]
            self.given_up.update((each, member_id) for each in owned[quota:])
        return kept

    def _unassigned(self, kept: Sequence[TopicPartition]) -> list[TopicPartition]:
        topics = self.topics
        return difference([(topic, n) for topic in sorted(topics) for n in range(len(topics[topic]))], sorted(kept))

    def _deal_near(self, unassigned: Sequence[TopicPartition]) -> list[TopicPartition]:
        """Deal partitions in turn to members below quota in the same rack. Return the remaining partitions."""
        left: list[TopicPartition] = []
        turn = 0
        for partition in unassigned:
            index = self.racks.next_near(partition, self.below, turn)
            if index >= 0:
                member_id = self.below[index]
                count = len(self.assignment[member_id]) + 1
                if count >= self.min_quota:
                    self.below.remove(member_id)
                    if count < self.max_quota and self.over < self.expected_over:
                        self.at_min.append(member_id)
                else:
                    index += 1
                turn = index % len(self.below) if self.below else 0
                self._give(partition, member_id)
                continue
            index = self.racks.next_near(partition, self.at_min, 0)
            if index < 0:
                left.append(partition)
                continue
            member_id = self.at_min[index]
            if len(self.assignment[member_id]) + 1 == self.max_quota:
                del self.at_min[index]
                self.over += 1
                if self.over == self.expected_over:
                    self.at_min.clear()
            self._give(partition, member_id)
        return left

    def _deal(self, unassigned: Sequence[TopicPartition]) -> None:
        turn = 0
        next_at_min = 0
        for partition in unassigned:
            from_below = bool(self.below)
            if from_below:
                if turn >= len(self.below):
                    turn = 0
                member_id = self.below[turn]
                turn += 1
            elif next_at_min < len(self.at_min):
                member_id = self.at_min[next_at_min]
                next_at_min += 1
            else:
                raise AssignmentError("No more unfilled consumers to be assigned.")
            count = self._give(partition, member_id)
            if count == self.min_quota:
                turn -= 1
                del self.below[turn]
                self.at_min.append(member_id)
            elif count == self.max_quota:
                self.over += 1

    def _give(self, partition: TopicPartition, member_id: str) -> int:
        partitions = self.assignment[member_id]
        partitions.append(partition)
        if self.given_up.get(partition, member_id) != member_id or partition in self.doubly_claimed:
            self.transferring[partition] = member_id
        return len(partitions)

    def _check_quotas(self) -> None:
        if not self.below:
            return
        if self.over != self.expected_over:
            raise AssignmentError(
                "We haven't reached the expected number of members with more than the minQuota partitions, "
                "but no more partitions to be assigned"
            )
        for member_id in self.below:
            if len(self.assignment[member_id]) != self.min_quota:
                raise AssignmentError(
                    f"Consumer: [{member_id}] doesn't reach minQuota partitions, and no more partitions to be assigned"
                )


def difference(all_sorted: Sequence[TopicPartition], taken_sorted: Sequence[TopicPartition]) -> list[TopicPartition]:
    """Return the elements of the first sequence that are not in the second; both have the same order.

    Both are traversed in step, as in Kafka: a taken partition that no longer exists (its topic shrank) hides all that
    follow.
    """
    taken = iter(taken_sorted)
    next_taken = next(taken, None)
    left: list[TopicPartition] = []
    for partition in all_sorted:
        if partition == next_taken:
            next_taken = next(taken, None)
        else:
            left.append(partition)
    return left
