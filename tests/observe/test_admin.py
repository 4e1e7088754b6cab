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

from coordinatord.config import Listener
from coordinatord.observe import admin as admin_module
from coordinatord.observe import web
from coordinatord.observe.admin import AdminError, AdminServer
from coordinatord.observe.health import Health
from coordinatord.observe.metrics import Metrics

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
    with pytest.raises(AdminError, match=f"^The admin address 127.0.0.1:{taken.port} is in use"):
        AdminServer(taken, Metrics(), Health()).start()


def test_an_address_of_another_machine_is_told_in_a_sentence() -> None:
    with pytest.raises(AdminError, match=r"^Cannot listen on the admin address 192\.0\.2\.1:0: "):
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


def test_more_clients_than_places_are_closed_unread(admin: Admin) -> None:
    assert admin.get("/healthz")[0] == 200
    crowd = [
        socket.create_connection(("127.0.0.1", admin.server.port), timeout=10) for _ in range(web.MAX_REQUESTS + 1)
    ]
    try:
        # The server takes them in order: the last one finds no place.
        assert crowd[-1].recv(1) == b""
    finally:
        for each in crowd:
            each.close()


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
