"""The records of a consumer group, equal to those of Kafka's GroupCoordinatorRecordHelpers, and their inverse."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from coordinatord.coordination.group.consumer.java_collections.hash_map import INTEGERS, UUIDS, placed
from coordinatord.coordination.group.consumer.state import (
    ConsumerGroup,
    ConsumerMember,
    Epochs,
    MemberState,
    Resolved,
    Target,
)
from coordinatord.coordination.group.result import Record
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
    TopicPartition,
    TopicPartitions,
)


def epoch_record(group_id: str, epoch: int, metadata_hash: int) -> Record:
    """Return the record of the group epoch and the hash of the group's topics."""
    return ConsumerGroupMetadataKey(group_id), ConsumerGroupMetadataValue(epoch, metadata_hash)


def member_record(group_id: str, member: ConsumerMember) -> Record:
    """Return the record of a member's subscription and metadata."""
    value = ConsumerGroupMemberMetadataValue(
        member.instance_id,
        member.rack_id,
        member.client_id,
        member.client_host,
        sorted(member.topics),
        member.expression,
        member.rebalance_timeout_ms,
        member.assignor,
        member.classic,
    )
    return ConsumerGroupMemberMetadataKey(group_id, member.member_id), value


def assignment_epoch_record(group_id: str, epoch: int, timestamp_ms: int) -> Record:
    """Return the record of the target assignment's epoch; it follows the members' targets."""
    key = ConsumerGroupTargetAssignmentMetadataKey(group_id)
    return key, ConsumerGroupTargetAssignmentMetadataValue(epoch, timestamp_ms)


def target_record(group_id: str, member_id: str, target: Target) -> Record:
    """Return the record of a member's target, in the assignor's order, which is Kafka's."""
    parts = [TopicPartition(topic_id, list(partitions)) for topic_id, partitions in target.items()]
    return ConsumerGroupTargetAssignmentMemberKey(group_id, member_id), ConsumerGroupTargetAssignmentMemberValue(parts)


def current_record(group_id: str, member: ConsumerMember) -> Record:
    """Return the record of a member's owned partitions, and of those that it is revoking."""
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member.epoch, member.previous_epoch, int(member.state), _parts(member.assigned), _parts(member.revoking)
    )
    return ConsumerGroupCurrentMemberAssignmentKey(group_id, member.member_id), value


def expression_record(group_id: str, expression: str, resolved: Resolved) -> Record:
    """Return the record of the topics that an expression matches."""
    value = ConsumerGroupRegularExpressionValue(sorted(resolved.topics), resolved.version, resolved.timestamp_ms)
    return ConsumerGroupRegularExpressionKey(group_id, expression), value


def expression_tombstone(group_id: str, expression: str) -> Record:
    """Return the tombstone of an expression that no member has any more."""
    return ConsumerGroupRegularExpressionKey(group_id, expression), None


def partition_metadata_tombstone(group_id: str) -> Record:
    """Return the tombstone for a record of Kafka 4.0."""
    return ConsumerGroupPartitionMetadataKey(group_id), None


def member_tombstones(group_id: str, member_id: str) -> list[Record]:
    """Return the tombstones of a removed member."""
    return [
        (ConsumerGroupCurrentMemberAssignmentKey(group_id, member_id), None),
        (ConsumerGroupTargetAssignmentMemberKey(group_id, member_id), None),
        (ConsumerGroupMemberMetadataKey(group_id, member_id), None),
    ]


def group_records(group_id: str, consumer: ConsumerGroup) -> list[Record]:
    """Return all records of a group that was a classic one."""
    members = consumer.members
    return [
        *(member_record(group_id, member) for member in members.values()),
        epoch_record(group_id, consumer.epoch, consumer.metadata_hash),
        *(target_record(group_id, member_id, consumer.target.get(member_id, {})) for member_id in members),
        assignment_epoch_record(group_id, consumer.assignment_epoch, consumer.assignment_timestamp_ms),
        *(current_record(group_id, member) for member in members.values()),
    ]


def group_tombstones(group_id: str, member_ids: Iterable[str], expressions: Iterable[str]) -> list[Record]:
    """Return the tombstones of a group that is deleted, or becomes a classic one."""
    ids = list(member_ids)
    return [
        *((ConsumerGroupCurrentMemberAssignmentKey(group_id, each), None) for each in ids),
        *((ConsumerGroupTargetAssignmentMemberKey(group_id, each), None) for each in ids),
        (ConsumerGroupTargetAssignmentMetadataKey(group_id), None),
        *((ConsumerGroupMemberMetadataKey(group_id, each), None) for each in ids),
        *(expression_tombstone(group_id, each) for each in expressions),
        partition_metadata_tombstone(group_id),
        (ConsumerGroupMetadataKey(group_id), None),
    ]


def epochs_of(parts: Sequence[TopicPartitions], member_epoch: int) -> Epochs:
    """Return the owned partitions in a member's record. Kafka before 4.2 wrote no epochs: then the member's is used."""
    found: dict[bytes, dict[int, int]] = {}
    if not parts:
        return found
    for part in parts:
        epochs = part.assignment_epochs
        if epochs is None or len(epochs) != len(part.partitions):
            epochs = [max(member_epoch, 0)] * len(part.partitions)
        of_topic = dict(zip(part.partitions, epochs, strict=True))
        if len(of_topic) > 1 and (order := placed(INTEGERS, of_topic)) != part.partitions:
            of_topic = {each: of_topic[each] for each in order}
        found[part.topic_id] = of_topic
    return found if len(found) < 2 else {topic_id: found[topic_id] for topic_id in placed(UUIDS, found)}


def state_of(value: ConsumerGroupCurrentMemberAssignmentValue) -> MemberState:
    """Return a member's state from its record."""
    return MemberState.of(value.state)


def _parts(epochs: Epochs) -> list[TopicPartitions]:
    return [TopicPartitions(topic_id, [*of_topic], [*of_topic.values()]) for topic_id, of_topic in epochs.items()]
