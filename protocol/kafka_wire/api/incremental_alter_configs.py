"""IncrementalAlterConfigs: change individual settings of a resource (KIP-339).

v1 flexible
"""

from __future__ import annotations

from kafka_wire.errors import ErrorCode, message_of
from kafka_wire.schema import array, boolean, int8, int16, int32, message, string


@message()
class AlterableConfig:
    name: str = string("0+")
    config_operation: int = int8("0+")
    value: str | None = string("0+", nullable="0+")


@message()
class AlterConfigsResource:
    resource_type: int = int8("0+")
    resource_name: str = string("0+")
    configs: list[AlterableConfig] = array(AlterableConfig, "0+")


@message(versions="0-1", flexible="1+", api_key=44)
class IncrementalAlterConfigsRequest:
    resources: list[AlterConfigsResource] = array(AlterConfigsResource, "0+")
    validate_only: bool = boolean("0+")


@message()
class AlterConfigsResourceResponse:
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    resource_type: int = int8("0+")
    resource_name: str = string("0+")


@message(versions="0-1", flexible="1+", api_key=44)
class IncrementalAlterConfigsResponse:
    throttle_time_ms: int = int32("0+")
    responses: list[AlterConfigsResourceResponse] = array(AlterConfigsResourceResponse, "0+")


def error_response(
    request: IncrementalAlterConfigsRequest, version: int, code: ErrorCode
) -> IncrementalAlterConfigsResponse:
    """Return the response with the error `code`."""
    return IncrementalAlterConfigsResponse(
        responses=[
            AlterConfigsResourceResponse(code, message_of(code), each.resource_type, each.resource_name)
            for each in request.resources
        ]
    )
