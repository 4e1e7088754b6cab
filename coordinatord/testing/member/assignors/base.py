"""Base of all assignors: from subscriptions to partitions per member.

Each member has its own assignor object, since the sticky ones store their last assignment and the highest generation so
far. The leader's object computes with `assign`; every member's object receives its result in `on_assignment`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from coordinatord.coordination.group.consumer.java_collections.hash_map import string_order as utf16
from coordinatord.testing.member.assignors.java_hash import TopicPartition, string_order

Racks = frozenset[str]

Topics = Mapping[str, Sequence[Racks]]
"""Racks of the replicas, by topic and then by partition, starting at 0."""

Assignment = dict[str, list[TopicPartition]]
"""Partitions by member id, in Kafka's order."""

NO_GENERATION = -1


class AssignmentError(Exception):
    """The assignor cannot assign; Kafka's throws, too. The leader's join fails."""


@dataclass(slots=True)
class Subscription:
    """A member's subscription, as in the leader's JoinGroup response."""

    topics: list[str]
    user_data: bytes | None = None
    owned_partitions: list[TopicPartition] = field(default_factory=list)
    generation_id: int = NO_GENERATION
    rack_id: str | None = None
    group_instance_id: str | None = None


class Assignor:
    """One `partition.assignment.strategy`. `cooperative`: members may keep their partitions while they rejoin."""

    name = ""
    cooperative = False

    def subscription_user_data(self, topics: Collection[str]) -> bytes | None:
        """Return data for the leader's assignor, sent with each JoinGroup; `topics` are the member's subscription."""
        return None

    def on_assignment(self, partitions: Sequence[TopicPartition], generation_id: int) -> None:
        """Handle the member's assignment to these partitions in this generation."""

    def assign(self, topics: Topics, subscriptions: Mapping[str, Subscription]) -> Assignment:
        """Compute the assignment. `subscriptions` in the JoinGroup response's order; unknown topics are ignored. Raises
        AssignmentError.
        """
        members = {member_id: subscriptions[member_id] for member_id in string_order(subscriptions)}
        subscribed = string_order(topic for member in members.values() for topic in member.topics)
        known = string_order(topic for topic in subscribed if topics.get(topic))
        return self.assign_partitions({topic: topics[topic] for topic in known}, members)

    def assign_partitions(self, topics: Topics, members: Mapping[str, Subscription]) -> Assignment:
        """Compute the assignment, with both arguments in the order of Java's hash tables. Raises AssignmentError."""
        raise NotImplementedError


def member_order(member_id: str, group_instance_id: str | None) -> tuple[bool, bytes]:
    """Return the sort key of Kafka's MemberInfo: static members first, by instance id; the others by member id."""
    return (group_instance_id is None, utf16(member_id if group_instance_id is None else group_instance_id))


def uses_racks(of_consumers: Collection[str], of_partitions: Collection[Racks]) -> bool:
    """Return whether racks matter: consumers and partitions share some, and not all partitions are on all racks
    (KIP-881).
    """
    everywhere: set[str] = set()
    for racks in of_partitions:
        everywhere |= racks
    if not of_consumers or everywhere.isdisjoint(of_consumers):
        return False
    return not all(racks == everywhere for racks in of_partitions)
