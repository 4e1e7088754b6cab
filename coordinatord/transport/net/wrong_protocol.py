"""Detection of peers that do not speak Kafka's protocol, so that the log line about their connection says what to do.

TLS and HTTP begin with bytes that read as the size of a huge frame: a TLS client hello as 369,295,617 bytes or so, `GET
` as 1,195,725,856.
"""

from __future__ import annotations

from dataclasses import dataclass

_METHODS = (b"GET ", b"HEAD ", b"POST ", b"PUT ", b"DELETE ", b"OPTIONS ", b"PATCH ", b"CONNECT ", b"TRACE ", b"PRI * ")
"""RFC 9110's methods, RFC 5789's, and the beginning of HTTP/2 without TLS (RFC 9113, section 3.4)."""


@dataclass(frozen=True, slots=True)
class Stranger:
    """Another protocol. `kind` is for the metric of rejected input; `reason` describes the input, `advice` what the
    operator can do.
    """

    kind: str
    reason: str
    advice: str


TLS = Stranger(
    "tls",
    "a TLS client hello, but this listener is plaintext",
    "set security.protocol=PLAINTEXT (or SASL_PLAINTEXT) in the client, or connect it to a port that serves SSL or "
    "SASL_SSL (listeners)",
)
HTTP = Stranger(
    "http",
    "an HTTP request, but this listener speaks Kafka's protocol",
    "metrics and health pages are on the port of admin.listeners (--admin)",
)


def stranger(head: bytes) -> Stranger | None:
    """Return the protocol of a peer that has sent `head`, at least four bytes, in the place of a frame's size; None if
    it is unknown. A TLS record has the type 22 for a handshake, a version 3.x, two bytes of length, and then 1 for a
    client hello (RFC 8446, sections 4 and 5.1).
    """
    if head[:2] == b"\x16\x03" and head[5:6] in (b"", b"\x01"):
        return TLS
    if any(head[: len(method)] == method[: len(head)] for method in _METHODS):
        return HTTP
    return None


def plaintext(head: bytes, protocol: str) -> Stranger:
    """Return the protocol of a peer that has sent `head` in the place of a TLS hello, on a listener of `protocol`: in
    most cases a Kafka client without TLS, whose first request begins with a size, an API key and a version.
    """
    if any(head[: len(method)] == method[: len(head)] for method in _METHODS):
        return HTTP
    return Stranger(
        "plaintext",
        f"no TLS, but this listener is {protocol}",
        f"set security.protocol={protocol} in the client, or connect it to a port that serves PLAINTEXT or "
        "SASL_PLAINTEXT",
    )
