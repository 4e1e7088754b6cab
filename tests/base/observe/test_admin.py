"""The admin port, over real HTTP on a free port."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from email.message import Message

import pytest

from coordinatord.base.config import Listener
from coordinatord.base.observe import admin as admin_module
from coordinatord.base.observe import web, web_server
from coordinatord.base.observe.admin import AdminError, AdminServer
from coordinatord.base.observe.health import Health
from coordinatord.base.observe.metrics import Metrics

Answer = tuple[int, Message, str]


class Admin:
    def __init__(self, host: str = "127.0.0.1", loop: asyncio.AbstractEventLoop | None = None) -> None:
        self.metrics = Metrics()
        self.health = Health()
        self.server = AdminServer(Listener("HTTP", host, 0), self.metrics, self.health, loop=loop)
        self.server.start()

    def get(self, path: str, method: str = "GET", **headers: str) -> Answer:
        request = urllib.request.Request(self.server.url.rstrip("/") + path, method=method, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return answer.status, answer.headers, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.headers, error.read().decode()


@pytest.fixture
def admin() -> Iterator[Admin]:
    made = Admin()
    yield made
    made.server.stop()


def test_metrics_are_given_in_the_format_that_was_asked_for(admin: Admin) -> None:
    admin.metrics.requests[12] += 3
    status, headers, body = admin.get("/metrics")
    assert status == 200
    assert headers["Content-Type"].startswith("text/plain; version=0.0.4")
    assert 'coordinatord_requests_total{api="Heartbeat"} 3.0' in body
    status, headers, body = admin.get("/metrics", Accept="application/openmetrics-text; version=1.0.0")
    assert headers["Content-Type"].startswith("application/openmetrics-text")
    assert body.endswith("# EOF\n")


def test_health_is_told_by_status_and_in_words(admin: Admin) -> None:
    def told(path: str) -> tuple[int, dict[str, object]]:
        status, headers, body = admin.get(path)
        assert headers["Content-Type"] == "application/json"
        assert headers["Cache-Control"] == "no-store"
        return status, json.loads(body)

    assert told("/readyz") == (503, {"state": "starting", "reasons": ["the daemon is starting"]})
    admin.health.loading("3 of 50 partitions are loaded")
    assert told("/readyz") == (503, {"state": "loading", "reasons": ["3 of 50 partitions are loaded"]})
    assert told("/healthz") == (200, {"state": "loading", "reasons": ["3 of 50 partitions are loaded"]})
    admin.health.ready()
    assert told("/readyz") == (200, {"state": "ready", "reasons": []})
    admin.health.draining()
    assert told("/readyz")[0] == 503
    admin.health.failed("the log failed")
    assert told("/healthz") == (503, {"state": "failed", "reasons": ["the log failed"]})


def test_the_index_names_the_pages_and_what_is_wrong(admin: Admin) -> None:
    admin.health.loading("<b>3</b> of 50")
    admin.server.add_page("/groups", "groups & members", lambda query: {"asked": query})
    status, headers, body = admin.get("/")
    assert status == 200
    assert headers["Content-Type"] == "text/html; charset=utf-8"
    assert "&lt;b&gt;3&lt;/b&gt; of 50" in body
    for path in ("/metrics", "/healthz", "/readyz", "/groups"):
        assert f'href="{path}"' in body
    assert "groups &amp; members" in body
    assert json.loads(admin.get("/groups?name=a&name=b")[2]) == {"asked": {"name": ["a", "b"]}}


def test_what_is_not_there_is_refused(admin: Admin) -> None:
    assert admin.get("/nothing")[0] == 404
    assert admin.get("/metrics", method="POST")[0] == 405
    assert admin.get("/healthz", method="DELETE")[1]["Allow"] == "GET, HEAD"
    assert admin.get("/healthz", method="HEAD")[::2] == (200, "")


def test_a_port_in_use_is_told_in_a_sentence(admin: Admin) -> None:
    taken = Listener("HTTP", "127.0.0.1", admin.server.port)
    with pytest.raises(AdminError, match=f"^The address 127.0.0.1:{taken.port} of --admin is in use"):
        AdminServer(taken, Metrics(), Health()).start()


def test_an_address_of_another_machine_is_told_in_a_sentence() -> None:
    with pytest.raises(AdminError, match=r"^Cannot listen on the address 192\.0\.2\.1:0 of --admin: "):
        AdminServer(Listener("HTTP", "192.0.2.1", 0), Metrics(), Health()).start()


def test_the_url_is_one_that_a_person_can_open() -> None:
    for host, shown in (("127.0.0.1", "127.0.0.1"), ("", "127.0.0.1"), ("localhost", "localhost")):
        made = Admin(host)
        try:
            assert made.server.url == f"http://{shown}:{made.server.port}/"
            assert made.get("/healthz")[0] == 200
        finally:
            made.server.stop()


def test_after_a_stop_nobody_listens_and_the_thread_is_gone() -> None:
    made = Admin()
    assert made.get("/healthz")[0] == 200
    port = made.server.port
    made.server.stop()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=5)
    assert not [thread for thread in threading.enumerate() if thread.name == "admin"]
    made.server.stop()


def test_a_stop_that_overtakes_the_start_ends_it_too() -> None:
    for _ in range(5):
        made = Admin()
        made.server.stop()
    assert not [thread for thread in threading.enumerate() if thread.name == "admin"]


def test_a_client_that_says_nothing_keeps_nobody_waiting(admin: Admin) -> None:
    silent = [socket.create_connection(("127.0.0.1", admin.server.port), timeout=10) for _ in range(3)]
    try:
        assert admin.get("/healthz")[0] == 200
    finally:
        for each in silent:
            each.close()


def test_slow_clients_make_room_for_a_probe(admin: Admin) -> None:
    """Each sends a part of its request, and more of it from time to time; there are many more than places."""
    slow = []
    for number in range(3 * web_server.MAX_CLIENTS):
        peer = socket.create_connection(("127.0.0.1", admin.server.port), timeout=10)
        peer.sendall(b"GET /metrics HTTP/1.1\r\nX-Slow: ")
        slow.append(peer)
        if number % 10 == 0:
            assert admin.get("/healthz")[0] == 200
    try:
        assert slow[0].recv(1) == b"", "the oldest has lost its place"
        slow[-1].sendall(b"1\r\n\r\n")
        assert slow[-1].recv(12) == b"HTTP/1.0 200", "the newest has not"
    finally:
        for each in slow:
            each.close()


def test_a_peer_with_few_connections_keeps_them(admin: Admin) -> None:
    few = socket.create_connection(("127.0.0.1", admin.server.port), timeout=10, source_address=("127.0.0.2", 0))
    few.sendall(b"GET /readyz HTTP/1.1\r\n")
    crowd = [
        socket.create_connection(("127.0.0.1", admin.server.port), timeout=10)
        for _ in range(2 * web_server.MAX_CLIENTS)
    ]
    try:
        assert admin.get("/healthz")[0] == 200
        few.sendall(b"\r\n")
        assert few.recv(12) == b"HTTP/1.0 503"
    finally:
        for each in [few, *crowd]:
            each.close()


def test_a_request_has_one_limit_of_time_whatever_it_sends(admin: Admin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_server, "HEAD_SECONDS", 0.3)
    assert admin.get("/healthz")[0] == 200
    with socket.create_connection(("127.0.0.1", admin.server.port), timeout=10) as peer:
        peer.settimeout(0.05)
        for _ in range(200):
            try:
                peer.sendall(b"X")
                if peer.recv(1) == b"":
                    return
            except TimeoutError:
                continue
            except ConnectionError:
                return
    raise AssertionError("10 s later it is still sending")


def test_pages_that_take_long_and_peers_that_do_not_read_keep_no_probe_waiting(admin: Admin) -> None:
    go_on = threading.Event()
    admin.server.add_page("/slow", "slow", lambda query: go_on.wait(20))
    admin.server.add_page("/large", "large", lambda query: "x" * (32 << 20))
    asked = []
    for path in ["/large"] * 3 + ["/slow"] * 2 * web_server.MAX_REQUESTS:
        peer = socket.create_connection(("127.0.0.1", admin.server.port), timeout=10)
        peer.sendall(f"GET {path} HTTP/1.1\r\n\r\n".encode())
        asked.append(peer)
    try:
        assert admin.get("/healthz")[0] == 200
    finally:
        go_on.set()
    answered = [peer.recv(12) for peer in asked[3:]]
    assert answered == [b"HTTP/1.0 200"] * 2 * web_server.MAX_REQUESTS, "they have waited for places"
    for each in asked:
        each.close()


@pytest.mark.parametrize(
    ("host", "known"),
    [
        ("127.0.0.1:9180", True),
        ("10.1.2.3", True),
        ("[::1]:9180", True),
        ("localhost:9180", True),
        ("coordinatord:9180", True),
        ("metrics.example.org", True),
        ("Metrics.Example.org.:9180", True),
        ("rebound.example.com:9180", False),
        ("127.0.0.1.example.com", False),
        ("example.com", False),
    ],
)
def test_a_name_that_is_not_ours_is_refused(host: str, known: bool) -> None:
    assert web.is_known_host(host, ["metrics.example.org"]) is known


def test_a_web_sites_page_is_refused(admin: Admin) -> None:
    assert admin.get("/metrics", Host="rebound.example.com")[0] == 421
    assert admin.get("/metrics", Origin="http://example.com")[0] == 403
    own = f"127.0.0.1:{admin.server.port}"
    assert admin.get("/metrics", Origin=f"http://{own}")[0] == 200


def test_rubbish_is_answered_or_closed_and_nothing_else_happens(
    admin: Admin, capsys: pytest.CaptureFixture[str]
) -> None:
    for rubbish in (b"\x00\x00\x00\x05hello", b"GET /metrics HTTP/9.9\r\n\r\n", b"GET\r\n\r\n", b"A" * 100_000):
        with (
            socket.create_connection(("127.0.0.1", admin.server.port), timeout=10) as peer,
            contextlib.suppress(OSError),  # the server may close it at any point of this
        ):
            peer.sendall(rubbish)
            peer.shutdown(socket.SHUT_WR)
            while peer.recv(65536):
                pass
    assert admin.get("/healthz")[0] == 200
    assert "Traceback" not in capsys.readouterr().err


async def test_a_loop_that_answers_is_alive() -> None:
    made = Admin(loop=asyncio.get_running_loop())
    try:
        status, _headers, _body = await asyncio.to_thread(made.get, "/healthz")
        assert status == 200
    finally:
        await asyncio.to_thread(made.server.stop)


@pytest.mark.parametrize(
    ("close", "told"), [(False, "the event loop did not answer within 0.05 s"), (True, "the event loop is closed")]
)
def test_a_loop_that_does_not_answer_is_found_out(monkeypatch: pytest.MonkeyPatch, close: bool, told: str) -> None:
    monkeypatch.setattr(admin_module, "LOOP_ANSWER_SECONDS", 0.05)
    loop = asyncio.new_event_loop()  # and nobody runs it
    if close:
        loop.close()
    made = Admin(loop=loop)
    made.health.ready()
    try:
        status, _headers, body = made.get("/healthz")
        assert status == 503
        assert json.loads(body) == {"state": "ready", "reasons": [told]}
    finally:
        made.server.stop()
        loop.close()


@pytest.mark.parametrize("lookup", ["getfqdn", "gethostbyaddr"])
def test_no_name_is_looked_up(monkeypatch: pytest.MonkeyPatch, lookup: str) -> None:
    def forbidden(*_arguments: object) -> Callable[..., object]:
        raise AssertionError(lookup)

    monkeypatch.setattr(socket, lookup, forbidden)
    made = Admin()
    try:
        assert made.get("/healthz")[0] == 200
    finally:
        made.server.stop()
