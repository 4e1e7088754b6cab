"""SaslHandshake: choose a mechanism; after v1 its tokens follow in SaslAuthenticate requests (KIP-152).

v1 as v0
"""

from __future__ import annotations

from kafka_wire.schema import array, int16, message, string


@message(versions="0-1", api_key=17)
class SaslHandshakeRequest:
    mechanism: str = string("0+")


@message(versions="0-1", api_key=17)
class SaslHandshakeResponse:
    error_code: int = int16("0+")
    mechanisms: list[str] = array(string, "0+")
