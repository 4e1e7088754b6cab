"""What clients can make a daemon hold before it knows who they are: SASL frames, and TLS hellos.

The ways of those who are let in are rows of test_neighbours.py.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

import pytest

from kafka_wire.api.api_versions import ApiVersionsRequest
from kafka_wire.api.sasl_authenticate import SaslAuthenticateRequest
from kafka_wire.api.sasl_handshake import SaslHandshakeRequest
from tests.daemon import HOST, Daemon, free_port
from tests.hostile.turns import Peer
from tests.support.shell import request_frame

CONNECTIONS = 60
MIB = 1 << 20


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    port = free_port(3)
    settings = {
        "listeners": f"PLAINTEXT://{HOST}:{port},SASL_PLAINTEXT://{HOST}:{port + 1},SSL://{HOST}:{port + 2}",
        "test.users": "alice:secret",
    }
    made = Daemon(tmp_path_factory.mktemp("held"), settings, port=port)
    made.start()
    yield made
    assert made.stop() == 0


def huge_token() -> bytes:
    """A frame as large as sasl.server.max.receive.size, but for its last byte."""
    frame = request_frame(SaslAuthenticateRequest(bytes(524_288 - 100)), 2, 1)
    assert len(frame) < 524_288
    return request_frame(SaslHandshakeRequest("SCRAM-SHA-256"), 1, 0) + frame[:-1]


def larger_than_allowed() -> bytes:
    """The head of a frame of 90 MiB, and much of it."""
    return (90 * MIB).to_bytes(4, "big") + request_frame(SaslAuthenticateRequest(bytes(8 * MIB)), 2, 1)[4:]


def many_requests() -> bytes:
    """Nobody reads the answers."""
    return request_frame(ApiVersionsRequest(), 2, 1) * 50_000


def many_tokens() -> bytes:
    """Behind the first one, which is wrong."""
    token = request_frame(SaslAuthenticateRequest(b"n,,n=alice,r=abc"), 2, 1)
    return request_frame(SaslHandshakeRequest("SCRAM-SHA-256"), 1, 0) + token * 20_000


def half_a_hello() -> bytes:
    """A TLS record of sixteen kilobytes that is not finished."""
    return b"\x16\x03\x01\x40\x00\x01\x00\x3f\xfc" + bytes(16_000)


def records_after_the_hello() -> bytes:
    """A hello that is none, and more."""
    return b"\x16\x03\x01\x40\x00\x01\x00\x3f\xfc" + bytes(16_000) * 64


WAYS = [(huge_token, 1), (larger_than_allowed, 1), (many_requests, 1), (many_tokens, 1), (half_a_hello, 2),
        (records_after_the_hello, 2)]  # fmt: skip


@pytest.mark.hostile
@pytest.mark.timeout(180)
@pytest.mark.parametrize(("sent", "listener"), WAYS, ids=[each.__name__ for each, _ in WAYS])
def test_little_is_held_of_strangers(daemon: Daemon, sent: object, listener: int) -> None:
    """A frame of each connection at most (sasl.server.max.receive.size), and what was read with it."""
    assert callable(sent)
    data = sent()
    before = daemon.resident_bytes()
    peers = []
    for _ in range(CONNECTIONS):
        peer = socket.create_connection((HOST, daemon.port + listener), timeout=60)
        peer.settimeout(0.1)
        with contextlib.suppress(TimeoutError, ConnectionError):
            peer.sendall(data)
        peers.append(peer)
    known = Peer(daemon.port)
    assert known.ask(ApiVersionsRequest(), 2).error_code == 0
    known.close()
    held = daemon.resident_bytes() - before
    for peer in peers:
        peer.close()
    print(f"{sent.__name__}: {held / MIB:.1f} MiB held of {CONNECTIONS} connections")  # type: ignore[attr-defined]
    assert held <= CONNECTIONS * MIB, f"{held / MIB:.0f} MiB"
    assert not daemon.events("a handler failed")
