"""What is done around the database, with a driver whose answers the test gives."""

from __future__ import annotations

import contextlib
import sys
import types
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from coordinatord.base.config import Settings
from coordinatord.base.observe.logger import captured
from coordinatord.broker.log import DataDirectory
from coordinatord.broker.log.errors import DataDirectoryError
from coordinatord.broker.topics import catalogue_file
from coordinatord.server.postgresql import node, schema, store, transfer
from coordinatord.server.postgresql.contract import Away, Growth, PartitionKey, Unusable, row_of
from coordinatord.server.postgresql.registry import KnownNode
from coordinatord.server.postgresql.standby_listener import others
from coordinatord.server.postgresql.store import APPEND, RESOLVE, PostgresStore
from coordinatord.transport.cluster.nodes import Node
from kafka_wire.records.batch import build_batch
from tests.broker.log.world import contents
from tests.server.postgresql.model import ModelDatabase

URL = "postgresql://here/log"
TERM = 3
KEY = PartitionKey(b"A" * 16, 0)
GROWTH, ROW = Growth(KEY, "orders", 0, 1), row_of(KEY, 0, bytes(build_batch([(b"k", b"v")], 1)))


class Driver(types.ModuleType):
    """In psycopg's place. Each attempt to append calls the next of `answers`, and raises the error that it returns."""

    class Error(Exception):
        sqlstate: str | None = None

    class OperationalError(Error):
        pass

    InterfaceError = OperationalError

    def __init__(self) -> None:
        super().__init__("psycopg")
        self.conninfo = types.SimpleNamespace(conninfo_to_dict=lambda _url: {"host": "here"})
        self.answers: list[Callable[[], Exception | None]] = []
        self.end_offset = 0
        self.is_away = False

    def connect(self, **_address: object) -> Connection:
        if self.is_away:
            raise self.OperationalError("connection refused")
        return Connection(self)


