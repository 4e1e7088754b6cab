"""Malformed requests to the admin port and to the exporter's: each gets a 4xx, or is served as if the malformed part
were not there. None is a server's error, closes the connection without an answer, or writes a traceback.
"""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator

import pytest

from coordinatord.base.config import Listener
from coordinatord.base.observe.admin import AdminServer
from coordinatord.base.observe.health import Health
from coordinatord.base.observe.metrics import Metrics
from coordinatord.base.observe.web_server import HEAD_BYTES
from coordinatord.monitoring.dashboard.responses import Answers

PAGES = ("/rebalances", "/groups/state", "/groups/overview", "/metrics", "/healthz", "/nowhere")
MUTANTS = 400


@pytest.fixture(scope="module", params=["daemon", "exporter"])
def port(request: pytest.FixtureRequest) -> Iterator[int]:
    """The port of a server with a daemon's pages, or with those of the exporter, which has no metrics of a daemon."""
    is_daemon = request.param == "daemon"
    server = AdminServer(Listener("HTTP", "127.0.0.1", 0), Metrics() if is_daemon else None, Health())
    if is_daemon:
        server.add_page("/rebalances", "rebalances", lambda query: query)
    server.add_part("/groups", Answers(lambda: None, lambda: "cluster", lambda: 1, lambda: None).part)
    server.start()
    yield server.port
    server.stop()


def ask(port: int, head: bytes) -> bytes:
    """The whole answer to the bytes of a request."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as peer:
        peer.sendall(head)
        answer = b""
        while data := peer.recv(65_536):
            answer += data
    return answer


def status(port: int, head: bytes) -> int:
    """The status of the answer, which must be there."""
    answer = ask(port, head)
    assert answer.startswith(b"HTTP/1.0 "), (head[:200], answer[:200])
    return int(answer.split()[1])


def get(target: str, *headers: str) -> bytes:
    return "\r\n".join([f"GET {target} HTTP/1.1", *headers, "", ""]).encode("latin-1")


@pytest.mark.parametrize("path", ["/rebalances", "/groups/state", "/groups/overview"])
def test_a_query_with_too_many_fields_is_a_bad_request(port: int, path: str, capfd: pytest.CaptureFixture[str]) -> None:
    expected = {200, 404} if path == "/rebalances" else {200}  # the exporter has no such page
    assert status(port, get(f"{path}?{'&'.join('a=1' for _ in range(20))}")) in expected
    answer = ask(port, get(f"{path}?{'&'.join('a=1' for _ in range(21))}"))
    if 404 not in expected or b" 404 " not in answer:
        assert answer.startswith(b"HTTP/1.0 400 Bad Request\r\n")
        assert answer.endswith(b"\r\n\r\nA query has at most 20 fields.\n")
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    "accept",
    [
        "application/openmetrics-text;version=abc",
        "application/openmetrics-text;version=1..0",
        "application/openmetrics-text;version=1.0.0\x01",
        "text/plain;version=x",
        ",,;;=",
        "\xff",
    ],
)
def test_an_accept_header_that_cannot_be_read_counts_as_none(
    port: int, accept: str, capfd: pytest.CaptureFixture[str]
) -> None:
    answer = ask(port, get("/metrics", f"Accept: {accept}"))
    assert answer.startswith(b"HTTP/1.0 200 OK\r\n")
    assert b"Content-Type: text/plain; version=0.0.4" in answer
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (b"\r\n\r\n", 400),
        (b" \r\n\r\n", 400),
        (b"GET / HTTP\r\n\r\n", 400),
        (b"GET / HTTP/1.x\r\n\r\n", 400),
        (b"GET / HTTP/9.9\r\n\r\n", 505),
        (b"GET / x y HTTP/1.1\r\n\r\n", 400),
        (b"GET /\x00 HTTP/1.1\r\n\r\n", 404),
        (b"GET http://[ HTTP/1.1\r\n\r\n", 404),
        (b"GET /groups/%2e%2e/metrics HTTP/1.1\r\n\r\n", 404),
        (b"BREW /groups/state HTTP/1.1\r\n\r\n", 405),
        (b"BREW / HTTP/1.1\r\n\r\n", 405),
        (b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 150 + b"\r\n", 431),
        (b"GET / HTTP/1.1\r\nA: " + b"b" * HEAD_BYTES, 431),
    ],
)
def test_what_is_wrong_with_a_head_is_answered(
    port: int, head: bytes, expected: int, capfd: pytest.CaptureFixture[str]
) -> None:
    assert status(port, head) == expected
    assert capfd.readouterr().err == ""


def test_no_mutated_request_is_the_servers_error(port: int, capfd: pytest.CaptureFixture[str]) -> None:
    """Bytes of requests are replaced at random, the same ones in each run."""
    random_ = random.Random(7)
    headers = (
        "Host: a.b",
        "Accept: text/plain;version=1.0.0",
        "Origin: x",
        "Content-Length: x",
        "Authorization: Bearer x",
    )
    for _ in range(MUTANTS):
        target = f"{random_.choice(PAGES)}?group=a&page=2&search=%20x&name[]=b"
        head = bytearray(get(target, *random_.sample(headers, 2))[:-4])
        for _ in range(random_.randint(1, 6)):
            head[random_.randrange(len(head))] = random_.choice((random_.randrange(256), 0, 37, 38, 58, 59, 61))
        found = status(port, bytes(head) + b"\r\n\r\n")
        assert found not in (500, 502, 504), head
    assert capfd.readouterr().err == ""
