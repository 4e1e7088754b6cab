"""FindCoordinator: the node that coordinates a group, transaction or share partition.

v1 key_type, throttle time, error message · v3 flexible · v4 several keys (KIP-699) · v5 TRANSACTION_ABORTABLE ·
v6 share groups (KIP-932)
"""

from __future__ import annotations

from kafka_wire.errors import ErrorCode, message_of
from kafka_wire.schema import array, int8, int16, int32, message, string


@message(versions="0-6", flexible="3+", api_key=10)
class FindCoordinatorRequest:
    key: str = string("0-3")
    key_type: int = int8("1+")
    coordinator_keys: list[str] = array(string, "4+")


@message()
class Coordinator:
    key: str = string("4+")
    node_id: int = int32("4+")
    host: str = string("4+")
    port: int = int32("4+")
    error_code: int = int16("4+")
    error_message: str | None = string("4+", nullable="4+")


@message(versions="0-6", flexible="3+", api_key=10)
class FindCoordinatorResponse:
    throttle_time_ms: int = int32("1+")
    error_code: int = int16("0-3")
    error_message: str | None = string("1-3", nullable="1-3")
    node_id: int = int32("0-3")
    host: str = string("0-3")
    port: int = int32("0-3")
    coordinators: list[Coordinator] = array(Coordinator, "4+", batched=True)


def error_response(request: FindCoordinatorRequest, version: int, code: ErrorCode) -> FindCoordinatorResponse:
    """Return the response with the error `code`."""
    text = message_of(code)
    if version < 4:
        return FindCoordinatorResponse(error_code=code, error_message=text, node_id=-1, port=-1)
    return FindCoordinatorResponse(
        coordinators=[Coordinator(key, -1, "", -1, code, text) for key in request.coordinator_keys]
    )
