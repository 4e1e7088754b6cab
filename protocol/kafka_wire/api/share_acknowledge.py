"""ShareAcknowledge: members of share groups acknowledge records (KIP-932).

v2 RENEW (KIP-1222)
"""

from __future__ import annotations

from kafka_wire.schema import array, boolean, int8, int16, int32, int64, message, string, struct, uuid


@message()
class AcknowledgementBatch:
    first_offset: int = int64("0+")
    last_offset: int = int64("0+")
    acknowledge_types: list[int] = array(int8, "0+")


@message()
class AcknowledgePartition:
    partition_index: int = int32("0+")
    acknowledgement_batches: list[AcknowledgementBatch] = array(AcknowledgementBatch, "0+")


@message()
class AcknowledgeTopic:
    topic_id: bytes = uuid("0+")
    partitions: list[AcknowledgePartition] = array(AcknowledgePartition, "0+")


@message(versions="1-2", flexible="0+", api_key=79)
class ShareAcknowledgeRequest:
    group_id: str | None = string("0+", nullable="0+", default=None)
    member_id: str | None = string("0+", nullable="0+")
    share_session_epoch: int = int32("0+")
    is_renew_ack: bool = boolean("2+")
    topics: list[AcknowledgeTopic] = array(AcknowledgeTopic, "0+")


@message()
class LeaderIdAndEpoch:
    leader_id: int = int32("0+")
    leader_epoch: int = int32("0+")


@message()
class PartitionData:
    partition_index: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default=None)
    current_leader: LeaderIdAndEpoch = struct(LeaderIdAndEpoch, "0+")


@message()
class ShareAcknowledgeTopicResponse:
    topic_id: bytes = uuid("0+")
    partitions: list[PartitionData] = array(PartitionData, "0+")


@message()
class NodeEndpoint:
    node_id: int = int32("0+")
    host: str = string("0+")
    port: int = int32("0+")
    rack: str | None = string("0+", nullable="0+", default=None)


@message(versions="1-2", flexible="0+", api_key=79)
class ShareAcknowledgeResponse:
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default=None)
    acquisition_lock_timeout_ms: int = int32("2+")
    responses: list[ShareAcknowledgeTopicResponse] = array(ShareAcknowledgeTopicResponse, "0+")
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "0+")
