"""Attacks of hostile neighbours (tests/hostile) on a node whose log is on PostgreSQL: those that write or read records.

A group keeps its member and each of its heartbeats is answered; the node renews its lease in time, so nobody takes the
lead; and the most memory that it takes is limited as with a directory.
"""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tests.daemon import running
from tests.hostile.attacks import SETTINGS
from tests.hostile.test_attacks import attack
from tests.hostile.test_neighbours import MIB, PEAK, Innocent, p99_s
from tests.server.postgresql.server import Server

ATTACKS = (
    "bombs", "flood_without_answers", "large_batches", "large_lists_of_many", "members_that_never_come_back",
    "one_group_a_thousand_times", "partitions_never_written", "quotas_of_everybody", "records_never_read",
    "settings_of_3000_topics", "topics_that_come_and_go",
)  # fmt: skip
SECONDS = 6.0
STATEMENT = 96 * MIB
"""What psycopg and libpq may hold in addition: a batch of 60 MB is copied into an array of the statement, and into the
buffer of the connection, which keeps its size.
"""


@pytest.mark.postgresql
@pytest.mark.full
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", ATTACKS)
def test_a_node_keeps_its_lease_and_its_groups(name: str, tmp_path: Path, server: Server, database: str) -> None:
    settings = {
        **SETTINGS.get(name, {}),
        "storage": database,
        "group.initial.rebalance.delay.ms": "0",
        "max.partitions": "20000",
    }
    with running(tmp_path, settings) as daemon:
        before = daemon.resident_bytes()
        daemon.reset_peak()
        innocent, over = Innocent(daemon.port), threading.Event()

        def strike() -> None:
            try:
                attack(name, daemon.port, SECONDS)
            finally:
                over.set()

        attacking = threading.Thread(target=strike)
        attacking.start()
        found_s = innocent.times_s(over)
        attacking.join()
        innocent.heartbeat()
        innocent.close()
        peak = daemon.peak_bytes() - before
        print(f"{name}: p99 {p99_s(found_s) * 1000:.1f} ms, slowest {found_s[-1] * 1000:.1f} ms, {peak / MIB:.0f} MiB")
        terms = server.ask(database.rsplit("/", 1)[1], "SELECT epoch FROM coordinatord_leader")
        assert terms == [(1,)], "it has led all the time"
        assert not daemon.events("the lease was not renewed")
        assert not daemon.events("a handler failed")
        assert peak <= PEAK + STATEMENT, f"{peak / MIB:.0f} MiB"
