"""The consumer protocol: the content of `metadata` in JoinGroup and `assignment` in SyncGroup.

Each starts with an int16 version. Subscription: v1 owned_partitions (cooperative) · v2 generation_id · v3 rack_id.
Later versions add fields at the end. A decoder reads an unknown version as the latest version that it supports, as Java
does, and ignores the bytes after these fields. The coordinator of a classic group treats both as opaque bytes, except
for the subscribed topics, which protect their offsets from deletion.
"""

from __future__ import annotations

from kafka_wire.schema import array, bytes_, int32, message, string


@message()
class TopicPartition:
    topic: str = string("0+")
    partitions: list[int] = array(int32, "0+")


@message(versions="0-3", surplus=True)
class ConsumerProtocolSubscription:
    topics: list[str] = array(string, "0+")
    user_data: bytes | None = bytes_("0+", nullable="0+", default=None)
    owned_partitions: list[TopicPartition] = array(TopicPartition, "1+")
    generation_id: int = int32("2+", default=-1)
    rack_id: str | None = string("3+", nullable="3+", default=None)


@message(versions="0-3", surplus=True)
class ConsumerProtocolAssignment:
    assigned_partitions: list[TopicPartition] = array(TopicPartition, "0+")
    user_data: bytes | None = bytes_("0+", nullable="0+", default=None)