class Connection:
    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    def transaction(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def execute(self, statement: str, _parameters: object = ()) -> Any:
        if statement == APPEND and (error := self._driver.answers.pop(0)()) is not None:
            raise error
        if statement == transfer.HIGHEST_TERM:
            return types.SimpleNamespace(fetchone=lambda: (TERM,))
        if statement == RESOLVE:
            rows = [(KEY.topic_id, KEY.partition, TERM, self._driver.end_offset)]
            return types.SimpleNamespace(fetchall=lambda: rows)
        return None

    def close(self) -> None:
        pass


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Driver:
    made = Driver()
    monkeypatch.setitem(sys.modules, "psycopg", made)
    monkeypatch.setattr(store, "RETRY_S", 0)
    return made


@pytest.mark.parametrize(
    ("lost", "end_offset", "counted"),
    [
        (0, 0, (1, 0, 0)),
        (1, 1, (1, 1, 1)),  # the answer is lost
        (2, 0, (1, 2, 2)),  # the statement is, twice
    ],
)
def test_appends_retries_and_looks_are_counted(
    lost: int, end_offset: int, counted: tuple[int, int, int], driver: Driver
) -> None:
    """They are the metrics `store_appends`, `store_retries` and `store_resolved_commits`."""
    made = PostgresStore(URL, TERM)
    driver.answers = [lambda: driver.OperationalError("gone")] * lost + [lambda: None]
    driver.end_offset = end_offset
    made.append([], [])
    assert (made.appends, made.retries, made.resolved) == (0, 0, 0)
    made.append([GROWTH], [ROW])
    assert (made.appends, made.retries, made.resolved) == counted
    assert len(driver.answers) == end_offset, "what is committed is not sent again"
    made.close()


def refused(driver: Driver, state: str) -> Exception:
    error = driver.Error("refused")
    error.sqlstate = state
    return error


@pytest.mark.parametrize(("end_offset", "is_stored"), [(1, True), (0, False)])
def test_an_append_that_arrives_after_the_look_is_stored_once(end_offset: int, is_stored: bool, driver: Driver) -> None:
    """The answer to an attempt is lost, its effect is not there yet, and the next attempt finds other ends."""
    made = PostgresStore(URL, TERM)

    def lose() -> Exception:
        return driver.OperationalError("gone")

    def diverge() -> Exception:
        driver.end_offset = end_offset
        return refused(driver, schema.DIVERGED)

    driver.answers = [lose, diverge]
    if is_stored:
        made.append([GROWTH], [ROW])
    else:
        with pytest.raises(Unusable, match="refused"):
            made.append([GROWTH], [ROW])
    assert (made.appends, made.retries, made.resolved, driver.answers) == (int(is_stored), 1, 1, [])
    made.close()


def test_an_append_that_the_database_refuses_ends(driver: Driver) -> None:
    made = PostgresStore(URL, TERM)
    driver.answers, driver.end_offset = [lambda: refused(driver, "42501")], 1
    with pytest.raises(Unusable, match="records not stored: refused"):
        made.append([GROWTH], [ROW])
    assert (made.appends, made.retries, made.resolved) == (0, 0, 0)
    made.close()


def test_an_append_that_fails_is_not_counted(driver: Driver) -> None:
    made = PostgresStore(URL, TERM)
    driver.is_away = True
    made.stop()
    with pytest.raises(Away):
        made.append([GROWTH], [ROW])
    assert (made.appends, made.appending_since_s) == (0, None)
    made.close()


def test_a_node_that_waits_logs_once_in_ten_seconds(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    """At its start, and as often while another node leads, or while the database is away."""
    now_s = [1_000.0]
    lease = types.SimpleNamespace(seat=0, term=4, registration=None)

    def take(*_: object, **__: object) -> Any:
        now_s[0] += 1
        if 1_020 < now_s[0] <= 1_040:
            raise Away("gone")
        return lease if now_s[0] > 1_060 else None

    monkeypatch.setattr(node, "_prepare", lambda *_: ("cluster", ["a warning"]))
    monkeypatch.setattr(node, "take", take)
    monkeypatch.setattr(node, "standing", lambda _link: (7, 3, 2.55))
    monkeypatch.setattr(node, "time", types.SimpleNamespace(monotonic=lambda: now_s[0], sleep=lambda _seconds: None))
    nothing: Any = types.SimpleNamespace(keep=lambda: None, look=lambda _id: None, pause=lambda _left_s: None)
    registration: Any = types.SimpleNamespace(node_id=1, holder="h", lease_ms=5_000)
    with captured() as lines:
        found = node._lead(Settings(storage=URL), registration, nothing, nothing)
    assert found == (lease, "cluster")
    assert lease.registration is registration
    assert Counter(line["event"] for line in lines) == {
        "a warning": 1,
        "another node leads; waiting": 4,
        "the database is away; waiting": 2,
        "this node leads": 1,
    }
    told = {(line["node"], line["term"], line["lease_s"]) for line in lines if line["event"].startswith("another")}
    assert told == {(7, 3, 2.5)}


@pytest.fixture
def stored(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    """A database with one batch of `orders`, and a partition that has none yet."""
    model = ModelDatabase().take()
    model.append([GROWTH, Growth(PartitionKey(KEY.topic_id, 1), "orders", 0, 0)], [ROW])
    monkeypatch.setattr(transfer, "Snapshot", lambda _connection: model)
    monkeypatch.setattr(schema, "check", lambda _connection: "cluster")


@pytest.mark.parametrize("kind", ["missing", "below a missing one", "empty"])
def test_a_copy_is_made_in_a_directory_that_is_missing_or_empty(kind: str, stored: None, tmp_path: Path) -> None:
    target = tmp_path / {"missing": "copy", "below a missing one": "copies/first", "empty": ""}[kind]
    assert transfer.copy(URL, target, node_id=5) == transfer.Moved(1, len(ROW.batch))
    data = DataDirectory.open(str(target), node_id=5, catalogued=catalogue_file.catalogued)
    assert [(log.name, contents(log)) for log in data.logs.values()] == [("orders-0", [(0, b"k", b"v")])]
    assert data.leader_epoch == TERM + 1, "clients may have read what is not in the copy"
    data.close()


def test_a_copy_is_not_made_over_other_files(stored: None, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("precious")
    with pytest.raises(DataDirectoryError, match="is not empty: name a directory that is, or that does not exist yet"):
        transfer.copy(URL, tmp_path, node_id=0)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_no_directory_is_made_while_the_database_is_away(stored: None, driver: Driver, tmp_path: Path) -> None:
    driver.is_away = True
    with pytest.raises(Away, match="cannot connect"):
        transfer.copy(URL, tmp_path / "copy", node_id=0)
    assert not (tmp_path / "copy").exists()


def test_the_nodes_that_clients_receive_are_the_others_that_live_or_lead() -> None:
    addresses = {"PUBLIC": ("b.example", 9092)}
    known = [
        KnownNode(1, None, addresses, 5, 5, "itself", None),
        KnownNode(2, "r", addresses, 5, 5, "waits", None),
        KnownNode(3, None, addresses, 5, -1, "is gone", None),
        KnownNode(4, None, addresses, 5, -1, "its lead has not ended", 0),
        KnownNode(5, None, {"INTERNAL": ("c.example", 9093)}, 5, 5, "does not listen there", 1),
        KnownNode(4, None, {"PUBLIC": ("d.example", 9092)}, 5, 5, "the same in another row", None),
    ]
    assert others(known, "PUBLIC", 1) == [Node(2, "b.example", 9092, "r"), Node(4, "b.example", 9092)]
    assert others([], "PUBLIC", 1) == []
