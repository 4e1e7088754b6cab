"""Tables of histories: rebalances inferred from the log alone, and observed where the ledger is beside it; members;
commits.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from coordinatord.monitoring.pipeline.run.ingest import Job
from coordinatord.monitoring.pipeline.run.update import read_table, run
from coordinatord.monitoring.pipeline.source.frames import Source
from coordinatord.monitoring.pipeline.tables import TABLES
from coordinatord.monitoring.pipeline.tables.inputs import TableOptions
from kafka_wire.records.batch import build_batch
from kafka_wire.records.offsets import OffsetCommitKey
from tests.coordination.group.world import GROUP_ID, commit_topic
from tests.monitoring.pipeline.directories import write_segment
from tests.monitoring.pipeline.histories import Consumer, History, history
from tests.monitoring.pipeline.logs import encoded


def write_offsets(directory: Path, world: History) -> None:
    """The world's log as a partition of `__consumer_offsets`."""
    batches = []
    for offset, ((key, value), at_ms) in enumerate(zip(world.log, world.times, strict=True)):
        record_type = 1 if isinstance(key, OffsetCommitKey) else 2
        batches.append(build_batch([encoded(record_type, 3, key, value)], at_ms, offset))
    write_segment(directory / "__consumer_offsets-0", 0, batches)


def write_ledger(directory: Path, records: list[dict[str, Any]]) -> None:
    batches = [
        build_batch([(b"g", json.dumps(record).encode())], record["ended_ms"], offset)
        for offset, record in enumerate(records)
    ]
    write_segment(directory / "__rebalances-0", 0, batches)


def test_inferred_then_observed(spark: Any, tmp_path: Path) -> None:
    world = history(3, minutes=8)
    directory, out = tmp_path / "data", tmp_path / "out"
    write_offsets(directory, world)
    job = Job(Source(str(directory)), out, tables=("rebalances",))
    run(spark, job, now_ms=world.now_ms)
    inferred = {row["generation"]: row for row in read_table(spark, out, "rebalances").collect()}
    ended = {each["generation_after"]: each for each in world.rebalances if each["outcome"] != "superseded"}
    assert inferred.keys() == ended.keys()
    assert {row["how"] for row in inferred.values()} == {"inferred"}
    assert all(row["group_id"] == GROUP_ID for row in inferred.values())
    assert all(0 < row["confidence"] < 1 for row in inferred.values())

    # The ledger comes to the same directory, half of it at first: what is known is taken from it.
    half = len(world.rebalances) // 2
    for count in (half, len(world.rebalances)):
        write_ledger(directory, world.rebalances[:count])
        run(spark, job, now_ms=world.now_ms)
        rows = read_table(spark, out, "rebalances").collect()
        observed = [row for row in rows if row["how"] == "observed"]
        assert len(observed) == count
    for row in observed:
        truth = next(each for each in world.rebalances if each["began_ms"] == row["began_ms"])
        assert (row["trigger"], row["generation"]) == (truth["trigger"]["kind"], truth["generation_after"])
        assert (row["added"], row["removed"], row["outcome"]) == (truth["added"], truth["removed"], truth["outcome"])
    assert len(list((out / "ledger").glob("run=*"))) == 2, "each record is taken over once"
    before = run(spark, job, now_ms=world.now_ms)
    assert before.buckets == 0, "nothing is new"


def test_members_and_commits(spark: Any, tmp_path: Path) -> None:
    """A group whose members are deployed one after the other, and offsets of which one goes back."""
    world = History(5)
    consumers = [Consumer(world, f"c{number}") for number in range(3)]
    for consumer in consumers:
        consumer.start()
    world.run(300)
    for consumer in consumers:
        consumer.stop()
        world.run(5)
        consumer.start()
        world.run(40)
    for consumer in consumers:
        consumer.stop()
    for offset in (100, 100, 70, 90):
        world.commit(topics=[commit_topic("simple", {0: offset})])
        world.run(1)
    directory, out = tmp_path / "data", tmp_path / "out"
    write_offsets(directory, world)
    tables = ("rebalances", "members", "member_events", "churn", "commits", "offsets_load")
    job = Job(Source(str(directory)), out, tables=tables, options=TableOptions(load_rate=2000))
    run(spark, job, now_ms=world.now_ms)
    found = {name: [row.asDict() for row in read_table(spark, out, name).collect()] for name in tables}
    for name in tables:
        schema = [(field.name, field.dataType.simpleString()) for field in read_table(spark, out, name).schema.fields]
        assert schema == [(column.name, column.type) for column in TABLES[name].columns]
    assert sorted(row["end"] for row in found["members"]) == ["left"] * 6
    deploy = next(row for row in found["member_events"] if row["kind"] == "deploy")
    assert deploy["count"] == 3
    assert sum(row["added"] for row in found["churn"]) == 6
    assert sum(row["rebalances"] for row in found["churn"]) == len(found["rebalances"])

    simple = next(row for row in found["commits"] if row["topic"] == "simple")
    assert (simple["commits"], simple["no_op_commits"], simple["rewinds"], simple["rewound_records"]) == (4, 1, 1, 30)
    assert simple["commits_per_s"] == 1.0
    (load,) = found["offsets_load"]
    assert load["records"] == len(world.log)
    assert load["live_records"] == 12, "ten partitions, the simple one, and the generation"
    assert 0 < load["live_bytes"] < load["bytes"] == load["live_bytes"] + load["debt_bytes"]
    assert load["load_ms"] == pytest.approx(load["records"] * 1000 / 2000)
    assert load["load_ms_cleaned"] == pytest.approx(12 * 1000 / 2000)
    assert not load["hot"]
