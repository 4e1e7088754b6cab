"""Common code of both assignors: the sizes of topics, the order of
members, and the limit of work between two yields.
"""

from __future__ import annotations

from collections.abc import Generator

from coordinatord.base.budget import Work
from coordinatord.coordination.group.consumer.assignors.spec import UUID, GroupSpec, TopicsImage
from coordinatord.coordination.group.consumer.java_collections.hash_map import SMALLEST_TABLE, STRINGS, HashTable


def topic_sizes(spec: GroupSpec, topics: TopicsImage) -> dict[UUID, int]:
    """Return the subscribed topics with their numbers of partitions; -1: no such topic."""
    subscriptions = [member.topic_ids for member in spec.members.values()]
    read = set[UUID]().union(*(subscriptions[:1] if spec.homogeneous else subscriptions))
    return {topic: topics.num_partitions(topic) for topic in read}


def member_order(spec: GroupSpec, work: Work) -> Generator[None, None, list[str]]:
    """Return the member ids in the iteration order of the HashMap that TargetAssignmentBuilder makes."""
    table = HashTable(STRINGS, SMALLEST_TABLE)
    for member_id in spec.members:
        table.put(member_id)
        if work.done(2 + len(member_id) // 16):
            yield
    return list(table)
