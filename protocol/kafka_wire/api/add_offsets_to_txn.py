"""AddOffsetsToTxn: a group's offsets take part in a transaction.

v3 flexible · v4 TRANSACTION_ABORTABLE
"""

from __future__ import annotations

from kafka_wire.schema import int16, int32, int64, message, string


@message(versions="0-4", flexible="3+", api_key=25)
class AddOffsetsToTxnRequest:
    transactional_id: str = string("0+")
    producer_id: int = int64("0+")
    producer_epoch: int = int16("0+")
    group_id: str = string("0+")


@message(versions="0-4", flexible="3+", api_key=25)
class AddOffsetsToTxnResponse:
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
