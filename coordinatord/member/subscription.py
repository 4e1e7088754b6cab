"""The contents of JoinGroup and SyncGroup: subscriptions and assignments, encoded as Kafka's consumers do.

Both begin with an int16 version. As in Kafka's client, the highest known version is written, and a higher one is read
as the highest known.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from coordinatord.member.assignors.base import Subscription
from coordinatord.member.assignors.java_hash import TopicPartition
from kafka_wire.codecs import decoder, encoder
from kafka_wire.errors import DecodeError, TruncatedError
from kafka_wire.records.consumer import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from kafka_wire.records.consumer import TopicPartition as TopicPartitions

HIGHEST_VERSION: Final = 3
PROTOCOL_TYPE: Final = "consumer"

_INT16 = struct.Struct(">h")


def encode_subscription(
    topics: Iterable[str],
    user_data: bytes | None,
    owned: Iterable[TopicPartition],
    generation_id: int,
    rack_id: str | None,
) -> bytes:
    """The `metadata` of one protocol of a JoinGroup request."""
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(owned):
        by_topic.setdefault(topic, []).append(partition)
    return _encode(
        ConsumerProtocolSubscription(
            topics=sorted(topics),
            user_data=user_data,
            owned_partitions=[TopicPartitions(*each) for each in by_topic.items()],
            generation_id=generation_id,
            rack_id=rack_id,
        )
    )


def decode_subscription(data: bytes) -> Subscription:
    """Read a member's metadata, as the leader does. Raises `DecodeError` if it is invalid."""
    read = _decode(ConsumerProtocolSubscription, data)
    owned = [(each.topic, number) for each in read.owned_partitions for number in each.partitions]
    return Subscription(read.topics, read.user_data, owned, read.generation_id, read.rack_id or None)


def encode_assignment(partitions: Iterable[TopicPartition]) -> bytes:
    """The `assignment` of one member in the leader's SyncGroup request; topics in order of their first partition."""
    by_topic: dict[str, list[int]] = {}
    for topic, partition in partitions:
        by_topic.setdefault(topic, []).append(partition)
    return _encode(ConsumerProtocolAssignment([TopicPartitions(*each) for each in by_topic.items()]))


def decode_assignment(data: bytes) -> list[TopicPartition]:
    """Read a member's assignment. Raises `DecodeError` if it is invalid or empty: the leader omitted the member."""
    read = _decode(ConsumerProtocolAssignment, data)
    return [(each.topic, number) for each in read.assigned_partitions for number in each.partitions]


def encode_assignments(assignment: Mapping[str, Sequence[TopicPartition]]) -> dict[str, bytes]:
    """`encode_assignment` for each member."""
    return {member_id: encode_assignment(partitions) for member_id, partitions in assignment.items()}


def _encode(message: Any) -> bytes:
    out = bytearray(_INT16.pack(HIGHEST_VERSION))
    encoder(type(message), HIGHEST_VERSION)(message, out)
    return bytes(out)


def _decode(kind: type[Any], data: bytes) -> Any:
    if len(data) < _INT16.size:
        raise TruncatedError("a consumer protocol message without a version")
    version = _INT16.unpack_from(data)[0]
    if version < 0:
        raise DecodeError(f"consumer protocol version {version}")
    return decoder(kind, min(version, HIGHEST_VERSION))(data, _INT16.size, len(data))
