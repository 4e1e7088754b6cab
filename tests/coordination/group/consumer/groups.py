"""Groups for assignors, made by hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from coordinatord.coordination.group.consumer.assignors.spec import UUID, GroupSpec, MemberSpec
from coordinatord.coordination.group.consumer.java_collections.java_set import JavaSet


def topic_id(number: int) -> UUID:
    """A topic's id."""
    return number.to_bytes(16, "big")


T1, T2, T3 = topic_id(1), topic_id(2), topic_id(3)


@dataclass
class Topics:
    """A TopicsImage that counts how often it is asked."""

    partitions: Mapping[UUID, int]
    asked: int = field(default=0)

    def num_partitions(self, topic_id: UUID) -> int:
        self.asked += 1
        return self.partitions.get(topic_id, -1)

    def racks(self, topic_id: UUID, partition: int) -> frozenset[str]:
        raise AssertionError("neither assignor of Kafka 4.3 asks for racks")


def member(
    *topics: UUID, assigned: Mapping[UUID, list[int]] | None = None, instance_id: str | None = None
) -> MemberSpec:
    """A member that reads these topics."""
    held = {topic: JavaSet(partitions) for topic, partitions in (assigned or {}).items()}
    return MemberSpec(None, instance_id, JavaSet(topics), held)


def group(**members: MemberSpec) -> GroupSpec:
    """A group of these members."""
    subscriptions = {each.topic_ids for each in members.values()}
    return GroupSpec(members, len(subscriptions) < 2)


def shown(result: Mapping[str, Mapping[UUID, frozenset[int]]]) -> dict[str, dict[UUID, list[int]]]:
    """An assignment with partitions in their order."""
    return {each: {topic: list(held) for topic, held in topics.items()} for each, topics in result.items()}
