"""Seats: several nodes lead at once, each a share of the partitions, and each is fenced by itself."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from coordinatord.server.postgresql import schema
from coordinatord.server.postgresql.contract import Fenced, PartitionKey, Unusable
from coordinatord.server.postgresql.database import Link
from coordinatord.server.postgresql.lease import Lease, take
from tests.server.postgresql.model import batches_of
from tests.server.postgresql.server import Server
from tests.server.postgresql.test_store import LEASE_MS, append, batch, store_of, taken

pytestmark = [pytest.mark.postgresql, pytest.mark.timeout(180)]


def key_of(seat: int) -> PartitionKey:
    return PartitionKey(b"T" * 16, seat)


def seats_are_fenced_one_by_one(url: str, leave_out: Callable[[], object] = lambda: None) -> None:
    """Three seats: when another node takes one of them, its former leader changes nothing, and the others go on."""
    leases = [taken(url, number, seats=3) for number in range(1, 4)]
    with (
        store_of(url, leases[0].term, 0) as one,
        store_of(url, leases[1].term, 1) as two,
        store_of(url, leases[2].term, 2) as three,
    ):
        for seat, store in enumerate((one, two, three)):
            append(store, 0, key=key_of(seat))
        leases[1].close(release=True)
        following = taken(url, 4, seats=3)
        assert following.seat == 1
        assert following.term == 4
        leave_out()
        append(one, 1, key=key_of(0))
        append(three, 1, key=key_of(2))
        noticed: list[str] = []
        for change in (
            lambda: append(two, 1, key=key_of(1)),
            lambda: append(two, 0, key=PartitionKey(b"N" * 16, 1)),
            lambda: two.put_file("file", b"2"),
            lambda: two.replace(key_of(1), 0, 1, []),
            lambda: two.remove(key_of(1), [0]),
        ):
            try:
                change()
            except (Fenced, Unusable):
                continue
            noticed.append("went on")
        assert not noticed, f"a former leader of a seat: {noticed}"
        with store_of(url, following.term, 1) as new:
            assert [(held.key, held.end_offset) for held in new.partitions()] == [(key_of(1), 1)]
            append(new, 1, key=key_of(1))
            assert batches_of(new, key_of(1)) == [(0, batch(0)), (0, batch(1))]
        assert [held.key for held in one.partitions()] == [key_of(0)]
        assert all(lease.holds for lease in (leases[0], leases[2], following))
        leases[0].renew()
        with pytest.raises(Fenced):
            leases[1].renew()
    for lease in (leases[0], leases[2], following):
        lease.close(release=True)


def test_a_take_over_fences_one_seat(database: str) -> None:
    seats_are_fenced_one_by_one(database)


FENCES = {
    "any seat's term will do": "SELECT 1 FROM coordinatord_leader WHERE epoch >= term FOR KEY SHARE",
    "the lowest seat's term counts": "SELECT 1 FROM coordinatord_leader WHERE seat = 0 AND epoch = term FOR KEY SHARE",
}


@pytest.mark.parametrize("mutant", FENCES)
def test_a_fence_that_does_not_look_at_the_seat_is_noticed(server: Server, database: str, mutant: str) -> None:
    def leave_out() -> None:
        server.ask(
            database.rsplit("/", 1)[1],
            "CREATE OR REPLACE FUNCTION coordinatord_fence(term bigint) RETURNS void LANGUAGE plpgsql AS $$ BEGIN "
            f"PERFORM * FROM ({FENCES[mutant]}) AS found; "
            "IF NOT FOUND THEN RAISE EXCEPTION 'fenced' USING ERRCODE = 'CD001'; END IF; END $$",
        )

    with pytest.raises((AssertionError, Fenced)):
        seats_are_fenced_one_by_one(database, leave_out)


def test_a_leader_does_not_touch_another_seats_partition(database: str) -> None:
    """Even if a program believed that it leads it: the partition has another leader's epoch."""
    leases = [taken(database, number, seats=2) for number in (1, 2)]
    with store_of(database, leases[0].term, 0) as one, store_of(database, leases[1].term, 1) as two:
        append(two, 0, key=key_of(1))
        with pytest.raises(Unusable, match="partitions end"):
            append(one, 1, key=key_of(1))
        with pytest.raises(Fenced):
            one.remove(key_of(1), [0])
        with pytest.raises(Fenced):
            one.replace(key_of(1), 0, 1, [])
        one.forget([key_of(1)])
        one.put_file("file", b"later")  # the forgetting has ended
        assert batches_of(two, key_of(1)) == [(0, batch(0))]
    for lease in leases:
        lease.close(release=True)


def test_terms_are_unique_when_many_take_seats_at_once(server: Server, database: str) -> None:
    seats, takers = 4, 8
    Link(database).open()
    schema.migrate(Link(database).open(), "cluster", seats)
    found: list[Lease] = []

    def run(number: int) -> None:
        for turn in range(6):
            lease = take(Link(database), node_id=number, holder=f"{number}-{turn}", lease_ms=LEASE_MS)
            if lease is not None:
                found.append(lease)
                lease.close(release=True)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(takers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    terms = [lease.term for lease in found]
    assert sorted(terms) == list(range(1, len(terms) + 1))
    assert len(terms) >= seats


def test_a_process_has_one_seat_and_its_node_comes_back_to_it(database: str) -> None:
    leases = [taken(database, number, seats=3) for number in (1, 2, 3)]
    assert [lease.seat for lease in leases] == [0, 1, 2]
    assert take(Link(database), node_id=4, holder="spare", lease_ms=LEASE_MS) is None, "no seat is free"
    again = take(Link(database), node_id=2, holder="node 2", lease_ms=LEASE_MS)
    assert again is not None
    assert (again.seat, again.term) == (1, 4), "it takes the seat that it has, and no other one"
    for lease in (leases[0], again, leases[2]):
        lease.close(release=True)
    back = taken(database, 3, seats=3)
    assert back.seat == 2, "the one that its node had before"
    assert take(Link(database), node_id=3, holder="namesake", lease_ms=LEASE_MS) is None, "clients know nodes by id"
    back.close(release=True)


def test_the_number_of_seats_stays(database: str) -> None:
    link = Link(database)
    schema.migrate(link.open(), "cluster", 3)
    schema.migrate(link.open(), "cluster", 3)
    assert schema.count_seats(link.open()) == 3
    with pytest.raises(Unusable, match="made for 3 leading nodes at a time and this start asks for 1"):
        schema.migrate(link.open(), "cluster")
    link.close()
