"""The pages of the admin port as a WSGI application (web_server.py serves them). Imported on the admin thread only."""

from __future__ import annotations

import html
import ipaddress
import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from http import HTTPStatus
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from prometheus_client.exposition import make_wsgi_app
from prometheus_client.registry import Collector

from coordinatord.base.observe.exposition import ShellCollector, registry
from coordinatord.base.observe.health import Health
from coordinatord.base.observe.log_part import Document, PathHandler
from coordinatord.base.observe.logger import get_logger
from coordinatord.base.observe.metrics import Metrics
from kafka_wire.errors import ErrorCode
from kafka_wire.registry import API_NAMES

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

Pages = Mapping[str, tuple[str, Callable[[dict[str, list[str]]], object]]]

PathHandlers = Mapping[str, PathHandler]

OK = "200 OK"
BAD_REQUEST = "400 Bad Request"
UNAVAILABLE = "503 Service Unavailable"

MAX_FIELDS = 20
"""Maximum number of fields of a query; no page uses as many."""


def application(
    metrics: Metrics | None,
    health: Health,
    loop_stuck: Callable[[], str | None],
    pages: Pages,
    allowed_hosts: Collection[str] = (),
    parts: PathHandlers | None = None,
    collectors: Sequence[Collector] = (),
    listed: Sequence[tuple[str, str]] = (),
) -> WSGIApplication:
    """Return the application with all pages. `pages` and `parts` may grow while it serves; a part also handles other
    methods. `metrics` are a daemon's; `collectors` have further series; the index also lists the pages in `listed`.
    """
    running = _version()
    if metrics is not None:
        told = ShellCollector(metrics, health, version=running, api_name=_api_name, error_name=_error_name)
        collectors = (told, *collectors)
    metrics_app: WSGIApplication = make_wsgi_app(registry(*collectors))

    def answer(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        try:
            return page(environ, start_response)
        except _BadRequest as error:
            return _text(start_response, BAD_REQUEST, f"{error}\n")
        except Exception:
            get_logger().exception("admin page failed", path=environ.get("PATH_INFO"))
            told = "The page could not be made; the log says why.\n"
            return _text(start_response, "500 Internal Server Error", told)

    def page(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        refusal = _refusal(environ, allowed_hosts)
        if refusal is not None:
            return _text(start_response, *refusal)
        path = environ.get("PATH_INFO", "/") or "/"
        for prefix, part in (parts or {}).items():
            if path.startswith(f"{prefix}/"):
                return _answer_part(environ, start_response, path, part)
        if environ["REQUEST_METHOD"] not in ("GET", "HEAD"):
            return _text(start_response, "405 Method Not Allowed", "Only GET and HEAD.\n", ("Allow", "GET, HEAD"))
        if path == "/metrics":
            return _metrics(metrics_app, environ, start_response)
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
            return _html(start_response, _index(running, health, pages, listed))
        if path in pages:
            query: dict[str, list[str]] = {}
            for name, value in _query(environ):
                query.setdefault(name, []).append(value)
            return _json(start_response, OK, pages[path][1](query))
        return _text(start_response, "404 Not Found", "There is no such page; / names those there are.\n")

    return answer


class _BadRequest(Exception):
    """Raised for an invalid request; the message is a sentence for its sender."""


def _query(environ: WSGIEnvironment, *, keep_blank_values: bool = False) -> list[tuple[str, str]]:
    """Return the fields of a request's query. Raises _BadRequest if there are too many."""
    try:
        return parse_qsl(environ.get("QUERY_STRING", ""), keep_blank_values, max_num_fields=MAX_FIELDS)
    except ValueError:
        raise _BadRequest(f"A query has at most {MAX_FIELDS} fields.") from None


def _metrics(app: WSGIApplication, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
    """Return prometheus-client's response. That library fails on an Accept header whose version it cannot read; such a
    header is treated as absent (RFC 9110, 12.5.1).
    """
    try:
        return app(environ, start_response)
    except (TypeError, ValueError):
        return app({**environ, "HTTP_ACCEPT": ""}, start_response)


def _answer_part(
    environ: WSGIEnvironment, start_response: StartResponse, path: str, part: PathHandler
) -> Iterable[bytes]:
    # PATH_INFO is decoded: it does not show which slashes are part of a name.
    raw = str(environ.get("RAW_PATH", path)).partition("?")[0]
    query = dict(_query(environ, keep_blank_values=True))
    scheme, _space, token = str(environ.get("HTTP_AUTHORIZATION", "")).partition(" ")
    status, content = part(str(environ["REQUEST_METHOD"]), raw, query, token if scheme == "Bearer" else "")
    if isinstance(content, Document):
        return _respond(start_response, f"{status} {HTTPStatus(status).phrase}", content.content_type, content.body)
    return _json(start_response, f"{status} {HTTPStatus(status).phrase}", content)


def is_known_host(host: str, allowed: Collection[str]) -> bool:
    """Return whether a request's Host header names this server: an address, a name without dots (`localhost`, a service
    in compose or Kubernetes), or one of `admin.allowed.hosts`. Any other name may belong to a web site that resolves it
    to this address, so that a browser behind our firewall reads pages for that site (DNS rebinding).
    """
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
    name = name.removeprefix("[").removesuffix("]").rstrip(".").lower()
    if "." not in name or name.endswith(".localhost") or name in {each.lower() for each in allowed}:
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _refusal(environ: WSGIEnvironment, allowed: Collection[str]) -> tuple[str, str] | None:
    """Return (status, sentence) if the request is not meant for this server, or comes from a page of another server."""
    host = environ.get("HTTP_HOST", "")
    if host and not is_known_host(host, allowed):
        told = "This name is not known here: use an address, or add the name to admin.allowed.hosts.\n"
        return "421 Misdirected Request", told
    origin = environ.get("HTTP_ORIGIN")
    if origin is not None and origin.partition("://")[2].lower() != host.lower():
        return "403 Forbidden", "Pages of other origins may not ask.\n"
    return None


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


def _index(running: str, health: Health, pages: Pages, listed: Sequence[tuple[str, str]]) -> str:
    ready, told = health.readiness()
    links = [
        *listed,
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
