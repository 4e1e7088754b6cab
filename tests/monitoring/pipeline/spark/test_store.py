"""A run from the tables in PostgreSQL makes the tables that a run from a copy of them in a directory makes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from coordinatord.monitoring.pipeline.run.ingest import Job
from coordinatord.monitoring.pipeline.run.update import read_table, run
from coordinatord.monitoring.pipeline.source.frames import Source
from coordinatord.monitoring.pipeline.tables import TABLES
from coordinatord.server.postgresql import schema, transfer
from coordinatord.server.postgresql.database import Link
from coordinatord.server.postgresql.lease import take
from coordinatord.server.postgresql.store import PostgresStore
from tests.server.postgresql.server import missing, running
from tests.server.postgresql.stored_logs import fill

pytestmark = [pytest.mark.postgresql, pytest.mark.timeout(1800)]


def test_the_tables_are_those_of_a_copy(spark: Any, tmp_path: Path) -> None:
    if why := missing():
        pytest.skip(why)
    with running() as server:
        url = server.make_database("spark")
        link = Link(url)
        schema.migrate(link.open(), "cluster")
        lease = take(link, node_id=1, holder="one", lease_ms=600_000)
        assert lease is not None
        store = PostgresStore(url, lease.term)
        now_ms = fill(store, with_ledger=False)
        store.stop()
        store.close()
        lease.close(release=True)
        transfer.copy(url, tmp_path / "copy", node_id=0)
        places = {"stored": url, "copied": str(tmp_path / "copy")}
        log = {name: Source(place).read(spark, "offset_commits") for name, place in places.items()}
        assert sorted(log["stored"].collect()) == sorted(log["copied"].collect())
        loaded = spark.read.format("consumer_offsets").option("kind", "offset_commits").load(url)
        assert loaded.count() == log["copied"].count()
        by_log = (
            Source(url, splitBytes=1_000)
            .read(spark, "offset_commits")
            .selectExpr("spark_partition_id() AS task", "log_partition")
        )
        tasks = by_log.distinct().collect()
        assert len({row["log_partition"] for row in tasks}) > 1
        for name, place in places.items():
            # Both with the ends of the database: a directory has earlier ends, too, and with them rates.
            summary = run(spark, Job(Source(place), tmp_path / name, url, is_small=True), now_ms=now_ms)
            assert sum(summary.new.values()) > 400
        for table in TABLES:
            rows = {name: sorted(map(str, read_table(spark, tmp_path / name, table).collect())) for name in places}
            assert rows["stored"] == rows["copied"], table
            if table in ("lag", "status", "members", "rebalances"):
                assert rows["stored"], table
        assert (
            sum(run(spark, Job(Source(url), tmp_path / "stored", url, is_small=True), now_ms=now_ms).new.values()) == 0
        )
