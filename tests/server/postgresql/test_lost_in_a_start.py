"""A node that waits for the lead and loses its connection in any statement says so, waits, and leads in the end."""

from __future__ import annotations

import itertools
import os
import socket
from pathlib import Path
from typing import Any

import pytest

from coordinatord.base.config.load import assignment, load
from coordinatord.broker.log.ownership import no_catalogue
from coordinatord.server.postgresql import node
from coordinatord.server.postgresql.standby_copy import StandbyCopy
from coordinatord.server.postgresql.standby_listener import Offer
from tests.server.postgresql.server import Server

pytestmark = [pytest.mark.full, pytest.mark.postgresql, pytest.mark.timeout(300)]

MOST_STATEMENTS = 100


def leads_although_lost_in(monkeypatch: pytest.MonkeyPatch, url: str, path: Path, lost: int) -> bool:
    """Whether the lead was taken in so few statements that none was lost."""
    psycopg = pytest.importorskip("psycopg")
    ordinary, numbers = psycopg.Connection.execute, itertools.count()
    is_lost = False

    def execute(connection: Any, *arguments: Any, **named: Any) -> Any:
        nonlocal is_lost
        if next(numbers) == lost:
            is_lost = True
            with socket.socket(fileno=os.dup(connection.fileno())) as wire:
                wire.shutdown(socket.SHUT_RDWR)
        return ordinary(connection, *arguments, **named)

    given = {"storage": url, "log.dirs": str(path), "node.id": "3", "listeners": "PLAINTEXT://127.0.0.1:0"}
    settings = load(flags=[assignment(f"{name}={value}", "test") for name, value in given.items()]).settings
    ahead = StandbyCopy(url, path, 3, no_catalogue)
    with monkeypatch.context() as patch:
        patch.setattr(psycopg.Connection, "execute", execute)
        lease, cluster_id = node.lead(settings, node.registration_of(settings), Offer(frozenset(), {}), ahead)
        ahead.close()
        lease.close(release=False)
    assert lease.term == 1
    assert cluster_id
    return not is_lost


def test_a_start_survives_a_lost_connection_in_each_of_its_statements(
    monkeypatch: pytest.MonkeyPatch, server: Server, tmp_path: Path
) -> None:
    for lost in range(MOST_STATEMENTS):
        url = server.make_database(f"lost_{lost}")
        if leads_although_lost_in(monkeypatch, url, tmp_path, lost):
            assert lost > 10
            return
    raise AssertionError(f"a start has more than {MOST_STATEMENTS} statements")
