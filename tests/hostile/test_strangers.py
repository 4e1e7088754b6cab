"""No client that has not proved who it is holds the event loop: neither by one message, nor by many in one write.

The largest and the dearest messages of each mechanism, of ApiVersions and SaslHandshake, and of TLS. Measured as CPU
time of the loop's thread, as in test_turns.py.
"""

from __future__ import annotations

import base64
import contextlib
import socket
import ssl
import struct
from collections.abc import Iterator
from typing import Any

import pytest

from coordinatord.base.config.address import parse_listeners
from coordinatord.transport.security.sasl import MAX_TOKEN_BYTES
from kafka_wire.api.sasl_authenticate import SaslAuthenticateRequest
from kafka_wire.api.sasl_handshake import SaslHandshakeRequest
from kafka_wire.lengths import write_uvarint
from tests.daemon import HOST
from tests.hostile.turns import Measured, measured, slowness
from tests.support.shell import request_frame

LONGEST_S = 0.005
ATTEMPTS = 4
SECONDS = 20.0
QUIET_S = 2.0
HELLOS = 500
"""They fit into the limit of open files (1,024), each with both of its ends."""

SCRAM, BEARER = "SCRAM-SHA-256", "OAUTHBEARER"
MECHANISMS = ("PLAIN", SCRAM, BEARER)
MARKS = "\u0316\u0301"
"""Combining marks in an order that is not canonical: SASLprep took time with the square of their number."""
WHOLE = MAX_TOKEN_BYTES - 200
"""Of a message that is read."""


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


def handshake(mechanism: str, version: int = 1) -> bytes:
    return request_frame(SaslHandshakeRequest(mechanism), version, 0)


def said(mechanism: str, token: bytes) -> bytes:
    return handshake(mechanism) + request_frame(SaslAuthenticateRequest(token), 2, 1)


def header(api_key: int, version: int, tags: bytes = b"", client_id: bytes = b"c") -> bytes:
    return struct.pack(">hhih", api_key, version, 1, len(client_id)) + client_id + tags


def empty_tags(size: int) -> bytes:
    """So many bytes of tagged fields."""
    count = size // 4
    return write_uvarint(count) + b"".join(write_uvarint(tag) + b"\0" for tag in range(count))


def encoded(content: bytes) -> bytes:
    return base64.urlsafe_b64encode(content).rstrip(b"=")


