"""Reconciliation of a member's owned partitions with its target.

A member first revokes the partitions that are not in its target; it confirms that by sending its owned partitions
without them. Then its epoch rises, and the member gets the partitions that no other member owns any more. Equivalent to
Kafka's CurrentAssignmentBuilder.

The owned partitions are logged in the order of Kafka's hash maps. So each map here repeats the operations of Kafka's:
copies, removals, insertions (java_collections/hash_map.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sized

from coordinatord.coordination.group.consumer.assignors.assignment_builder import held
from coordinatord.coordination.group.consumer.java_collections.hash_map import (
    INTEGERS,
    SMALLEST_TABLE,
    UUIDS,
    collected,
    placed,
    roomy,
    table_size,
)
from coordinatord.coordination.group.consumer.state import ConsumerMember, Epochs, MemberState, Target
from kafka_wire.api.consumer_group_heartbeat import TopicPartitions


class Reconciliation:
    """The input for one member's reconciliation: its target in this epoch, and the topics that it subscribes to.

    `owned` are the partitions in the member's request, None if it contains none; `is_subscribed` checks a topic id,
    `is_owned` checks whether any member has a partition.
    """

    __slots__ = ("_epoch", "_is_owned", "_is_subscribed", "_member", "_owned", "_target")

    def __init__(
        self,
        member: ConsumerMember,
        epoch: int,
        target: Target,
        owned: list[TopicPartitions] | None,
        is_subscribed: Callable[[bytes], bool],
        is_owned: Callable[[bytes, int], bool],
    ) -> None:
        self._member = member
        self._epoch = epoch
        self._target = target
        self._owned = owned
        self._is_subscribed = is_subscribed
        self._is_owned = is_owned

    def result(self, *, subscription_changed: bool) -> ConsumerMember | None:
        """Return the member after reconciliation: the same object if nothing changes, None if its state is unknown and
        the member is to be fenced. A member of unknown state that owns nothing is not fenced.
        """
        member = self._member
        if member.state is MemberState.UNKNOWN:
            return None if self._owned is None or self._owned else self._next(self._epoch)
        if member.state is MemberState.STABLE and member.epoch == self._epoch:
            return self._unsubscribed() if subscription_changed else member
        if member.state is MemberState.UNREVOKED_PARTITIONS and self._still_owns(member.revoking):
            return self._unsubscribed() if subscription_changed else member
        return self._next(member.epoch)

    def _next(self, member_epoch: int) -> ConsumerMember:
        member = self._member
        assigned: dict[bytes, dict[int, int]] = {}
        revoking: dict[bytes, dict[int, int]] = {}
        awaited: dict[bytes, list[int]] = {}
        has_unreleased = False
        for topic_id in _topics(self._target, member.assigned):
            wanted = self._target.get(topic_id, frozenset()) if self._is_subscribed(topic_id) else frozenset()
            current = member.assigned.get(topic_id, {})
            copy = placed(INTEGERS, current, _copied_size(current))
            kept = {partition: current[partition] for partition in copy if partition in wanted}
            if kept:
                assigned[topic_id] = kept
            if len(kept) < len(current):
                revoking[topic_id] = {each: current[each] for each in copy if each not in kept}
            given_up = member.revoking.get(topic_id, {})
            free = []
            for partition in held(wanted) if len(kept) < len(wanted) else ():
                if partition in kept:
                    continue
                if partition not in given_up and self._is_owned(topic_id, partition):
                    has_unreleased = True
                else:
                    free.append(partition)
            if free:
                awaited[topic_id] = free
        if len(assigned) > 1:
            assigned = {topic_id: assigned[topic_id] for topic_id in placed(UUIDS, assigned)}
        if revoking and self._still_owns(revoking):
            revoking = {topic_id: revoking[topic_id] for topic_id in placed(UUIDS, revoking)}
            return self._moved(MemberState.UNREVOKED_PARTITIONS, member_epoch, assigned, revoking)
        state = MemberState.UNRELEASED_PARTITIONS if has_unreleased else MemberState.STABLE
        return self._moved(state, self._epoch, self._with(assigned, awaited) if awaited else assigned, {})

    def _with(self, assigned: dict[bytes, dict[int, int]], awaited: dict[bytes, list[int]]) -> Epochs:
        """Add partitions that the member gets in this epoch."""
        order = collected(UUIDS, assigned)
        for topic_id in placed(UUIDS, awaited):
            free = awaited[topic_id]
            kept = assigned.get(topic_id, {})
            size = _copied_size(self._member.assigned[topic_id]) if kept else SMALLEST_TABLE
            order.compute_if_absent(topic_id)
            assigned[topic_id] = {each: kept.get(each, self._epoch) for each in placed(INTEGERS, [*kept, *free], size)}
        return {topic_id: assigned[topic_id] for topic_id in order}

    def _unsubscribed(self) -> ConsumerMember:
        """Remove the topics that the member has unsubscribed from, without waiting for the next assignment."""
        member = self._member
        gone = [topic_id for topic_id in member.assigned if not self._is_subscribed(topic_id)]
        if not gone:
            return member
        left = [each for each in placed(UUIDS, member.assigned, _copied_size(member.assigned)) if each not in gone]
        order = collected(UUIDS, member.revoking, _copied_size(member.revoking))
        revoking = dict(member.revoking)
        for topic_id in gone:
            order.compute_if_absent(topic_id)
            epochs = member.assigned[topic_id]
            before = revoking.get(topic_id)
            if before is not None:
                epochs = {**before, **epochs}
                epochs = {each: epochs[each] for each in placed(INTEGERS, epochs, _copied_size(before))}
            revoking[topic_id] = epochs
        assigned = {topic_id: member.assigned[topic_id] for topic_id in left}
        if self._still_owns(revoking):
            revoking = {topic_id: revoking[topic_id] for topic_id in order}
            return self._moved(MemberState.UNREVOKED_PARTITIONS, member.epoch, assigned, revoking)
        return self._moved(member.state, member.epoch, assigned, member.revoking)

    def _moved(self, state: MemberState, epoch: int, assigned: Epochs, revoking: Epochs) -> ConsumerMember:
        member = self._member
        return member.moved(epoch, member.epoch, state, assigned, revoking)

    def _still_owns(self, revoking: Epochs) -> bool:
        """Return whether the member may own some of these partitions;
        True if the request does not contain owned ones.
        """
        if self._owned is None:
            return True
        return any(not revoking.get(each.topic_id, {}).keys().isdisjoint(each.partitions) for each in self._owned)


def _topics(target: Target, assigned: Epochs) -> list[bytes]:
    """Return the topics of the target and of the owned partitions, in the order of Kafka's set of them."""
    if len(target) <= 1 and target.keys() == assigned.keys():
        return list(target)
    size = table_size(max(roomy(len(target)), SMALLEST_TABLE))
    return placed(UUIDS, dict.fromkeys([*target, *assigned]), size)


def _copied_size(keys: Sized) -> int:
    """Return the buckets of `new HashMap<>(map)`: of a table_size that is roomy."""
    return 1 << (len(keys) * 4 // 3).bit_length() if keys else SMALLEST_TABLE
