"""A link to PostgreSQL can be cut while it is being opened: hosts that accept and say nothing hold nobody up."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from coordinatord.broker.log.ownership import no_catalogue
from coordinatord.server.postgresql import standby_copy as ahead_module
from coordinatord.server.postgresql.contract import Away, PartitionKey, Unusable
from coordinatord.server.postgresql.database import Link
from coordinatord.server.postgresql.lease import Lease
from coordinatord.server.postgresql.standby_copy import StandbyCopy
from coordinatord.server.postgresql.store import PostgresStore
from tests.server.postgresql.server import Server
from tests.support.waiting import PATIENCE_S

pytestmark = pytest.mark.postgresql

LONG_S = 600
"""How long libpq would wait: longer than any test may take."""


class Silent:
    """A host that accepts connections and never says a word. `accepted` tells that one is there."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        port = self._socket.getsockname()[1]
        self.url = f"postgresql://user@127.0.0.1:{port}/database?connect_timeout={LONG_S}"
        self.accepted = threading.Semaphore(0)
        self._connections: list[socket.socket] = []
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def _accept(self) -> None:
        while True:
            try:
                self._connections.append(self._socket.accept()[0])
            except OSError:
                return
            self.accepted.release()

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join(PATIENCE_S)
        for each in self._connections:
            each.close()


@pytest.fixture
def silent() -> Iterator[Silent]:
    pytest.importorskip("psycopg", reason="psycopg is not installed (make .venv/.postgresql)")
    host = Silent()
    yield host
    host.close()


class Doing(threading.Thread):
    """Does something on a thread, and keeps what it raised."""

    def __init__(self, work: Callable[[], object]) -> None:
        super().__init__(daemon=True)
        self._work = work
        self.error: Exception | None = None
        self.start()

    def run(self) -> None:
        try:
            self._work()
        except Exception as error:
            self.error = error

    def ended(self) -> bool:
        self.join(PATIENCE_S)
        return not self.is_alive()


@pytest.mark.parametrize("end", ["cut", "interrupt"])
def test_a_connection_that_is_being_opened_can_be_ended(silent: Silent, end: str) -> None:
    link = Link(silent.url)
    opening = Doing(link.open)
    assert silent.accepted.acquire(timeout=PATIENCE_S)
    getattr(link, end)()
    assert opening.ended(), "it goes on waiting for the host"
    assert isinstance(opening.error, Away)
    if end == "cut":
        with pytest.raises(Away):
            link.open()
        assert not silent.accepted.acquire(blocking=False), "a link that is cut connects to nobody"
    else:
        opening = Doing(link.open)
        assert silent.accepted.acquire(timeout=PATIENCE_S), "a link that was interrupted connects again"
        link.cut()
        assert opening.ended()


def test_a_connection_that_nobody_waits_for_any_more_is_closed(server: Server, database: str) -> None:
    """It is there at the moment when the link is cut, or a moment later."""
    link = Link(database)
    connect = link._psycopg.connect
    reached, goes_on = threading.Event(), threading.Event()
    made = []

    def slowly(**address: str) -> object:
        made.append(connect(**address))
        reached.set()
        assert goes_on.wait(PATIENCE_S)
        return made[0]

    link._psycopg = Replaced(link._psycopg, slowly)
    opening = Doing(link.open)
    assert reached.wait(PATIENCE_S)
    link.cut()
    assert opening.ended()
    assert isinstance(opening.error, Away)
    goes_on.set()
    for thread in threading.enumerate():
        if thread.name == "store-connect":
            thread.join(PATIENCE_S)
    assert made[0].closed


class Replaced:
    """The driver with another `connect`."""

    def __init__(self, driver: object, connect: Callable[..., object]) -> None:
        self._driver = driver
        self.connect = connect

    def __getattr__(self, name: str) -> object:
        return getattr(self._driver, name)


def test_a_copy_ahead_lets_go_of_a_host_that_is_silent(silent: Silent, tmp_path: Path) -> None:
    """Otherwise it holds up a node that takes the lead, or that stops."""
    ahead = StandbyCopy(silent.url, tmp_path / "copy", 0, no_catalogue)
    ahead.begin("cluster")
    assert silent.accepted.acquire(timeout=PATIENCE_S)
    assert Doing(ahead.close).ended()


def test_a_copy_ahead_whose_disk_hangs_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nobody may write there while its thread might: the node stops, and is started again."""
    pytest.importorskip("psycopg", reason="psycopg is not installed (make .venv/.postgresql)")
    monkeypatch.setattr(ahead_module, "END_S", 0.05)
    ahead = StandbyCopy("postgresql://user@127.0.0.1:1/database", tmp_path / "copy", 0, no_catalogue)
    hanging, goes_on = threading.Event(), threading.Event()

    def hang(_cluster_id: str) -> None:
        hanging.set()
        assert goes_on.wait(PATIENCE_S)

    ahead.make = hang  # type: ignore[method-assign]
    ahead.begin("cluster")
    assert hanging.wait(PATIENCE_S)
    with pytest.raises(Unusable, match="does its disk answer"):
        ahead.close()
    ahead.close()
    goes_on.set()


def test_a_store_stops_while_it_connects(silent: Silent) -> None:
    store = PostgresStore(silent.url, 1)
    reading = Doing(store.files)
    removing = Doing(lambda: store.remove(PartitionKey(b"T" * 16, 0), [0]))
    for _ in range(2):
        assert silent.accepted.acquire(timeout=PATIENCE_S)
    store.stop()
    assert reading.ended()
    assert removing.ended()
    assert isinstance(reading.error, Away)
    assert isinstance(removing.error, Away)
    assert Doing(store.close).ended()


def test_a_lease_is_closed_while_it_connects(silent: Silent) -> None:
    lease = Lease(Link(silent.url), 1, 0.0, 100)
    lease.begin(lambda _error: None)
    assert silent.accepted.acquire(timeout=PATIENCE_S)
    assert Doing(lambda: lease.close(release=True)).ended()
