"""Produce: producers append record batches to partitions.

v3 record batch v2 (the oldest that Kafka 4 accepts) · v5 log_start_offset · v7 zstd · v8 record_errors (KIP-467) ·
v9 flexible · v10 current_leader and node_endpoints (KIP-951) · v12 implicit AddPartitionsToTxn (KIP-890) ·
v13 topic ids
"""

from __future__ import annotations

from kafka_wire.errors import ErrorCode
from kafka_wire.schema import absent, array, int16, int32, int64, message, records, string, struct, uuid


@message()
class PartitionProduceData:
    index: int = int32("0+")
    records: bytes | memoryview | None = records("0+", nullable="0+")


@message()
class TopicProduceData:
    name: str = string("0-12")
    topic_id: bytes = uuid("13+")
    partition_data: list[PartitionProduceData] = array(PartitionProduceData, "0+")


@message(versions="3-13", flexible="9+", api_key=0)
class ProduceRequest:
    transactional_id: str | None = string("3+", nullable="3+", default=None)
    acks: int = int16("0+")
    timeout_ms: int = int32("0+")
    topic_data: list[TopicProduceData] = array(TopicProduceData, "0+")


@message()
class BatchIndexAndErrorMessage:
    batch_index: int = int32("8+")
    batch_index_error_message: str | None = string("8+", nullable="8+", default=None)


@message()
class LeaderIdAndEpoch:
    leader_id: int = int32("10+", default=-1)
    leader_epoch: int = int32("10+", default=-1)


@message()
class PartitionProduceResponse:
    index: int = int32("0+")
    error_code: int = int16("0+")
    base_offset: int = int64("0+")
    log_append_time_ms: int = int64("2+", default=-1)
    log_start_offset: int = int64("5+", default=-1)
    record_errors: list[BatchIndexAndErrorMessage] = array(BatchIndexAndErrorMessage, "8+")
    error_message: str | None = string("8+", nullable="8+", default=None)
    current_leader: LeaderIdAndEpoch = struct(LeaderIdAndEpoch, "10+", tagged="10+", tag=0)


@message()
class TopicProduceResponse:
    name: str = string("0-12")
    topic_id: bytes = uuid("13+")
    partition_responses: list[PartitionProduceResponse] = array(PartitionProduceResponse, "0+")


@message()
class NodeEndpoint:
    node_id: int = int32("10+")
    host: str = string("10+")
    port: int = int32("10+")
    rack: str | None = string("10+", nullable="10+", default=None)


@message(versions="3-13", flexible="9+", api_key=0)
class ProduceResponse:
    responses: list[TopicProduceResponse] = array(TopicProduceResponse, "0+")
    throttle_time_ms: int = int32("1+")
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "10+", tagged="10+", tag=0)


def error_response(request: ProduceRequest, version: int, code: ErrorCode, text: str | None = None) -> ProduceResponse:
    """Return the response with the error `code`. It has one entry for a partition that the request names twice."""
    topics: dict[tuple[str, bytes], dict[int, None]] = {}
    for topic in request.topic_data:
        indexes = topics.setdefault((topic.name, topic.topic_id), {})
        indexes.update(dict.fromkeys(data.index for data in topic.partition_data))
    no_leader = absent(LeaderIdAndEpoch)
    return ProduceResponse(
        [
            TopicProduceResponse(
                name,
                topic_id,
                [PartitionProduceResponse(each, code, -1, -1, -1, [], text, no_leader) for each in indexes],
            )
            for (name, topic_id), indexes in topics.items()
        ]
    )
