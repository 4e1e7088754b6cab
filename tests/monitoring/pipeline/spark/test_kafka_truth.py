"""A script plays on Apache Kafka, with groups of both protocols: afterwards each column of each row of each table is
what the script did, and what Kafka's own tools say.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from coordinatord.monitoring.pipeline.run.ingest import Job
from coordinatord.monitoring.pipeline.run.update import read_table, run
from coordinatord.monitoring.pipeline.source.frames import Source
from coordinatord.monitoring.pipeline.tables import TABLES
from coordinatord.monitoring.pipeline.tables.inputs import TableOptions
from tests.monitoring.exporter.test_on_kafka import told_by_kafka
from tests.monitoring.pipeline.spark.kafka_story import MODERN_SESSION_MS, OVERRIDES, Story
from tests.monitoring.pipeline.spark.kafka_truth import Truth, churn, dumped
from tests.monitoring.pipeline.spark.test_truth import GRAINS, PLACE, of
from tests.monitoring.pipeline.truth.compare import Row, differences
from tests.monitoring.pipeline.truth.model import WINDOW_MS, Model
from tests.reference.broker import KafkaBroker, running_broker
from tests.reference.described import describe

pytestmark = [pytest.mark.timeout(1800)]


def test_every_column_is_what_the_script_did(spark: Any, kafka_libs: Path, tmp_path: Path) -> None:
    confluent = pytest.importorskip("confluent_kafka")
    with running_broker(kafka_libs, tmp_path, OVERRIDES) as broker:
        story = Story(broker, confluent)
        options = TableOptions(consumer_session_ms=MODERN_SESSION_MS)
        job = Job(
            Source(bootstrap=broker.bootstrap), tmp_path / "out", broker.bootstrap, options=options, is_small=True
        )
        try:
            story.begin()
            first_ms, now_ms = int(time.time() * 1000), story.since_ms + WINDOW_MS
            with ThreadPoolExecutor(1) as pool:
                playing = pool.submit(story.play)
                run(spark, job, now_ms=first_ms)
                playing.result()
            story.finish()
            assert time.time() * 1000 < now_ms, "the story has taken longer than its window"
            told, members = told_by_kafka(broker), describe(broker.tool).members
            run(spark, job, now_ms=now_ms)
            truth = Truth(story, first_ms, now_ms, dumped(dump(broker)))
        finally:
            story.close()
    found = {name: [row.asDict() for row in read_table(spark, job.out, name).collect()] for name in TABLES}
    check_kafka(found, told, members)
    check(found, truth)


def dump(broker: KafkaBroker) -> str:
    logs = sorted(broker.data_dir.glob("__consumer_offsets-*/*.log"))
    return broker.dump_log(",".join(map(str, logs)), "--offsets-decoder")  # type: ignore[arg-type]


def check(found: dict[str, list[Row]], truth: Truth) -> None:
    standing = truth.standing()
    both: dict[str, list[Row]] = {}
    for row in found["lag"]:
        (other,) = [each for each in found["status"] if all(each[name] == row[name] for name in PLACE)]
        both.setdefault(row["group_id"], []).append(row | other)
    found["lag_history"] = [row for row in found["lag_history"] if not truth.is_doubtful(row)]
    expected: dict[str, dict[Any, Row]] = {
        "lag": {key: of(row, "lag") for key, row in standing.items()},
        "status": {key: of(row, "status") for key, row in standing.items()},
        "group_status": {(name,): Model.group_status(rows) for name, rows in both.items()},
        "lag_history": truth.lag_history(),
        "slo": Model.slo(None, found["lag_history"], 1_000),
        "expiry": truth.expiry(),
        "rebalances": truth.rebalances(),
        "members": truth.members(),
        "member_events": truth.member_events(),
        "churn": churn(found["rebalances"]),
        "commits": truth.commits(),
        "offsets_load": truth.offsets_load(),
        "share_partitions": {},
    }
    keys = GRAINS | {"member_events": ("group_id", "kind")}
    wrong: list[str] = []
    for name in GRAINS:
        wrong += differences(name, TABLES[name].names, found[name], expected[name], keys[name])
    for row in found["rebalances"]:
        times = [row["began_after_ms"], row["began_ms"], row["began_before_ms"], row["ended_ms"]]
        if times != sorted(times) or not row["began_before_ms"] <= row["joined_ms"] <= row["ended_ms"]:
            wrong.append(f"rebalances{row['group_id'], row['generation']}: {times}, {row['joined_ms']}")
    for row in found["members"]:
        if row["until_ms"] is not None and row["lived_ms"] != row["until_ms"] - row["since_ms"]:
            wrong.append(f"members{row['group_id'], row['client_id']}: lived_ms {row['lived_ms']}")
    assert not wrong, "\n".join(wrong)


def check_kafka(found: dict[str, list[Row]], told: list[Row], members: dict[str, set[tuple[str, ...]]]) -> None:
    """Offsets, lag and members as Kafka's tool has them; but for the lag of a group beyond the end: unknown."""
    columns = (*PLACE, "committed_offset", "end_offset", "lag")
    right = [row | {"lag": None} if (row["lag"] or 0) < 0 else row for row in told]
    assert [row["group_id"] for row in told if (row["lag"] or 0) < 0] == ["beyond"]

    def plain(rows: list[Row]) -> list[tuple[Any, ...]]:
        return sorted((tuple(row[name] for name in columns) for row in rows), key=repr)

    assert plain(found["lag"]) == plain(right)
    now = {
        (row["group_id"], row["member_id"], row["client_id"], row["host"])
        for row in found["members"]
        if row["until_ms"] is None
    }
    assert now == {(group, row[0], row[3], row[2]) for group, rows in members.items() for row in rows}
