"""The store on PostgreSQL itself: its tables, its fences, commits whose fate is not known; and the model beside it."""

from __future__ import annotations

import random
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from coordinatord.server.postgresql import schema
from coordinatord.server.postgresql.contract import Away, Fenced, Growth, PartitionKey, Row, Store, Unusable, row_of
from coordinatord.server.postgresql.database import Link, address, warnings
from coordinatord.server.postgresql.lease import Lease, take
from coordinatord.server.postgresql.store import APPEND, PostgresStore
from kafka_wire.records.batch import build_batch
from tests.server.postgresql.lossy import LossyLink
from tests.server.postgresql.model import LOST_AFTER, LOST_BEFORE, ModelDatabase, batches_of
from tests.server.postgresql.server import ROLE, Server
from tests.support.waiting import wait_until

pytestmark = pytest.mark.postgresql

KEY = PartitionKey(b"T" * 16, 0)
LEASE_MS = 60_000


def batch(base_offset: int, count: int = 1, value: bytes = b"v") -> bytes:
    return bytes(build_batch([(b"k", value)] * count, 1_000, base_offset))


def growth(before: int, after: int, key: PartitionKey = KEY) -> Growth:
    return Growth(key, "topic", before, after)


def append(store: Store, before: int, count: int = 1, key: PartitionKey = KEY, value: bytes = b"v") -> None:
    store.append([growth(before, before + count, key)], [row_of(key, 0, batch(before, count, value))])


def taken(url: str, node_id: int = 1, lease_ms: int = LEASE_MS, seats: int = 1) -> Lease:
    link = Link(url)
    schema.migrate(link.open(), "cluster", seats)
    lease = take(link, node_id=node_id, holder=f"node {node_id}", lease_ms=lease_ms)
    assert lease is not None
    return lease


@contextmanager
def store_of(url: str, term: int, seat: int = 0) -> Iterator[PostgresStore]:
    store = PostgresStore(url, term, seat)
    try:
        yield store
    finally:
        store.stop()
        store.close()


def next_term(lease: Lease) -> int:
    """Another node takes the lead."""
    lease.close(release=True)
    return lease.term + 1


# The tables


