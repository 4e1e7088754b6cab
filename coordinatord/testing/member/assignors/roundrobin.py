"""Assignor `roundrobin`: all partitions of all topics, dealt in turn to the members that subscribe to them."""

from __future__ import annotations

from collections.abc import Mapping

from coordinatord.testing.member.assignors.base import Assignment, Assignor, Subscription, Topics, member_order


class RoundRobinAssignor(Assignor):
    """Kafka's RoundRobinAssignor; see the module's docstring."""

    name = "roundrobin"

    def assign_partitions(self, topics: Topics, members: Mapping[str, Subscription]) -> Assignment:
        """Compute the assignment: members in order of their ids, static ones first; topics in order of their names."""
        assignment: Assignment = {member_id: [] for member_id in members}
        turn = sorted(members, key=lambda each: member_order(each, members[each].group_instance_id))
        subscribed = [frozenset(members[member_id].topics) for member_id in turn]
        at = 0
        for topic in sorted(topics):
            for partition in range(len(topics[topic])):
                while topic not in subscribed[at]:
                    at = (at + 1) % len(turn)
                assignment[turn[at]].append((topic, partition))
                at = (at + 1) % len(turn)
        return assignment
