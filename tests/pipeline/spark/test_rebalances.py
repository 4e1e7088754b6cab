"""The table `rebalances` of a history: inferred from the log alone, and observed where the ledger is beside it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from coordinatord.pipeline.frames import Source
from coordinatord.pipeline.run import Run, read_table, run
from protocol.records.batch import build_batch
from protocol.records.offsets import OffsetCommitKey
from tests.group.world import GROUP_ID
from tests.pipeline.directories import write_segment
from tests.pipeline.histories import History, history
from tests.pipeline.logs import encoded

TABLES = ("rebalances",)


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
    it = Run(Source(str(directory)), out, tables=TABLES)
    run(spark, it, now_ms=world.now_ms)
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
        run(spark, it, now_ms=world.now_ms)
        rows = read_table(spark, out, "rebalances").collect()
        observed = [row for row in rows if row["how"] == "observed"]
        assert len(observed) == count
    for row in observed:
        truth = next(each for each in world.rebalances if each["began_ms"] == row["began_ms"])
        assert (row["trigger"], row["generation"]) == (truth["trigger"]["kind"], truth["generation_after"])
        assert (row["added"], row["removed"], row["outcome"]) == (truth["added"], truth["removed"], truth["outcome"])
    assert len(list((out / "ledger").glob("run=*"))) == 2, "each record is taken over once"
    before = run(spark, it, now_ms=world.now_ms)
    assert before.buckets == 0, "nothing is new"
