"""AddPartitionsToTxn: partitions take part in a transaction.

v3 flexible · v4 brokers send several transactions · v5 TRANSACTION_ABORTABLE
"""

from __future__ import annotations

from kafka_wire.errors import ErrorCode
from kafka_wire.schema import array, boolean, int16, int32, int64, message, string


@message()
class AddPartitionsToTxnTopic:
    name: str = string("0+")
    partitions: list[int] = array(int32, "0+")


@message()
class AddPartitionsToTxnTransaction:
    transactional_id: str = string("4+")
    producer_id: int = int64("4+")
    producer_epoch: int = int16("4+")
    verify_only: bool = boolean("4+")
    topics: list[AddPartitionsToTxnTopic] = array(AddPartitionsToTxnTopic, "4+")


@message(versions="0-5", flexible="3+", api_key=24)
class AddPartitionsToTxnRequest:
    transactions: list[AddPartitionsToTxnTransaction] = array(AddPartitionsToTxnTransaction, "4+")
    v3_and_below_transactional_id: str = string("0-3")
    v3_and_below_producer_id: int = int64("0-3")
    v3_and_below_producer_epoch: int = int16("0-3")
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = array(AddPartitionsToTxnTopic, "0-3")


@message()
class AddPartitionsToTxnPartitionResult:
    partition_index: int = int32("0+")
    partition_error_code: int = int16("0+")


@message()
class AddPartitionsToTxnTopicResult:
    name: str = string("0+")
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = array(AddPartitionsToTxnPartitionResult, "0+")


@message()
class AddPartitionsToTxnResult:
    transactional_id: str = string("4+")
    topic_results: list[AddPartitionsToTxnTopicResult] = array(AddPartitionsToTxnTopicResult, "4+")


@message(versions="0-5", flexible="3+", api_key=24)
class AddPartitionsToTxnResponse:
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("4+")
    results_by_transaction: list[AddPartitionsToTxnResult] = array(AddPartitionsToTxnResult, "4+")
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = array(AddPartitionsToTxnTopicResult, "0-3")


def error_response(request: AddPartitionsToTxnRequest, version: int, code: ErrorCode) -> AddPartitionsToTxnResponse:
    """Return the response with the error `code`."""
    if version >= 4:
        return AddPartitionsToTxnResponse(error_code=code)
    return AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=[
            AddPartitionsToTxnTopicResult(
                topic.name, [AddPartitionsToTxnPartitionResult(each, code) for each in topic.partitions]
            )
            for topic in request.v3_and_below_topics
        ]
    )
