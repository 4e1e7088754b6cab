"""Kafka's UniformAssignor: members have equal numbers of partitions, and keep their previous ones if possible.

This module serves groups whose members all subscribe to the same topics (UniformHomogeneousAssignmentBuilder);
`mixed.py` serves others. Members differ by one partition at most. A member with too many loses the last ones in the
order of its hash tables; these and partitions without an owner go to members with too few, in the order of members.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter

from coordinatord.base.budget import SLICE_ITEMS, Work
from coordinatord.coordination.group.consumer.assignors import mixed
from coordinatord.coordination.group.consumer.assignors.assignment_builder import Draft, held, known
from coordinatord.coordination.group.consumer.assignors.slices import member_order, topic_sizes
from coordinatord.coordination.group.consumer.assignors.spec import (
    UUID,
    Assignment,
    GroupSpec,
    PartitionAssignorError,
    Slices,
    TopicsImage,
)
from coordinatord.coordination.group.consumer.java_collections.hash_map import SMALLEST_TABLE, UUIDS, copied


def assign(spec: GroupSpec, topics: TopicsImage) -> Slices:
    """Compute an assignment; raises PartitionAssignorError if a topic does not exist."""
    return _assign(spec, topics) if spec.homogeneous else mixed.assign(spec, topics)


@dataclass(slots=True)
class _Plan:
    """The state of the computation."""

    partitions: dict[UUID, int]
    """Subscribed topics in the order of Kafka's set of them, with their numbers of partitions."""
    quota: int
    more: int
    """Number of members that may still have one partition more than the quota."""
    free: list[tuple[UUID, int]] = field(default_factory=list)
    """Partitions that get another owner, or their first one."""
    unfilled: dict[str, int] = field(default_factory=dict)
    """Members with too few partitions, with the number that they lack."""
    drafts: dict[str, Draft] = field(default_factory=dict)
    """Changed assignments."""


def _assign(spec: GroupSpec, topics: TopicsImage) -> Slices:
    work = Work()
    sizes = topic_sizes(spec, topics)
    order = yield from member_order(spec, work)
    result: Assignment = {member_id: {} for member_id in order}
    if not sizes:
        return result
    plan = _plan(spec, order, sizes)
    yield from _find_free(plan, spec, work)
    for place, member_id in enumerate(order):
        before = known(spec.members[member_id].assigned)
        free = len(plan.free)
        excess = sum(map(len, before.values())) - plan.quota
        if excess > SLICE_ITEMS and work.done(excess):
            yield  # nothing else in this slice
        _revoke(plan, member_id, before, members_left=len(order) - place)
        result[member_id] = before
        if work.done(1 + len(before) + len(plan.free) - free):
            yield
    yield from _fill(plan, result, work)
    for member_id, draft in plan.drafts.items():
        finished = result[member_id] = draft.finished()
        if work.done(1 + sum(map(len, finished.values()))):
            yield
    return result


def _plan(spec: GroupSpec, order: list[str], sizes: dict[UUID, int]) -> _Plan:
    first = spec.members[order[0]]
    partitions = {topic: sizes[topic] for topic in copied(UUIDS, first.topic_ids, first.names)}
    for topic, count in partitions.items():
        if count == -1:
            raise PartitionAssignorError(mixed.missing(topic))
    return _Plan(partitions, *divmod(sum(partitions.values()), len(order)))


def _find_free(plan: _Plan, spec: GroupSpec, work: Work) -> Generator[None, None, None]:
    """Find the partitions without an owner."""
    taken: dict[UUID, set[int]] = {topic: set() for topic in plan.partitions}
    for member in spec.members.values():
        for topic, partitions in member.assigned.items():
            if topic in taken:
                taken[topic].update(partitions)
                if work.done(1 + len(partitions) // 16):
                    yield
    for topic, count in plan.partitions.items():
        plan.free += [(topic, partition) for partition in range(count) if partition not in taken[topic]]
        if work.done(count // 16):
            yield


def _revoke(plan: _Plan, member_id: str, before: dict[UUID, frozenset[int]], members_left: int) -> None:
    """Decide which partitions a member keeps; it loses topics that it no longer
    subscribes to, and partitions above its quota.

    Members take the extra partitions in their order. A member that lacks partitions leaves its extra one to later
    members, which may have it already, as long as there are enough of them.
    """
    extra = plan.more > 0
    quota = plan.quota + extra
    for topic, partitions in before.items():
        if topic not in plan.partitions:
            _draft(plan, member_id, before).remove_topic(topic)
        elif len(partitions) <= quota:
            quota -= len(partitions)
        else:
            given = list(held(partitions))[quota:]
            _draft(plan, member_id, before).remove(topic, given)
            plan.free += [(topic, partition) for partition in given]
            quota = 0
    if quota and extra and members_left > plan.more:
        quota -= 1
        extra = False
    if quota:
        plan.unfilled[member_id] = quota
    plan.more -= extra


def _draft(plan: _Plan, member_id: str, before: dict[UUID, frozenset[int]]) -> Draft:
    draft = plan.drafts.get(member_id)
    if draft is None:
        draft = plan.drafts[member_id] = Draft(before)
    return draft


def _fill(plan: _Plan, result: Assignment, work: Work) -> Generator[None, None, None]:
    """Assign the free partitions to the members that lack some."""
    at = 0
    for member_id, quota in plan.unfilled.items():
        draft = _draft(plan, member_id, result[member_id])
        end = at + quota
        while at < end:
            some = plan.free[at : min(at + SLICE_ITEMS, end)]
            for topic, part in groupby(some, key=itemgetter(0)):
                draft.add(topic, [partition for _, partition in part], SMALLEST_TABLE)
            at += len(some)
            if work.done(len(some)):
                yield
    if at < len(plan.free):
        raise PartitionAssignorError("Partitions were left unassigned")
