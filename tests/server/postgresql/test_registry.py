"""The nodes that run, the moves of the lead, and how those that wait hear of a lead that is given back."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from coordinatord.broker.log.ownership import no_catalogue
from coordinatord.cli.store import cluster
from coordinatord.server.postgresql import node as node_module
from coordinatord.server.postgresql import registry, schema
from coordinatord.server.postgresql.contract import Fenced, Growth, PartitionKey, Unusable, row_of
from coordinatord.server.postgresql.database import Link
from coordinatord.server.postgresql.lease import Lease, take
from coordinatord.server.postgresql.node import Waiting
from coordinatord.server.postgresql.registry import Registration
from coordinatord.server.postgresql.standby_copy import StandbyCopy
from coordinatord.server.postgresql.standby_listener import StandbyListener, View
from coordinatord.server.postgresql.status import read_status, status_lines
from coordinatord.server.postgresql.store import PostgresStore
from kafka_wire.records.batch import build_batch
from tests.support.waiting import PATIENCE_S

pytestmark = [pytest.mark.postgresql, pytest.mark.timeout(180)]

LEASE_MS = 60_000
ADDRESSES = {"PLAINTEXT": ("db1", 9092), "INSIDE": ("::1", 19092)}


def prepared(url: str) -> Link:
    link = Link(url)
    schema.migrate(link.open(), "cluster")
    return link


def lead(url: str, registration: Registration, lease_ms: int = LEASE_MS) -> Lease:
    """Take the lead; waits for another node's lease to end."""
    deadline_s = time.monotonic() + PATIENCE_S
    while True:
        lease = take(prepared(url), node_id=registration.node_id, holder=registration.holder, lease_ms=lease_ms)
        if lease is not None:
            lease.registration = registration
            return lease
        assert time.monotonic() < deadline_s
        time.sleep(0.05)


def no_front(cluster_id: str, view: View) -> StandbyListener:
    raise AssertionError("nobody looks")


def test_all_nodes_are_known_while_their_leases_last(database: str) -> None:
    connection = prepared(database).open()
    first = Registration("one", 1, LEASE_MS, "rack", ADDRESSES)
    second, silent = Registration("two", 2, LEASE_MS), Registration("three", 2, 1)
    for each in (first, second, silent):
        each.keep(connection)
    lease = lead(database, first)
    lease.look_around()
    deadline_s = time.monotonic() + PATIENCE_S
    while (found := {each.holder: each for each in registry.nodes(connection)})["three"].lease_s > 0:
        assert time.monotonic() < deadline_s
    assert [(each.node_id, each.leads) for each in found.values()] == [(1, True), (2, False), (2, False)]
    assert found["one"].rack == "rack"
    assert found["one"].addresses == ADDRESSES
    assert found["two"].lease_s > 0
    assert {each.holder for each in lease.nodes} == set(found)
    told = "\n".join(status_lines(read_status(database)))
    assert "node 1 (INSIDE://[::1]:19092, PLAINTEXT://db1:9092): leads" in told
    assert "node 2 (no address): waits" in told
    assert "node 2 (no address): silent" in told
    shown = CliRunner().invoke(cluster, ["status", database, "--json"])
    assert shown.exit_code == 0, shown.output
    status = json.loads(shown.output)
    assert [(each["seat"], each["node_id"], each["term"]) for each in status["seats"]] == [(0, 1, 1)]
    assert [(each["node_id"], each["seat"], each["rack"]) for each in status["nodes"]] == [
        (1, 0, "rack"),
        (2, None, None),
        (2, None, None),
    ]
    assert status["nodes"][0]["addresses"] == ["INSIDE://[::1]:19092", "PLAINTEXT://db1:9092"]
    assert [each["lease_s"] > 0 for each in status["nodes"]] == [True, True, False]
    assert [(each["term"], each["from_node_id"]) for each in status["moves"]] == [(1, -1)]
    assert (status["records"], status["standbys"]) == (0, [])
    # A planned end is no silence: the node is not listed any more.
    lease.close(release=True)
    assert {each.holder for each in registry.nodes(connection)} == {"two", "three"}


