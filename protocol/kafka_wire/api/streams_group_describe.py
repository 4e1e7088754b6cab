"""StreamsGroupDescribe: state, topology and members of streams groups (KIP-1071).

The coordinator does not serve it; the commands that show groups of any cluster send it.

v1 description of the topology (KIP-1331), name of the assignor (KIP-1357)
"""

from __future__ import annotations

from kafka_wire.errors import ErrorCode
from kafka_wire.schema import array, boolean, int8, int16, int32, int64, message, string, struct, uint16


@message(versions="0-1", flexible="0+", api_key=89)
class StreamsGroupDescribeRequest:
    group_ids: list[str] = array(string, "0+")
    include_authorized_operations: bool = boolean("0+")
    include_topology_description: bool = boolean("1+", default=False)


@message()
class Endpoint:
    host: str = string("0+")
    port: int = uint16("0+")


@message()
class TaskOffset:
    subtopology_id: str = string("0+")
    partition: int = int32("0+")
    offset: int = int64("0+")


@message()
class TaskIds:
    subtopology_id: str = string("0+")
    partitions: list[int] = array(int32, "0+")


@message()
class Assignment:
    active_tasks: list[TaskIds] = array(TaskIds, "0+")
    standby_tasks: list[TaskIds] = array(TaskIds, "0+")
    warmup_tasks: list[TaskIds] = array(TaskIds, "0+")


@message()
class KeyValue:
    key: str = string("0+")
    value: str = string("0+")


@message()
class TopicInfo:
    name: str = string("0+")
    partitions: int = int32("0+")
    replication_factor: int = int16("0+")
    topic_configs: list[KeyValue] = array(KeyValue, "0+")


@message()
class Subtopology:
    subtopology_id: str = string("0+")
    source_topics: list[str] = array(string, "0+")
    repartition_sink_topics: list[str] = array(string, "0+")
    state_changelog_topics: list[TopicInfo] = array(TopicInfo, "0+")
    repartition_source_topics: list[TopicInfo] = array(TopicInfo, "0+")


@message()
class Topology:
    epoch: int = int32("0+")
    subtopologies: list[Subtopology] | None = array(Subtopology, "0+", nullable="0+", default=None)


@message()
class Member:
    member_id: str = string("0+")
    member_epoch: int = int32("0+")
    instance_id: str | None = string("0+", nullable="0+", default=None)
    rack_id: str | None = string("0+", nullable="0+", default=None)
    client_id: str = string("0+")
    client_host: str = string("0+")
    topology_epoch: int = int32("0+")
    process_id: str = string("0+")
    user_endpoint: Endpoint | None = struct(Endpoint, "0+", nullable="0+", default=None)
    client_tags: list[KeyValue] = array(KeyValue, "0+")
    task_offsets: list[TaskOffset] = array(TaskOffset, "0+")
    task_end_offsets: list[TaskOffset] = array(TaskOffset, "0+")
    assignment: Assignment = struct(Assignment, "0+")
    target_assignment: Assignment = struct(Assignment, "0+")
    is_classic: bool = boolean("0+")


@message()
class TopologyDescriptionNode:
    name: str = string("1+")
    node_type: int = int8("1+")
    source_topics: list[str] = array(string, "1+")
    sink_topic: str | None = string("1+", nullable="1+", default=None)
    stores: list[str] = array(string, "1+")
    successors: list[str] = array(string, "1+")


@message()
class TopologyDescriptionSubtopology:
    subtopology_id: str = string("1+")
    nodes: list[TopologyDescriptionNode] = array(TopologyDescriptionNode, "1+")


@message()
class TopologyDescriptionGlobalStore:
    source: TopologyDescriptionNode = struct(TopologyDescriptionNode, "1+")
    processor: TopologyDescriptionNode = struct(TopologyDescriptionNode, "1+")


@message()
class TopologyDescription:
    subtopologies: list[TopologyDescriptionSubtopology] = array(TopologyDescriptionSubtopology, "1+")
    global_stores: list[TopologyDescriptionGlobalStore] = array(TopologyDescriptionGlobalStore, "1+")


@message()
class DescribedGroup:
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default=None)
    group_id: str = string("0+")
    group_state: str = string("0+")
    group_epoch: int = int32("0+")
    assignment_epoch: int = int32("0+")
    topology: Topology | None = struct(Topology, "0+", nullable="0+", default=None)
    members: list[Member] = array(Member, "0+")
    authorized_operations: int = int32("0+", default=-2147483648)
    topology_description: TopologyDescription | None = struct(TopologyDescription, "1+", nullable="1+", default=None)
    topology_description_status: int = int8("1+")
    assignor_name: str | None = string("1+", nullable="1+", default=None)


@message(versions="0-1", flexible="0+", api_key=89)
class StreamsGroupDescribeResponse:
    throttle_time_ms: int = int32("0+")
    groups: list[DescribedGroup] = array(DescribedGroup, "0+")


def error_response(request: StreamsGroupDescribeRequest, version: int, code: ErrorCode) -> StreamsGroupDescribeResponse:
    """Return the response with the error `code`."""
    return StreamsGroupDescribeResponse(
        groups=[DescribedGroup(error_code=code, group_id=each) for each in request.group_ids]
    )
