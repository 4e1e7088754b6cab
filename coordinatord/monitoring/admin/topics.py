"""Topics of a cluster: list, describe, create and delete them."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from coordinatord.monitoring.admin.connection import AdminError, Cluster, error_text
from coordinatord.monitoring.admin.offsets import TopicPartition, bounds
from kafka_wire.api.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kafka_wire.api.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kafka_wire.api.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kafka_wire.errors import ErrorCode

TIMEOUT_MS = 30_000
TOPIC_RESOURCE = 2
DYNAMIC_TOPIC_CONFIG = 1
NO_TOPIC = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION)


@dataclass(slots=True)
class Partition:
    """A partition. `leader` is -1 if it has none now; offsets are None if there was no leader that could return
    them.
    """

    number: int
    leader: int
    replicas: list[int]
    in_sync: list[int]
    start: int | None = None
    end: int | None = None


@dataclass(slots=True)
class Topic:
    """A topic. `configs` were set for this topic; None if the user may not see them."""

    name: str
    topic_id: str | None
    is_internal: bool
    partitions: list[Partition] = field(default_factory=list)
    configs: dict[str, str | None] | None = None

    @property
    def replication(self) -> int:
        return max((len(each.replicas) for each in self.partitions), default=0)

    @property
    def trouble(self) -> str:
        """The topic's problems: partitions without a leader, or with too few replicas in sync; empty for none."""
        no_leader = sum(each.leader < 0 for each in self.partitions)
        behind = sum(len(each.in_sync) < len(each.replicas) for each in self.partitions)
        parts = [f"{no_leader} without a leader"] if no_leader else []
        return ", ".join(parts + ([f"{behind} under-replicated"] if behind else []))


def find(cluster: Cluster, names: Sequence[str] | None) -> tuple[list[Topic], list[str]]:
    """Return topics by name, all if None, and the names of missing topics. Raises AdminError."""
    found: list[Topic] = []
    missing: list[str] = []
    for each in cluster.metadata(names).topics:
        if each.error_code in NO_TOPIC:
            missing.append(each.name)
            continue
        if each.error_code not in (0, ErrorCode.LEADER_NOT_AVAILABLE):
            raise AdminError(f"topic {each.name}: {error_text(each.error_code)}")
        topic_id = None if not any(each.topic_id) else _text(each.topic_id)
        parts = [Partition(it.partition_index, it.leader_id, it.replica_nodes, it.isr_nodes) for it in each.partitions]
        found.append(Topic(each.name, topic_id, each.is_internal, sorted(parts, key=lambda part: part.number)))
    return sorted(found, key=lambda topic: topic.name), sorted(missing)


def _text(topic_id: bytes) -> str:
    """Return a topic id as Kafka prints it."""
    return base64.urlsafe_b64encode(bytes(topic_id)).decode().rstrip("=")


def add_details(cluster: Cluster, topics: Sequence[Topic]) -> None:
    """Add the offsets of partitions that have a leader, and the configs."""
    asked: list[TopicPartition] = [
        (topic.name, each.number) for topic in topics for each in topic.partitions if each.leader >= 0
    ]
    starts, ends = bounds(cluster, asked)
    for topic in topics:
        for part in topic.partitions:
            part.start, part.end = starts.get((topic.name, part.number)), ends.get((topic.name, part.number))
    if not topics or not cluster.serves(DescribeConfigsRequest):
        return
    resources = [DescribeConfigsResource(TOPIC_RESOURCE, topic.name, None) for topic in topics]
    by_name = {each.resource_name: each for each in cluster.ask(DescribeConfigsRequest(resources)).results}
    for topic in topics:
        described = by_name.get(topic.name)
        if described is not None and not described.error_code:
            topic.configs = {
                each.name: None if each.is_sensitive else each.value
                for each in described.configs
                if each.config_source == DYNAMIC_TOPIC_CONFIG
            }


def create(
    cluster: Cluster, name: str, partitions: int, replication: int, configs: Mapping[str, str], *, only_check: bool
) -> None:
    """Create a topic; -1 is the cluster's default. Raises AdminError if the cluster rejects the request."""
    if min(partitions, replication) < 0 and cluster.newest(CreateTopicsRequest) < 4:
        raise AdminError(
            f"{cluster.bootstrap} has no defaults (Kafka 2.4 has): give --partitions and --replication-factor"
        )
    made = CreatableTopic(name, partitions, replication, [], [CreatableTopicConfig(*each) for each in configs.items()])
    answer = cluster.ask(CreateTopicsRequest([made], TIMEOUT_MS, only_check), cluster.controller())
    for each in answer.topics:
        if each.error_code == ErrorCode.TOPIC_ALREADY_EXISTS:
            raise AdminError(f"topic {name}: {error_text(each.error_code)}")
        if each.error_code:
            raise AdminError(f"topic {name}: {each.error_message or error_text(each.error_code)}".rstrip("."))


def delete(cluster: Cluster, names: Sequence[str]) -> dict[str, str | None]:
    """Delete topics with their records; return the reasons of failures, by topic, None for a deleted one. Raises
    AdminError.
    """
    states = [DeleteTopicState(name) for name in names]
    answer = cluster.ask(DeleteTopicsRequest(states, list(names), TIMEOUT_MS), cluster.controller())
    return {
        each.name or "": error_text(each.error_code, each.error_message) if each.error_code else None
        for each in answer.responses
    }
