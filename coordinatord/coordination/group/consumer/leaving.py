"""Leaving, fencing and replacement of members.

A dynamic member that leaves is removed. A static member may leave temporarily (epoch -2): it keeps its membership and
partitions until it rejoins under another member id, or its session ends.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from coordinatord.coordination.group.consumer.assignors.assignment_builder import held, known
from coordinatord.coordination.group.consumer.downgrade import become_classic_group, may_become_classic
from coordinatord.coordination.group.consumer.epoch_record import departing, moved, renamed
from coordinatord.coordination.group.consumer.group_epoch import raise_epoch
from coordinatord.coordination.group.consumer.rebalance_triggers import members_went
from coordinatord.coordination.group.consumer.records import (
    assignment_epoch_record,
    current_record,
    expression_tombstone,
    member_record,
    member_tombstones,
    target_record,
)
from coordinatord.coordination.group.consumer.sessions import forget
from coordinatord.coordination.group.consumer.state import (
    LEAVING_FOR_NOW,
    ConsumerGroup,
    ConsumerMember,
    GroupEnvironment,
)
from coordinatord.coordination.group.consumer.validation import Refusal, static_refusal, unknown_member
from coordinatord.coordination.group.replay import write
from coordinatord.coordination.group.result import Dropped, Result
from coordinatord.coordination.group.state import Group
from coordinatord.coordination.group.states import Cause
from kafka_wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from kafka_wire.errors import ErrorCode


def leave(
    group: Group, request: ConsumerGroupHeartbeatRequest, surroundings: GroupEnvironment, now_ms: int, result: Result
) -> Refusal | None:
    """Handle a heartbeat of epoch -1 or -2."""
    consumer, group_id = group.consumer, group.group_id
    if not group.exists:
        return Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
    if consumer is None:
        return Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
    instance_id = request.instance_id
    if instance_id is None:
        member = consumer.members.get(request.member_id)
        if member is None:
            return unknown_member(group_id, request.member_id)
    else:
        member = consumer.static_member(instance_id)
        refusal = static_refusal(member, request.member_id, instance_id)
        if refusal is not None:
            return refusal
        assert member is not None
    result.reply = ConsumerGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch)
    if instance_id is not None and request.member_epoch == LEAVING_FOR_NOW:
        _leave_for_now(group, consumer, member, now_ms, result)
        return None
    fence(group, consumer, surroundings, [member], Cause.LEFT, now_ms, result)
    return None


def _leave_for_now(group: Group, consumer: ConsumerGroup, member: ConsumerMember, now_ms: int, result: Result) -> None:
    """Record that a static member has left temporarily. It keeps the partitions that it owns, except those that it was
    revoking. Its session continues until it rejoins.
    """
    assigned = {topic_id: dict.fromkeys(epochs, 0) for topic_id, epochs in member.assigned.items()}
    leaving = replace(member, epoch=LEAVING_FOR_NOW, assigned=assigned, revoking={})
    write(group, *current_record(group.group_id, leaving), result)
    moved(consumer, member, leaving, now_ms)


def fence(
    group: Group,
    consumer: ConsumerGroup,
    surroundings: GroupEnvironment,
    members: Sequence[ConsumerMember],
    cause: str,
    now_ms: int,
    result: Result,
) -> None:
    """Remove members, with one new epoch for all. If only classic members are left, the group becomes a classic one."""
    group_id = group.group_id
    if not members:
        return
    result.changes += [Dropped(member.member_id, member.instance_id, cause) for member in members]
    staying = len(consumer.members) - len(members)
    if consumer.are_all_classic_without(members) and may_become_classic(group, surroundings, staying):
        text = f"Downgrade group {group_id} from consumer to classic for member leaving."
        trigger = members_went(members, cause)._replace(text=text)
        gone = {member.member_id for member in members}
        become_classic_group(group, consumer, surroundings, gone, consumer.epoch, trigger, now_ms, result)
        return
    departing(consumer, members)
    counts = Counter(member.expression for member in members if member.expression)
    unused = [each for each, count in counts.items() if consumer.expressions[each] == count]
    for member in members:
        for record in member_tombstones(group_id, member.member_id):
            write(group, *record, result)
        forget(group_id, consumer, member.member_id, result)
    for expression in unused:
        write(group, *expression_tombstone(group_id, expression), result)
        consumer.asked.pop(expression, None)
    raise_epoch(group, consumer, consumer.hash_of(surroundings.topics), members_went(members, cause), now_ms, result)
    if not staying:  # the next member's assignment is due at once
        write(group, *assignment_epoch_record(group_id, consumer.epoch, 0), result)


def replace_static_member(
    group: Group, consumer: ConsumerGroup, old: ConsumerMember, member_id: str, result: Result
) -> ConsumerMember:
    """Replace a static member that has rejoined under another id. The new member inherits all its state, in epoch 0."""
    group_id = group.group_id
    target = known(consumer.target.get(old.member_id, {}))
    target = {topic_id: held(partitions) for topic_id, partitions in target.items()}
    new = replace(old, member_id=member_id, epoch=0, previous_epoch=0)
    for record in member_tombstones(group_id, old.member_id):
        write(group, *record, result)
    if old.member_id != member_id:
        if consumer.assigning is not None:
            consumer.assigning.is_void = True
        forget(group_id, consumer, old.member_id, result)
    for record in (
        member_record(group_id, new),
        target_record(group_id, member_id, target),
        current_record(group_id, new),
    ):
        write(group, *record, result)
    renamed(consumer, old.member_id, member_id)
    result.changes.append(Dropped(old.member_id, old.instance_id, Cause.REPLACED))
    return new
