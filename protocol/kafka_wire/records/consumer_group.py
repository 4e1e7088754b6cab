"""Keys and values in `__consumer_offsets` of groups of the consumer protocol (KIP-848).

Record types 3 to 8 and 16, one class per key and value, named as in Kafka's `coordinator-key` and `coordinator-value`
definitions. All values are v0 and flexible. Since 4.1 Kafka keeps a hash in type 3 instead of writing
ConsumerGroupPartitionMetadata (4); older logs have type 4.
"""

from __future__ import annotations

from kafka_wire.schema import array, bytes_, int8, int32, int64, message, string, struct, uuid


@message(versions="0", api_key=3)
class ConsumerGroupMetadataKey:
    group_id: str = string("0")


@message(versions="0", flexible="0+", api_key=3)
class ConsumerGroupMetadataValue:
    epoch: int = int32("0+")
    metadata_hash: int = int64("0+", default=0, tagged="0+", tag=0)


@message(versions="0", api_key=4)
class ConsumerGroupPartitionMetadataKey:
    group_id: str = string("0")


@message()
class PartitionMetadata:
    partition: int = int32("0+")
    racks: list[str] = array(string, "0+")


@message()
class TopicMetadata:
    topic_id: bytes = uuid("0+")
    topic_name: str = string("0+")
    num_partitions: int = int32("0+")
    partition_metadata: list[PartitionMetadata] = array(PartitionMetadata, "0+")


@message(versions="0", flexible="0+", api_key=4)
class ConsumerGroupPartitionMetadataValue:
    topics: list[TopicMetadata] = array(TopicMetadata, "0+")


@message(versions="0", api_key=5)
class ConsumerGroupMemberMetadataKey:
    group_id: str = string("0")
    member_id: str = string("0")


@message()
class ClassicProtocol:
    name: str = string("0+")
    metadata: bytes = bytes_("0+")


@message()
class ClassicMemberMetadata:
    session_timeout_ms: int = int32("0+")
    supported_protocols: list[ClassicProtocol] = array(ClassicProtocol, "0+")


@message(versions="0", flexible="0+", api_key=5)
class ConsumerGroupMemberMetadataValue:
    instance_id: str | None = string("0+", nullable="0+")
    rack_id: str | None = string("0+", nullable="0+")
    client_id: str = string("0+")
    client_host: str = string("0+")
    subscribed_topic_names: list[str] = array(string, "0+")
    subscribed_topic_regex: str | None = string("0+", nullable="0+")
    rebalance_timeout_ms: int = int32("0+", default=-1)
    server_assignor: str | None = string("0+", nullable="0+")
    classic_member_metadata: ClassicMemberMetadata | None = struct(
        ClassicMemberMetadata, "0+", nullable="0+", tagged="0+", tag=0
    )


@message(versions="0", api_key=6)
class ConsumerGroupTargetAssignmentMetadataKey:
    group_id: str = string("0")


@message(versions="0", flexible="0+", api_key=6)
class ConsumerGroupTargetAssignmentMetadataValue:
    assignment_epoch: int = int32("0+")
    assignment_timestamp: int = int64("0+", default=0, tagged="0+", tag=0)


@message(versions="0", api_key=7)
class ConsumerGroupTargetAssignmentMemberKey:
    group_id: str = string("0")
    member_id: str = string("0")


@message()
class TopicPartition:
    topic_id: bytes = uuid("0+")
    partitions: list[int] = array(int32, "0+")


@message(versions="0", flexible="0+", api_key=7)
class ConsumerGroupTargetAssignmentMemberValue:
    topic_partitions: list[TopicPartition] = array(TopicPartition, "0+")


@message(versions="0", api_key=8)
class ConsumerGroupCurrentMemberAssignmentKey:
    group_id: str = string("0")
    member_id: str = string("0")


@message()
class TopicPartitions:
    topic_id: bytes = uuid("0+")
    partitions: list[int] = array(int32, "0+")
    assignment_epochs: list[int] | None = array(int32, "0+", nullable="0+", tagged="0+", tag=0)


@message(versions="0", flexible="0+", api_key=8)
class ConsumerGroupCurrentMemberAssignmentValue:
    member_epoch: int = int32("0+")
    previous_member_epoch: int = int32("0+")
    state: int = int8("0+")
    assigned_partitions: list[TopicPartitions] = array(TopicPartitions, "0+")
    partitions_pending_revocation: list[TopicPartitions] = array(TopicPartitions, "0+")


@message(versions="0", api_key=16)
class ConsumerGroupRegularExpressionKey:
    group_id: str = string("0")
    regular_expression: str = string("0")


@message(versions="0", flexible="0+", api_key=16)
class ConsumerGroupRegularExpressionValue:
    topics: list[str] = array(string, "0+")
    version: int = int64("0+")
    timestamp: int = int64("0+")
