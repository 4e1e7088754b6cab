"""ConsumerGroupDescribe of one group. Read-only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from coordinatord.coordination.group.consumer.group_epoch import preferred_assignor
from coordinatord.coordination.group.consumer.state import ConsumerMember, GroupEnvironment, Target
from coordinatord.coordination.group.consumer.topics import Topics
from coordinatord.coordination.group.state import Group
from kafka_wire.api.consumer_group_describe import Assignment, DescribedGroup, Member, TopicPartitions
from kafka_wire.errors import ErrorCode

CLASSIC_MEMBER = 0
CONSUMER_MEMBER = 1


def describe_consumer(group: Group | None, group_id: str, surroundings: GroupEnvironment) -> DescribedGroup:
    """Describe a group's epochs and members, without partitions of deleted topics."""
    if group is None or not group.exists:
        return _not_found(group_id, f"Group {group_id} not found.")
    consumer = group.consumer
    if consumer is None:
        return _not_found(group_id, f"Group {group_id} is not a consumer group.")
    return DescribedGroup(
        group_id=group_id,
        group_state=consumer.state.shown,
        group_epoch=consumer.epoch,
        assignment_epoch=consumer.assignment_epoch,
        assignor_name=preferred_assignor(consumer, surroundings.limits.assignors[0]),
        members=[
            _member(member, consumer.target.get(member.member_id, {}), surroundings.topics)
            for member in consumer.members.values()
        ],
    )


def _not_found(group_id: str, message: str) -> DescribedGroup:
    return DescribedGroup(error_code=ErrorCode.GROUP_ID_NOT_FOUND, error_message=message, group_id=group_id)


def _member(member: ConsumerMember, target: Target, topics: Topics) -> Member:
    owned = {topic_id: list(epochs) for topic_id, epochs in member.assigned.items()}
    for topic_id, epochs in member.revoking.items():
        owned.setdefault(topic_id, []).extend(epochs)
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
        subscribed_topic_regex=member.expression,
        assignment=_assignment(owned, topics),
        target_assignment=_assignment(target, topics),
        member_type=CONSUMER_MEMBER if member.classic is None else CLASSIC_MEMBER,
    )


def _assignment(partitions: Mapping[bytes, Iterable[int]], topics: Topics) -> Assignment:
    known = ((topics.find_id(topic_id), of_topic) for topic_id, of_topic in partitions.items())
    return Assignment(
        [
            TopicPartitions(topic.topic_id, topic.name, sorted(of_topic))
            for topic, of_topic in known
            if topic is not None
        ]
    )
