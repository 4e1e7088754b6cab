"""ShareGroupHeartbeat: the one request of a share group's member (KIP-932)."""

from __future__ import annotations

from kafka_wire.schema import array, int16, int32, message, string, struct, uuid


@message(versions="1", flexible="0+", api_key=76)
class ShareGroupHeartbeatRequest:
    group_id: str = string("0+")
    member_id: str = string("0+")
    member_epoch: int = int32("0+")
    rack_id: str | None = string("0+", nullable="0+", default=None)
    subscribed_topic_names: list[str] | None = array(string, "0+", nullable="0+", default=None)


@message()
class TopicPartitions:
    topic_id: bytes = uuid("0+")
    partitions: list[int] = array(int32, "0+")


@message()
class Assignment:
    topic_partitions: list[TopicPartitions] = array(TopicPartitions, "0+")


@message(versions="1", flexible="0+", api_key=76)
class ShareGroupHeartbeatResponse:
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default=None)
    member_id: str | None = string("0+", nullable="0+", default=None)
    member_epoch: int = int32("0+")
    heartbeat_interval_ms: int = int32("0+")
    assignment: Assignment | None = struct(Assignment, "0+", nullable="0+", default=None)
