"""TxnOffsetCommit: store a group's offsets in a transaction.

v2 leader epoch · v3 flexible, group metadata (KIP-447) · v4 TRANSACTION_ABORTABLE · v5 implicit AddOffsetsToTxn ·
v6 topic ids (KIP-1319, Kafka 4.4)
"""

from __future__ import annotations

from kafka_wire.errors import ErrorCode
from kafka_wire.schema import array, int16, int32, int64, message, string, uuid


@message()
class TxnOffsetCommitRequestPartition:
    partition_index: int = int32("0+")
    committed_offset: int = int64("0+")
    committed_leader_epoch: int = int32("2+", default=-1)
    committed_metadata: str | None = string("0+", nullable="0+")


@message()
class TxnOffsetCommitRequestTopic:
    name: str = string("0-5")
    topic_id: bytes = uuid("6+")
    partitions: list[TxnOffsetCommitRequestPartition] = array(TxnOffsetCommitRequestPartition, "0+")


@message(versions="0-6", flexible="3+", api_key=28)
class TxnOffsetCommitRequest:
    transactional_id: str = string("0+")
    group_id: str = string("0+")
    producer_id: int = int64("0+")
    producer_epoch: int = int16("0+")
    generation_id: int = int32("3+", default=-1)
    member_id: str = string("3+")
    group_instance_id: str | None = string("3+", nullable="3+", default=None)
    topics: list[TxnOffsetCommitRequestTopic] = array(TxnOffsetCommitRequestTopic, "0+")


@message()
class TxnOffsetCommitResponsePartition:
    partition_index: int = int32("0+")
    error_code: int = int16("0+")


@message()
class TxnOffsetCommitResponseTopic:
    name: str = string("0-5")
    topic_id: bytes = uuid("6+")
    partitions: list[TxnOffsetCommitResponsePartition] = array(TxnOffsetCommitResponsePartition, "0+")


@message(versions="0-6", flexible="3+", api_key=28)
class TxnOffsetCommitResponse:
    throttle_time_ms: int = int32("0+")
    topics: list[TxnOffsetCommitResponseTopic] = array(TxnOffsetCommitResponseTopic, "0+")


def error_response(request: TxnOffsetCommitRequest, version: int, code: ErrorCode) -> TxnOffsetCommitResponse:
    """Return the response with the error `code`."""
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                topic.name,
                topic.topic_id,
                [TxnOffsetCommitResponsePartition(each.partition_index, code) for each in topic.partitions],
            )
            for topic in request.topics
        ]
    )
