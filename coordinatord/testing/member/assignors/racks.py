"""Racks in the sticky assignors (KIP-881): a partition is near to a member if it has a replica in the member's rack."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from coordinatord.testing.member.assignors.base import Racks, Subscription, Topics, uses_racks
from coordinatord.testing.member.assignors.java_hash import TopicPartition


class RackInfo:
    """Racks of consumers and partitions. The tables are empty if racks make no difference."""

    def __init__(self, topics: Topics, members: Mapping[str, Subscription]) -> None:
        consumer_racks = {member_id: member.rack_id for member_id, member in members.items() if member.rack_id}
        racks: dict[TopicPartition, Racks] = {}
        if consumer_racks:
            for topic, of_partitions in topics.items():
                racks.update(((topic, number), each) for number, each in enumerate(of_partitions))
        in_use = uses_racks(set(consumer_racks.values()), list(racks.values()))
        self.consumer_racks: dict[str, str] = consumer_racks if in_use else {}
        self.partition_racks: dict[TopicPartition, Racks] = racks if in_use else {}
        members_in: dict[str, int] = {}
        for rack in consumer_racks.values():
            members_in[rack] = members_in.get(rack, 0) + 1
        # As in Kafka, counted as soon as one member has a rack, even if racks make no difference.
        self.near_count = {
            partition: sum(members_in.get(rack, 0) for rack in each) for partition, each in racks.items()
        }

    def mismatch(self, member_id: str, partition: TopicPartition) -> bool:
        """Return whether the member has a rack without a replica of the partition."""
        rack = self.consumer_racks.get(member_id)
        return rack is not None and rack not in self.partition_racks.get(partition, ())

    def sorted_by_choice(self, partitions: Sequence[TopicPartition]) -> list[TopicPartition]:
        """Return the partitions, sorted by the number of members that they are near to."""
        return sorted(partitions, key=lambda each: self.near_count.get(each, 0))

    def next_near(self, partition: TopicPartition, member_ids: Sequence[str], first: int) -> int:
        """Return the index of the next member, cyclically from `first`, that the partition is near to; -1 if there is
        none.
        """
        racks = self.partition_racks.get(partition)
        if not racks:
            return -1
        for step in range(len(member_ids)):
            index = (first + step) % len(member_ids)
            if self.consumer_racks.get(member_ids[index]) in racks:
                return index
        return -1
