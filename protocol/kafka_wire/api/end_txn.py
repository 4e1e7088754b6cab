"""EndTxn: commit or abort a transaction.

v3 flexible · v4 TRANSACTION_ABORTABLE · v5 the producer epoch rises with each transaction (KIP-890)
"""

from __future__ import annotations

from kafka_wire.schema import boolean, int16, int32, int64, message, string


@message(versions="0-5", flexible="3+", api_key=26)
class EndTxnRequest:
    transactional_id: str = string("0+")
    producer_id: int = int64("0+")
    producer_epoch: int = int16("0+")
    committed: bool = boolean("0+")


@message(versions="0-5", flexible="3+", api_key=26)
class EndTxnResponse:
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    producer_id: int = int64("5+", default=-1)
    producer_epoch: int = int16("5+", default=-1)
