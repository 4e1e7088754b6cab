"""The small HTTP server of the admin port. Imported on the admin thread only.

One thread reads request heads and writes responses, for all peers at once and without blocking on any; a request has a
thread of its own only while its page is made. So a slow peer costs one socket until its time limit. Probes have threads
of their own: a slow page does not delay them.

If there are more connections than `MAX_CLIENTS`, room is made for new ones: the server closes the oldest connection, of
those still sending or reading, of the peer with the most connections. A probe sends its request as it connects, and
gets its response before that can happen.

No library replaces it: at its limit waitress accepts no connection until one is idle for its whole time limit, which a
peer that sends a byte at a time never is, and its probes would wait for the threads that make pages.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final
from wsgiref.simple_server import WSGIRequestHandler

from coordinatord.base.observe.logger import get_logger

if TYPE_CHECKING:
    from wsgiref.types import WSGIApplication, WSGIEnvironment

MAX_CLIENTS: Final = 56
"""Maximum number of connections at one time; transport/net/descriptors.py reserves 64 descriptors for the admin
port.
"""

MAX_REQUESTS: Final = 8
"""Maximum number of pages that are made at one time: for a scraper, a person, and some spare. Further requests wait."""

MAX_PROBES: Final = 4
"""Maximum number of probes that are served at one time, in addition to `MAX_REQUESTS`; /healthz may wait for the event
loop.
"""

PROBES: Final = (b"GET /healthz", b"GET /readyz", b"HEAD /healthz", b"HEAD /readyz")

HEAD_BYTES: Final = 16 * 1024
HEAD_SECONDS: Final = 5.0
RESPONSE_SECONDS: Final = 10.0
"""The peer must send its request within `REQUEST_SECONDS` of connecting, and read the response within
`RESPONSE_SECONDS`.
"""


BAD_REQUEST: Final = b"HTTP/1.0 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
"""Response to a head in which wsgiref finds no request."""

TOO_LARGE: Final = BAD_REQUEST.replace(b"400 Bad Request", b"431 Request Header Fields Too Large")
"""Response to a head of more than HEAD_BYTES."""


@dataclass(slots=True, eq=False)
class _Client:
    """One connection: it sends its request, waits for the page, and reads the response. `deadline_s` is monotonic."""

    socket: socket.socket
    peer: tuple[Any, ...]
    deadline_s: float
    is_probe: bool = False
    #: true if its page is being made, or waits for that: the server does not wait for the peer
    is_served: bool = False
    head: bytearray = field(default_factory=bytearray)
    response: memoryview = field(default_factory=lambda: memoryview(b""))


class AdminHttpServer:
    """Serves a WSGI application on a listening socket."""

    def __init__(self, bound: socket.socket, app: WSGIApplication) -> None:
        bound.setblocking(False)
        self.socket = bound
        self.app = app
        host, port = bound.getsockname()[:2]
        #: for wsgiref, which reads both from its server; wsgiref would resolve this host's full name, which takes
        #: seconds
        self.base_environ = {
            "SERVER_NAME": str(host), "SERVER_PORT": str(port), "GATEWAY_INTERFACE": "CGI/1.1",
            "REMOTE_HOST": "", "CONTENT_LENGTH": "", "SCRIPT_NAME": "",
        }  # fmt: skip
        self._selector = selectors.DefaultSelector()
        self._clients: dict[_Client, None] = {}
        self._waiting: dict[bool, deque[_Client]] = {False: deque(), True: deque()}
        self._places = {False: MAX_REQUESTS, True: MAX_PROBES}
        self._made: deque[_Client] = deque()
        self._woken, self._wake = socket.socketpair()

    def get_app(self) -> WSGIApplication:
        """Return the WSGI application; wsgiref calls this."""
        return self.app

    def serve_until(self, told: socket.socket) -> None:
        """Serve until `told` is readable."""
        select = self._selector
        self._woken.setblocking(False)
        with select, self._woken, self._wake:
            select.register(self.socket, selectors.EVENT_READ, lambda: self._accept())
            select.register(self._woken, selectors.EVENT_READ, lambda: self._take_made())
            select.register(told, selectors.EVENT_READ)
            try:
                while self._turn(told):
                    self._close_late()
            finally:
                for client in list(self._clients):
                    self._close(client)

    def _turn(self, wakeup: socket.socket) -> bool:
        """Serve the ready connections; returns False if the server is to stop."""
        deadlines = [each.deadline_s for each in self._clients if not each.is_served]
        timeout_s = max(0.0, min(deadlines) - time.monotonic()) if deadlines else None
        for key, _events in self._selector.select(timeout_s):
            if key.fileobj is wakeup:
                return False
            if key.fileobj in self._selector.get_map():  # not closed in this turn to make room
                key.data()
        return True

    def _accept(self) -> None:
        for _ in range(MAX_CLIENTS):  # and then serve connections that are ready
            try:
                accepted, peer = self.socket.accept()
            except OSError:  # no more clients, or one that has already disconnected
                return
            if len(self._clients) >= MAX_CLIENTS and not self._make_room():
                accepted.close()
                continue
            accepted.setblocking(False)
            client = _Client(accepted, peer, time.monotonic() + HEAD_SECONDS)
            self._clients[client] = None
            self._watch(client, selectors.EVENT_READ, self._read)
            self._read(client)

    def _make_room(self) -> bool:
        """Close the oldest connection that waits for its peer, of the peer with the most such connections. Returns
        whether there was one.
        """
        waited = [each for each in self._clients if not each.is_served]
        if not waited:
            return False
        [(host, _count)] = Counter(each.peer[0] for each in waited).most_common(1)
        self._close(next(each for each in waited if each.peer[0] == host))
        return True

    def _watch(self, client: _Client, events: int, ready: Callable[[_Client], None]) -> None:
        self._selector.register(client.socket, events, lambda: ready(client))

    def _read(self, client: _Client) -> None:
        try:
            data = client.socket.recv(HEAD_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        head = client.head
        head += data
        if b"\r\n\r\n" in head or b"\n\n" in head:
            self._selector.unregister(client.socket)
            client.is_served = True
            client.is_probe = head.startswith(PROBES)
            self._waiting[client.is_probe].append(client)
            self._begin(client.is_probe)
        elif not data:
            self._close(client)
        elif len(head) > HEAD_BYTES:
            self._selector.unregister(client.socket)
            client.response = memoryview(TOO_LARGE)
            self._begin_to_write(client)

    def _begin(self, is_probe: bool) -> None:
        """Make the pages that wait, up to the limits."""
        waiting = self._waiting[is_probe]
        while waiting and self._places[is_probe]:
            self._places[is_probe] -= 1
            threading.Thread(target=self._make, args=(waiting.popleft(),), name="admin-page", daemon=True).start()

    def _make(self, client: _Client) -> None:
        """Make a page, on a thread of its own."""
        try:
            response = _Handler(bytes(client.head), client.peer, self).wfile.getvalue()
        except Exception:  # an invalid head is not worth a traceback on standard error
            get_logger().debug("admin request failed", peer=str(client.peer), exc_info=True)
            response = b""
        client.response = memoryview(response or BAD_REQUEST)
        self._made.append(client)
        with contextlib.suppress(OSError):  # the server has stopped
            self._wake.send(b"\0")

    def _take_made(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._woken.recv(4096)
        while self._made:
            client = self._made.popleft()
            self._places[client.is_probe] += 1
            client.is_served = False
            self._begin_to_write(client)
        self._begin(False)
        self._begin(True)

    def _begin_to_write(self, client: _Client) -> None:
        client.deadline_s = time.monotonic() + RESPONSE_SECONDS
        self._watch(client, selectors.EVENT_WRITE, self._write)
        self._write(client)

    def _write(self, client: _Client) -> None:
        try:
            client.response = client.response[client.socket.send(client.response) :]
        except BlockingIOError:
            return
        except OSError:
            client.response = memoryview(b"")
        if not client.response:
            self._close(client)

    def _close_late(self) -> None:
        now_s = time.monotonic()
        for client in [each for each in self._clients if not each.is_served and each.deadline_s <= now_s]:
            self._close(client)

    def _close(self, client: _Client) -> None:
        with contextlib.suppress(KeyError):
            self._selector.unregister(client.socket)
        del self._clients[client]
        with contextlib.suppress(OSError):
            client.socket.shutdown(socket.SHUT_WR)
        client.socket.close()


class _Handler(WSGIRequestHandler):
    """wsgiref's handler, with bytes as input and output."""

    request: bytes
    rfile: BytesIO
    wfile: BytesIO
    default_request_version = "HTTP/1.0"  # with 0.9, the error response to an invalid request line has no status

    def __init__(self, request: bytes, peer: tuple[Any, ...], server: AdminHttpServer) -> None:
        super().__init__(request, peer, server)  # type: ignore[arg-type]  # it needs no more than these three have

    def setup(self) -> None:
        self.rfile, self.wfile = BytesIO(self.request), BytesIO()

    def finish(self) -> None:
        """Close nothing: the response is read from `wfile`."""

    def get_environ(self) -> WSGIEnvironment:
        environ = super().get_environ()
        environ["RAW_PATH"] = self.path
        return environ

    def address_string(self) -> str:
        return str(self.client_address[0])

    def log_message(self, _format: str, *_arguments: Any) -> None:
        """Log nothing: probes send a request every few seconds."""
