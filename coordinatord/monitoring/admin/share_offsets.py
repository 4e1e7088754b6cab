"""Offsets of share groups (KIP-932): the start offset of each share partition, which replaces a committed offset.

Records before it are done with. The lag (KIP-1226) counts the records from there to the partition's end that are
neither acknowledged nor archived.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from coordinatord.monitoring.admin.connection import AdminError, Cluster, error_text, patiently
from kafka_wire.api.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from kafka_wire.api.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from kafka_wire.api.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kafka_wire.api.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from kafka_wire.errors import ErrorCode
from kafka_wire.schema import ZERO_UUID

GROUP_RESOURCE = 32
DELIVERY_COUNT_LIMIT = "share.delivery.count.limit"

TopicPartition = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Shared:
    """A share partition. `start_offset` is None before share.auto.offset.reset was applied, `lag` also where the
    cluster is older than that (Kafka 4.1), or cannot count it now.
    """

    start_offset: int | None
    lag: int | None = None
    topic_id: bytes = ZERO_UUID


def described(cluster: Cluster, group: str) -> dict[TopicPartition, Shared]:
    """Return the share partitions of a group. Raises AdminError."""
    node_id = cluster.coordinator(group)
    request = DescribeShareGroupOffsetsRequest([DescribeShareGroupOffsetsRequestGroup(group, None)])

    def attempt() -> tuple[int, dict[TopicPartition, Shared]]:
        answer = cluster.ask(request, node_id).groups[0]
        found, code = {}, answer.error_code
        for topic in answer.topics:
            for each in topic.partitions:
                if each.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    continue  # a topic that was deleted
                code = code or each.error_code
                start_offset = each.start_offset if each.start_offset >= 0 else None
                lag = each.lag if start_offset is not None and each.lag >= 0 else None
                found[topic.topic_name, each.partition_index] = Shared(start_offset, lag, topic.topic_id)
        return (0 if code == ErrorCode.GROUP_ID_NOT_FOUND else code), found

    return patiently(attempt, f"group {group}")


def delivery_limits(cluster: Cluster, groups: Sequence[str]) -> dict[str, int]:
    """Return the share.delivery.count.limit of the groups whose settings the user may see. Raises AdminError."""
    if not groups or not cluster.serves(DescribeConfigsRequest):
        return {}
    resources = [DescribeConfigsResource(GROUP_RESOURCE, group, [DELIVERY_COUNT_LIMIT]) for group in groups]
    return {
        described.resource_name: int(each.value)
        for described in cluster.ask(DescribeConfigsRequest(resources)).results
        for each in described.configs or ()
        if each.name == DELIVERY_COUNT_LIMIT and each.value
    }


def alter(cluster: Cluster, group: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Set start offsets of an empty share group: records from there on are delivered anew. Raises AdminError if one is
    rejected.
    """
    by_topic: dict[str, list[AlterShareGroupOffsetsRequestPartition]] = {}
    for (topic, number), offset in sorted(offsets.items()):
        by_topic.setdefault(topic, []).append(AlterShareGroupOffsetsRequestPartition(number, offset))
    topics = [AlterShareGroupOffsetsRequestTopic(*each) for each in by_topic.items()]
    request = AlterShareGroupOffsetsRequest(group, topics)
    node_id = cluster.coordinator(group)

    def attempt() -> tuple[int, int]:
        answer = cluster.ask(request, node_id)
        if answer.error_code == ErrorCode.NON_EMPTY_GROUP:
            raise AdminError(f"group {group}: a member has joined it meanwhile")
        for topic in answer.responses:
            for each in topic.partitions:
                if each.error_code:
                    raise AdminError(f"{topic.topic_name}-{each.partition_index}: {_why(each)}")
        return answer.error_code, 0

    patiently(attempt, f"group {group}")


def delete(cluster: Cluster, group: str, topics: Collection[str]) -> dict[str, str | None]:
    """Delete an empty share group's state of whole topics; return the reasons of failures, by topic, None for a deleted
    one. Raises AdminError.
    """
    request = DeleteShareGroupOffsetsRequest(
        group, [DeleteShareGroupOffsetsRequestTopic(each) for each in sorted(topics)]
    )
    node_id = cluster.coordinator(group)

    def attempt() -> tuple[int, dict[str, str | None]]:
        answer = cluster.ask(request, node_id)
        return answer.error_code, {
            each.topic_name: _why(each) if each.error_code else None for each in answer.responses
        }

    return patiently(attempt, f"group {group}")


def _why(answered: Any) -> str:
    return error_text(answered.error_code, answered.error_message)
