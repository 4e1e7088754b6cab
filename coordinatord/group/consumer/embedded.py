"""What classic consumers put into JoinGroup and get from SyncGroup. While a group is being migrated (KIP-848), the
coordinator assigns for them, and has to understand it. What follows the last known field is of a later version.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import Any, Final

from coordinatord.group.consumer.topics import Topics
from kafka_wire.api.consumer_group_heartbeat import TopicPartitions
from kafka_wire.codecs import decoder, encoder
from kafka_wire.errors import DecodeError, TruncatedError
from kafka_wire.records.consumer import ConsumerProtocolAssignment, ConsumerProtocolSubscription, TopicPartition

HIGHEST_VERSION: Final = 3
_VERSION: Final = struct.Struct(">h")


def read_subscription(data: bytes) -> ConsumerProtocolSubscription:
    """A member's metadata. Raises DecodeError."""
    found: ConsumerProtocolSubscription = _decode(ConsumerProtocolSubscription, data)
    return found


def read_assignment(data: bytes) -> ConsumerProtocolAssignment:
    """A member's assignment. Raises DecodeError."""
    found: ConsumerProtocolAssignment = _decode(ConsumerProtocolAssignment, data)
    return found


def version_of(data: bytes) -> int:
    """The version in which a member's metadata is written. Raises DecodeError."""
    if len(data) < _VERSION.size:
        raise TruncatedError("a consumer protocol message without a version")
    version: int = _VERSION.unpack_from(data)[0]
    if version < 0:
        raise DecodeError(f"consumer protocol version {version}")
    return min(version, HIGHEST_VERSION)


def write_assignment(partitions: Mapping[bytes, Iterable[int]], topics: Topics, version: int) -> bytes:
    """An assignment in a member's own version; topics that are no more are left out."""
    known = ((topics.find_id(topic_id), of_topic) for topic_id, of_topic in partitions.items())
    parts = [TopicPartition(topic.name, sorted(of_topic)) for topic, of_topic in known if topic is not None]
    out = bytearray(_VERSION.pack(version))
    encoder(ConsumerProtocolAssignment, version)(ConsumerProtocolAssignment(parts), out)
    return bytes(out)


def by_topic_id(parts: Iterable[TopicPartition], topics: Topics) -> list[TopicPartitions]:
    """Partitions with their topics' ids; topics that do not exist are left out."""
    known = ((topics.find(part.topic), part.partitions) for part in parts)
    return [TopicPartitions(topic.topic_id, partitions) for topic, partitions in known if topic is not None]


def _decode(kind: type[Any], data: bytes) -> Any:
    return decoder(kind, version_of(data))(data, _VERSION.size, len(data))