def test_rows_of_killed_processes_hide_nobody(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each process that is killed leaves a row for an hour. A leader that nobody sees gets no requests."""
    monkeypatch.setattr(registry, "MOST_NODES", 10)
    connection = prepared(database).open()
    for number in range(registry.MOST_NODES + 20):
        Registration(f"killed {number}", 1, 1).keep(connection)
    leader, waiting = Registration("leader", 9, LEASE_MS), Registration("waiting", 8, LEASE_MS)
    lease = lead(database, leader)
    for each in (leader, waiting):
        each.keep(connection)
    lease.look_around()
    assert [(each.holder, each.leads) for each in lease.nodes if each.lease_s > 0] == [
        ("waiting", False),
        ("leader", True),
    ]
    assert len(lease.nodes) == registry.MOST_NODES
    leader.lease_ms = 1  # it leads still, but has not said for a moment that it lives
    leader.keep(connection)
    time.sleep(0.01)
    for number in range(registry.MOST_NODES):
        Registration(f"living {number}", 7, LEASE_MS).keep(connection)
    assert [each.holder for each in registry.nodes(connection) if each.leads] == ["leader"]
    lease.close(release=False)


def test_moves_are_remembered_with_their_reason(database: str) -> None:
    nodes = [Registration(f"node {number}", number, LEASE_MS) for number in (1, 2, 3)]
    lead(database, nodes[0]).close(release=True)
    lead(database, nodes[1], lease_ms=1_000).close(release=False)  # as after SIGKILL
    lead(database, nodes[2]).close(release=True)
    found = registry.moves(prepared(database).open(), 10)
    assert [(move.term, move.node_id, move.from_node_id, move.was_given_back) for move in found] == [
        (3, 3, 2, False),
        (2, 2, 1, True),
        (1, 1, -1, False),
    ]
    told = "\n".join(status_lines(read_status(database)))
    assert "the lease of node 2 had ended" in told
    assert "node 1 had given the lead back" in told
    assert "the first to lead" in told


def test_only_the_latest_moves_are_kept(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "MOST_MOVES", 2)
    for number in range(4):
        lead(database, Registration(f"node {number}", number, LEASE_MS)).close(release=True)
    assert [move.term for move in registry.moves(prepared(database).open(), 10)] == [4, 3]


def test_a_node_that_waits_hears_of_a_lead_that_is_given_back(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = lead(database, Registration("one", 1, LEASE_MS))
    ahead = StandbyCopy(database, tmp_path, 2, no_catalogue)
    waiting = Waiting(prepared(database), Registration("two", 2, LEASE_MS), no_front, ahead)
    waiting.keep()
    waiting.pause()  # listens from now on
    monkeypatch.setattr(node_module, "WAIT_S", 600.0)  # it is told, or this test is not over in time
    heard = threading.Event()

    def hear() -> None:
        waiting.pause()
        heard.set()

    threading.Thread(target=hear, daemon=True).start()
    assert not heard.wait(0.2)
    lease.close(release=True)
    assert heard.wait(PATIENCE_S)


def test_a_node_that_waits_looks_again_when_the_lease_is_over(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ahead = StandbyCopy(database, tmp_path, 2, no_catalogue)
    waiting = Waiting(prepared(database), Registration("two", 2, LEASE_MS), no_front, ahead)
    waiting.pause()  # listens from now on
    monkeypatch.setattr(node_module, "WAIT_S", 600.0)  # without the lease's end this test is not over in time
    waiting.pause(0.01)


class NoFront:
    def open(self) -> set[str]:
        return set()

    def tell(self, view: View) -> None:
        pass


class NoAhead:
    def __init__(self, *, is_ready: bool) -> None:
        self.is_ready = is_ready

    def begin(self, cluster_id: str) -> None:
        pass


@pytest.mark.parametrize(("is_ready", "has_rival", "hesitates"), [(False, True, 1), (True, True, 0), (False, False, 0)])
def test_a_node_without_a_copy_leaves_the_lead_to_others(
    database: str, monkeypatch: pytest.MonkeyPatch, is_ready: bool, has_rival: bool, hesitates: int
) -> None:
    lease = lead(database, Registration("one", 1, LEASE_MS))
    lease.look_around()
    if has_rival:
        Registration("three", 3, LEASE_MS).keep(prepared(database).open())
    ahead: Any = NoAhead(is_ready=is_ready)
    front: Any = NoFront()
    waiting = Waiting(prepared(database), Registration("two", 2, LEASE_MS), lambda _cluster_id, _view: front, ahead)
    waiting.keep()
    waiting.pause()  # listens from now on
    waiting.look("cluster")
    lease.close(release=True)
    slept: list[float] = []
    clock = SimpleNamespace(sleep=slept.append, monotonic=time.monotonic)
    monkeypatch.setattr(node_module, "time", clock)
    monkeypatch.setattr(node_module, "WAIT_S", 600.0)
    waiting.pause()
    assert slept == [node_module.HESITATES_S] * hesitates


def test_a_registry_that_fails_does_not_end_a_lease(database: str) -> None:
    lease = lead(database, Registration("one", 1, LEASE_MS))
    lease.look_around()
    known = lease.nodes
    prepared(database).open().execute("ALTER TABLE coordinatord_node RENAME TO away")
    lease.look_around()
    assert lease.holds
    assert lease.nodes == known
    lease.renew()
    prepared(database).open().execute("ALTER TABLE away RENAME TO coordinatord_node")
    prepared(database).open().execute("UPDATE coordinatord_node SET addresses = '[1]'")
    with pytest.raises(Unusable, match="addresses that are none, of node 1"):
        registry.nodes(prepared(database).open())
    lease.look_around()
    assert lease.holds


def test_a_leader_of_the_first_version_goes_on_while_a_later_one_migrates(database: str) -> None:
    connection = Link(database).open()
    with connection.transaction():
        connection.execute(schema.FIRST_VERSION)
        connection.execute("INSERT INTO coordinatord_schema VALUES (1)")
        connection.execute(
            "INSERT INTO coordinatord_leader (cluster_id, epoch, node_id, holder, lease_until)"
            " VALUES ('cluster', 7, 1, 'old', clock_timestamp() + interval '1 hour')"
        )
    old = PostgresStore(database, 7)
    key = PartitionKey(b"T" * 16, 0)

    def append(at: int) -> None:
        batch = bytes(build_batch([(b"k", b"v")], 1_000, at))
        old.append([Growth(key, "topic", at, at + 1)], [row_of(key, 0, batch)])

    append(0)
    assert schema.migrate(Link(database).open(), "another") == "cluster"
    append(1)
    assert take(Link(database), node_id=2, holder="new", lease_ms=LEASE_MS) is None, "it still leads"
    connection.execute("UPDATE coordinatord_leader SET lease_until = clock_timestamp() WHERE epoch = 7")
    lease = lead(database, Registration("new", 2, LEASE_MS))
    assert lease.term == 8
    [move] = registry.moves(connection, 10)
    assert move[:4] == (8, 2, 1, False)
    old.close()
    lease.close(release=True)


@pytest.mark.parametrize("version", [2, 3])
def test_a_leader_of_an_older_version_goes_on_while_a_later_one_migrates(database: str, version: int) -> None:
    """Its tables become those of a database with one seat."""
    connection = Link(database).open()
    with connection.transaction():
        for step in schema.MIGRATIONS[:version]:
            connection.execute(step)
        connection.execute("INSERT INTO coordinatord_schema VALUES (%s)", (version,))
        connection.execute(
            "INSERT INTO coordinatord_leader (cluster_id, epoch, node_id, holder, lease_until)"
            " VALUES ('cluster', 7, 1, 'old', clock_timestamp() + interval '1 hour')"
        )
    old = PostgresStore(database, 7)
    keys = [PartitionKey(b"T" * 16, number) for number in range(2)]

    def append(key: PartitionKey, at: int) -> None:
        batch = bytes(build_batch([(b"k", b"v")], 1_000, at))
        old.append([Growth(key, "topic", at, at + 1)], [row_of(key, 0, batch)])

    append(keys[0], 0)
    renewal = "UPDATE coordinatord_leader SET lease_until = clock_timestamp() + interval '1 hour' WHERE epoch = 7"
    assert connection.execute(renewal).rowcount == 1
    assert schema.migrate(Link(database).open(), "another") == "cluster"
    append(keys[0], 1)
    append(keys[1], 0)
    old.put_file("file", b"1")
    old.remove(keys[0], [1])
    assert connection.execute(renewal).rowcount == 1, "as that version's programs renew"
    with pytest.raises(Unusable, match="made for 1 leading nodes"):
        schema.migrate(Link(database).open(), "another", 2)
    assert take(Link(database), node_id=2, holder="new", lease_ms=LEASE_MS) is None, "it still leads"
    connection.execute("UPDATE coordinatord_leader SET lease_until = clock_timestamp() WHERE epoch = 7")
    lease = lead(database, Registration("new", 2, LEASE_MS))
    assert (lease.term, lease.seat) == (8, 0)
    with pytest.raises(Fenced):
        append(keys[0], 2)
    following = PostgresStore(database, lease.term, lease.seat)
    assert [(held.key, held.end_offset) for held in following.partitions()] == [(keys[0], 2), (keys[1], 1)]
    for each in (old, following):
        each.close()
    lease.close(release=True)


def test_a_node_waits_where_nobody_can_be_told(database: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As with engines that speak PostgreSQL's protocol and have no LISTEN."""
    import psycopg

    link, asked = prepared(database), list[str]()
    connection = link.open()

    class Deaf:
        def execute(self, statement: str) -> None:
            asked.append(statement)
            connection.execute("SELECT 1")
            raise psycopg.errors.FeatureNotSupported("unimplemented: this syntax")

        def notifies(self, **_arguments: object) -> None:
            raise AssertionError("it cannot listen")

    deaf = Deaf()
    monkeypatch.setattr(link, "open", lambda: deaf)
    slept: list[float] = []
    monkeypatch.setattr(node_module.time, "sleep", slept.append)
    ahead = StandbyCopy(database, tmp_path, 1, no_catalogue)
    waiting = Waiting(link, Registration("one", 1, LEASE_MS), no_front, ahead)
    for _ in range(3):
        waiting.pause()
    assert asked == [f"LISTEN {node_module.RELEASED}"]
    assert slept == [node_module.WAIT_S] * 2
    connection.close()
