"""Contents of JoinGroup and SyncGroup: subscriptions and assignments, encoded as by Kafka's consumers.

Both begin with an int16 version. As in Kafka's client, the highest known version is written, and a higher one is read
as the highest known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from coordinatord.testing.member.assignors.base import Subscription
from coordinatord.testing.member.assignors.java_hash import TopicPartition
from kafka_wire.records.consumer import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from kafka_wire.records.consumer import TopicPartition as TopicPartitions
from kafka_wire.records.consumer_assignment import decode, decode_assignment, encode

__all__ = [
    "PROTOCOL_TYPE", "decode_assignment", "decode_subscription", "encode_assignment", "encode_assignments",
    "encode_subscription",
]  # fmt: skip

PROTOCOL_TYPE: Final = "consumer"


def encode_subscription(
    topics: Iterable[str],
    user_data: bytes | None,
    owned: Iterable[TopicPartition],
    generation_id: int,
    rack_id: str | None,
) -> bytes:
    """Return the `metadata` of one protocol of a JoinGroup request."""
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(owned):
        by_topic.setdefault(topic, []).append(partition)
    return encode(
        ConsumerProtocolSubscription(
            topics=sorted(topics),
            user_data=user_data,
            owned_partitions=[TopicPartitions(*each) for each in by_topic.items()],
            generation_id=generation_id,
            rack_id=rack_id,
        )
    )


def decode_subscription(data: bytes) -> Subscription:
    """Decode a member's metadata, as the leader does. Raises `DecodeError` if it is invalid."""
    read = decode(ConsumerProtocolSubscription, data)
    owned = [(each.topic, number) for each in read.owned_partitions for number in each.partitions]
    return Subscription(read.topics, read.user_data, owned, read.generation_id, read.rack_id or None)


def encode_assignment(partitions: Iterable[TopicPartition]) -> bytes:
    """Return the `assignment` of one member in the leader's SyncGroup request; topics in order of their first
    partition.
    """
    by_topic: dict[str, list[int]] = {}
    for topic, partition in partitions:
        by_topic.setdefault(topic, []).append(partition)
    return encode(ConsumerProtocolAssignment([TopicPartitions(*each) for each in by_topic.items()]))


def encode_assignments(assignment: Mapping[str, Sequence[TopicPartition]]) -> dict[str, bytes]:
    """Return `encode_assignment` for each member."""
    return {member_id: encode_assignment(partitions) for member_id, partitions in assignment.items()}
