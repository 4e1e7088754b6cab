"""The group epoch and its target assignment: the conditions under which each of them changes.

The first heartbeat that finds the group epoch ahead of the assignment epoch computes a new target, but at most once in
`assignment.interval.ms`: a burst of joins costs one assignment instead of one for each join.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from coordinatord.coordination.group.consumer.assignors import ASSIGNORS
from coordinatord.coordination.group.consumer.assignors.spec import Assignment, GroupSpec, MemberSpec
from coordinatord.coordination.group.consumer.epoch_record import assigning
from coordinatord.coordination.group.consumer.epoch_record import begin as begin_account
from coordinatord.coordination.group.consumer.java_collections.hash_map import (
    SMALLEST_TIMELINE,
    name_set,
    timeline_order,
    timeline_table,
    union,
)
from coordinatord.coordination.group.consumer.java_collections.java_set import JavaSet
from coordinatord.coordination.group.consumer.rebalance_triggers import topics_changed
from coordinatord.coordination.group.consumer.records import (
    assignment_epoch_record,
    epoch_record,
    partition_metadata_tombstone,
    target_record,
)
from coordinatord.coordination.group.consumer.sessions import next_slice
from coordinatord.coordination.group.consumer.state import Assigning, ConsumerGroup, GroupEnvironment, Resolved
from coordinatord.coordination.group.consumer.topics import Topics
from coordinatord.coordination.group.replay import write
from coordinatord.coordination.group.result import Result, Trigger
from coordinatord.coordination.group.state import Group


def refresh_epoch(
    group: Group,
    consumer: ConsumerGroup,
    surroundings: GroupEnvironment,
    trigger: Trigger | None,
    now_ms: int,
    result: Result,
) -> None:
    """Check the subscribed topics again. The epoch rises if the topics or, with a `trigger`, subscriptions changed."""
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
    """Raise the group epoch: the partitions have to be assigned anew."""
    write(group, *epoch_record(group.group_id, consumer.epoch + 1, metadata_hash), result)
    begin_account(consumer, trigger, now_ms, result)


def preferred_assignor(consumer: ConsumerGroup, default: str, said: str | None = None) -> str:
    """Return the assignor that most members request, or the first of them in Kafka's map if several have as many
    requests; `default` if no member requests one.

    In the step of a member that requests `said`, Kafka copies the map, removes the member and adds it again. So an
    assignor that no other member requests comes first (among those that share a bucket, as "range" and "uniform" do).
    """
    asked = consumer.assignors
    if not asked:
        return default
    order = timeline_order(asked, SMALLEST_TIMELINE)
    if said is not None and asked[said] == 1:
        order.insert(0, said)
    return max(order, key=asked.__getitem__, default=default)


class Before(NamedTuple):
    """The state before a step: the order in which assignors see members depends on it (assignors/spec.py)."""

    member_ids: Collection[str]
    """Member ids in the order in which the members joined."""
    slots: int
    names: list[str] | None = None
    """The topics that the request names, in its order."""

    @classmethod
    def of(cls, consumer: ConsumerGroup, names: list[str] | None, *, joins: bool, converted: bool = False) -> Before:
        """Take the state from a group. `joins`: the step may add and remove members. `converted`: the step has
        converted this group from a classic one; Kafka has inserted each member into its map once, and has not
        replayed the records yet.
        """
        slots = consumer.slots
        if converted:
            slots = SMALLEST_TIMELINE
            for count in range(len(consumer.members)):
                slots = timeline_table(count, slots)
        return cls(list(consumer.members) if joins else consumer.members, slots, names)


def update_target(
    group: Group,
    consumer: ConsumerGroup,
    surroundings: GroupEnvironment,
    before: Before,
    member_id: str,
    now_ms: int,
    result: Result,
    *,
    may_wait: bool,
) -> bool:
    """Compute the target assignment if it is behind the group epoch and due.

    `member_id` is the member whose request this step handles. Returns True if the assignment takes longer than one
    slice and continues later (assigning.py), which happens only with `may_wait`.
    """
    if consumer.assignment_epoch >= consumer.epoch or consumer.assigning is not None:
        return False
    interval_ms = surroundings.limits.assignment_interval_ms(group.group_id)
    computed_ms = consumer.assignment_timestamp_ms
    if computed_ms and interval_ms and now_ms < computed_ms + interval_ms:
        return False
    begun = begin(consumer, surroundings, before, member_id)
    while True:
        try:
            next(begun.slices)
        except StopIteration as finished:
            log_target(group, consumer, surroundings.topics, begun, finished.value, now_ms, result)
            return False
        if may_wait:
            consumer.assigning = begun
            result.timers.append(next_slice(group.group_id, now_ms))
            return True


def begin(consumer: ConsumerGroup, surroundings: GroupEnvironment, before: Before, member_id: str) -> Assigning:
    """Start an assignment of the current group."""
    assignors = surroundings.limits.assignors
    name = preferred_assignor(consumer, assignors[0], consumer.members[member_id].assignor)
    if name not in assignors:
        name = assignors[0]  # it was an allowed assignor when it was logged
    spec = group_spec(consumer, surroundings, before, member_id)
    return Assigning(ASSIGNORS[name](spec, surroundings.topics), consumer.epoch, name)


def log_target(
    group: Group,
    consumer: ConsumerGroup,
    topics: Topics,
    begun: Assigning,
    wanted: Assignment,
    now_ms: int,
    result: Result,
) -> None:
    """Log the changed targets of members that are still in the group, unless all members have left meanwhile."""
    if begun.epoch <= consumer.assignment_epoch:
        return
    present = {member_id: target for member_id, target in wanted.items() if member_id in consumer.members}
    if begun.epoch == consumer.epoch:
        assigning(consumer, present, begun.assignor, topics, now_ms)
    for member_id, target in present.items():
        if consumer.target.get(member_id) != target:
            write(group, *target_record(group.group_id, member_id, target), result)
    write(group, *assignment_epoch_record(group.group_id, begun.epoch, now_ms), result)


def group_spec(consumer: ConsumerGroup, surroundings: GroupEnvironment, before: Before, member_id: str) -> GroupSpec:
    """Return the assignor's input in the order of Kafka's TargetAssignmentBuilder: the members before the step, then
    the member that has sent the request, if it is new.
    """
    members = consumer.members
    order = [each for each in timeline_order(before.member_ids, before.slots) if each in members]
    if member_id not in before.member_ids:
        order.append(member_id)
    read = SubscribedTopics(surroundings.topics, consumer.resolved)
    specs: dict[str, MemberSpec] = {}
    for each in order:
        member = members[each]
        topic_ids, names = read.of(member.topics, member.expression, before.names if each == member_id else None)
        specs[each] = MemberSpec(member.rack_id, member.instance_id, topic_ids, consumer.target.get(each, {}), names)
    return GroupSpec(specs, consumer.is_homogeneous())


class SubscribedTopics:
    """The topics that members subscribe to, in the order of Kafka's sets of their names."""

    def __init__(self, topics: Topics, resolved: Mapping[str, Resolved]) -> None:
        self._topics = topics
        self._resolved = resolved
        self._known: dict[tuple[frozenset[str], str | None], tuple[JavaSet[bytes], int]] = {}

    def of(
        self, subscribed: frozenset[str], expression: str | None, said: list[str] | None
    ) -> tuple[JavaSet[bytes], int]:
        """Return topic ids, and the number of names, some of which may not exist. `said`: names in the order of the
        member's request; names from the log are sorted.
        """
        key = subscribed, expression
        found = self._known.get(key) if said is None else None
        if found is not None:
            return found
        resolved = self._resolved.get(expression) if expression else None
        if not (resolved and resolved.topics) and not any(map(self._topics.find, subscribed)):
            return JavaSet(()), len(subscribed)  # an order takes long: a member may name ten thousand
        names = name_set(sorted(subscribed) if said is None else said)
        if resolved is not None and resolved.topics:
            matched = name_set(sorted(resolved.topics))
            names = union(names, matched) if names else matched
        ids = [topic.topic_id for name in names if (topic := self._topics.find(name)) is not None]
        found = JavaSet(ids), len(names)
        if said is None:
            self._known[key] = found
        return found
