"""The target assignment of a share group, and a member's step to it.

The first heartbeat that finds the group epoch ahead of the assignment epoch computes a new target, at most once in
`group.share.assignment.interval.ms`. An assignment that takes longer than one slice continues by a timer; until it has
finished, heartbeats are answered with the target before it, as they are within that interval.
"""

from __future__ import annotations

from dataclasses import replace

from coordinatord.coordination.group.consumer.assignors.assignment_builder import held, known
from coordinatord.coordination.group.consumer.assignors.spec import (
    Assignment,
    GroupSpec,
    MemberSpec,
    PartitionAssignorError,
)
from coordinatord.coordination.group.consumer.group_epoch import SubscribedTopics
from coordinatord.coordination.group.consumer.java_collections.hash_map import timeline_order
from coordinatord.coordination.group.consumer.sessions import next_slice
from coordinatord.coordination.group.consumer.state import GroupEnvironment, Target
from coordinatord.coordination.group.consumer.topics import Topics
from coordinatord.coordination.group.replay import write
from coordinatord.coordination.group.result import NOTHING, Result
from coordinatord.coordination.group.share import simple
from coordinatord.coordination.group.share.records import assignment_epoch_record, current_record, target_record
from coordinatord.coordination.group.share.state import Assigning, ShareGroup, ShareMember, limits_of
from coordinatord.coordination.group.state import Group
from coordinatord.coordination.group.states import MemberState


def update_target(
    group: Group,
    share: ShareGroup,
    surroundings: GroupEnvironment,
    member_id: str,
    said: list[str] | None,
    now_ms: int,
    result: Result,
) -> Target:
    """Compute the target assignment if it is behind the group epoch and due. Return the target of `member_id`, whose
    request names the topics `said`.
    """
    if share.assignment_epoch < share.epoch and share.assigning is None:
        interval_ms = limits_of(surroundings).assignment_interval_ms(group.group_id)
        computed_ms = share.assignment_timestamp_ms
        if not (computed_ms and interval_ms) or now_ms >= computed_ms + interval_ms:
            spec = _spec(share, surroundings, member_id, said)
            begun = Assigning(simple.assign(spec, surroundings.topics), share.epoch)
            try:
                next(begun.slices)
            except StopIteration as finished:
                _log_target(group, share, begun, finished.value, now_ms, result)
                made: Assignment = finished.value
                return made.get(member_id, {})
            share.assigning = begun
            result.timers.append(next_slice(group.group_id, now_ms))
    target = known(share.target.get(member_id, {}))
    return {topic_id: held(partitions) for topic_id, partitions in target.items()}


def go_on(group: Group, share: ShareGroup, now_ms: int) -> Result:
    """Continue the computation for a few milliseconds."""
    assigning = share.assigning
    if assigning is None:
        return NOTHING
    result = Result()
    try:
        next(assigning.slices)
    except StopIteration as finished:
        share.assigning = None
        _log_target(group, share, assigning, finished.value, now_ms, result)
    except PartitionAssignorError:
        share.assigning = None  # the next heartbeat tries again
    else:
        result.timers.append(next_slice(group.group_id, now_ms))
    return result


def reconcile(
    group: Group,
    share: ShareGroup,
    topics: Topics,
    member: ShareMember,
    target: Target,
    *,
    is_changed: bool,
    result: Result,
) -> ShareMember:
    """Let a member take over its target. `is_changed`: the group epoch has risen in this step, so that topics of the
    target may not be subscribed to any more. Return the member after that.
    """
    epoch = share.assignment_epoch
    if not is_changed and member.state is MemberState.STABLE and member.epoch == epoch:
        return member
    assigned = {}
    for topic_id, partitions in target.items():
        topic = topics.find_id(topic_id)
        if topic is not None and topic.name in member.topics:
            assigned[topic_id] = partitions
    after = replace(member, assigned=assigned)
    if epoch != member.epoch:
        after = replace(after, state=MemberState.STABLE, epoch=epoch, previous_epoch=member.epoch)
    if after != member:
        write(group, *current_record(group.group_id, after), result)
    return after


def _spec(share: ShareGroup, surroundings: GroupEnvironment, member_id: str, said: list[str] | None) -> GroupSpec:
    """Return the assignor's input in the order of Kafka's TargetAssignmentBuilder."""
    read = SubscribedTopics(surroundings.topics, {})
    specs = {}
    for each in timeline_order(share.members, share.slots):
        member = share.members[each]
        topic_ids, names = read.of(member.topics, None, said if each == member_id else None)
        specs[each] = MemberSpec(member.rack_id, None, topic_ids, share.target.get(each, {}), names)
    initialized = {} if share.partitions is None else share.partitions.initialized
    assignable = {topic_id: each.partitions for topic_id, each in initialized.items()}
    return GroupSpec(specs, share.is_homogeneous(), assignable=assignable)


def _log_target(
    group: Group, share: ShareGroup, begun: Assigning, wanted: Assignment, now_ms: int, result: Result
) -> None:
    """Log the changed targets of members that are still in the group."""
    for member_id, target in wanted.items():
        if member_id in share.members and share.target.get(member_id) != target:
            write(group, *target_record(group.group_id, member_id, target), result)
    write(group, *assignment_epoch_record(group.group_id, begun.epoch, now_ms), result)
