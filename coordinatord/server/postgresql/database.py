"""Connections to PostgreSQL, and the translation of its errors. base/libpq/address.py reads the address."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from concurrent.futures import CancelledError, Future
from typing import TYPE_CHECKING, Any

from coordinatord.base.libpq import address as libpq
from coordinatord.server.postgresql.contract import Away, Fenced, Unusable
from coordinatord.server.postgresql.schema import FENCED, OVERTAKEN

if TYPE_CHECKING:
    from psycopg import Connection

GONE = ("08", "57", "53", "58", "25006", "40", "55P03")
"""SQLSTATEs, or their classes, after which another attempt may succeed: no connection, shut down or cancelled, no room
or memory, an error of the server's system, a server that has become a standby, a deadlock, a lock that was not granted.
"""


def import_psycopg() -> Any:
    """Return the driver. Raises Unusable, with the package to install, if it is missing."""
    try:
        return libpq.import_psycopg("storage=postgresql://")
    except libpq.Unreadable as error:
        raise Unusable(str(error)) from None


def address(url: str) -> dict[str, str]:
    """Return the parameters of a URI. Raises Unusable if it is not a URI, or has a password in it."""
    try:
        return libpq.parameters(url, "storage")
    except libpq.Unreadable as error:
        raise Unusable(str(error)) from None


def shown(url: str) -> str:
    """Return the hosts and the database, for log lines."""
    return libpq.shown(address(url))


def translated(error: Exception, what: str) -> Exception:
    """Return the exception for an error of the driver: Fenced, Away if another attempt may succeed, otherwise
    Unusable.
    """
    psycopg = import_psycopg()
    state = getattr(error, "sqlstate", None) or ""
    told = libpq.first_line(error)
    if state == FENCED:
        return Fenced(f"another node leads now ({told})")
    if (
        state == OVERTAKEN
        or state.startswith(GONE)
        or (not state and isinstance(error, psycopg.OperationalError | psycopg.InterfaceError))
    ):
        return Away(f"{what}: {told}")
    return Unusable(f"{what}: {told}" + (f" (SQLSTATE {state})" if state else ""))


class Link:
    """One connection, opened when first needed. One thread at a time uses it; any thread may `cut` it."""

    def __init__(self, url: str) -> None:
        self._address = address(url)
        self._psycopg = import_psycopg()
        self.errors: type[Exception] = self._psycopg.Error
        self._connection: Connection[Any] | None = None
        self._opening: Future[Connection[Any]] | None = None
        self._cut = threading.Event()
        self._guard = threading.Lock()

    def open(self) -> Connection[Any]:
        """Return the connection; connect if there is none. Raises Away or Unusable."""
        return self._connect() if self._connection is None else self._connection

    def _connect(self) -> Connection[Any]:
        with self._guard:
            if self._cut.is_set():
                raise Away("stopped")
            opening = self._opening = Future()
        threading.Thread(target=self._dial, args=(opening,), name="store-connect", daemon=True).start()
        try:
            connection = opening.result()
        except CancelledError:
            raise Away("stopped while it connected") from None
        except self._psycopg.Error as error:
            raise translated(error, "cannot connect") from None
        except BaseException:  # from a signal handler: the connection is not needed any more
            self.interrupt()
            raise
        with self._guard:
            if self._opening is opening:
                self._opening, self._connection = None, connection
                return connection
        connection.close()  # interrupted at the moment when it was made
        raise Away("stopped while it connected")

    def _dial(self, opening: Future[Connection[Any]]) -> None:
        """Connect, on a separate thread: libpq's lookup of a name cannot be interrupted, nor in most cases its wait for
        a host that accepts and sends nothing. The waiting thread can be cancelled; a connection that is made later is
        closed.
        """
        try:
            connection = self._psycopg.connect(**self._address, autocommit=True)
        except BaseException as error:
            if opening.set_running_or_notify_cancel():
                opening.set_exception(error)
            return
        if opening.set_running_or_notify_cancel():
            opening.set_result(connection)
        else:
            connection.close()

    def close(self) -> None:
        """Close the connection; the next `open` makes another."""
        with self._guard:
            connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(self._psycopg.Error, OSError):
                connection.close()

    def cut(self) -> None:
        """End the wait of another thread, and open no connection any more."""
        self._cut.set()
        self.interrupt()

    def interrupt(self) -> None:
        """End the wait of another thread: its statement, or its connection attempt, fails as if the server had gone."""
        with self._guard:
            opening, self._opening = self._opening, None
            if opening is not None:
                opening.cancel()
            connection = self._connection
            with contextlib.suppress(self._psycopg.Error, OSError):
                if connection is not None:
                    with socket.socket(fileno=os.dup(connection.fileno())) as wire:
                        wire.shutdown(socket.SHUT_RDWR)


def warnings(connection: Connection[Any]) -> list[str]:
    """Return warnings about settings of the server with which it may lose data, a sentence each."""

    def setting(name: str) -> str:
        row = connection.execute("SELECT current_setting(%s)", (name,)).fetchone()
        return str(row[0]) if row is not None else ""

    told = []
    commit, standbys = setting("synchronous_commit"), setting("synchronous_standby_names")
    if commit == "off":
        told.append(
            "synchronous_commit=off: a crash of PostgreSQL loses acknowledged commits of its last moments "
            "(up to three times wal_writer_delay)"
        )
    if setting("fsync") == "off":
        told.append("fsync=off: a crash of PostgreSQL's machine may lose or destroy everything")
    row = connection.execute("SELECT count(*) FROM pg_stat_replication").fetchone()
    followers = int(row[0]) if row is not None else 0
    if followers and not standbys:
        told.append(
            "synchronous_standby_names is empty, so the standbys are asynchronous: the promotion of one loses "
            "acknowledged commits that had not reached it"
        )
    elif standbys and commit == "local":
        told.append(
            "synchronous_commit=local: commits do not wait for the standbys of synchronous_standby_names, "
            "and the promotion of one loses acknowledged commits"
        )
    return told
