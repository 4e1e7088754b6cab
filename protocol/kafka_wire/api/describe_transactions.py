"""DescribeTransactions (KIP-664): the coordinator's state of transactional ids."""

from __future__ import annotations

from kafka_wire.errors import ErrorCode
from kafka_wire.schema import array, int16, int32, int64, message, string


@message(versions="0", flexible="0+", api_key=65)
class DescribeTransactionsRequest:
    transactional_ids: list[str] = array(string, "0+")


@message()
class TopicData:
    topic: str = string("0+")
    partitions: list[int] = array(int32, "0+")


@message()
class TransactionState:
    error_code: int = int16("0+")
    transactional_id: str = string("0+")
    transaction_state: str = string("0+")
    transaction_timeout_ms: int = int32("0+")
    transaction_start_time_ms: int = int64("0+")
    producer_id: int = int64("0+")
    producer_epoch: int = int16("0+")
    topics: list[TopicData] = array(TopicData, "0+")


@message(versions="0", flexible="0+", api_key=65)
class DescribeTransactionsResponse:
    throttle_time_ms: int = int32("0+")
    transaction_states: list[TransactionState] = array(TransactionState, "0+", batched=True)


def error_response(request: DescribeTransactionsRequest, version: int, code: ErrorCode) -> DescribeTransactionsResponse:
    """Return the response with the error `code`."""
    return DescribeTransactionsResponse(
        transaction_states=[
            TransactionState(error_code=code, transactional_id=each) for each in request.transactional_ids
        ]
    )
