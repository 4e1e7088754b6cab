"""The tables of a generated history, through Spark, beside what is known of it: every column of every table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from coordinatord.pipeline.analysis.load import LOAD_RATE
from coordinatord.pipeline.run.ingest import Job
from coordinatord.pipeline.run.update import read_table, run
from coordinatord.pipeline.source.frames import Source
from coordinatord.pipeline.tables import TABLES
from tests.pipeline.truth.compare import Row, differences
from tests.pipeline.truth.members import MembersModel
from tests.pipeline.truth.world import World

PLACE = ("group_id", "topic", "partition")
GRAINS = {
    "lag": PLACE, "status": PLACE, "group_status": ("group_id",), "lag_history": (*PLACE, "at_ms"),
    "slo": ("group_id", "day"), "expiry": PLACE, "rebalances": ("group_id", "generation"),
    "members": ("group_id", "member_id"), "member_events": ("group_id", "kind", "began_ms"),
    "churn": ("group_id", "hour_ms"), "commits": PLACE, "offsets_load": ("group_id", "log_partition"),
}  # fmt: skip
SEED = 5


@pytest.mark.timeout(1200)  # all tables at once: half a minute, and a busy machine makes ten times that of it
def test_every_column_of_every_table(spark: Any, tmp_path: Path) -> None:
    assert GRAINS.keys() == TABLES.keys()
    world = World(SEED)
    world.write(tmp_path / "data")
    data, out = str(tmp_path / "data"), tmp_path / "out"
    run(spark, Job(Source(data), out, data), now_ms=world.now_ms)
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
    }
    wrong: list[str] = []
    for name, keys in GRAINS.items():
        wrong += differences(name, TABLES[name].names, found[name], expected[name], keys)
    assert not wrong, "\n".join(wrong)


def of(row: Row, table: str) -> Row:
    return {name: row[name] for name in TABLES[table].names}
