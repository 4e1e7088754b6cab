"""InitProducerId: get a producer id and its epoch.

v2 flexible · v3 id and epoch to continue from · v4 PRODUCER_FENCED · v5 TRANSACTION_ABORTABLE (KIP-890) ·
v6 (two-phase commit, KIP-939) is unstable in Kafka 4.3 and not declared
"""

from __future__ import annotations

from kafka_wire.errors import ErrorCode
from kafka_wire.schema import boolean, int16, int32, int64, message, string


@message(versions="0-5", flexible="2+", api_key=22)
class InitProducerIdRequest:
    transactional_id: str | None = string("0+", nullable="0+")
    transaction_timeout_ms: int = int32("0+")
    producer_id: int = int64("3+", default=-1)
    producer_epoch: int = int16("3+", default=-1)
    enable2_pc: bool = boolean("6+")
    keep_prepared_txn: bool = boolean("6+")


@message(versions="0-5", flexible="2+", api_key=22)
class InitProducerIdResponse:
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    producer_id: int = int64("0+", default=-1)
    producer_epoch: int = int16("0+")
    ongoing_txn_producer_id: int = int64("6+", default=-1)
    ongoing_txn_producer_epoch: int = int16("6+", default=-1)


def error_response(request: InitProducerIdRequest, version: int, code: ErrorCode) -> InitProducerIdResponse:
    """Return the response with the error `code`.

    Without a transactional id there is no coordinator that a client could look up: kafka-python would look it up for
    ever. Kafka, too, returns COORDINATOR_LOAD_IN_PROGRESS (RPCProducerIdManager).
    """
    if request.transactional_id is None and code in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE):
        code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return InitProducerIdResponse(error_code=code, producer_epoch=-1)