def keys(size: int) -> bytes:
    """A JSON object of many keys, which is what takes JSON longest."""
    return b"{" + b",".join(b'"%x":1' % number for number in range(size // 10)) + b"}"


def bearer(head: bytes, claims: bytes) -> bytes:
    return b"n,,\x01auth=Bearer " + encoded(head) + b"." + encoded(claims) + b".\x01\x01"


NONE = b'{"alg":"none"}'
PART = WHOLE * 3 // 4 - 100

MESSAGES: dict[str, bytes] = {
    **{
        f"a SCRAM name of {size} bytes of combining marks": said(SCRAM, f"n,,n={MARKS * (size // 4)},r=abc".encode())
        for size in (WHOLE, 80_000, 160_000, 520_000)
    },
    "a SCRAM name of ligatures": said(SCRAM, f"n,,n={chr(0xFDFA) * 160_000},r=abc".encode()),
    "a SCRAM name of letters": said(SCRAM, b"n,,n=" + b"a" * WHOLE + b",r=abc"),
    "a long SCRAM name of letters": said(SCRAM, b"n,,n=" + b"a" * 500_000 + b",r=abc"),
    "a SCRAM name of commas": said(SCRAM, b"n,,n=" + b"=2C" * (WHOLE // 3) + b"=,r=abc"),
    "a SCRAM nonce": said(SCRAM, b"n,,n=alice,r=" + b"a" * WHOLE),
    "SCRAM extensions": said(SCRAM, b"n,,n=alice,r=abc" + b",a=b" * (WHOLE // 4)),
    "a bare SCRAM name": handshake(SCRAM, 0) + framed(f"n,,n={MARKS * 20_000},r=abc".encode()),
    "a password": said("PLAIN", b"\0alice\0" + b"\xff" * WHOLE),
    "a long password": said("PLAIN", b"\0alice\0" + b"\xff" * 520_000),
    "claims": said(BEARER, bearer(NONE, keys(PART))),
    "long claims": said(BEARER, bearer(NONE, keys(380_000))),
    "a token's header": said(BEARER, bearer(keys(PART), b"{}")),
    "deep claims": said(BEARER, bearer(NONE, b"[" * PART)),
    "nested claims": said(BEARER, bearer(NONE, b'{"a":' * (PART // 5))),
    "token extensions": said(BEARER, b"n,,\x01" + b"a=b\x01" * (WHOLE // 4) + b"\x01"),
    "an authorization id": said(BEARER, b"n,a=" + b"a" * WHOLE + b"!"),
    "an authorization id of commas": said(BEARER, b"n,a=" + b"=2C" * (WHOLE // 3) + b"="),
    "spaces before a token": said(BEARER, b"n,,\x01auth=a" + b" " * WHOLE + b"!\x01\x01"),
    "many bare tokens": handshake(BEARER, 0) + framed(bearer(NONE, b'{"sub":"a","exp":1}')) * 300,
    "many large bare tokens": handshake(BEARER, 0) + framed(bearer(NONE, keys(PART // 3))) * 12,
    "many tokens": said(BEARER, bearer(NONE, b'{"sub":"a","exp":1}')) * 300,
    "an unknown mechanism": handshake("\u0316" * 10_000),
    "a client id": framed(header(17, 1, client_id="\u0316".encode() * 16_000) + struct.pack(">h", 3) + b"AAA"),
    "a client's name": framed(header(18, 4, b"\0") + (write_uvarint(32_001) + b"." * 32_000) * 2 + b"\0"),
    "a client's long name": framed(header(18, 4, b"\0") + (write_uvarint(250_001) + b"." * 250_000) * 2 + b"\0"),
    "many ApiVersions": framed(header(18, 4, b"\0") + b"\2.\2.\0") * 3_000,
    "many ApiVersions of another version": framed(header(18, 99, b"\0")) * 3_000,
    **{
        f"{size} bytes of tagged fields {where}": message
        for size in (3_000, 12_000, 60_000, 500_000)
        for where, message in (
            ("in ApiVersions' header", framed(header(18, 4, empty_tags(size)) + b"\2a\2a\0")),
            ("in ApiVersions", framed(header(18, 4, b"\0") + b"\2a\2a" + empty_tags(size))),
            ("in a token's header", handshake("PLAIN") + framed(header(36, 2, empty_tags(size)) + b"\2a\0")),
            ("behind a token", handshake("PLAIN") + framed(header(36, 2, b"\0") + b"\2a" + empty_tags(size))),
        )
    },
    "empty frames": bytes(4) * 5_000,
}


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Measured]:
    with measured(
        tmp_path_factory.mktemp("strangers"),
        listeners=parse_listeners(f"SASL_PLAINTEXT://{HOST}:0"),
        test_users=(("alice", "secret"),),
        sasl_enabled_mechanisms=MECHANISMS,
        test_oauthbearer_unsecured=True,
        connection_failed_authentication_delay_ms=0,
    ) as made:
        for mechanism in MECHANISMS:  # what is imported for the first of them
            send(made.port, said(mechanism, b"x"))
        yield made


def send(port: int, data: bytes) -> None:
    """Send it all, and then read until the server has ended the connection, or has nothing to say for a second."""
    with socket.create_connection((HOST, port), timeout=SECONDS) as peer, contextlib.suppress(OSError):
        peer.sendall(data)
        peer.settimeout(1.0)
        while peer.recv(1 << 16):
            pass


def longest(daemon: Measured, stroke: Any) -> tuple[float, str]:
    """The longest turn beside the best of some strokes (s), and each of them in words."""
    told = []
    for _ in range(ATTEMPTS):
        daemon.longest_s()
        stroke()
        took_s = daemon.longest_s()
        slow = slowness()
        told.append(f"{took_s * 1000:.1f} ms on a machine {slow:.1f} times slower")
        if took_s <= LONGEST_S * slow:
            break
    return took_s / slow, ", ".join(told)


@pytest.mark.hostile
@pytest.mark.timeout(120)
@pytest.mark.parametrize("what", MESSAGES)
def test_no_stranger_holds_the_loop(what: str, daemon: Measured) -> None:
    took_s, told = longest(daemon, lambda: send(daemon.port, MESSAGES[what]))
    print(f"{what}, {len(MESSAGES[what])} bytes: {told}")
    assert took_s <= LONGEST_S, told


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Measured]:
    with measured(
        tmp_path_factory.mktemp("tls"),
        listeners=parse_listeners(f"SSL://{HOST}:0"),
        test_users=(("alice", "secret"),),
    ) as made:
        hello(made.port, None)
        yield made


def hello(port: int, group: str | None) -> None:
    """A handshake; the client offers one group for the exchange of keys, if it says so."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if group is not None:
        context.set_ecdh_curve(group)
    with contextlib.suppress(OSError), socket.create_connection((HOST, port), timeout=SECONDS) as plain:
        context.wrap_socket(plain).close()


@pytest.mark.hostile
@pytest.mark.timeout(120)
@pytest.mark.parametrize("group", [None, "ffdhe2048", "ffdhe8192", "secp384r1", "secp521r1"])
def test_no_key_exchange_holds_the_loop(group: str | None, tls: Measured) -> None:
    took_s, told = longest(tls, lambda: hello(tls.port, group))
    print(f"{group}: {told}")
    assert took_s <= LONGEST_S, told


@pytest.mark.hostile
@pytest.mark.timeout(120)
def test_hellos_that_stop_cost_nothing(tls: Measured) -> None:
    """They were looked at twenty times a second: these took a twentieth of a core."""
    partial = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc" + bytes(100)
    idle_s = tls.busy_s(QUIET_S)
    with contextlib.ExitStack() as stack:
        for _ in range(HELLOS):
            stack.enter_context(socket.create_connection((HOST, tls.port), timeout=SECONDS)).sendall(partial)
        hello(tls.port, None)
        busy_s = tls.busy_s(QUIET_S)
    print(f"{busy_s * 1000:.1f} ms of {QUIET_S:g} s beside them, {idle_s * 1000:.1f} ms without")
    assert busy_s <= idle_s + QUIET_S / 100
