"""Subscriptions and assignments of classic consumers, in JoinGroup and SyncGroup. While a group is
being migrated (KIP-848), the coordinator assigns for these members, and has to parse both. Bytes after
the last known field belong to a later version.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from coordinatord.coordination.group.consumer.topics import Topics
from kafka_wire.api.consumer_group_heartbeat import TopicPartitions
from kafka_wire.records.consumer import ConsumerProtocolAssignment, ConsumerProtocolSubscription, TopicPartition
from kafka_wire.records.consumer_assignment import decode, encode


def read_subscription(data: bytes) -> ConsumerProtocolSubscription:
    """Return a member's subscription. Raises DecodeError."""
    found: ConsumerProtocolSubscription = decode(ConsumerProtocolSubscription, data)
    return found


def read_assignment(data: bytes) -> ConsumerProtocolAssignment:
    """Return a member's assignment. Raises DecodeError."""
    found: ConsumerProtocolAssignment = decode(ConsumerProtocolAssignment, data)
    return found


def write_assignment(partitions: Mapping[bytes, Iterable[int]], topics: Topics, version: int) -> bytes:
    """Return an assignment in the member's own version; topics that no longer exist are left out."""
    known = ((topics.find_id(topic_id), of_topic) for topic_id, of_topic in partitions.items())
    parts = [TopicPartition(topic.name, sorted(of_topic)) for topic, of_topic in known if topic is not None]
    return encode(ConsumerProtocolAssignment(parts), version)


def by_topic_id(parts: Iterable[TopicPartition], topics: Topics) -> list[TopicPartitions]:
    """Return partitions with their topics' ids; topics that do not exist are left out."""
    known = ((topics.find(part.topic), part.partitions) for part in parts)
    return [TopicPartitions(topic.topic_id, partitions) for topic, partitions in known if topic is not None]
