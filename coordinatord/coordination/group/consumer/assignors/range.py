"""Kafka's server-side RangeAssignor: each topic is cut into runs of partitions, one for each subscribed member.

Members are in order of their instance ids, then those without one in order of their member ids. The first ones get one
partition more if the topic cannot be divided. The result does not depend on the previous assignment.
"""

from __future__ import annotations

from dataclasses import dataclass

from coordinatord.base.budget import Work
from coordinatord.coordination.group.consumer.assignors.slices import member_order, topic_sizes
from coordinatord.coordination.group.consumer.assignors.spec import (
    UUID,
    Assignment,
    GroupSpec,
    PartitionAssignorError,
    Slices,
    TopicsImage,
)
from coordinatord.coordination.group.consumer.java_collections.hash_map import (
    UUIDS,
    collected,
    ordered,
    roomy,
    string_order,
)
from coordinatord.coordination.group.consumer.java_collections.java_set import JavaSet


@dataclass(slots=True)
class _Topic:
    """A topic and the size of its runs."""

    partitions: int
    readers: int
    dealt: int = 0
    """Number of subscribers that have got their run."""
    next: int = 0

    def cut(self) -> range:
        """Return the run of the next subscriber."""
        quota, more = divmod(self.partitions, self.readers)
        begin = self.next
        self.next += quota + (self.dealt < more)
        self.dealt += 1
        return range(begin, self.next)


def assign(spec: GroupSpec, topics: TopicsImage) -> Slices:
    """Compute an assignment; raises PartitionAssignorError if a topic does not exist."""
    work = Work()
    sizes = topic_sizes(spec, topics)
    order = yield from member_order(spec, work)
    result: Assignment = {member_id: {} for member_id in order}
    readers = _in_turn(spec, order)
    read = {member_id: tuple(ordered(spec.members[member_id].topic_ids)) for member_id in readers}
    if spec.homogeneous and readers:
        read = dict.fromkeys(readers, read[readers[0]])
    if -1 in sizes.values():
        raise PartitionAssignorError("Member is subscribed to a non-existent topic")
    cut = {topic: _Topic(size, len(readers) if spec.homogeneous else 0) for topic, size in sizes.items()}
    for subscribed in () if spec.homogeneous else read.values():
        for topic in subscribed:
            cut[topic].readers += 1
        if work.done(1 + len(subscribed) // 8):
            yield
    for member_id in readers:
        runs: dict[UUID, range] = {}
        for topic in read[member_id]:
            if run := cut[topic].cut():
                runs[topic] = run
            if work.done():
                yield
        # Kafka counts the topics of all members in a homogeneous group, and otherwise this member's names.
        names = 0 if spec.homogeneous else spec.members[member_id].names
        expected = max(len(read[member_id]), names)
        result[member_id] = {topic: JavaSet(runs[topic]) for topic in collected(UUIDS, runs, roomy(expected))}
        if work.done(sum(map(len, runs.values()))):
            yield
    return result


def _in_turn(spec: GroupSpec, order: list[str]) -> list[str]:
    """Return the members in the order of their turns."""

    def place(member_id: str) -> tuple[bool, bytes]:
        instance_id = spec.members[member_id].instance_id
        return instance_id is None, string_order(member_id if instance_id is None else instance_id)

    return sorted(order, key=place)
