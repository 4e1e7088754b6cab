"""The pages of the admin port as a WSGI application, and the small HTTP server that serves them. Imported on the admin
thread only.
"""

from __future__ import annotations

import html
import json
import selectors
import socket
import threading
from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import PackageNotFoundError, version
from socketserver import TCPServer, ThreadingMixIn
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client.exposition import make_wsgi_app

from coordinatord.observe.exposition import ShellCollector, registry
from coordinatord.observe.health import Health
from coordinatord.observe.logger import get_logger
from coordinatord.observe.metrics import Metrics
from kafka_wire.errors import ErrorCode
from kafka_wire.registry import API_NAMES

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

MAX_REQUESTS = 8
"""Concurrent requests: a scraper, a prober, a person, and some spare. Further connections are closed unread."""

REQUEST_TIMEOUT_SECONDS = 10.0
"""A connection that sends or reads nothing for this long is closed."""

Pages = Mapping[str, tuple[str, Callable[[dict[str, list[str]]], object]]]

OK = "200 OK"
UNAVAILABLE = "503 Service Unavailable"


def application(
    metrics: Metrics, health: Health, loop_stuck: Callable[[], str | None], pages: Pages
) -> WSGIApplication:
    """The application with all pages. `pages` may grow while it serves."""
    running = _version()
    collector = ShellCollector(metrics, health, version=running, api_name=_api_name, error_name=_error_name)
    metrics_app: WSGIApplication = make_wsgi_app(registry(collector))

    def answer(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "/") or "/"
        if environ["REQUEST_METHOD"] not in ("GET", "HEAD"):
            return _text(start_response, "405 Method Not Allowed", "Only GET and HEAD.\n", ("Allow", "GET, HEAD"))
        if path == "/metrics":
            return metrics_app(environ, start_response)
        if path == "/healthz":
            live, told = health.live()
            stuck = loop_stuck()
            if stuck is not None:
                live, told = False, {**told, "reasons": [*_reasons(told), stuck]}
            return _json(start_response, OK if live else UNAVAILABLE, told)
        if path == "/readyz":
            ready, told = health.readiness()
            return _json(start_response, OK if ready else UNAVAILABLE, told)
        if path == "/":
            return _html(start_response, _index(running, health, pages))
        if path in pages:
            query = parse_qs(environ.get("QUERY_STRING", ""), max_num_fields=20)
            return _json(start_response, OK, pages[path][1](query))
        return _text(start_response, "404 Not Found", "There is no such page; / names those there are.\n")

    return answer


class AdminHttpServer(ThreadingMixIn, WSGIServer):
    """wsgiref's server on an already bound socket, with at most MAX_REQUESTS threads."""

    daemon_threads = True
    block_on_close = False
    timeout = 0

    def __init__(self, bound: socket.socket, app: WSGIApplication) -> None:
        TCPServer.__init__(self, bound.getsockname()[:2], _Handler, bind_and_activate=False)
        self.socket.close()
        # A connection can close between select and accept, and a blocking accept would wait for the next one.
        bound.setblocking(False)
        self.socket = bound
        # HTTPServer.server_bind would resolve this host's full name, which can take seconds.
        self.server_name, self.server_port = str(bound.getsockname()[0]), int(bound.getsockname()[1])
        self.setup_environ()
        self.set_app(app)
        self._places = threading.BoundedSemaphore(MAX_REQUESTS)

    def serve_until(self, told: socket.socket) -> None:
        """Serve until `told` is readable. Unlike serve_forever, it does not poll and ends at once."""
        with selectors.DefaultSelector() as selector:
            selector.register(self.socket, selectors.EVENT_READ)
            selector.register(told, selectors.EVENT_READ)
            while not any(key.fileobj is told for key, _events in selector.select()):
                self.handle_request()

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._places.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def handle_error(self, _request: Any, client_address: Any) -> None:
        """Prints nothing: a disconnected peer is not worth a traceback on standard error."""
        get_logger().debug("admin request failed", peer=str(client_address), exc_info=True)


class _Handler(WSGIRequestHandler):
    timeout = REQUEST_TIMEOUT_SECONDS

    def address_string(self) -> str:
        return str(self.client_address[0])

    def log_message(self, _format: str, *_arguments: Any) -> None:
        """Logs nothing: probes send a request every few seconds."""


def _api_name(api_key: int) -> str:
    return API_NAMES.get(api_key, str(api_key))


def _error_name(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return str(code)


def _version() -> str:
    try:
        return version("coordinatord")
    except PackageNotFoundError:
        return "unknown"


def _reasons(told: dict[str, object]) -> list[object]:
    reasons = told["reasons"]
    assert isinstance(reasons, list)
    return reasons


def _index(running: str, health: Health, pages: Pages) -> str:
    ready, told = health.readiness()
    links = [
        ("/metrics", "metrics for Prometheus"),
        ("/healthz", "200 while the daemon is worth keeping"),
        ("/readyz", "200 while clients are welcome"),
        *((path, title) for path, (title, _answer) in pages.items()),
    ]
    rows = "".join(
        f'<li><a href="{html.escape(path)}">{html.escape(path)}</a> {html.escape(title)}</li>' for path, title in links
    )
    reasons = "".join(f"<li>{html.escape(str(reason))}</li>" for reason in _reasons(told))
    return (
        "<!doctype html><html lang=en><meta charset=utf-8><title>coordinatord</title>"
        "<style>body{font:16px/1.5 system-ui,sans-serif;max-width:40em;margin:2em auto;padding:0 1em}</style>"
        f"<h1>coordinatord {html.escape(running)}</h1>"
        f"<p>{html.escape(str(told['state']))}{'' if ready else ': not ready for clients'}</p>"
        f"<ul>{reasons}</ul><ul>{rows}</ul></html>\n"
    )


def _json(start_response: StartResponse, status: str, content: object) -> Iterable[bytes]:
    body = json.dumps(content, indent=2, default=str).encode() + b"\n"
    return _respond(start_response, status, "application/json", body)


def _html(start_response: StartResponse, page: str) -> Iterable[bytes]:
    return _respond(start_response, OK, "text/html; charset=utf-8", page.encode())


def _text(start_response: StartResponse, status: str, line: str, *headers: tuple[str, str]) -> Iterable[bytes]:
    return _respond(start_response, status, "text/plain; charset=utf-8", line.encode(), *headers)


def _respond(
    start_response: StartResponse, status: str, content_type: str, body: bytes, *headers: tuple[str, str]
) -> Iterable[bytes]:
    start_response(
        status,
        [
            ("Content-Type", content_type),
            ("Content-Length", str(len(body))),
            ("Cache-Control", "no-store"),
            ("X-Content-Type-Options", "nosniff"),
            *headers,
        ],
    )
    return [body]
