"""The lease of a seat: who may take it, and what renewals and take-overs wait for."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from coordinatord.server.postgresql.contract import Fenced
from coordinatord.server.postgresql.database import Link
from coordinatord.server.postgresql.lease import Lease, standing, take
from coordinatord.server.postgresql.store import PostgresStore
from tests.server.postgresql.model import batches_of
from tests.server.postgresql.server import Server
from tests.server.postgresql.test_store import KEY, LEASE_MS, append, batch, store_of, taken, taken_after
from tests.support.waiting import wait_until

pytestmark = pytest.mark.postgresql


def test_a_lease_keeps_others_away_until_it_ends(server: Server, database: str) -> None:
    lease = taken(database, lease_ms=60_000)
    other = Link(database)
    assert take(other, node_id=2, holder="other", lease_ms=60_000) is None
    lease.renew()
    answers_s = lease.left_s
    node_id, term, left_s = standing(other)
    assert (node_id, term) == (1, lease.term)
    assert 0 < left_s <= 60
    assert answers_s <= 48, "a fifth of the lease is its margin"
    lease.ends_s = 0.0
    assert not lease.holds
    assert take(other, node_id=2, holder="other", lease_ms=60_000) is None, "by the database's clock it lasts"
    lease.renew()
    assert lease.holds, "nobody has led meanwhile"
    ends = "UPDATE coordinatord_leader SET lease_until = clock_timestamp() - interval '1 second'"
    server.ask(database.rsplit("/", 1)[1], ends)
    new = take(other, node_id=2, holder="other", lease_ms=60_000)
    assert new is not None
    with pytest.raises(Fenced):
        lease.renew()
    assert lease.lost
    assert not lease.holds
    new.close(release=True)


def test_a_lease_that_nobody_renews_ends(database: str) -> None:
    lease = taken(database, lease_ms=1_000)
    other = Link(database)
    new: list[Lease] = []

    def taken_now() -> bool:
        found = take(other, node_id=2, holder="other", lease_ms=60_000)
        new.extend([found] if found else [])
        return found is not None

    wait_until(taken_now)
    assert not lease.holds, "it stopped answering before another one led"
    new[0].close(release=True)
    lease.close(release=True)
    assert standing(Link(database))[1] == new[0].term


def test_a_take_over_that_is_repeated_does_not_wait_for_itself(database: str) -> None:
    lease = taken(database)
    again = take(Link(database), node_id=1, holder="node 1", lease_ms=LEASE_MS)
    assert again is not None
    assert again.term == lease.term + 1
    again.close(release=True)


@contextmanager
def append_under_way(server: Server, url: str, store: PostgresStore) -> Iterator[threading.Thread]:
    """The first append to a partition: it has locked the leader's row, and stays in its transaction for the block."""
    import psycopg

    with psycopg.connect(server.url(url.rsplit("/", 1)[1], "postgres")) as blocker:
        blocker.execute("LOCK TABLE coordinatord_batch IN ACCESS EXCLUSIVE MODE")
        appending = threading.Thread(target=append, args=(store, 0))
        appending.start()
        wait_until(lambda: waiting(server, url) == 1)
        yield appending
        blocker.rollback()
    appending.join(90)


def waiting(server: Server, url: str) -> object:
    """The number of statements that wait for a lock."""
    statement = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    return server.ask(url.rsplit("/", 1)[1], statement)[0][0]


def test_a_renewal_does_not_wait_for_an_append(server: Server, database: str) -> None:
    """It waited until the database had stored a large batch: the lease ended, and the node served nobody."""
    lease = taken(database)
    lease._link.open().execute("SET lock_timeout = '1s'")
    with store_of(database, lease.term) as store:
        with append_under_way(server, database, store) as appending:
            for _ in range(3):
                lease.renew()
            assert appending.is_alive()
        assert batches_of(store, KEY) == [(0, batch(0))]
    lease.close(release=True)


@pytest.mark.parametrize("has_key", [True, False])
def test_a_take_over_waits_for_an_append_since_the_term_is_in_a_key(
    has_key: bool, server: Server, database: str
) -> None:
    """The next leader must find the records of an append that is under way when the lease ends. Without the key it does
    not wait for them.
    """
    lease = taken(database)
    if not has_key:
        server.ask(database.rsplit("/", 1)[1], "DROP INDEX coordinatord_leader_key")
    new: list[Lease] = []
    taking = threading.Thread(target=lambda: new.append(taken_after(database, lease)))
    with store_of(database, lease.term) as store:
        with append_under_way(server, database, store):
            taking.start()
            wait_until(lambda: bool(new) or waiting(server, database) == 2, "the take-over waits or has ended")
            assert bool(new) is not has_key
        taking.join(90)
        with pytest.raises(Fenced):
            append(store, 1)
    if has_key:
        with store_of(database, new[0].term) as following:
            append(following, 1)
            assert batches_of(following, KEY) == [(0, batch(0)), (0, batch(1))]
    new[0].close(release=True)
