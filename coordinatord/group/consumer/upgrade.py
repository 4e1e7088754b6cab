"""A group becomes one of the consumer protocol: a new one, or one without members."""

from __future__ import annotations

from coordinatord.group.consumer.checks import Refusal
from coordinatord.group.consumer.state import ConsumerGroup, Surroundings
from coordinatord.group.replay import write
from coordinatord.group.result import SESSION, Cancel, Result, TimerKey
from coordinatord.group.state import Group
from kafka_wire.errors import ErrorCode
from kafka_wire.records.offsets import GroupMetadataKey


def become_consumer_group(group: Group, surroundings: Surroundings, now_ms: int, result: Result) -> Refusal | None:
    """Make the group a consumer group unless it is one. Offsets stay."""
    if group.consumer is not None:
        return None
    if group.members:
        return Refusal(
            ErrorCode.GROUP_ID_NOT_FOUND,
            f"Cannot upgrade classic group {group.group_id} to consumer group because online upgrade is disabled.",
        )
    if group.exists:
        write(group, GroupMetadataKey(group.group_id), None, result)
    _forget_classic(group, result)
    group.consumer = ConsumerGroup()
    return None


def _forget_classic(group: Group, result: Result) -> None:
    """Nothing of the classic group is left but its offsets."""
    for member_id in group.pending_members:
        result.timers.append(Cancel(TimerKey(group.group_id, SESSION, member_id)))
    group.pending_members.clear()
    group.generation_id = 0
    group.protocol_type = group.protocol_name = group.leader_id = None
    group.subscribed_topics = None
