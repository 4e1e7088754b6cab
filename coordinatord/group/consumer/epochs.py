"""The group's epoch and its target assignment: when the one rises, and when the other follows it.

A new target is computed by the first heartbeat that finds the group's epoch ahead of the assignment's, but at most once
in `assignment.interval.ms`: a burst of joins costs one assignment and not one for each.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from coordinatord.group.consumer.account import assigning, begin
from coordinatord.group.consumer.assignors import assign
from coordinatord.group.consumer.assignors.spec import GroupSpec, MemberSpec
from coordinatord.group.consumer.assignors.tables import timeline_order
from coordinatord.group.consumer.causes import topics_changed
from coordinatord.group.consumer.records import (
    assignment_epoch_record,
    epoch_record,
    partition_metadata_tombstone,
    target_record,
)
from coordinatord.group.consumer.state import ConsumerGroup, ConsumerMember, Surroundings
from coordinatord.group.replay import write
from coordinatord.group.result import Result, Trigger
from coordinatord.group.state import Group

_ASSIGNORS_TABLE: Final = 2
"""Slots of Kafka's map of assignors, of which there are two."""


def refresh_epoch(
    group: Group,
    consumer: ConsumerGroup,
    surroundings: Surroundings,
    trigger: Trigger | None,
    now_ms: int,
    result: Result,
) -> None:
    """Look at the subscribed topics again. The epoch rises if they or, by this trigger, the subscriptions changed."""
    topics, seen = surroundings.topics, consumer.topics_seen()
    metadata_hash = consumer.hash_of(topics)
    if trigger is None and metadata_hash != consumer.metadata_hash:
        trigger = topics_changed(consumer, seen, topics)
    if trigger is not None:
        raise_epoch(group, consumer, metadata_hash, trigger, now_ms, result)
    consumer.topics_version = topics.version
    if consumer.has_partition_metadata:
        write(group, *partition_metadata_tombstone(group.group_id), result)


def raise_epoch(
    group: Group, consumer: ConsumerGroup, metadata_hash: int, trigger: Trigger, now_ms: int, result: Result
) -> None:
    """The partitions have to be assigned anew."""
    write(group, *epoch_record(group.group_id, consumer.epoch + 1, metadata_hash), result)
    begin(consumer, trigger, now_ms, result)


def preferred_assignor(consumer: ConsumerGroup, default: str, known: Collection[str] | None = None) -> str:
    """The assignor that most members ask for; `default` if none does.

    Of several the first in the order of Kafka's map, a HashMap in which both names have one slot: one that nobody asked
    for before the step (`known`; None: all were asked for), then those of a TimelineHashMap in its own order.
    """
    asked = consumer.assignors
    before = timeline_order([name for name in asked if known is None or name in known], _ASSIGNORS_TABLE)
    names = [*(name for name in asked if name not in before), *before]
    return max(names, key=asked.__getitem__, default=default)


def update_target(
    group: Group,
    consumer: ConsumerGroup,
    surroundings: Surroundings,
    now_ms: int,
    result: Result,
    assignors: Collection[str] | None = None,
) -> None:
    """Compute the target assignment if it is behind the group's epoch and due. Only what changes is logged.

    `assignors`: those that members asked for before the step.
    """
    if consumer.assignment_epoch >= consumer.epoch:
        return
    limits, group_id = surroundings.limits, group.group_id
    interval_ms = limits.assignment_interval_ms(group_id)
    computed_ms = consumer.assignment_timestamp_ms
    if computed_ms and interval_ms and now_ms < computed_ms + interval_ms:
        return
    name = preferred_assignor(consumer, limits.assignors[0], assignors)
    if name not in limits.assignors:
        name = limits.assignors[0]  # logged when it was among them
    wanted = assign(name, group_spec(consumer, surroundings), surroundings.topics)
    assigning(consumer, wanted, name, surroundings.topics, now_ms)
    for member_id, target in wanted.items():
        if consumer.target.get(member_id) != target:
            write(group, *target_record(group_id, member_id, target), result)
    write(group, *assignment_epoch_record(group_id, consumer.epoch, now_ms), result)


def group_spec(consumer: ConsumerGroup, surroundings: Surroundings) -> GroupSpec:
    """What an assignor is told of the group."""
    find = surroundings.topics.find
    known: dict[frozenset[str], frozenset[bytes]] = {}

    def topic_ids(member: ConsumerMember) -> frozenset[bytes]:
        names = consumer.topics_of(member)
        found = known.get(names)
        if found is None:
            found = known[names] = frozenset(topic.topic_id for name in names if (topic := find(name)) is not None)
        return found

    members: Mapping[str, MemberSpec] = {
        member_id: MemberSpec(member.rack_id, member.instance_id, topic_ids(member), consumer.target.get(member_id, {}))
        for member_id, member in consumer.members.items()
    }
    return GroupSpec(members, consumer.is_homogeneous())
