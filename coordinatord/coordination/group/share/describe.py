"""ShareGroupDescribe of one group. Read-only."""

from __future__ import annotations

from coordinatord.coordination.group.consumer.java_collections.hash_map import timeline_order
from coordinatord.coordination.group.consumer.topics import Topics
from coordinatord.coordination.group.share import simple
from coordinatord.coordination.group.share.state import ShareMember
from coordinatord.coordination.group.state import Group
from kafka_wire.api.share_group_describe import Assignment, DescribedGroup, Member, TopicPartitions
from kafka_wire.errors import ErrorCode


def describe_share(group: Group | None, group_id: str, topics: Topics) -> DescribedGroup:
    """Describe a group's epochs and members, without partitions of deleted topics."""
    share = None if group is None else group.share
    if share is None:
        is_there = group is not None and group.exists
        text = f"Group {group_id} {'is not a share group' if is_there else 'not found'}."
        return DescribedGroup(error_code=ErrorCode.GROUP_ID_NOT_FOUND, error_message=text, group_id=group_id)
    return DescribedGroup(
        group_id=group_id,
        group_state=share.state.shown,
        group_epoch=share.epoch,
        assignment_epoch=share.assignment_epoch,
        assignor_name=simple.NAME,
        members=[_member(share.members[each], topics) for each in timeline_order(share.members, share.slots)],
    )


def _member(member: ShareMember, topics: Topics) -> Member:
    known = ((topics.find_id(topic_id), partitions) for topic_id, partitions in member.assigned.items())
    return Member(
        member_id=member.member_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
        assignment=Assignment(
            [
                TopicPartitions(topic.topic_id, topic.name, list(partitions))
                for topic, partitions in known
                if topic is not None
            ]
        ),
    )
