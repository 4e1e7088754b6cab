"""Messages as Kafka's JSON converters read and write them: camelCase, base64 for bytes, Kafka's text for a uuid."""

from __future__ import annotations

import base64
from typing import Any

from kafka_wire.schema import Field, Type, schema_of


def as_json(message: Any, version: int) -> dict[str, Any]:
    """The fields that `version` has; tagged fields only where they differ from their default."""
    return {
        camel_case(field.name): _value(field.type, getattr(message, field.name), version)
        for field in schema_of(type(message)).fields
        if version in field.versions and not _left_out(field, message, version)
    }


def _left_out(field: Field, message: Any, version: int) -> bool:
    return version in field.tagged and getattr(message, field.name) == field.fresh_default()


def _value(type_: Type, value: Any, version: int) -> Any:
    if value is None:
        return None
    if type_.element is not None:
        return [_value(type_.element, item, version) for item in value]
    if type_.struct is not None:
        return as_json(value, version)
    if type_.kind == "uuid":
        return base64.urlsafe_b64encode(value).decode().rstrip("=")
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


def camel_case(name: str) -> str:
    """group_instance_id -> groupInstanceId."""
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
