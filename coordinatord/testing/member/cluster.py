"""A member's metadata about the cluster: nodes, topics, leaders, racks. Immutable, so that members can share it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from kafka_wire.api.metadata import MetadataResponse
from kafka_wire.errors import ErrorCode, error_of


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """One topic. Its tuples are indexed by partition. A partition without a leader has leader −1."""

    topic_id: bytes
    leaders: tuple[int, ...]
    leader_epochs: tuple[int, ...]
    racks: tuple[frozenset[str], ...]


@dataclass(frozen=True, slots=True)
class Cluster:
    """State of the cluster in one Metadata response. `incomplete`: a topic or leader is missing, so the request is to
    be repeated.
    """

    nodes: dict[int, tuple[str, int]] = field(default_factory=dict)
    topics: dict[str, TopicInfo] = field(default_factory=dict)
    names: dict[bytes, str] = field(default_factory=dict)  # by topic id
    asked: frozenset[str] = frozenset()
    incomplete: bool = False
    error: ErrorCode = ErrorCode.NONE

    @classmethod
    def of(cls, response: MetadataResponse) -> Cluster:
        """Return the cluster of a response. A topic whose partitions are not numbered 0, 1, … is unusable."""
        rack_of = {broker.node_id: broker.rack for broker in response.brokers if broker.rack}
        topics: dict[str, TopicInfo] = {}
        incomplete = False
        for topic in response.topics:
            if topic.error_code or topic.name is None:
                incomplete = True
                continue
            partitions = sorted(topic.partitions, key=lambda each: each.partition_index)
            if [each.partition_index for each in partitions] != list(range(len(partitions))):
                incomplete = True
                continue
            topics[topic.name] = TopicInfo(
                topic.topic_id,
                tuple(each.leader_id for each in partitions),
                tuple(each.leader_epoch for each in partitions),
                tuple(_racks(each.replica_nodes, rack_of) for each in partitions),
            )
            incomplete = incomplete or any(each.leader_id < 0 for each in partitions)
        return cls(
            {broker.node_id: (broker.host, broker.port) for broker in response.brokers},
            topics,
            {info.topic_id: name for name, info in topics.items()},
            frozenset(topic.name for topic in response.topics if topic.name is not None),
            incomplete,
            error_of(response.error_code),
        )


def _racks(replicas: Iterable[int], rack_of: dict[int, str]) -> frozenset[str]:
    return frozenset(rack_of[node] for node in replicas if node in rack_of)
