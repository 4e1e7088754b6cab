"""Reconciliation: from what a member owns to what it is to own.

A member first gives up what is not in its target; it says so by naming what it owns without that. Then its epoch rises,
and it gets what nobody else owns any more. Kafka's CurrentAssignmentBuilder.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from coordinatord.group.consumer.state import ConsumerMember, Epochs, MemberState, Target
from kafka_wire.api.consumer_group_heartbeat import TopicPartitions


class Reconciliation:
    """What one member is to be reconciled with: its target in this epoch, and the topics that it subscribes to.

    `owned` is what the member says it owns, None if it says nothing; `is_subscribed` is asked by topic id, `is_owned`
    whether any member has a partition.
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
        """The member as it is from now on: itself if nothing changes, None if its state is not known: then it is
        fenced, unless it owns nothing.
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
        for topic_id in dict.fromkeys([*self._target, *member.assigned]):
            wanted = self._target.get(topic_id, frozenset()) if self._is_subscribed(topic_id) else frozenset()
            current = member.assigned.get(topic_id, {})
            kept = {partition: epoch for partition, epoch in current.items() if partition in wanted}
            if kept:
                assigned[topic_id] = kept
            if len(kept) < len(current):
                revoking[topic_id] = {each: epoch for each, epoch in current.items() if each not in kept}
            given_up = member.revoking.get(topic_id, {})
            free = []
            for partition in sorted(wanted - kept.keys()):
                if partition not in given_up and self._is_owned(topic_id, partition):
                    has_unreleased = True
                else:
                    free.append(partition)
            if free:
                awaited[topic_id] = free
        if revoking and self._still_owns(revoking):
            return self._moved(MemberState.UNREVOKED_PARTITIONS, member_epoch, assigned, revoking)
        for topic_id, partitions in awaited.items():
            assigned.setdefault(topic_id, {}).update(dict.fromkeys(partitions, self._epoch))
        state = MemberState.UNRELEASED_PARTITIONS if has_unreleased else MemberState.STABLE
        return self._moved(state, self._epoch, assigned, {})

    def _unsubscribed(self) -> ConsumerMember:
        """Take away the topics that the member has unsubscribed from, without waiting for the next assignment."""
        member = self._member
        gone = [topic_id for topic_id in member.assigned if not self._is_subscribed(topic_id)]
        if not gone:
            return member
        assigned = {topic_id: epochs for topic_id, epochs in member.assigned.items() if topic_id not in gone}
        revoking = {topic_id: dict(epochs) for topic_id, epochs in member.revoking.items()}
        for topic_id in gone:
            revoking.setdefault(topic_id, {}).update(member.assigned[topic_id])
        if self._still_owns(revoking):
            return self._moved(MemberState.UNREVOKED_PARTITIONS, member.epoch, assigned, revoking)
        return self._moved(member.state, member.epoch, assigned, member.revoking)

    def _moved(self, state: MemberState, epoch: int, assigned: Epochs, revoking: Epochs) -> ConsumerMember:
        member = self._member
        return replace(
            member, state=state, epoch=epoch, previous_epoch=member.epoch, assigned=assigned, revoking=revoking
        )

    def _still_owns(self, revoking: Epochs) -> bool:
        """Whether the member may own some of this; a member that says nothing may."""
        if self._owned is None:
            return True
        return any(not revoking.get(each.topic_id, {}).keys().isdisjoint(each.partitions) for each in self._owned)
