"""What assignors have in common: subscriptions in, partitions per member out.

An assignor is an object per member, since the sticky ones remember: what they were assigned, and the highest
generation that they have seen. The leader's is asked to `assign`; everybody's is told `on_assignment`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from coordinatord.member.assignors.java_hash import TopicPartition, string_order, utf16

Racks = frozenset[str]

Topics = Mapping[str, Sequence[Racks]]
"""Topic -> for each of its partitions, from 0 on, the racks of its replicas."""

Assignment = dict[str, list[TopicPartition]]
"""Member id -> its partitions, in the order in which Kafka lists them."""

NO_GENERATION = -1


class AssignmentError(Exception):
    """The assignor cannot assign; Kafka's throws, too. The leader fails with it."""


@dataclass(slots=True)
class Subscription:
    """What a member says when it joins, as the leader reads it."""

    topics: list[str]
    user_data: bytes | None = None
    owned_partitions: list[TopicPartition] = field(default_factory=list)
    generation_id: int = NO_GENERATION
    rack_id: str | None = None
    group_instance_id: str | None = None


class Assignor:
    """One of `partition.assignment.strategy`. `cooperative`: members may keep what they own while they rejoin."""

    name = ""
    cooperative = False

    def subscription_user_data(self) -> bytes | None:
        """What the member's subscription carries for its leader's assignor."""
        return None

    def on_assignment(self, partitions: Sequence[TopicPartition], generation_id: int) -> None:
        """The member has been assigned these in this generation."""

    def assign(self, topics: Topics, subscriptions: Mapping[str, Subscription]) -> Assignment:
        """Who gets what. `subscriptions` in the order of the JoinGroup response; unknown topics are left out."""
        members = {member_id: subscriptions[member_id] for member_id in string_order(subscriptions)}
        subscribed = string_order(topic for member in members.values() for topic in member.topics)
        known = string_order(topic for topic in subscribed if topics.get(topic))
        return self.assign_partitions({topic: topics[topic] for topic in known}, members)

    def assign_partitions(self, topics: Topics, members: Mapping[str, Subscription]) -> Assignment:
        """The same, with both in the order of Java's hash tables."""
        raise NotImplementedError


def member_order(member_id: str, group_instance_id: str | None) -> tuple[bool, bytes]:
    """Sorts as Kafka's MemberInfo: static members first, by instance id; the others by member id."""
    return (group_instance_id is None, utf16(member_id if group_instance_id is None else group_instance_id))


def uses_racks(of_consumers: Collection[str], of_partitions: Collection[Racks]) -> bool:
    """Whether racks can make a difference: some are shared, and not every partition is on all of them (KIP-881)."""
    everywhere: set[str] = set()
    for racks in of_partitions:
        everywhere |= racks
    if not of_consumers or everywhere.isdisjoint(of_consumers):
        return False
    return not all(racks == everywhere for racks in of_partitions)
