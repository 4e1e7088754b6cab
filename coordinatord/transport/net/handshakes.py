"""Accepting of connections on TLS listeners, such that handshakes do not delay other clients.

A handshake costs the event loop about as much as a hundred heartbeats, and the client decides when it begins. So a
socket waits, unread, until its client has sent the whole client hello; then the socket queues. The kernel reports the
socket when the awaited number of bytes has arrived (SO_RCVLOWAT), so that a client that stops within its hello, or
sends the hello byte by byte, costs nothing.

A turn of the loop begins `PER_TURN` handshakes. At most `AT_ONCE` handshakes are in progress, since all of them may end
in one turn. Handshakes of slow clients do not count towards that limit after `SLOW_S`. A handshake that does not finish
within the time limit is cut off. Waiting sockets count as connections (`max.connections`).

Input other than a hello is inspected while it is still in the kernel's buffer (MSG_PEEK): for a client without TLS, a
log line says so, and the connection is closed.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
import ssl
from collections import deque
from collections.abc import Callable
from typing import Final

from coordinatord.base.observe.logger import get_logger
from coordinatord.transport.net.connection import Connection
from coordinatord.transport.net.connections import Connections
from coordinatord.transport.net.hello import HANDSHAKE_RECORD, Hello
from coordinatord.transport.net.wrong_protocol import plaintext

PER_TURN: Final = 1
"""Handshakes that begin in one turn of the event loop: a millisecond with a key of RSA-2048, half of it with P-256."""

AT_ONCE: Final = 16
SLOW_S: Final = 0.25

ACCEPT_PER_TURN: Final = 64
RETRY_S: Final = 1.0
"""Time after which a listener that ran out of descriptors accepts again, as in asyncio."""
SHUTDOWN_TIMEOUT_S: Final = 1.0
"""Maximum time that a closed connection waits for its peer's close_notify."""

MAX_HELLO: Final = 16 * 1024 + 256
"""Maximum bytes of a hello with its records. Clients' hellos have some hundreds, with post-quantum keys two
thousand.
"""

_FULL = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})

log = get_logger("coordinatord.transport.net")


class Arrived:
    """A socket whose client has not finished its hello."""

    __slots__ = ("awaited", "hello", "peer", "sock", "timer")

    def __init__(self, sock: socket.socket, peer: str, timer: asyncio.TimerHandle) -> None:
        self.hello = Hello()
        #: number of bytes that the kernel waits for before it reports the socket
        self.awaited = 1
        self.sock = sock
        self.peer = peer
        self.timer = timer


