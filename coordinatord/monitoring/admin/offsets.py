"""Committed offsets of a group, the bounds of partitions, and offsets at a time."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from coordinatord.monitoring.admin.connection import AdminError, Cluster, error_text, patiently
from kafka_wire.api.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kafka_wire.api.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafka_wire.api.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kafka_wire.api.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from kafka_wire.errors import ErrorCode

EARLIEST, LATEST = -2, -1
"""Kafka's timestamps for the bounds of a partition."""

TopicPartition = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Committed:
    """A committed offset. `leader_epoch` is -1 if the commit had none."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""


def committed(cluster: Cluster, group: str) -> dict[TopicPartition, Committed]:
    """Return all committed offsets of a group; none if there is no such group. Raises AdminError."""
    node_id = cluster.coordinator(group)
    newest = min(cluster.newest(OffsetFetchRequest), 9)

    def attempt() -> tuple[int, dict[TopicPartition, Committed]]:
        if newest >= 8:
            one = OffsetFetchRequestGroup(group, topics=None)
            answer = cluster.ask(OffsetFetchRequest(groups=[one], require_stable=False), node_id, newest).groups[0]
        else:
            answer = cluster.ask(OffsetFetchRequest(group, None), node_id, newest)
        found, code = {}, answer.error_code
        for topic in answer.topics:
            for each in topic.partitions:
                code = code or each.error_code
                if each.committed_offset >= 0:
                    found[topic.name, each.partition_index] = Committed(
                        each.committed_offset, each.committed_leader_epoch, each.metadata or ""
                    )
        return (0 if code == ErrorCode.GROUP_ID_NOT_FOUND else code), found

    return patiently(attempt, f"group {group}")


def commit(cluster: Cluster, group: str, offsets: Mapping[TopicPartition, Committed]) -> None:
    """Commit offsets for a group without members, as Kafka's admin client does. Raises AdminError if one is
    rejected.
    """
    by_topic: dict[str, list[Any]] = {}
    for (topic, number), each in sorted(offsets.items()):
        one = OffsetCommitRequestPartition(number, each.offset, each.leader_epoch, each.metadata)
        by_topic.setdefault(topic, []).append(one)
    topics = [OffsetCommitRequestTopic(name, partitions=parts) for name, parts in by_topic.items()]
    request = OffsetCommitRequest(group, topics=topics)
    node_id = cluster.coordinator(group)

    def attempt() -> tuple[int, int]:
        answer = cluster.ask(request, node_id, 9)
        refused = [
            (each.error_code, topic.name, each.partition_index)
            for topic in answer.topics
            for each in topic.partitions
            if each.error_code
        ]
        if refused and refused[0][0] == ErrorCode.UNKNOWN_MEMBER_ID:
            raise AdminError(f"group {group}: a member has joined it meanwhile")
        if refused and refused[0][0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise AdminError(f"{refused[0][1]}-{refused[0][2]}: {error_text(refused[0][0])}")
        return (refused[0][0] if refused else 0), 0

    patiently(attempt, f"group {group}")


def delete(cluster: Cluster, group: str, partitions: Collection[TopicPartition]) -> dict[TopicPartition, str | None]:
    """Delete committed offsets (KIP-496); return the reasons of failures, by partition, None for a deleted one. Raises
    AdminError if the group has none to delete, or has members of another protocol than the consumers'.
    """
    by_topic: dict[str, list[OffsetDeleteRequestPartition]] = {}
    for topic, number in sorted(partitions):
        by_topic.setdefault(topic, []).append(OffsetDeleteRequestPartition(number))
    request = OffsetDeleteRequest(group, [OffsetDeleteRequestTopic(*each) for each in by_topic.items()])
    node_id = cluster.coordinator(group)

    def attempt() -> tuple[int, dict[TopicPartition, str | None]]:
        answer = cluster.ask(request, node_id)
        return answer.error_code, {
            (topic.name, each.partition_index): error_text(each.error_code) if each.error_code else None
            for topic in answer.topics
            for each in topic.partitions
        }

    return patiently(attempt, f"group {group}")


def bounds(cluster: Cluster, partitions: Collection[TopicPartition]) -> tuple[dict[TopicPartition, int], ...]:
    """Return the start offsets and the end offsets of partitions. Raises AdminError if one does not exist."""
    return tuple(
        {each: offset for each, (offset, _) in at_time(cluster, dict.fromkeys(partitions, timestamp)).items()}
        for timestamp in (EARLIEST, LATEST)
    )


def at_time(cluster: Cluster, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, tuple[int, int]]:
    """Return offset and timestamp of the first record at or after a timestamp (epoch ms, EARLIEST or LATEST), by
    partition; an offset of -1 if there is none. Raises AdminError if a partition does not exist or has no leader.
    """
    if not wanted:
        return {}

    failed: list[TopicPartition] = []

    def attempt() -> tuple[int, dict[TopicPartition, tuple[int, int]]]:
        failed.clear()
        leaders, missing = partitions_of(cluster, {topic for topic, _ in wanted})
        absent = sorted(each for each in wanted if each not in leaders)
        if missing or absent:
            raise AdminError(f"there is no {_names(absent)}")
        failed.extend(sorted(each for each in wanted if leaders[each] < 0))
        if failed:
            return ErrorCode.LEADER_NOT_AVAILABLE, {}
        found: dict[TopicPartition, tuple[int, int]] = {}
        code = 0
        for node_id in sorted({leaders[each] for each in wanted}):
            asked = {each: at for each, at in wanted.items() if leaders[each] == node_id}
            for topic in cluster.ask(_request(asked), node_id, 7).topics:
                for each in topic.partitions:
                    if each.error_code and code in (0, each.error_code):
                        code = each.error_code
                        failed.append((topic.name, each.partition_index))
                    found[topic.name, each.partition_index] = each.offset, each.timestamp
        return code, found

    return patiently(attempt, lambda: _names(failed))


def _request(wanted: Mapping[TopicPartition, int]) -> ListOffsetsRequest:
    by_topic: dict[str, list[Any]] = {}
    for (topic, number), timestamp in sorted(wanted.items()):
        by_topic.setdefault(topic, []).append(ListOffsetsPartition(number, timestamp=timestamp))
    return ListOffsetsRequest(-1, topics=[ListOffsetsTopic(topic, parts) for topic, parts in by_topic.items()])


def _names(partitions: Collection[TopicPartition]) -> str:
    names = [f"{topic}-{number}" for topic, number in partitions]
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def partitions_of(cluster: Cluster, topics: Collection[str]) -> tuple[dict[TopicPartition, int], list[str]]:
    """Return the leaders of all partitions of these topics (-1: none now), and the topics that do not exist. Raises
    AdminError.
    """
    if not topics:
        return {}, []
    leaders: dict[TopicPartition, int] = {}
    missing: list[str] = []
    for topic in cluster.metadata(sorted(topics)).topics:
        if topic.error_code in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION):
            missing.append(topic.name)
        elif topic.error_code not in (0, ErrorCode.LEADER_NOT_AVAILABLE):
            raise AdminError(f"topic {topic.name}: {error_text(topic.error_code)}")
        for each in topic.partitions:
            leaders[topic.name, each.partition_index] = each.leader_id
    return leaders, sorted(missing)
