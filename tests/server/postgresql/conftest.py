"""A server of PostgreSQL for the tests that need one, and a database of its own for each of them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from coordinatord.server.postgresql import sharing, store
from tests.server.postgresql.server import Server, missing, running

_numbers = itertools.count(1)


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine takes longer than an event loop should wait."""
    monkeypatch.setattr(sharing, "FILE_S", 60.0)
    monkeypatch.setattr(store, "FILE_S", 60.0)


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """One server for all tests of a process, which none of them kills."""
    if why := missing():
        pytest.skip(why)
    with running() as started:
        yield started


@pytest.fixture
def victim() -> Iterator[Server]:
    """A server for one test, which may kill it."""
    if why := missing():
        pytest.skip(why)
    with running() as started:
        yield started


@pytest.fixture
def database(server: Server) -> str:
    """The address of a new database, whose owner has no other right."""
    return server.make_database(f"test_{next(_numbers)}")
