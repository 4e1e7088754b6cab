"""Metadata: brokers, the controller, topics and their partitions.

v1 null topics mean all · v4 allow_auto_topic_creation · v5 offline_replicas · v7 leader_epoch ·
v8 authorized operations · v9 flexible · v10 topic ids · v12 null topic names · v13 top-level error
"""

from __future__ import annotations

from kafka_wire.errors import ErrorCode
from kafka_wire.schema import array, boolean, int16, int32, message, string, uuid


@message()
class MetadataRequestTopic:
    topic_id: bytes = uuid("10+")
    name: str | None = string("0+", nullable="10+")


@message(versions="0-13", flexible="9+", api_key=3)
class MetadataRequest:
    topics: list[MetadataRequestTopic] | None = array(MetadataRequestTopic, "0+", nullable="1+")
    allow_auto_topic_creation: bool = boolean("4+", default=True)
    include_cluster_authorized_operations: bool = boolean("8-10")
    include_topic_authorized_operations: bool = boolean("8+")


@message()
class MetadataResponseBroker:
    node_id: int = int32("0+")
    host: str = string("0+")
    port: int = int32("0+")
    rack: str | None = string("1+", nullable="1+", default=None)


@message()
class MetadataResponsePartition:
    error_code: int = int16("0+")
    partition_index: int = int32("0+")
    leader_id: int = int32("0+")
    leader_epoch: int = int32("7+", default=-1)
    replica_nodes: list[int] = array(int32, "0+")
    isr_nodes: list[int] = array(int32, "0+")
    offline_replicas: list[int] = array(int32, "5+")


@message()
class MetadataResponseTopic:
    error_code: int = int16("0+")
    name: str | None = string("0+", nullable="12+")
    topic_id: bytes = uuid("10+")
    is_internal: bool = boolean("1+")
    partitions: list[MetadataResponsePartition] = array(MetadataResponsePartition, "0+")
    topic_authorized_operations: int = int32("8+", default=-2147483648)


@message(versions="0-13", flexible="9+", api_key=3)
class MetadataResponse:
    throttle_time_ms: int = int32("3+")
    brokers: list[MetadataResponseBroker] = array(MetadataResponseBroker, "0+")
    cluster_id: str | None = string("2+", nullable="2+", default=None)
    controller_id: int = int32("1+", default=-1)
    topics: list[MetadataResponseTopic] = array(MetadataResponseTopic, "0+")
    cluster_authorized_operations: int = int32("8-10", default=-2147483648)
    error_code: int = int16("13+")


def error_response(request: MetadataRequest, version: int, code: ErrorCode) -> MetadataResponse:
    """Return the response with the error `code`. Before v12 the response has no null names."""
    return MetadataResponse(
        topics=[
            MetadataResponseTopic(code, each.name if version >= 12 else each.name or "", each.topic_id)
            for each in request.topics or ()
        ],
        error_code=code,
    )
