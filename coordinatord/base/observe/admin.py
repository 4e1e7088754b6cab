"""The admin port: /metrics, /healthz, /readyz and an index page, over HTTP, on threads of its own.

`start` binds the port, so that an address in use is a startup error; everything else, including the import of the HTTP
server and prometheus-client (30 ms, 5 MiB), happens on the admin thread while the daemon starts. The event loop takes
no part in serving requests, so a busy daemon can still be scraped and a stuck one detected: /healthz makes the loop run
a callback.
"""

from __future__ import annotations

import errno
import os
import socket
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from coordinatord.base.config import Listener
from coordinatord.base.observe.health import Health
from coordinatord.base.observe.log_part import PathHandler
from coordinatord.base.observe.logger import get_logger
from coordinatord.base.observe.metrics import Metrics

if TYPE_CHECKING:
    import asyncio

    from prometheus_client.registry import Collector

BACKLOG = 128
LOOP_ANSWER_SECONDS = 5.0
"""Time in seconds within which the loop must run one callback; a slower loop is not serving its clients."""


class AdminError(Exception):
    """Raised if the admin port cannot be opened; the message is a sentence for the operator."""


class AdminServer:
    """The server of the admin port. `start()` binds and returns at once; `stop()` stops the server."""

    def __init__(
        self,
        listener: Listener,
        metrics: Metrics | None,
        health: Health,
        *,
        loop: asyncio.AbstractEventLoop | None = None,
        allowed_hosts: Sequence[str] = (),
        option: str = "--admin",
    ) -> None:
        """`allowed_hosts`: admin.allowed.hosts. `option`: the command's option for the address, which errors name."""
        self._option = option
        self._allowed_hosts = (*allowed_hosts, listener.host)
        self._listener = listener
        self._metrics = metrics
        self._health = health
        self._loop = loop
        self._socket: socket.socket | None = None
        self._thread: threading.Thread | None = None
        self._stop: tuple[socket.socket, socket.socket] | None = None
        """The thread watches the first end; closing the second end makes the thread stop."""
        self._pages: dict[str, tuple[str, Callable[[dict[str, list[str]]], object]]] = {}
        self._parts: dict[str, PathHandler] = {}
        self._collectors: list[Callable[[], Collector]] = []
        self._listed: list[tuple[str, str]] = []

    @property
    def port(self) -> int:
        """The bound port."""
        assert self._socket is not None, "not started"
        return int(self._socket.getsockname()[1])

    @property
    def url(self) -> str:
        """The URL of the index page, such as `http://127.0.0.1:9644/`."""
        host = self._listener.host
        if host in ("", "0.0.0.0", "::"):
            host = "127.0.0.1"
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}/"

    def add_page(self, path: str, title: str, answer: Callable[[dict[str, list[str]]], object]) -> None:
        """Serve the result of `answer(query)` as JSON under `path`, and list the page in the index. `answer` runs on
        the admin thread.
        """
        self._pages[path] = (title, answer)

    def add_part(self, prefix: str, answer: PathHandler) -> None:
        """Let `answer` serve all requests for paths below `prefix`, whatever their method. `answer` runs on the admin
        thread.
        """
        self._parts[prefix] = answer

    def add_collector(self, make: Callable[[], Collector]) -> None:
        """Serve further series under /metrics. `make` is called on the admin thread, which has prometheus-client."""
        self._collectors.append(make)

    def list_page(self, path: str, title: str) -> None:
        """Name a page of a part in the index."""
        self._listed.append((path, title))

    def start(self) -> None:
        """Bind and begin. Raises AdminError."""
        self._socket = _bound(self._listener, self._option)
        self._stop = socket.socketpair()
        self._thread = threading.Thread(target=self._serve, name="admin", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop listening; responses in progress may be cut off."""
        if self._thread is None or self._stop is None or self._socket is None:
            return
        self._stop[1].close()
        self._thread.join(timeout=2.0)
        if not self._thread.is_alive():
            self._stop[0].close()
            self._socket.close()

    def loop_stuck(self) -> str | None:
        """Return None if the event loop runs callbacks, otherwise a description of the problem. Called on the admin
        thread.
        """
        if self._loop is None:
            return None
        answered = threading.Event()
        try:
            self._loop.call_soon_threadsafe(answered.set)
        except RuntimeError:
            return "the event loop is closed"
        if answered.wait(LOOP_ANSWER_SECONDS):
            return None
        return f"the event loop did not answer within {LOOP_ANSWER_SECONDS:g} s"

    def _serve(self) -> None:
        from coordinatord.base.observe import web, web_server  # imported on this thread, so as not to delay the start

        assert self._socket is not None
        assert self._stop is not None
        try:
            app = web.application(
                self._metrics, self._health, self.loop_stuck, self._pages, self._allowed_hosts, self._parts,
                [make() for make in self._collectors], self._listed,
            )  # fmt: skip
            web_server.AdminHttpServer(self._socket, app).serve_until(self._stop[0])
        except Exception:
            get_logger().exception("admin port failed", url=self.url)


def _bound(listener: Listener, option: str) -> socket.socket:
    family = socket.AF_INET6 if ":" in listener.host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        if os.name == "posix":
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((listener.host, listener.port))
        bound.listen(BACKLOG)
    except OSError as error:
        bound.close()
        if error.errno == errno.EADDRINUSE:
            raise AdminError(
                f"The address {listener.address} of {option} is in use: another program listens there. "
                f"Choose another one with {option} HOST:PORT."
            ) from error
        raise AdminError(
            f"Cannot listen on the address {listener.address} of {option}: {error.strerror or error}."
        ) from error
    return bound
