"""The records of a share group, equal to those of Kafka's GroupCoordinatorRecordHelpers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from coordinatord.coordination.group.consumer.assignors.assignment_builder import held
from coordinatord.coordination.group.consumer.java_collections.hash_map import UUIDS, placed
from coordinatord.coordination.group.consumer.state import Target
from coordinatord.coordination.group.consumer.topics import Topics
from coordinatord.coordination.group.result import Record
from coordinatord.coordination.group.share.state import ShareMember, StatePartitions, StateTopics
from coordinatord.coordination.group.share.state import TopicPartitions as StateTopic
from kafka_wire.records.share_group import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMemberValue,
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataValue,
    TopicInfo,
    TopicPartition,
    TopicPartitions,
    TopicPartitionsInfo,
)

UNKNOWN_NAME = "<UNKNOWN>"


def epoch_record(group_id: str, epoch: int, metadata_hash: int) -> Record:
    """Return the record of the group epoch and the hash of the group's topics."""
    return ShareGroupMetadataKey(group_id), ShareGroupMetadataValue(epoch, metadata_hash)


def member_record(group_id: str, member: ShareMember) -> Record:
    """Return the record of a member's subscription and metadata."""
    value = ShareGroupMemberMetadataValue(member.rack_id, member.client_id, member.client_host, sorted(member.topics))
    return ShareGroupMemberMetadataKey(group_id, member.member_id), value


def target_record(group_id: str, member_id: str, target: Target) -> Record:
    """Return the record of a member's target, in the assignor's order, which is Kafka's."""
    parts = [TopicPartition(topic_id, list(partitions)) for topic_id, partitions in target.items()]
    return ShareGroupTargetAssignmentMemberKey(group_id, member_id), ShareGroupTargetAssignmentMemberValue(parts)


def assignment_epoch_record(group_id: str, epoch: int, timestamp_ms: int) -> Record:
    """Return the record of the target assignment's epoch; it follows the members' targets."""
    key = ShareGroupTargetAssignmentMetadataKey(group_id)
    return key, ShareGroupTargetAssignmentMetadataValue(epoch, timestamp_ms)


def current_record(group_id: str, member: ShareMember) -> Record:
    """Return the record of a member's epoch and partitions."""
    parts = [TopicPartitions(topic_id, list(partitions)) for topic_id, partitions in member.assigned.items()]
    value = ShareGroupCurrentMemberAssignmentValue(member.epoch, member.previous_epoch, int(member.state), parts)
    return ShareGroupCurrentMemberAssignmentKey(group_id, member.member_id), value


def partitions_record(group_id: str, partitions: StatePartitions, topics: Topics) -> Record:
    """Return the record of the topics that have state, or will have or had it; `topics` has the names of the latter."""
    deleting = []
    for topic_id in placed(UUIDS, partitions.deleting):
        topic = topics.find_id(topic_id)
        deleting.append(TopicInfo(topic_id, UNKNOWN_NAME if topic is None else topic.name))
    value = ShareGroupStatePartitionMetadataValue(
        _infos(partitions.initializing), _infos(partitions.initialized), deleting
    )
    return ShareGroupStatePartitionMetadataKey(group_id), value


def member_tombstones(group_id: str, member_id: str) -> list[Record]:
    """Return the tombstones of a removed member."""
    return [
        (ShareGroupCurrentMemberAssignmentKey(group_id, member_id), None),
        (ShareGroupTargetAssignmentMemberKey(group_id, member_id), None),
        (ShareGroupMemberMetadataKey(group_id, member_id), None),
    ]


def group_tombstones(group_id: str) -> list[Record]:
    """Return the tombstones of a group without members."""
    return [
        (ShareGroupTargetAssignmentMetadataKey(group_id), None),
        (ShareGroupStatePartitionMetadataKey(group_id), None),
        (ShareGroupMetadataKey(group_id), None),
    ]


def in_order(topics: Mapping[bytes, tuple[str, Iterable[int]]]) -> StateTopics:
    """Return topics, with name and partitions, in the order of Kafka's hash map of them."""
    return {
        topic_id: StateTopic(topics[topic_id][0], frozenset(topics[topic_id][1])) for topic_id in placed(UUIDS, topics)
    }


def _infos(topics: StateTopics) -> list[TopicPartitionsInfo]:
    return [TopicPartitionsInfo(topic_id, each.name, list(held(each.partitions))) for topic_id, each in topics.items()]