def test_a_role_without_rights_makes_the_tables_once(server: Server, database: str) -> None:
    rights = server.ask(
        "postgres", f"SELECT rolsuper, rolcreatedb, rolcreaterole FROM pg_roles WHERE rolname = '{ROLE}'"
    )
    assert rights == [(False, False, False)]
    found: list[str] = []

    def migrate(name: str) -> None:
        link = Link(database)
        found.append(schema.migrate(link.open(), name))
        link.close()

    threads = [threading.Thread(target=migrate, args=(f"cluster-{number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(90)
    assert len(found) == 4
    assert len(set(found)) == 1, "one of them made the tables, the others waited for it"


def test_tables_of_a_later_program_are_refused(server: Server, database: str) -> None:
    link = Link(database)
    with pytest.raises(Unusable, match="has no tables"):
        schema.check(link.open())
    schema.migrate(link.open(), "cluster")
    assert schema.check(link.open()) == "cluster"
    server.ask(database.rsplit("/", 1)[1], f"UPDATE coordinatord_schema SET version = {schema.VERSION + 1}")
    with pytest.raises(Unusable, match="start the later one"):
        schema.migrate(link.open(), "cluster")
    link.close()


def test_a_password_in_the_address_is_refused() -> None:
    pytest.importorskip("psycopg", reason="psycopg is not installed (make .venv/.postgresql)")
    with pytest.raises(Unusable, match="PGPASSWORD"):
        address("postgresql://user:secret@host/database")
    several = address("postgresql://u@a:1,b:2/d?sslmode=verify-full&passfile=/p&target_session_attrs=any")
    assert (several["host"], several["port"], several["target_session_attrs"]) == ("a,b", "1,2", "any")
    assert (several["sslmode"], several["passfile"]) == ("verify-full", "/p")


def test_what_the_server_may_lose_is_told(server: Server, database: str) -> None:
    link = Link(database)
    assert warnings(link.open()) == []
    link.open().execute("SET synchronous_commit = off")
    assert "acknowledged commits" in warnings(link.open())[0]
    link.close()


# Fences


def fence_holds(url: str, leave_out: Callable[[], object] = lambda: None) -> None:
    """A node that another one has followed changes nothing, whatever it tries."""
    lease = taken(url)
    with store_of(url, lease.term) as store:
        append(store, 0)
        store.put_file("file", b"1")
        following = taken_after(url, lease)
        leave_out()
        noticed: list[str] = []
        for change in (
            lambda: append(store, 1),
            lambda: append(store, 0, key=PartitionKey(b"N" * 16, 0)),
            lambda: store.put_file("file", b"2"),
            lambda: store.put_file("other", b"2", waits=True),
            lambda: store.replace(KEY, 0, 1, []),
            lambda: store.remove(KEY, [0]),
        ):
            try:
                change()
            except Fenced:
                continue
            except Unusable:  # what it found there is not what it left there
                noticed.append("late")
                continue
            noticed.append("never")
        assert not noticed, f"a former leader went on: {noticed}"
        store.forget([KEY])
        with store_of(url, following.term) as new:
            assert [held.end_offset for held in new.partitions()] == [1]
            assert batches_of(new, KEY) == [(0, batch(0))]
            assert new.files() == {"file": b"1"}
            append(new, 1)
    following.close(release=True)


def taken_after(url: str, lease: Lease) -> Lease:
    lease.close(release=True)
    return taken(url, 2)


def test_a_former_leader_changes_nothing(database: str) -> None:
    fence_holds(database)


def test_a_missing_fence_is_noticed(server: Server, database: str) -> None:
    def leave_out() -> None:
        server.ask(
            database.rsplit("/", 1)[1],
            "CREATE OR REPLACE FUNCTION coordinatord_fence(term bigint) RETURNS void LANGUAGE plpgsql AS "
            "$$ BEGIN END $$",
        )

    with pytest.raises(AssertionError, match="a former leader"):
        fence_holds(database, leave_out)


def test_the_ends_and_the_keys_catch_a_second_leader(server: Server, database: str) -> None:
    """If two nodes had the same term, which cannot be, the second one to write would be refused."""
    lease = taken(database)
    with store_of(database, lease.term) as one, store_of(database, lease.term) as other:
        append(one, 0, value=b"one")
        with pytest.raises(Unusable, match="partitions end"):
            append(other, 0, 2, value=b"other")
        assert batches_of(one, KEY) == [(0, batch(0, value=b"one"))]
    import psycopg

    with pytest.raises(psycopg.errors.UniqueViolation):
        server.ask(database.rsplit("/", 1)[1], "INSERT INTO coordinatord_batch SELECT * FROM coordinatord_batch")
    lease.close(release=True)


def test_an_append_is_all_or_nothing(database: str) -> None:
    lease = taken(database)
    other = PartitionKey(b"T" * 16, 1)
    with store_of(database, lease.term) as store:
        append(store, 0)
        rows = [row_of(KEY, 0, batch(1)), row_of(other, 0, batch(5))]
        with pytest.raises(Unusable):
            store.append([growth(1, 2), growth(5, 6, other)], rows)
        assert [(held.key, held.end_offset) for held in store.partitions()] == [(KEY, 1)]
    lease.close(release=True)


# Commits whose fate is not known


def lossy(url: str, store: PostgresStore) -> deque[str]:
    link = LossyLink(url, APPEND)
    store._writing.close()
    store._writing = link
    return link.faults


def test_a_lost_connection_commits_once(database: str) -> None:
    lease = taken(database)
    with store_of(database, lease.term) as store:
        faults = lossy(database, store)
        for number, fault in enumerate((LOST_AFTER, LOST_BEFORE, "", LOST_AFTER)):
            faults.append(fault)
            append(store, number)
        faults.extend((LOST_BEFORE, LOST_BEFORE, LOST_AFTER))
        append(store, 4)
        assert [each for _segment, each in batches_of(store, KEY)] == [batch(number) for number in range(5)]
        assert store.resolved == 6
    lease.close(release=True)


def test_a_lost_commit_of_a_former_leader_is_not_told_as_made(database: str) -> None:
    """Its connection is lost in a commit; another node takes the lead before it can look."""
    lease = taken(database)
    with store_of(database, lease.term) as store:
        faults = lossy(database, store)
        append(store, 0)
        faults.append(LOST_AFTER)
        failed: list[BaseException] = []
        original = store._has

        def slow(connection: Any, growths: Any) -> bool:
            taken_after(database, lease).close(release=True)
            return original(connection, growths)

        store._has = slow  # type: ignore[method-assign]
        with pytest.raises(Fenced):
            append(store, 1)
        assert not failed


def test_a_commit_that_is_still_under_way_is_waited_for(server: Server, database: str) -> None:
    """The server goes on with a statement whose client is gone: whoever looks meanwhile must not say that it failed."""
    import psycopg

    lease = taken(database)
    name = database.rsplit("/", 1)[1]
    with store_of(database, lease.term) as store, psycopg.connect(server.url(name, "postgres")) as blocker:
        append(store, 0)
        blocker.execute("SELECT 1 FROM coordinatord_partition FOR UPDATE")
        appending = threading.Thread(target=append, args=(store, 1))
        appending.start()
        waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        wait_until(lambda: server.ask(name, waiting) == [(1,)])
        store._writing.interrupt()
        wait_until(lambda: server.ask(name, waiting) == [(2,)], "the look to wait behind the old statement")
        blocker.rollback()
        appending.join(90)
        assert [each for _segment, each in batches_of(store, KEY)] == [batch(0), batch(1)]
        assert store.resolved >= 1
    lease.close(release=True)


def test_an_append_waits_for_the_database_and_ends_with_the_process(victim: Server) -> None:
    url = victim.make_database("waits")
    lease = taken(url)
    with store_of(url, lease.term) as store:
        append(store, 0)
        victim.kill()
        with pytest.raises(Away):
            store.put_file("topics.json", b"{}")
        done: list[str] = []
        appending = threading.Thread(target=lambda: (append(store, 1), done.append("1")))
        appending.start()
        wait_until(lambda: store.retries > 0)
        assert store.appending_since_s is not None
        assert not done
        victim.start()
        appending.join(90)
        assert done == ["1"]
        victim.kill()
        victim.start()
        store.put_file("topics.json", b"{}")  # on a connection that was closed meanwhile
        assert store.files() == {"topics.json": b"{}"}
        victim.kill()
        failed: list[BaseException] = []

        def fail() -> None:
            try:
                append(store, 2)
            except Away as error:
                failed.append(error)

        appending = threading.Thread(target=fail)
        appending.start()
        store.stop()
        appending.join(90)
        assert failed, "a process that stops gives up"
        victim.start()
    with store_of(url, lease.term) as store:
        assert [each for _segment, each in batches_of(store, KEY)] == [batch(0), batch(1)]


# The model


class Player:
    """Plays a script on a store and its followers; `told` is what they said."""

    def __init__(
        self, take_over: Callable[[int], Store], faults: Callable[[Store, list[str]], None], seats: int = 1
    ) -> None:
        self._take_over = take_over
        self._faults = faults
        self._seats = seats
        self._seat_of: list[int] = []
        self.stores: list[Store] = []
        self.ends: list[dict[PartitionKey, int]] = []
        self.told: list[str] = []

    def play(self, seed: int, steps: int) -> None:
        chance = random.Random(seed)
        keys = [PartitionKey(bytes([65 + topic]) * 16, number) for topic in range(2) for number in range(2)]
        for step in range(steps):
            seat = chance.randrange(self._seats)
            if seat not in self._seat_of or chance.random() < 0.08:
                store = self._take_over(seat)
                self.stores.append(store)
                self._seat_of.append(seat)
                self.ends.append({held.key: held.end_offset for held in store.partitions()})
            at = len(self.stores) - 1 if chance.random() < 0.85 else chance.randrange(len(self.stores))
            own = [key for key in keys if key.partition % self._seats == self._seat_of[at]]
            kind, key, count, other = chance.random(), chance.choice(own), chance.randint(1, 3), chance.choice(own)
            faults = [chance.choice(["", LOST_BEFORE, LOST_AFTER]) for _ in range(3)] if chance.random() < 0.4 else []
            try:
                self._step(at, kind, {key, other}, count, faults, f"{step}".encode())
                self.told.append("ok")
            except (Away, Fenced, Unusable) as error:
                self.told.append(type(error).__name__)

    def _step(self, at: int, kind: float, keys: set[PartitionKey], count: int, faults: list[str], value: bytes) -> None:
        store, ends = self.stores[at], self.ends[at]
        ordered = sorted(keys, key=lambda key: (key.topic_id, key.partition))
        first = ordered[0]
        end = ends.get(first, 0)
        if kind < 0.7:
            growths = [growth(ends.get(key, 0), ends.get(key, 0) + count, key) for key in ordered]
            self._faults(store, faults)  # those of this append alone
            # Every row is a segment of its own, so that some can be removed.
            store.append(growths, [row_of(g.key, g.end_before, batch(g.end_before, count, value)) for g in growths])
            ends.update({each.key: each.end_after for each in growths})
        elif kind < 0.8:
            store.put_file(f"file {count}", value, waits=count == 1)
        elif kind < 0.9 and end:
            rows = [row_of(first, 0, batch(end - 1, 1, value))]
            kept = [base for base, _row in rows_of(store, first) if base < end]
            store.replace(first, 0, end, [row._replace(segment=0) for row in rows] if kept else [])
        elif kind < 0.95:
            store.remove(first, [segment for segment, _batch in batches_of(store, first)][:1])

    def holds(self) -> dict[str, Any]:
        latest = dict(zip(self._seat_of, self.stores, strict=True))
        store = self.stores[-1]
        held = {seat: each.partitions() for seat, each in sorted(latest.items())}
        return {
            "partitions": held,
            "batches": {each.key: batches_of(latest[seat], each.key) for seat in held for each in held[seat]},
            "files": store.files(),
        }


def set_to(queue: deque[str], faults: list[str]) -> None:
    queue.clear()
    queue.extend(faults)


def rows_of(store: Store, key: PartitionKey) -> list[tuple[int, Row]]:
    return [(row.base_offset, row) for row in (row_of(key, segment, each) for segment, each in batches_of(store, key))]


@pytest.mark.parametrize(("seed", "seats"), [*((seed, 1) for seed in range(6)), (6, 2), (7, 2)])
def test_the_model_does_what_postgresql_does(server: Server, database: str, seed: int, seats: int) -> None:
    model = ModelDatabase()
    modelled = Player(model.take, lambda _store, faults: set_to(model.faults, faults), seats)
    modelled.play(seed, 60 * seats)
    leases: dict[int, Lease] = {}
    stores: list[PostgresStore] = []
    faults_of: dict[int, deque[str]] = {}

    def take_over(seat: int) -> Store:
        if seat in leases:
            leases.pop(seat).close(release=True)
        for number in range(seats):  # a node takes what is free: those that are not to be taken must not be
            if number not in leases:
                leases[number] = taken(database, 1_000 + len(stores) * seats + number, seats=seats)
        stores.append(PostgresStore(database, leases[seat].term, seat))
        faults_of[id(stores[-1])] = lossy(database, stores[-1])
        return stores[-1]

    def put(store: Store, faults: list[str]) -> None:
        set_to(faults_of[id(store)], faults)

    played = Player(take_over, put, seats)
    try:
        played.play(seed, 60 * seats)
        assert played.told == modelled.told
        assert played.holds() == modelled.holds()
        assert {"ok", "Fenced"} <= set(played.told), "the script tries both"
    finally:
        for store in stores:
            store.stop()
            store.close()
