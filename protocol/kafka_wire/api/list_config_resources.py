"""ListConfigResources: list the resources that have settings.

v0 is ListClientMetricsResources (KIP-714) · v1 every kind of resource (KIP-1142)
"""

from __future__ import annotations

from kafka_wire.schema import array, int8, int16, int32, message, string


@message(versions="0-1", flexible="0+", api_key=74)
class ListConfigResourcesRequest:
    resource_types: list[int] = array(int8, "1+")


@message()
class ConfigResource:
    resource_name: str = string("0+")
    resource_type: int = int8("1+", default=16)


@message(versions="0-1", flexible="0+", api_key=74)
class ListConfigResourcesResponse:
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    config_resources: list[ConfigResource] = array(ConfigResource, "0+")
