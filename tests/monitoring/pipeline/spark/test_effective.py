"""Which commits count, and from when on: those of transactions as Kafka's coordinator takes them, and whatever number a
client made of its offset.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from coordinatord.monitoring.pipeline.run.group_at import moment
from coordinatord.monitoring.pipeline.run.ingest import Job
from coordinatord.monitoring.pipeline.run.update import read_table, run
from coordinatord.monitoring.pipeline.source.frames import Source
from tests.monitoring.pipeline.spark.test_run import Log

MOST, LEAST = 2**63 - 1, -(2**63)


def test_which_commits_count(spark: Any, tmp_path: Path) -> None:
    log = Log(tmp_path / "data" / "__consumer_offsets-0")
    # As OffsetMetadataManager.replayEndTransactionMarker has it: the record that was written last stays.
    log.commit("overtaken", 100, 1_000, producer_id=7)
    log.commit("overtaken", 50, 2_000)
    log.end_transaction(7, 3_000, committed=True)
    log.commit("crossed", 5, 1_000, producer_id=8)
    log.commit("crossed", 6, 2_000, producer_id=9)
    log.end_transaction(9, 3_000, committed=True)
    log.end_transaction(8, 4_000, committed=True)
    # A tombstone takes what is pending along.
    log.commit("deleted", 30, 1_000, producer_id=7)
    log.commit("deleted", None, 2_000)
    log.end_transaction(7, 3_000, committed=True)
    for offset in range(40):
        log.commit("often in one", offset, 1_000, producer_id=7)
    log.end_transaction(7, 3_000, committed=True)
    log.commit("pending", 60, 1_000)
    log.commit("pending", 70, 2_000, producer_id=7)
    log.end_transaction(7, 4_000, committed=True)
    log.commit("pending", 80, 5_000, producer_id=7)
    # Brokers take any number.
    for offset in (0, MOST, LEAST, MOST, 0, MOST, 0):
        log.commit("anything", offset, 1_000)
    log.commit("none", 5, 1_000)
    log.commit("none", LEAST, 2_000)
    out = tmp_path / "out"
    run(spark, Job(Source(str(tmp_path / "data")), out, tables=("lag", "expiry", "commits")), now_ms=10_000)

    found = {row["group_id"]: row for row in read_table(spark, out, "lag").collect()}
    committed = {group: (row["committed_offset"], row["committed_ms"]) for group, row in found.items()}
    assert committed == {
        "overtaken": (50, 2_000), "crossed": (6, 3_000), "often in one": (39, 3_000), "pending": (70, 4_000),
        "anything": (0, 1_000),
    }  # fmt: skip
    expiry = {row["group_id"]: row["committed_offset"] for row in read_table(spark, out, "expiry").collect()}
    assert expiry == {group: offset for group, (offset, _) in committed.items()} | {"none": None}
    commits = {row["group_id"]: row for row in read_table(spark, out, "commits").collect()}
    assert {group: row["commits"] for group, row in commits.items() if group != "anything"} == {
        "overtaken": 1, "crossed": 1, "often in one": 40, "pending": 2, "none": 2,
    }  # fmt: skip
    anything = commits["anything"]
    assert (anything["rewinds"], anything["no_op_commits"]) == (2, 0)
    assert anything["rewound_records"] > 2**62, "as much as fits"

    offsets = {at_ms: moment(spark, out, "pending", at_ms).offsets["t", 0].offset for at_ms in (3_999, 4_000, 9_000)}
    assert offsets == {3_999: 60, 4_000: 70, 9_000: 70}
