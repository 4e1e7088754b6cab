"""Keys and values in `__consumer_offsets` of streams groups (KIP-1071): record types 17, 19, 20, 22 and 23.

Type 21, the target assignment of a member, is in `streams_target`: Kafka has two different structs named TaskIds.
All values are v0 and flexible.
"""

from __future__ import annotations

from kafka_wire.schema import array, int8, int16, int32, int64, message, string, struct, uint16


@message(versions="0", api_key=17)
class StreamsGroupMetadataKey:
    group_id: str = string("0")


@message()
class LastAssignmentConfig:
    key: str = string("0+")
    value: str = string("0+")


@message(versions="0", flexible="0+", api_key=17)
class StreamsGroupMetadataValue:
    epoch: int = int32("0+")
    metadata_hash: int = int64("0+")
    validated_topology_epoch: int = int32("0+", default=-1, tagged="0+", tag=0)
    last_assignment_configs: list[LastAssignmentConfig] | None = array(
        LastAssignmentConfig, "0+", nullable="0+", tagged="0+", tag=1
    )
    stored_description_topology_epoch: int = int32("0+", default=-1, tagged="0+", tag=2)
    failed_description_topology_epoch: int = int32("0+", default=-1, tagged="0+", tag=3)


@message(versions="0", api_key=19)
class StreamsGroupMemberMetadataKey:
    group_id: str = string("0")
    member_id: str = string("0")


@message()
class Endpoint:
    host: str = string("0+")
    port: int = uint16("0+")


@message()
class KeyValue:
    key: str = string("0+")
    value: str = string("0+")


@message(versions="0", flexible="0+", api_key=19)
class StreamsGroupMemberMetadataValue:
    instance_id: str | None = string("0+", nullable="0+")
    rack_id: str | None = string("0+", nullable="0+")
    client_id: str = string("0+")
    client_host: str = string("0+")
    rebalance_timeout_ms: int = int32("0+", default=-1)
    topology_epoch: int = int32("0+")
    process_id: str = string("0+")
    user_endpoint: Endpoint | None = struct(Endpoint, "0+", nullable="0+", default=None)
    client_tags: list[KeyValue] = array(KeyValue, "0+")


@message(versions="0", api_key=20)
class StreamsGroupTargetAssignmentMetadataKey:
    group_id: str = string("0")


@message(versions="0", flexible="0+", api_key=20)
class StreamsGroupTargetAssignmentMetadataValue:
    assignment_epoch: int = int32("0+")
    assignment_timestamp: int = int64("0+", default=0, tagged="0+", tag=0)


@message(versions="0", api_key=22)
class StreamsGroupCurrentMemberAssignmentKey:
    group_id: str = string("0")
    member_id: str = string("0")


@message()
class TaskIds:
    subtopology_id: str = string("0+")
    partitions: list[int] = array(int32, "0+")
    assignment_epochs: list[int] | None = array(int32, "0+", nullable="0+", tagged="0+", tag=0)


@message(versions="0", flexible="0+", api_key=22)
class StreamsGroupCurrentMemberAssignmentValue:
    member_epoch: int = int32("0+")
    previous_member_epoch: int = int32("0+")
    state: int = int8("0+")
    active_tasks: list[TaskIds] = array(TaskIds, "0+")
    standby_tasks: list[TaskIds] = array(TaskIds, "0+")
    warmup_tasks: list[TaskIds] = array(TaskIds, "0+")
    active_tasks_pending_revocation: list[TaskIds] = array(TaskIds, "0+")
    standby_tasks_pending_revocation: list[TaskIds] = array(TaskIds, "0+")
    warmup_tasks_pending_revocation: list[TaskIds] = array(TaskIds, "0+")


@message(versions="0", api_key=23)
class StreamsGroupTopologyKey:
    group_id: str = string("0")


@message()
class TopicConfig:
    key: str = string("0+")
    value: str = string("0+")


@message()
class TopicInfo:
    name: str = string("0+")
    partitions: int = int32("0+")
    replication_factor: int = int16("0+")
    topic_configs: list[TopicConfig] = array(TopicConfig, "0+")


@message()
class CopartitionGroup:
    source_topics: list[int] = array(int16, "0+")
    source_topic_regex: list[int] = array(int16, "0+")
    repartition_source_topics: list[int] = array(int16, "0+")


@message()
class Subtopology:
    subtopology_id: str = string("0+")
    source_topics: list[str] = array(string, "0+")
    source_topic_regex: list[str] = array(string, "0+")
    state_changelog_topics: list[TopicInfo] = array(TopicInfo, "0+")
    repartition_sink_topics: list[str] = array(string, "0+")
    repartition_source_topics: list[TopicInfo] = array(TopicInfo, "0+")
    copartition_groups: list[CopartitionGroup] = array(CopartitionGroup, "0+")


@message(versions="0", flexible="0+", api_key=23)
class StreamsGroupTopologyValue:
    epoch: int = int32("0+")
    subtopologies: list[Subtopology] = array(Subtopology, "0+")
