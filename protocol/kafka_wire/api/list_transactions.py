"""ListTransactions (KIP-664): the transactional ids of a coordinator.

v1 duration filter (KIP-994) · v2 transactional id pattern (KIP-1152)
"""

from __future__ import annotations

from kafka_wire.schema import array, int16, int32, int64, message, string


@message(versions="0-2", flexible="0+", api_key=66)
class ListTransactionsRequest:
    state_filters: list[str] = array(string, "0+")
    producer_id_filters: list[int] = array(int64, "0+")
    duration_filter: int = int64("1+", default=-1)
    transactional_id_pattern: str | None = string("2+", nullable="2+", default=None)


@message()
class TransactionState:
    transactional_id: str = string("0+")
    producer_id: int = int64("0+")
    transaction_state: str = string("0+")


@message(versions="0-2", flexible="0+", api_key=66)
class ListTransactionsResponse:
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    unknown_state_filters: list[str] = array(string, "0+")
    transaction_states: list[TransactionState] = array(TransactionState, "0+")
