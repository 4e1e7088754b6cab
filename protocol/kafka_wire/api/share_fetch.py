"""ShareFetch: members of share groups acquire records, and acknowledge earlier ones (KIP-932).

v2 acquire mode (KIP-1206), RENEW (KIP-1222)
"""

from __future__ import annotations

from kafka_wire.schema import array, boolean, int8, int16, int32, int64, message, records, string, struct, uuid


@message()
class AcknowledgementBatch:
    first_offset: int = int64("0+")
    last_offset: int = int64("0+")
    acknowledge_types: list[int] = array(int8, "0+")


@message()
class FetchPartition:
    partition_index: int = int32("0+")
    acknowledgement_batches: list[AcknowledgementBatch] = array(AcknowledgementBatch, "0+")


@message()
class FetchTopic:
    topic_id: bytes = uuid("0+")
    partitions: list[FetchPartition] = array(FetchPartition, "0+")


@message()
class ForgottenTopic:
    topic_id: bytes = uuid("0+")
    partitions: list[int] = array(int32, "0+")


@message(versions="1-2", flexible="0+", api_key=78)
class ShareFetchRequest:
    group_id: str | None = string("0+", nullable="0+", default=None)
    member_id: str | None = string("0+", nullable="0+")
    share_session_epoch: int = int32("0+")
    max_wait_ms: int = int32("0+")
    min_bytes: int = int32("0+")
    max_bytes: int = int32("0+", default=2147483647)
    max_records: int = int32("1+")
    batch_size: int = int32("1+")
    share_acquire_mode: int = int8("2+")
    is_renew_ack: bool = boolean("2+")
    topics: list[FetchTopic] = array(FetchTopic, "0+")
    forgotten_topics_data: list[ForgottenTopic] = array(ForgottenTopic, "0+")


@message()
class LeaderIdAndEpoch:
    leader_id: int = int32("0+")
    leader_epoch: int = int32("0+")


@message()
class AcquiredRecords:
    first_offset: int = int64("0+")
    last_offset: int = int64("0+")
    delivery_count: int = int16("0+")


@message()
class PartitionData:
    partition_index: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default=None)
    acknowledge_error_code: int = int16("0+")
    acknowledge_error_message: str | None = string("0+", nullable="0+", default=None)
    current_leader: LeaderIdAndEpoch = struct(LeaderIdAndEpoch, "0+")
    records: bytes | memoryview | None = records("0+")
    acquired_records: list[AcquiredRecords] = array(AcquiredRecords, "0+")


@message()
class ShareFetchableTopicResponse:
    topic_id: bytes = uuid("0+")
    partitions: list[PartitionData] = array(PartitionData, "0+")


@message()
class NodeEndpoint:
    node_id: int = int32("0+")
    host: str = string("0+")
    port: int = int32("0+")
    rack: str | None = string("0+", nullable="0+", default=None)


@message(versions="1-2", flexible="0+", api_key=78)
class ShareFetchResponse:
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default=None)
    acquisition_lock_timeout_ms: int = int32("1+")
    responses: list[ShareFetchableTopicResponse] = array(ShareFetchableTopicResponse, "0+")
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "0+")
