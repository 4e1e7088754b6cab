"""ConsumerGroupHeartbeat: the one request of a KIP-848 member.

v1 subscribed_topic_regex, member ids made by the client
"""

from __future__ import annotations

from kafka_wire.schema import array, int16, int32, message, string, struct, uuid


@message()
class TopicPartitions:
    topic_id: bytes = uuid("0+")
    partitions: list[int] = array(int32, "0+")


@message(versions="0-1", flexible="0+", api_key=68)
class ConsumerGroupHeartbeatRequest:
    group_id: str = string("0+")
    member_id: str = string("0+")
    member_epoch: int = int32("0+")
    instance_id: str | None = string("0+", nullable="0+", default=None)
    rack_id: str | None = string("0+", nullable="0+", default=None)
    rebalance_timeout_ms: int = int32("0+", default=-1)
    subscribed_topic_names: list[str] | None = array(string, "0+", nullable="0+", default=None)
    subscribed_topic_regex: str | None = string("1+", nullable="1+", default=None)
    server_assignor: str | None = string("0+", nullable="0+", default=None)
    topic_partitions: list[TopicPartitions] | None = array(TopicPartitions, "0+", nullable="0+", default=None)


@message()
class Assignment:
    topic_partitions: list[TopicPartitions] = array(TopicPartitions, "0+")


@message(versions="0-1", flexible="0+", api_key=68)
class ConsumerGroupHeartbeatResponse:
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default=None)
    member_id: str | None = string("0+", nullable="0+", default=None)
    member_epoch: int = int32("0+")
    heartbeat_interval_ms: int = int32("0+")
    assignment: Assignment | None = struct(Assignment, "0+", nullable="0+", default=None)
