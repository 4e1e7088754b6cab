"""SaslAuthenticate: a token of the mechanism that SaslHandshake chose, and the server's response (KIP-152, KIP-368).

v1 session lifetime · v2 flexible
"""

from __future__ import annotations

from kafka_wire.errors import ErrorCode, message_of
from kafka_wire.schema import bytes_, int16, int64, message, string


@message(versions="0-2", flexible="2+", api_key=36)
class SaslAuthenticateRequest:
    auth_bytes: bytes = bytes_("0+")


@message(versions="0-2", flexible="2+", api_key=36)
class SaslAuthenticateResponse:
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    auth_bytes: bytes = bytes_("0+")
    session_lifetime_ms: int = int64("1+")


def error_response(request: SaslAuthenticateRequest, version: int, code: ErrorCode) -> SaslAuthenticateResponse:
    """Return the response with the error `code`."""
    return SaslAuthenticateResponse(error_code=code, error_message=message_of(code))
