"""The response that carries an error for the whole request, for each API of the group and transaction families.

The first error response imports the table: a start does not import the messages of APIs that no client has called.
"""

from __future__ import annotations

from typing import Any

from coordinatord.transport.net.received import Body
from kafka_wire.errors import ErrorCode
from kafka_wire.registry import Codec


def refuse(request: Any, version: int, error: ErrorCode) -> Any:
    """Return the response to `request` in `version` that carries `error`."""
    from coordinatord.coordination.runtime.error_response_table import REFUSALS

    return REFUSALS[type(request)](request, version, error)


def unavailable(codec: Codec, body: Body) -> Any:
    """Return the response to a request if the log fails before its records are durable."""
    return refuse(codec.decode_request(*body), codec.api_version, ErrorCode.COORDINATOR_NOT_AVAILABLE)
