"""Assignor `range`: each member gets one run of each topic's partitions; the first members get one partition more.

With racks (KIP-881), a member first gets partitions with a replica in its rack, within the same quota. Topics with
equal members and partition counts are co-partitioned: if racks allow, a member gets partitions with equal numbers in
each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from coordinatord.testing.member.assignors.base import (
    Assignment,
    Assignor,
    Racks,
    Subscription,
    Topics,
    member_order,
    uses_racks,
)


class RangeAssignor(Assignor):
    """Kafka's default assignor, listed before cooperative-sticky."""

    name = "range"

    def assign_partitions(self, topics: Topics, members: Mapping[str, Subscription]) -> Assignment:
        """Compute the assignment; see the module's docstring."""
        subscribers: dict[str, list[str]] = {}
        for member_id, member in members.items():
            for topic in member.topics:
                subscribers.setdefault(topic, []).append(member_id)
        states = [_Topic(topic, racks, subscribers.get(topic, []), members) for topic, racks in topics.items()]
        assignment: Assignment = {member_id: [] for member_id in members}
        rack_aware = any(state.rack_aware for state in states)
        if rack_aware:
            _assign_by_racks(states, assignment)
        for state in states:
            _assign_ranges(state, lambda member_id, partition: True, assignment)
        if rack_aware:
            for partitions in assignment.values():
                partitions.sort()
        return assignment


class _Topic:
    """One topic and the progress of its assignment."""

    def __init__(
        self, topic: str, racks: Sequence[Racks], subscribers: list[str], members: Mapping[str, Subscription]
    ) -> None:
        self.topic = topic
        ordered = sorted(subscribers, key=lambda each: member_order(each, members[each].group_instance_id))
        self.consumers = {member_id: members[member_id].rack_id or None for member_id in ordered}
        self.racks = racks
        self.unassigned = dict.fromkeys(range(len(racks)))
        self.assigned_count = dict.fromkeys(self.consumers, 0)
        self.quota, self.extra = divmod(len(racks), len(self.consumers)) if self.consumers else (0, 0)
        self.rack_aware = uses_racks({rack for rack in self.consumers.values() if rack is not None}, racks)

    def racks_match(self, member_id: str, partition: int) -> bool:
        """Return whether the partition has a replica in the member's rack, or the member has no rack."""
        rack = self.consumers[member_id]
        return rack is None or rack in self.racks[partition]

    def room(self, member_id: str) -> int:
        """Return the number of further partitions that the member may get now."""
        return max(0, self.quota + (self.extra > 0) - self.assigned_count[member_id])

    def give(self, member_id: str, partitions: Sequence[int], assignment: Assignment) -> None:
        """Assign partitions to a member."""
        assignment[member_id] += [(self.topic, partition) for partition in partitions]
        self.assigned_count[member_id] += len(partitions)
        if self.assigned_count[member_id] > self.quota:
            self.extra -= 1
        for partition in partitions:
            self.unassigned.pop(partition, None)


def _assign_ranges(state: _Topic, may_have: Callable[[str, int], bool], assignment: Assignment) -> None:
    for member_id in state.consumers:
        if not state.unassigned:
            break
        room = state.room(member_id)
        chosen: list[int] = []
        for partition in state.unassigned:
            if len(chosen) == room:
                break
            if may_have(member_id, partition):
                chosen.append(partition)
        if chosen:
            state.give(member_id, chosen, assignment)


def _assign_by_racks(states: Sequence[_Topic], assignment: Assignment) -> None:
    """Assign by racks. Groups of co-partitioned topics are independent of each other, so their
    order does not matter.
    """
    alike: dict[tuple[tuple[tuple[str, str | None], ...], int], list[_Topic]] = {}
    for state in states:
        # As in Kafka, a topic whose members all have no rack is treated here as if it had no partitions.
        partitions = len(state.racks) if any(state.consumers.values()) else 0
        alike.setdefault((tuple(state.consumers.items()), partitions), []).append(state)
    for (_, partitions), together in alike.items():
        if len(together) > 1:
            _assign_together(together, partitions, assignment)
        elif together[0].rack_aware:
            _assign_ranges(together[0], together[0].racks_match, assignment)


def _assign_together(states: Sequence[_Topic], partitions: int, assignment: Assignment) -> None:
    remaining: list[str] = list(states[0].consumers)
    for partition in range(partitions):
        fitting = (
            each
            for each in remaining
            if all(state.racks_match(each, partition) and state.room(each) > 0 for state in states)
        )
        member_id = next(fitting, None)
        if member_id is None:
            continue
        for state in states:
            state.give(member_id, [partition], assignment)
        if not any(state.room(member_id) > 0 for state in states):
            remaining.remove(member_id)
            if not remaining:
                break
