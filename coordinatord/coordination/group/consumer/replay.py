"""The durable state of consumer groups and its only writer: `replay_consumer` applies one record.

Records of different keys are applied independently of each other, since compaction may have removed any
record that a later one of its key replaces: a member may be read before its metadata, and own
partitions that another member has not revoked yet.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from coordinatord.coordination.group.consumer.java_collections.java_set import JavaSet
from coordinatord.coordination.group.consumer.records import epochs_of, state_of
from coordinatord.coordination.group.consumer.state import LEAVING, ConsumerGroup, ConsumerMember, MemberState, Resolved
from kafka_wire.records.consumer_group import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)

NO_ASSIGNMENT = -1


def replay_consumer(consumer: ConsumerGroup | None, key: Any, value: Any) -> ConsumerGroup | None:
    """Apply one record of a consumer group. The group's first record creates it and the tombstone of its epoch removes
    it. Returns the group, None if there is none.
    """
    if type(key) is ConsumerGroupMetadataKey:
        return _epoch(consumer or ConsumerGroup(), value) if value is not None else None
    if consumer is None:
        if value is None:
            return None
        consumer = ConsumerGroup()
    _APPLY[type(key)](consumer, key, value)
    return consumer


def _epoch(consumer: ConsumerGroup, value: ConsumerGroupMetadataValue) -> ConsumerGroup:
    consumer.epoch, consumer.metadata_hash = value.epoch, value.metadata_hash
    return consumer


def _partition_metadata(consumer: ConsumerGroup, key: ConsumerGroupPartitionMetadataKey, value: Any) -> None:
    consumer.has_partition_metadata = value is not None


def _member(
    consumer: ConsumerGroup, key: ConsumerGroupMemberMetadataKey, value: ConsumerGroupMemberMetadataValue | None
) -> None:
    if value is None:
        consumer.remove(key.member_id)
        return
    known = consumer.members.get(key.member_id) or ConsumerMember(key.member_id)
    consumer.put(
        replace(
            known,
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            client_id=value.client_id,
            client_host=value.client_host,
            topics=frozenset(value.subscribed_topic_names),
            expression=value.subscribed_topic_regex,
            assignor=value.server_assignor,
            classic=value.classic_member_metadata,
        )
    )


def _current(
    consumer: ConsumerGroup,
    key: ConsumerGroupCurrentMemberAssignmentKey,
    value: ConsumerGroupCurrentMemberAssignmentValue | None,
) -> None:
    known = consumer.members.get(key.member_id)
    if value is None:
        if known is not None:
            # Kafka keeps the state here. It is set, because it cannot be read from a compacted log.
            consumer.put(known.moved(LEAVING, LEAVING, MemberState.STABLE, {}, {}))
        return
    epoch = value.member_epoch
    assigned, revoking = value.assigned_partitions, value.partitions_pending_revocation
    member = (known or ConsumerMember(key.member_id)).moved(
        epoch, value.previous_member_epoch, state_of(value), epochs_of(assigned, epoch), epochs_of(revoking, epoch)
    )
    if known is None:
        consumer.put(member)
    else:
        consumer.move(member, known)


def _target(
    consumer: ConsumerGroup,
    key: ConsumerGroupTargetAssignmentMemberKey,
    value: ConsumerGroupTargetAssignmentMemberValue | None,
) -> None:
    if value is None:
        consumer.target.pop(key.member_id, None)
    else:
        consumer.target[key.member_id] = {part.topic_id: JavaSet(part.partitions) for part in value.topic_partitions}


def _assignment_epoch(
    consumer: ConsumerGroup,
    key: ConsumerGroupTargetAssignmentMetadataKey,
    value: ConsumerGroupTargetAssignmentMetadataValue | None,
) -> None:
    if value is None:
        consumer.set_assignment_epoch(NO_ASSIGNMENT, 0)
    else:
        consumer.set_assignment_epoch(value.assignment_epoch, value.assignment_timestamp)


def _expression(
    consumer: ConsumerGroup, key: ConsumerGroupRegularExpressionKey, value: ConsumerGroupRegularExpressionValue | None
) -> None:
    if value is None:
        consumer.resolved.pop(key.regular_expression, None)
    else:
        consumer.resolved[key.regular_expression] = Resolved(frozenset(value.topics), value.version, value.timestamp)


_APPLY: dict[type[Any], Callable[[ConsumerGroup, Any, Any], None]] = {
    ConsumerGroupPartitionMetadataKey: _partition_metadata,
    ConsumerGroupMemberMetadataKey: _member,
    ConsumerGroupCurrentMemberAssignmentKey: _current,
    ConsumerGroupTargetAssignmentMemberKey: _target,
    ConsumerGroupTargetAssignmentMetadataKey: _assignment_epoch,
    ConsumerGroupRegularExpressionKey: _expression,
}
