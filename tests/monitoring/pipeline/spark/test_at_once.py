"""What makes a run of a small log short: tables made at the same time, no Python where there is nothing."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.types import StructType

from coordinatord.monitoring.pipeline.run.ingest import Job
from coordinatord.monitoring.pipeline.run.update import _make_all, read_table, run
from coordinatord.monitoring.pipeline.source.frames import Source
from coordinatord.monitoring.pipeline.tables import SHARING, TABLES
from coordinatord.monitoring.pipeline.tables.inputs import FACTS, LEDGER_DDL, fact_columns, nothing
from tests.monitoring.pipeline.spark.test_run import NOW_MS
from tests.monitoring.pipeline.truth.shares import ShareWorld
from tests.monitoring.pipeline.truth.world import World

WAIT_S = 300


def test_two_tables_are_made_at_once_but_those_of_one_pass_in_turn(spark: Any) -> None:
    both = threading.Barrier(2)
    made: list[str] = []

    def make(name: str) -> None:
        if name in ("lag", "expiry"):
            both.wait(WAIT_S)  # neither goes on without the other
        made.append(name)

    _make_all(make, tuple(TABLES), 2)
    assert sorted(made) == sorted(TABLES)
    for tables in SHARING:
        assert [name for name in made if name in {table.name for table in tables}] == [table.name for table in tables]
    chosen = ("churn", "lag", "rebalances")
    made.clear()
    _make_all(made.append, chosen, 1)
    assert made == ["lag", "churn", "rebalances"], "those that are wanted, and no others"


def test_an_error_in_a_table_ends_the_run(spark: Any) -> None:
    made: list[str] = []

    def make(name: str) -> None:
        made.append(name)
        if name == "status":
            raise IndexError("of the table's own")

    with pytest.raises(IndexError, match="of the table's own"):
        _make_all(make, tuple(TABLES), 1)
    assert made == ["lag", "status"]


def test_where_there_is_nothing_spark_does_nothing(spark: Any) -> None:
    for ddl in (*map(fact_columns, FACTS), LEDGER_DDL):
        frame = nothing(spark, ddl)
        types = [(each.name, each.dataType) for each in StructType.fromDDL(ddl)]
        assert [(each.name, each.dataType) for each in frame.schema] == types
        joined = frame.groupBy(frame.columns[0]).count()
        plan = str(joined._jdf.queryExecution().optimizedPlan())
        assert plan.startswith("LocalRelation <empty>"), plan
        assert frame.collect() == []


@pytest.mark.full  # test_truth.py compares the tables of a small log with what is known in each run of the gate
@pytest.mark.timeout(1200)  # two runs: many times their time on a busy machine
def test_the_tables_are_the_same_however_many_tasks_make_them(spark: Any, tmp_path: Path) -> None:
    world = World(3)
    world.write(tmp_path / "data")
    ShareWorld(world, 3).write(tmp_path / "data")
    rows = []
    for number, is_small in enumerate((False, True)):
        job = Job(
            Source(str(tmp_path / "data")), tmp_path / f"out-{number}", end_offsets=str(tmp_path / "data"),
            is_small=is_small,
        )  # fmt: skip
        run(spark, job, now_ms=NOW_MS)
        tables = {name: read_table(spark, job.out, name).toArrow().to_pylist() for name in TABLES}
        rows.append({name: sorted(map(repr, found)) for name, found in tables.items()})
        # When ends were looked up is another moment each time.
        rows[-1]["lag"] = sorted(
            repr({name: value for name, value in row.items() if name != "end_offset_ms"}) for row in tables["lag"]
        )
    assert all(rows[0].values())
    for others in rows[1:]:
        for name in TABLES:
            assert others[name] == rows[0][name], name
