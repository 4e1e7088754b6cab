"""DescribeConfigs: settings of topics, brokers and groups.

v1 synonyms and sources · v3 documentation and types · v4 flexible
"""

from __future__ import annotations

from kafka_wire.errors import ErrorCode, message_of
from kafka_wire.schema import array, boolean, int8, int16, int32, message, string


@message()
class DescribeConfigsResource:
    resource_type: int = int8("0+")
    resource_name: str = string("0+")
    configuration_keys: list[str] | None = array(string, "0+", nullable="0+")


@message(versions="1-4", flexible="4+", api_key=32)
class DescribeConfigsRequest:
    resources: list[DescribeConfigsResource] = array(DescribeConfigsResource, "0+")
    include_synonyms: bool = boolean("1+")
    include_documentation: bool = boolean("3+")


@message()
class DescribeConfigsSynonym:
    name: str = string("1+")
    value: str | None = string("1+", nullable="0+")
    source: int = int8("1+")


@message()
class DescribeConfigsResourceResult:
    name: str = string("0+")
    value: str | None = string("0+", nullable="0+")
    read_only: bool = boolean("0+")
    config_source: int = int8("1+", default=-1)
    is_sensitive: bool = boolean("0+")
    synonyms: list[DescribeConfigsSynonym] = array(DescribeConfigsSynonym, "1+")
    config_type: int = int8("3+")
    documentation: str | None = string("3+", nullable="0+")


@message()
class DescribeConfigsResult:
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    resource_type: int = int8("0+")
    resource_name: str = string("0+")
    configs: list[DescribeConfigsResourceResult] = array(DescribeConfigsResourceResult, "0+")


@message(versions="1-4", flexible="4+", api_key=32)
class DescribeConfigsResponse:
    throttle_time_ms: int = int32("0+")
    results: list[DescribeConfigsResult] = array(DescribeConfigsResult, "0+", batched=True)


def error_response(request: DescribeConfigsRequest, version: int, code: ErrorCode) -> DescribeConfigsResponse:
    """Return the response with the error `code`."""
    return DescribeConfigsResponse(
        results=[
            DescribeConfigsResult(code, message_of(code), each.resource_type, each.resource_name)
            for each in request.resources
        ]
    )
