"""DescribeCluster: brokers and the controller, for admin clients (KIP-700).

v1 endpoint type · v2 fenced brokers
"""

from __future__ import annotations

from kafka_wire.errors import ErrorCode, message_of
from kafka_wire.schema import array, boolean, int8, int16, int32, message, string


@message(versions="0-2", flexible="0+", api_key=60)
class DescribeClusterRequest:
    include_cluster_authorized_operations: bool = boolean("0+")
    endpoint_type: int = int8("1+", default=1)
    include_fenced_brokers: bool = boolean("2+")


@message()
class DescribeClusterBroker:
    broker_id: int = int32("0+")
    host: str = string("0+")
    port: int = int32("0+")
    rack: str | None = string("0+", nullable="0+", default=None)
    is_fenced: bool = boolean("2+")


@message(versions="0-2", flexible="0+", api_key=60)
class DescribeClusterResponse:
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default=None)
    endpoint_type: int = int8("1+", default=1)
    cluster_id: str = string("0+")
    controller_id: int = int32("0+", default=-1)
    brokers: list[DescribeClusterBroker] = array(DescribeClusterBroker, "0+")
    cluster_authorized_operations: int = int32("0+", default=-2147483648)


def error_response(request: DescribeClusterRequest, version: int, code: ErrorCode) -> DescribeClusterResponse:
    """Return the response with the error `code`."""
    return DescribeClusterResponse(error_code=code, error_message=message_of(code))
