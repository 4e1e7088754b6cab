"""Rebalances as the ledger of a running daemon has them: `pipeline run --bootstrap`, again and again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from coordinatord.monitoring.pipeline.run import update as run_module
from coordinatord.monitoring.pipeline.run.ingest import Job
from coordinatord.monitoring.pipeline.run.update import read_table, run
from coordinatord.monitoring.pipeline.source.frames import Source
from tests.daemon import running
from tests.monitoring.offsets_log.source.test_ledger_topic import (
    GROUPS,
    NO_DELAY,
    all_of,
    create_topic,
    entries,
    rebalance,
)
from tests.monitoring.offsets_log.source.test_ledger_topic import read_options as options_of


def test_each_record_once(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_module, "LEDGER_STEP", 1500)  # two records or three at once
    with running(tmp_path / "daemon", NO_DELAY) as daemon:
        create_topic(daemon.bootstrap)
        of_broker = options_of({"bootstrap": daemon.bootstrap})
        rebalance(daemon.bootstrap)
        first = all_of(of_broker)
        out = tmp_path / "out"
        job = Job(Source(bootstrap=daemon.bootstrap), out, tables=("rebalances",))
        run(spark, job, now_ms=1)
        rows = read_table(spark, out, "rebalances").collect()
        assert {row["how"] for row in rows} == {"observed"}
        assert len(rows) == len(first)
        assert {(row["group_id"], row["group_type"]) for row in rows} == {
            (f"group-{number}", "classic") for number in range(GROUPS)
        }

        rebalance(daemon.bootstrap)
        second = all_of(of_broker, rounds=2)
        assert len(second) > len(first)
        run(spark, job, now_ms=2)
        again = read_table(spark, out, "rebalances").collect()
        assert {row["how"] for row in again} == {"observed"}
        assert len(again) == len(second)
        kept = spark.read.parquet(str(out / "ledger")).collect()
        assert len(kept) == len(second), "each record is taken over once"
        assert run(spark, job, now_ms=3).buckets == 0, "nothing is new"
        assert len(entries(of_broker)) == len(second)
