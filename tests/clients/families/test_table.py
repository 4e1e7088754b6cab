"""The table in ../README.md says what the tests do. Quick: part of `make test`."""

from __future__ import annotations

from tests.clients.families.clients import CLIENTS, CONSUMER_CLIENTS
from tests.clients.families.table import PAGE, page_with, rendered


def test_the_table_is_not_stale() -> None:
    assert PAGE.read_text() == page_with(rendered()), "run: python -m tests.clients.families.table"


def test_what_clients_lack_are_scenarios() -> None:
    clients = [*CLIENTS, *CONSUMER_CLIENTS]
    for client in clients:
        assert client.lacks.keys() <= client.scenarios.keys(), client.name
    assert len({client.slug for client in clients}) == len(clients)
