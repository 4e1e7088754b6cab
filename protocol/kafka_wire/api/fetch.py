"""Fetch: consumers and followers read record batches.

v4 isolation_level · v5 log_start_offset · v7 sessions (KIP-227) · v9 current_leader_epoch · v11 rack_id ·
v12 flexible, leader epoch of the last fetch · v13 topic ids · v15 replica_state instead of replica_id ·
v16 node_endpoints · v17 directory id · v18 high_watermark of a follower
"""

from __future__ import annotations

from kafka_wire.errors import ErrorCode
from kafka_wire.schema import array, int8, int16, int32, int64, message, records, string, struct, uuid


@message()
class ReplicaState:
    replica_id: int = int32("15+", default=-1)
    replica_epoch: int = int64("15+", default=-1)


@message()
class FetchPartition:
    partition: int = int32("0+")
    current_leader_epoch: int = int32("9+", default=-1)
    fetch_offset: int = int64("0+")
    last_fetched_epoch: int = int32("12+", default=-1)
    log_start_offset: int = int64("5+", default=-1)
    partition_max_bytes: int = int32("0+")
    replica_directory_id: bytes = uuid("17+", tagged="17+", tag=0)
    high_watermark: int = int64("18+", default=9223372036854775807, tagged="18+", tag=1)


@message()
class FetchTopic:
    topic: str = string("0-12")
    topic_id: bytes = uuid("13+")
    partitions: list[FetchPartition] = array(FetchPartition, "0+")


@message()
class ForgottenTopic:
    topic: str = string("7-12")
    topic_id: bytes = uuid("13+")
    partitions: list[int] = array(int32, "7+")


@message(versions="4-18", flexible="12+", api_key=1)
class FetchRequest:
    cluster_id: str | None = string("12+", nullable="12+", default=None, tagged="12+", tag=0)
    replica_id: int = int32("0-14", default=-1)
    replica_state: ReplicaState = struct(ReplicaState, "15+", tagged="15+", tag=1)
    max_wait_ms: int = int32("0+")
    min_bytes: int = int32("0+")
    max_bytes: int = int32("3+", default=2147483647)
    isolation_level: int = int8("4+")
    session_id: int = int32("7+")
    session_epoch: int = int32("7+", default=-1)
    topics: list[FetchTopic] = array(FetchTopic, "0+")
    forgotten_topics_data: list[ForgottenTopic] = array(ForgottenTopic, "7+")
    rack_id: str = string("11+")


@message()
class EpochEndOffset:
    epoch: int = int32("12+", default=-1)
    end_offset: int = int64("12+", default=-1)


@message()
class LeaderIdAndEpoch:
    leader_id: int = int32("12+", default=-1)
    leader_epoch: int = int32("12+", default=-1)


@message()
class SnapshotId:
    end_offset: int = int64("0+", default=-1)
    epoch: int = int32("0+", default=-1)


@message()
class AbortedTransaction:
    producer_id: int = int64("4+")
    first_offset: int = int64("4+")


@message()
class PartitionData:
    partition_index: int = int32("0+")
    error_code: int = int16("0+")
    high_watermark: int = int64("0+")
    last_stable_offset: int = int64("4+", default=-1)
    log_start_offset: int = int64("5+", default=-1)
    diverging_epoch: EpochEndOffset = struct(EpochEndOffset, "12+", tagged="12+", tag=0)
    current_leader: LeaderIdAndEpoch = struct(LeaderIdAndEpoch, "12+", tagged="12+", tag=1)
    snapshot_id: SnapshotId = struct(SnapshotId, "12+", tagged="12+", tag=2)
    aborted_transactions: list[AbortedTransaction] | None = array(AbortedTransaction, "4+", nullable="4+")
    preferred_read_replica: int = int32("11+", default=-1)
    records: bytes | memoryview | None = records("0+", nullable="0+")


@message()
class FetchableTopicResponse:
    topic: str = string("0-12")
    topic_id: bytes = uuid("13+")
    partitions: list[PartitionData] = array(PartitionData, "0+")


@message()
class NodeEndpoint:
    node_id: int = int32("16+")
    host: str = string("16+")
    port: int = int32("16+")
    rack: str | None = string("16+", nullable="16+", default=None)


@message(versions="4-18", flexible="12+", api_key=1)
class FetchResponse:
    throttle_time_ms: int = int32("1+")
    error_code: int = int16("7+")
    session_id: int = int32("7+")
    responses: list[FetchableTopicResponse] = array(FetchableTopicResponse, "0+")
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "16+", tagged="16+", tag=0)


def error_response(request: FetchRequest, version: int, code: ErrorCode) -> FetchResponse:
    """Return the response with the error `code`.

    A request of a fetch session without changes names no partition: then the error is that of the whole response.
    Kafka returns a top-level error in more cases, after which a client repeats the whole session.
    """
    topics = [
        FetchableTopicResponse(
            topic.topic,
            topic.topic_id,
            [PartitionData(each.partition, code, -1, records=b"") for each in topic.partitions],
        )
        for topic in request.topics
    ]
    return FetchResponse(error_code=ErrorCode.NONE if topics else code, responses=topics)
