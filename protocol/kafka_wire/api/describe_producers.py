"""DescribeProducers (KIP-664): the producer state of partitions, and their open transactions."""

from __future__ import annotations

from kafka_wire.errors import ErrorCode, message_of
from kafka_wire.schema import array, int16, int32, int64, message, string


@message()
class TopicRequest:
    name: str = string("0+")
    partition_indexes: list[int] = array(int32, "0+")


@message(versions="0", flexible="0+", api_key=61)
class DescribeProducersRequest:
    topics: list[TopicRequest] = array(TopicRequest, "0+")


@message()
class ProducerState:
    producer_id: int = int64("0+")
    producer_epoch: int = int32("0+")
    last_sequence: int = int32("0+", default=-1)
    last_timestamp: int = int64("0+", default=-1)
    coordinator_epoch: int = int32("0+")
    current_txn_start_offset: int = int64("0+", default=-1)


@message()
class PartitionResponse:
    partition_index: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default=None)
    active_producers: list[ProducerState] = array(ProducerState, "0+")


@message()
class TopicResponse:
    name: str = string("0+")
    partitions: list[PartitionResponse] = array(PartitionResponse, "0+", batched=True)


@message(versions="0", flexible="0+", api_key=61)
class DescribeProducersResponse:
    throttle_time_ms: int = int32("0+")
    topics: list[TopicResponse] = array(TopicResponse, "0+", batched=True)


def error_response(request: DescribeProducersRequest, version: int, code: ErrorCode) -> DescribeProducersResponse:
    """Return the response with the error `code`."""
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                topic.name, [PartitionResponse(each, code, message_of(code)) for each in topic.partition_indexes]
            )
            for topic in request.topics
        ]
    )
