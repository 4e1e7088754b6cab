"""Record type 21 of `__consumer_offsets`: the target assignment of a streams group member (KIP-1071)."""

from __future__ import annotations

from kafka_wire.schema import array, int32, message, string


@message(versions="0", api_key=21)
class StreamsGroupTargetAssignmentMemberKey:
    group_id: str = string("0")
    member_id: str = string("0")


@message()
class TaskIds:
    subtopology_id: str = string("0+")
    partitions: list[int] = array(int32, "0+")


@message(versions="0", flexible="0+", api_key=21)
class StreamsGroupTargetAssignmentMemberValue:
    active_tasks: list[TaskIds] = array(TaskIds, "0+")
    standby_tasks: list[TaskIds] = array(TaskIds, "0+")
    warmup_tasks: list[TaskIds] = array(TaskIds, "0+")
