"""Assignors `sticky` and `cooperative-sticky`: balanced, with as few partitions moved as possible.

Both compute the same assignment. They differ in how a member reports the partitions that it owned: sticky members give
up all partitions before they rejoin (eager), so they remember them in `user_data`; cooperative members list the
partitions that they still own. The cooperative assignor also withholds the partitions that their owner must give up
first; the owner then rejoins.

If all members subscribe to the same topics, `constrained` assigns in one pass; otherwise `general` searches.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Mapping, Sequence

from coordinatord.testing.member.assignors.base import NO_GENERATION, Assignment, Assignor, Subscription, Topics
from coordinatord.testing.member.assignors.constrained import ConstrainedAssignment
from coordinatord.testing.member.assignors.general import GeneralAssignment
from coordinatord.testing.member.assignors.java_hash import TopicPartition, grouped_order
from coordinatord.testing.member.assignors.racks import RackInfo
from kafka_wire.codecs import decoder, encoder
from kafka_wire.errors import DecodeError
from kafka_wire.records.consumer import TopicPartition as TopicPartitions
from kafka_wire.records.sticky import StickyUserData

_INT32 = struct.Struct(">i")


Owned = tuple[Sequence[TopicPartition], int | None]
"""(partitions that a member had, their generation); the generation is None if the member did not send it."""


class AbstractStickyAssignor(Assignor):
    """Common part of both assignors."""

    def __init__(self) -> None:
        self.max_generation = NO_GENERATION  # over all assignments that this member computed as leader
        self.transferring: dict[TopicPartition, str] | None = {}

    def owned(self, subscription: Subscription) -> Owned:
        """Return the partitions that the member had."""
        raise NotImplementedError

    def assign_partitions(self, topics: Topics, members: Mapping[str, Subscription]) -> Assignment:
        """Compute the assignment; see the module's docstring."""
        claims = {member_id: self.owned(subscription) for member_id, subscription in members.items()}
        current, doubly_claimed = self._settle_claims(topics, members, claims)
        racks = RackInfo(topics, members)
        if _all_subscribe_to_the_same(members):
            self.transferring = {}
            return ConstrainedAssignment(topics, racks, current, doubly_claimed, self.transferring).build()
        self.transferring = None
        return GeneralAssignment(topics, racks, current, members, claims, self.max_generation).build()

    def _settle_claims(
        self, topics: Topics, members: Mapping[str, Subscription], claims: Mapping[str, Owned]
    ) -> tuple[Assignment, set[TopicPartition]]:
        """Determine one owner per partition: the claim of the latest generation wins; two claims in the same generation
        cancel out.
        """
        current: Assignment = {}
        doubly_claimed: set[TopicPartition] = set()
        owners: dict[TopicPartition, str] = {}
        for member_id, (partitions, generation) in claims.items():
            mine = NO_GENERATION if generation is None else generation
            self.max_generation = max(self.max_generation, mine)
            kept = current[member_id] = []
            for partition in partitions:
                if partition[0] not in topics:
                    continue
                other = owners.get(partition)
                if other is None:
                    kept.append(partition)
                    owners[partition] = member_id
                    continue
                # Here Kafka reads the generation in the other member's subscription, not in its user data.
                theirs = members[other].generation_id
                if mine < theirs:
                    continue
                if mine == theirs:
                    doubly_claimed.add(partition)
                else:
                    kept.append(partition)
                if partition in current[other]:
                    current[other].remove(partition)
                owners[partition] = member_id
        return current, doubly_claimed


def _all_subscribe_to_the_same(members: Mapping[str, Subscription]) -> bool:
    first: set[str] = set()
    for member in members.values():
        if not first:
            first = set(member.topics)
        elif len(member.topics) != len(first) or not first.issuperset(member.topics):
            return False
    return True


class StickyAssignor(AbstractStickyAssignor):
    """Eager assignor: stores the member's partitions."""

    name = "sticky"

    def __init__(self) -> None:
        super().__init__()
        self._assigned: Sequence[TopicPartition] | None = None
        self._generation = NO_GENERATION

    def subscription_user_data(self, topics: Collection[str]) -> bytes | None:
        """Return the last assignment and its generation; None before the first."""
        if self._assigned is None:
            return None
        by_topic: dict[str, list[int]] = {}
        for topic, partition in self._assigned:
            by_topic.setdefault(topic, []).append(partition)
        topics = grouped_order(topic for topic, _ in self._assigned)
        data = StickyUserData([TopicPartitions(topic, by_topic[topic]) for topic in topics])
        data.generation = self._generation
        out = bytearray()
        encoder(StickyUserData, 1)(data, out)
        return bytes(out)

    def on_assignment(self, partitions: Sequence[TopicPartition], generation_id: int) -> None:
        """Store the assignment."""
        self._assigned = list(partitions)
        self._generation = generation_id

    def owned(self, subscription: Subscription) -> Owned:
        """Return the partitions in the user data; none, without a generation, if the data is invalid."""
        data = subscription.user_data
        if not data:
            return [], None
        for version in (1, 0):
            try:
                read = decoder(StickyUserData, version)(data, 0, len(data))
            except DecodeError:
                continue
            partitions = [(each.topic, number) for each in read.previous_assignment for number in each.partitions]
            return partitions, read.generation if version == 1 else None
        return [], NO_GENERATION


class CooperativeStickyAssignor(AbstractStickyAssignor):
    """Cooperative assignor: the member reports the partitions that it owns while it rejoins."""

    name = "cooperative-sticky"
    cooperative = True

    def __init__(self) -> None:
        super().__init__()
        self._generation = NO_GENERATION

    def subscription_user_data(self, topics: Collection[str]) -> bytes | None:
        """Return the generation, for leaders that do not find it in the subscription itself (before v2)."""
        return _INT32.pack(self._generation)

    def on_assignment(self, partitions: Sequence[TopicPartition], generation_id: int) -> None:
        """Store the generation."""
        self._generation = generation_id

    def owned(self, subscription: Subscription) -> Owned:
        """Return the partitions in the subscription; before v2 the user data has the generation."""
        if subscription.generation_id >= 0:
            return subscription.owned_partitions, subscription.generation_id
        data = subscription.user_data
        if data is None:
            return subscription.owned_partitions, None
        generation = _INT32.unpack_from(data)[0] if len(data) >= _INT32.size else NO_GENERATION
        return subscription.owned_partitions, generation

    def assign_partitions(self, topics: Topics, members: Mapping[str, Subscription]) -> Assignment:
        """Compute the assignment without partitions that have another owner: they are assigned once that owner has
        given them up.
        """
        assignment = super().assign_partitions(topics, members)
        moving = _moving(members, assignment) if self.transferring is None else self.transferring
        for partition, member_id in moving.items():
            if partition in assignment[member_id]:
                assignment[member_id].remove(partition)
        return assignment


def _moving(members: Mapping[str, Subscription], assignment: Assignment) -> dict[TopicPartition, str]:
    """Return the member that gains a partition while another member claims it, by partition."""
    gained: dict[TopicPartition, str] = {}
    lost: set[TopicPartition] = set()
    for member_id, partitions in assignment.items():
        owned = set(members[member_id].owned_partitions)
        gained.update((partition, member_id) for partition in partitions if partition not in owned)
        lost |= owned.difference(partitions)
    return {partition: member_id for partition, member_id in gained.items() if partition in lost}
