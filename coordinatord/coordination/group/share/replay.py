"""The durable state of share groups and its only writer: `replay_share` applies one record.

As for consumer groups, records of different keys are applied independently of each other: compaction may have removed
any record that a later one of its key replaces.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from coordinatord.coordination.group.consumer.java_collections.java_set import JavaSet
from coordinatord.coordination.group.consumer.state import LEAVING
from coordinatord.coordination.group.share.records import in_order
from coordinatord.coordination.group.share.state import ShareGroup, ShareMember, StatePartitions
from coordinatord.coordination.group.states import MemberState
from kafka_wire.records.share_group import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataKey,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMemberValue,
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataValue,
)

NO_ASSIGNMENT = -1


def replay_share(share: ShareGroup | None, key: Any, value: Any) -> ShareGroup | None:
    """Apply one record of a share group. The group's first record creates it and the tombstone of its epoch removes it.
    Returns the group, None if there is none.
    """
    if value is None and (share is None or type(key) is ShareGroupMetadataKey):
        return None
    if share is None:
        share = ShareGroup()
    if type(key) is ShareGroupMetadataKey:
        share.epoch, share.metadata_hash = value.epoch, value.metadata_hash
    else:
        _APPLY[type(key)](share, key, value)
    return share


def _member(share: ShareGroup, key: ShareGroupMemberMetadataKey, value: ShareGroupMemberMetadataValue | None) -> None:
    if value is None:
        share.remove(key.member_id)
        return
    known = share.members.get(key.member_id) or ShareMember(key.member_id)
    share.put(
        replace(
            known,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            topics=frozenset(value.subscribed_topic_names),
        )
    )


def _current(
    share: ShareGroup,
    key: ShareGroupCurrentMemberAssignmentKey,
    value: ShareGroupCurrentMemberAssignmentValue | None,
) -> None:
    known = share.members.get(key.member_id)
    if value is None:
        if known is not None:
            share.put(replace(known, epoch=LEAVING, previous_epoch=LEAVING, assigned={}))
        return
    share.put(
        replace(
            known or ShareMember(key.member_id),
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            state=MemberState.of(value.state),
            assigned={part.topic_id: JavaSet(part.partitions) for part in value.assigned_partitions},
        )
    )


def _target(
    share: ShareGroup,
    key: ShareGroupTargetAssignmentMemberKey,
    value: ShareGroupTargetAssignmentMemberValue | None,
) -> None:
    if value is None:
        share.target.pop(key.member_id, None)
    else:
        share.target[key.member_id] = {part.topic_id: JavaSet(part.partitions) for part in value.topic_partitions}


def _assignment_epoch(
    share: ShareGroup,
    key: ShareGroupTargetAssignmentMetadataKey,
    value: ShareGroupTargetAssignmentMetadataValue | None,
) -> None:
    epoch = (NO_ASSIGNMENT, 0) if value is None else (value.assignment_epoch, value.assignment_timestamp)
    share.assignment_epoch, share.assignment_timestamp_ms = epoch


def _partitions(
    share: ShareGroup,
    key: ShareGroupStatePartitionMetadataKey,
    value: ShareGroupStatePartitionMetadataValue | None,
) -> None:
    if value is None:
        share.partitions = None
        return
    share.partitions = StatePartitions(
        in_order({each.topic_id: (each.topic_name, each.partitions) for each in value.initializing_topics}),
        in_order({each.topic_id: (each.topic_name, each.partitions) for each in value.initialized_topics}),
        tuple(each.topic_id for each in value.deleting_topics),
    )


_APPLY: dict[type[Any], Callable[[ShareGroup, Any, Any], None]] = {
    ShareGroupMemberMetadataKey: _member,
    ShareGroupCurrentMemberAssignmentKey: _current,
    ShareGroupTargetAssignmentMemberKey: _target,
    ShareGroupTargetAssignmentMetadataKey: _assignment_epoch,
    ShareGroupStatePartitionMetadataKey: _partitions,
}
