"""The tables of a generated history, through Spark, beside what is known of it: every column of every table."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from coordinatord.monitoring.analysis.load import LOAD_RATE
from coordinatord.monitoring.pipeline.run.ingest import Job
from coordinatord.monitoring.pipeline.run.update import read_table, run
from coordinatord.monitoring.pipeline.source.frames import Source
from coordinatord.monitoring.pipeline.tables import TABLES
from kafka_wire.records.batch import iterate_batches
from tests.monitoring.pipeline.truth.compare import Row, differences
from tests.monitoring.pipeline.truth.members import MembersModel
from tests.monitoring.pipeline.truth.shares import ShareModel, ShareWorld
from tests.monitoring.pipeline.truth.world import World

PLACE = ("group_id", "topic", "partition")
GRAINS = {
    "lag": PLACE, "status": PLACE, "group_status": ("group_id",), "lag_history": (*PLACE, "at_ms"),
    "slo": ("group_id", "day"), "expiry": PLACE, "rebalances": ("group_id", "generation"),
    "members": ("group_id", "member_id"), "member_events": ("group_id", "kind", "began_ms"),
    "churn": ("group_id", "hour_ms"), "commits": PLACE, "offsets_load": ("group_id", "log_partition"),
    "share_partitions": PLACE,
}  # fmt: skip
SEED = 5


def cut_off(directory: Path) -> None:
    """Cut the logs off behind their last marker of a transaction: a later one concerns all groups, and none does."""
    for path in directory.glob("__consumer_offsets-*/*.log"):
        data = path.read_bytes()
        last = max((header.last_offset for _, header in iterate_batches(data) if header.is_control), default=-1)
        path.write_bytes(data[: next((at for at, header in iterate_batches(data) if header.base_offset > last), None)])


@pytest.mark.timeout(1800)  # all tables twice: a minute, and a busy machine makes ten times that of it
@pytest.mark.parametrize("is_small", [True, False], ids=["few records", "many records"])
def test_every_column_of_every_table(spark: Any, tmp_path: Path, is_small: bool) -> None:
    """Made in two runs, the second of which finds new records of some groups. In both ways of writing them: by this
    process, and by Spark.
    """
    assert GRAINS.keys() == TABLES.keys()
    world = World(SEED)
    shares = ShareWorld(world, SEED)
    out = tmp_path / "out"
    summaries = []
    for part in ("first part", "whole"):
        data = tmp_path / part
        world.write(data)
        shares.write(data)
        shutil.rmtree(tmp_path / "data", ignore_errors=True)
        data = data.rename(tmp_path / "data")
        if part == "first part":
            cut_off(data)
        job = Job(Source(str(data)), out, str(data), is_small=is_small)
        summaries.append(run(spark, job, now_ms=world.now_ms))
    assert all(sum(summary.new.values()) > 100 for summary in summaries)
    assert summaries[1].buckets > 1
    found = {name: [row.asDict() for row in read_table(spark, out, name).collect()] for name in GRAINS}
    model = MembersModel(world)
    standing = model.standing()
    both: dict[str, list[Row]] = {}
    for row in found["lag"]:
        (other,) = [each for each in found["status"] if all(each[name] == row[name] for name in PLACE)]
        both.setdefault(row["group_id"], []).append(row | other)
    expected: dict[str, dict[Any, Row]] = {
        "lag": {key: of(row, "lag") for key, row in standing.items()},
        "status": {key: of(row, "status") for key, row in standing.items()},
        "group_status": {(name,): model.group_status(rows) for name, rows in both.items()},
        "lag_history": model.lag_history(),
        "slo": model.slo(found["lag_history"], 1_000),
        "expiry": model.expiry(),
        "rebalances": model.rebalances(),
        "members": model.members(),
        "member_events": model.member_events(),
        "churn": model.churn(),
        "commits": model.commits_table(),
        "offsets_load": model.offsets_load(LOAD_RATE),
        "share_partitions": ShareModel(shares).share_partitions(),
    }
    wrong: list[str] = []
    for name, keys in GRAINS.items():
        wrong += differences(name, TABLES[name].names, found[name], expected[name], keys)
    assert not wrong, "\n".join(wrong)


def of(row: Row, table: str) -> Row:
    return {name: row[name] for name in TABLES[table].names}
