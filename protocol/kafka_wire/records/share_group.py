"""Keys and values in `__consumer_offsets` of share groups (KIP-932): record types 10 to 15.

All values are v0 and flexible.
"""

from __future__ import annotations

from kafka_wire.schema import array, int8, int32, int64, message, string, uuid


@message(versions="0", api_key=10)
class ShareGroupMemberMetadataKey:
    group_id: str = string("0")
    member_id: str = string("0")


@message(versions="0", flexible="0+", api_key=10)
class ShareGroupMemberMetadataValue:
    rack_id: str | None = string("0+", nullable="0+")
    client_id: str = string("0+")
    client_host: str = string("0+")
    subscribed_topic_names: list[str] = array(string, "0+")


@message(versions="0", api_key=11)
class ShareGroupMetadataKey:
    group_id: str = string("0")


@message(versions="0", flexible="0+", api_key=11)
class ShareGroupMetadataValue:
    epoch: int = int32("0+")
    metadata_hash: int = int64("0+")


@message(versions="0", api_key=12)
class ShareGroupTargetAssignmentMetadataKey:
    group_id: str = string("0")


@message(versions="0", flexible="0+", api_key=12)
class ShareGroupTargetAssignmentMetadataValue:
    assignment_epoch: int = int32("0+")
    assignment_timestamp: int = int64("0+", default=0, tagged="0+", tag=0)


@message(versions="0", api_key=13)
class ShareGroupTargetAssignmentMemberKey:
    group_id: str = string("0")
    member_id: str = string("0")


@message()
class TopicPartition:
    topic_id: bytes = uuid("0+")
    partitions: list[int] = array(int32, "0+")


@message(versions="0", flexible="0+", api_key=13)
class ShareGroupTargetAssignmentMemberValue:
    topic_partitions: list[TopicPartition] = array(TopicPartition, "0+")


@message(versions="0", api_key=14)
class ShareGroupCurrentMemberAssignmentKey:
    group_id: str = string("0")
    member_id: str = string("0")


@message()
class TopicPartitions:
    topic_id: bytes = uuid("0+")
    partitions: list[int] = array(int32, "0+")


@message(versions="0", flexible="0+", api_key=14)
class ShareGroupCurrentMemberAssignmentValue:
    member_epoch: int = int32("0+")
    previous_member_epoch: int = int32("0+")
    state: int = int8("0+")
    assigned_partitions: list[TopicPartitions] = array(TopicPartitions, "0+")


@message(versions="0", api_key=15)
class ShareGroupStatePartitionMetadataKey:
    group_id: str = string("0")


@message()
class TopicPartitionsInfo:
    topic_id: bytes = uuid("0+")
    topic_name: str = string("0+")
    partitions: list[int] = array(int32, "0+")


@message()
class TopicInfo:
    topic_id: bytes = uuid("0+")
    topic_name: str = string("0+")


@message(versions="0", flexible="0+", api_key=15)
class ShareGroupStatePartitionMetadataValue:
    initializing_topics: list[TopicPartitionsInfo] = array(TopicPartitionsInfo, "0+")
    initialized_topics: list[TopicPartitionsInfo] = array(TopicPartitionsInfo, "0+")
    deleting_topics: list[TopicInfo] = array(TopicInfo, "0+")
