"""DescribeClientQuotas: quotas of users, client ids and addresses (KIP-546).

v1 flexible
"""

from __future__ import annotations

from kafka_wire.errors import ErrorCode, message_of
from kafka_wire.schema import array, boolean, float64, int8, int16, int32, message, string


@message()
class ComponentData:
    entity_type: str = string("0+")
    match_type: int = int8("0+")
    match: str | None = string("0+", nullable="0+")


@message(versions="0-1", flexible="1+", api_key=48)
class DescribeClientQuotasRequest:
    components: list[ComponentData] = array(ComponentData, "0+")
    strict: bool = boolean("0+")


@message()
class EntityData:
    entity_type: str = string("0+")
    entity_name: str | None = string("0+", nullable="0+")


@message()
class ValueData:
    key: str = string("0+")
    value: float = float64("0+")


@message()
class EntryData:
    entity: list[EntityData] = array(EntityData, "0+")
    values: list[ValueData] = array(ValueData, "0+")


@message(versions="0-1", flexible="1+", api_key=48)
class DescribeClientQuotasResponse:
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    entries: list[EntryData] | None = array(EntryData, "0+", nullable="0+")


def error_response(request: DescribeClientQuotasRequest, version: int, code: ErrorCode) -> DescribeClientQuotasResponse:
    """Return the response with the error `code`."""
    return DescribeClientQuotasResponse(error_code=code, error_message=message_of(code), entries=None)
