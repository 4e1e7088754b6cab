"""The store's own code over the model does what it does over PostgreSQL: the simulated world plays it."""

from __future__ import annotations

from collections import deque

import pytest

from coordinatord.server.postgresql.contract import Store
from coordinatord.server.postgresql.lease import Lease
from coordinatord.server.postgresql.store import PostgresStore
from tests.server.postgresql.client import ClientStore
from tests.server.postgresql.model import ModelDatabase
from tests.server.postgresql.test_store import Player, lossy, set_to, taken

STEPS = 60


class Modelled:
    """A database that is a model, and the stores of its leaders."""

    def __init__(self) -> None:
        self.database = ModelDatabase()
        self.stores: list[ClientStore] = []

    def take_over(self, _seat: int) -> Store:
        self.database.epoch += 1
        self.stores.append(ClientStore(self.database, self.database.epoch))
        return self.stores[-1]

    def play(self, seed: int) -> Player:
        player = Player(self.take_over, lambda _store, faults: set_to(self.database.faults, faults))
        player.play(seed, STEPS)
        return player


@pytest.mark.parametrize("seed", range(40))
def test_it_says_what_the_model_says(seed: int) -> None:
    """The model knows what became of a commit; the store's code has to find out."""
    model = ModelDatabase()
    expected = Player(model.take, lambda _store, faults: set_to(model.faults, faults))
    expected.play(seed, STEPS)
    found = Modelled().play(seed)
    assert found.told == expected.told
    assert found.holds() == expected.holds()


def test_lost_connections_are_looked_into() -> None:
    played = Modelled()
    played.play(1)
    assert sum(store.client.resolved for store in played.stores) > 3
    assert sum(store.client.retries for store in played.stores) > 3


@pytest.mark.postgresql
@pytest.mark.parametrize("seed", range(20, 24))
def test_it_does_what_it_does_with_postgresql(database: str, seed: int) -> None:
    modelled = Modelled()
    expected = modelled.play(seed)
    leases: list[Lease] = []
    stores: list[PostgresStore] = []
    faults_of: dict[int, deque[str]] = {}

    def take_over(_seat: int) -> Store:
        if leases:
            leases[-1].close(release=True)
        leases.append(taken(database, len(leases)))
        stores.append(PostgresStore(database, leases[-1].term))
        faults_of[id(stores[-1])] = lossy(database, stores[-1])
        return stores[-1]

    played = Player(take_over, lambda store, faults: set_to(faults_of[id(store)], faults))
    try:
        played.play(seed, STEPS)
        assert played.told == expected.told
        assert played.holds() == expected.holds()
    finally:
        for store in stores:
            store.stop()
            store.close()