class Handshakes:
    """One listening socket. `make` returns the protocol of a new connection, `context` the current TLS context."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        listening: socket.socket,
        make: Callable[[], Connection],
        context: Callable[[], ssl.SSLContext],
        connections: Connections,
        *,
        listener: str,
        protocol: str,
        timeout_s: float,
        backlog: int,
    ) -> None:
        self._loop = loop
        self._listening = listening
        self._make = make
        self._context = context
        self._connections = connections
        self._listener = listener
        self._protocol = protocol
        self._timeout_s = timeout_s
        self._waiting: dict[socket.socket, Arrived] = {}
        self._queue: deque[Arrived] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        #: handshakes that count towards `AT_ONCE`, and whether the next turn begins some
        self._quick: set[asyncio.Task[None]] = set()
        self._is_due = False
        self._is_closed = False
        listening.listen(backlog)
        loop.add_reader(listening, self._accept)

    def __len__(self) -> int:
        """Return the number of sockets that are not yet connections."""
        return len(self._waiting) + len(self._queue) + len(self._tasks)

    def close(self) -> None:
        """Accept nothing more; close the sockets whose handshake has not finished."""
        if self._is_closed:
            return
        self._is_closed = True
        self._loop.remove_reader(self._listening)
        self._listening.close()
        for arrived in (*self._waiting.values(), *self._queue):
            self._drop(arrived)
        self._queue.clear()
        for task in self._tasks:
            task.cancel()

    def _accept(self) -> None:
        for _ in range(ACCEPT_PER_TURN):
            try:
                sock, where = self._listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _FULL:
                    raise
                log.warning("connections cannot be accepted", listener=self._listener, reason=error.strerror)
                self._loop.remove_reader(self._listening)
                self._loop.call_later(RETRY_S, self._accept_again)
                return
            sock.setblocking(False)
            self._arrived(sock, f"{where[0]}:{where[1]}")

    def _accept_again(self) -> None:
        if not self._is_closed:
            self._loop.add_reader(self._listening, self._accept)

    def _arrived(self, sock: socket.socket, peer: str) -> None:
        if len(self._connections) + len(self) >= self._connections.max_connections:
            sock.close()
            self._connections.turned_away(peer)
            return
        timer = self._loop.call_later(self._timeout_s, self._timed_out, sock)
        self._waiting[sock] = Arrived(sock, peer, timer)
        self._loop.add_reader(sock, self._look, sock)

    def _look(self, sock: socket.socket) -> None:
        """Inspect what the client has sent, without reading it."""
        arrived = self._waiting.get(sock)
        if arrived is None:
            return
        try:
            head = sock.recv(MAX_HELLO, socket.MSG_PEEK)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            head = b""
        if len(head) < arrived.awaited:  # the client has ended
            self._drop(arrived)
        elif head[0] != HANDSHAKE_RECORD:
            who = plaintext(head, self._protocol)
            self._refuse(arrived, who.kind, who.reason, advice=who.advice)
        elif (awaited := arrived.hello.awaited(head)) > MAX_HELLO:
            self._refuse(arrived, "tls", f"a TLS hello of more than {MAX_HELLO} bytes")
        elif awaited > len(head):
            self._await(arrived, awaited)
        else:
            self._await(arrived, 1)
            self._loop.remove_reader(sock)
            del self._waiting[sock]
            arrived.timer.cancel()
            self._queue.append(arrived)
            self._begin_soon()

    def _await(self, arrived: Arrived, count: int) -> None:
        """Wait until `count` bytes of the client have arrived."""
        arrived.awaited = count
        arrived.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, count)

    def _begin_soon(self) -> None:
        if self._queue and not self._is_due and len(self._quick) < AT_ONCE:
            self._is_due = True
            self._loop.call_soon(self._begin_some)

    def _begin_some(self) -> None:
        self._is_due = False
        for _ in range(min(PER_TURN, len(self._queue), AT_ONCE - len(self._quick))):
            task = self._loop.create_task(self._shake_hands(self._queue.popleft()))
            self._tasks.add(task)
            self._quick.add(task)
            task.add_done_callback(self._ended)
            self._loop.call_later(SLOW_S, self._no_longer_quick, task)
        self._begin_soon()

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._no_longer_quick(task)

    def _no_longer_quick(self, task: asyncio.Task[None]) -> None:
        if task in self._quick:
            self._quick.discard(task)
            self._begin_soon()

    async def _shake_hands(self, arrived: Arrived) -> None:
        with contextlib.suppress(OSError):
            arrived.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            last_words = arrived.sock.dup()
        except OSError as error:
            arrived.sock.close()
            self._failed(arrived.peer, error)
            return
        try:
            await self._loop.connect_accepted_socket(
                self._make,
                arrived.sock,
                ssl=self._context(),
                ssl_handshake_timeout=self._timeout_s,
                ssl_shutdown_timeout=SHUTDOWN_TIMEOUT_S,
            )
        except OSError as error:
            with contextlib.suppress(OSError):
                last_words.send(getattr(error, "alert", b""))
                last_words.shutdown(socket.SHUT_WR)
            self._failed(arrived.peer, error)
        finally:
            last_words.close()

    def _timed_out(self, sock: socket.socket) -> None:
        arrived = self._waiting.get(sock)
        if arrived is not None:
            self._refuse(arrived, "tls", f"no TLS hello within {self._timeout_s:g} s")

    def _refuse(self, arrived: Arrived, kind: str, reason: str, **what: object) -> None:
        self._connections.refused_early(kind, peer=arrived.peer, reason=reason, listener=self._listener, **what)
        self._drop(arrived)

    def _drop(self, arrived: Arrived) -> None:
        arrived.timer.cancel()
        if self._waiting.pop(arrived.sock, None) is not None:
            self._loop.remove_reader(arrived.sock)
        arrived.sock.close()

    def _failed(self, peer: str, error: Exception) -> None:
        self._connections.refused_early(
            "tls", peer=peer, reason=f"TLS handshake failed: {why(error)}", listener=self._listener
        )


def why(error: Exception) -> str:
    """Return a description of a failed handshake in a few words."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the client's certificate is not trusted: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return (error.reason or str(error)).replace("_", " ").lower()
    return str(error) or type(error).__name__
