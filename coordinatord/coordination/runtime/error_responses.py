"""The error response for requests whose records the log could not write."""

from __future__ import annotations

from typing import Any

from coordinatord.transport.net.received import Body
from kafka_wire.errors import ErrorCode
from kafka_wire.registry import Codec, error_response


def unavailable(codec: Codec, body: Body) -> Any:
    """Return the response to a request if the log fails before its records are durable."""
    return error_response(codec.decode_request(*body), codec.api_version, ErrorCode.COORDINATOR_NOT_AVAILABLE)
