"""AlterClientQuotas: set and remove quotas of users, client ids and addresses (KIP-546).

v1 flexible
"""

from __future__ import annotations

from kafka_wire.errors import ErrorCode, message_of
from kafka_wire.schema import array, boolean, float64, int16, int32, message, string


@message()
class EntityData:
    entity_type: str = string("0+")
    entity_name: str | None = string("0+", nullable="0+")


@message()
class OpData:
    key: str = string("0+")
    value: float = float64("0+")
    remove: bool = boolean("0+")


@message()
class EntryData:
    entity: list[EntityData] = array(EntityData, "0+")
    ops: list[OpData] = array(OpData, "0+")


@message(versions="0-1", flexible="1+", api_key=49)
class AlterClientQuotasRequest:
    entries: list[EntryData] = array(EntryData, "0+")
    validate_only: bool = boolean("0+")


@message()
class EntryResult:
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    entity: list[EntityData] = array(EntityData, "0+")


@message(versions="0-1", flexible="1+", api_key=49)
class AlterClientQuotasResponse:
    throttle_time_ms: int = int32("0+")
    entries: list[EntryResult] = array(EntryResult, "0+")


def error_response(request: AlterClientQuotasRequest, version: int, code: ErrorCode) -> AlterClientQuotasResponse:
    """Return the response with the error `code`."""
    text = message_of(code)
    return AlterClientQuotasResponse(entries=[EntryResult(code, text, each.entity) for each in request.entries])
