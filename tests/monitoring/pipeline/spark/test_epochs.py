"""Tables and moments of a group of the consumer protocol, from the segment that Kafka wrote while it lived."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from coordinatord.cli import cli
from coordinatord.monitoring.offsets_log.lag.fold import KINDS
from coordinatord.monitoring.offsets_log.lag.lag_scan import Looks
from coordinatord.monitoring.offsets_log.source.options import read_options
from coordinatord.monitoring.offsets_log.source.topic_names import FILE
from coordinatord.monitoring.pipeline.run.group_at import moment, tell
from coordinatord.monitoring.pipeline.run.ingest import Job
from coordinatord.monitoring.pipeline.run.update import read_table, run
from coordinatord.monitoring.pipeline.source.frames import Source
from coordinatord.monitoring.pipeline.tables import TABLES as TABLE_OF_ALL
from coordinatord.monitoring.pipeline.tables.inputs import TableOptions
from kafka_wire.records.batch import iterate_batches
from kafka_wire.records.key_values import key_values
from tests.monitoring.pipeline.epochs_story import GROUP, SESSION_MS
from tests.monitoring.pipeline.test_kafka_epochs import GOLDEN, golden_story

TABLES = ("rebalances", "members", "member_events", "churn", "expiry", "offsets_load")


def load_of(segment: bytes) -> tuple[int, int, int, int]:
    """Records and their bytes; and those that cleaning would keep. No record of the segment is of a transaction."""
    records = [
        (key, value or b"")
        for position, header in iterate_batches(segment)
        for _offset, _ms, key, value in key_values(segment, position, header)
        if key is not None
    ]
    kept = [(key, value) for key, value in dict(records).items() if value]
    return len(records), sum(map(_bytes, records)), len(kept), sum(map(_bytes, kept))


def _bytes(record: tuple[bytes, bytes]) -> int:
    return len(record[0]) + len(record[1])


def lag_without_spark(directory: Path, now_ms: int, names: list[str]) -> list[tuple[Any, ...]]:
    options = read_options({"paths": json.dumps([str(directory)]), "kinds": ",".join(KINDS)})
    look = Looks(options, None, {}).look(now_ms)
    return [tuple(getattr(row, name) for name in names) for row in look.rows]


def test_what_tables_and_moments_say(spark: Any, tmp_path: Path) -> None:
    story = golden_story()
    directory, out = tmp_path / "data", tmp_path / "out"
    (segment,) = (GOLDEN / "__consumer_offsets-0").glob("*.log")
    target = directory / "__consumer_offsets-0" / segment.name
    target.parent.mkdir(parents=True)
    data, late_ms = segment.read_bytes(), story.members[2][0]
    cut = next(position for position, header in iterate_batches(data) if header.max_timestamp > late_ms)
    (directory / "payments-0").mkdir()
    (topic_id,) = (each for each, name in story.topic_ids.items() if name == "payments")
    (directory / "payments-0" / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}\n")
    now_ms = story.steps[-1].began_ms + 60_000
    options = TableOptions(consumer_session_ms=SESSION_MS)
    job = Job(Source(str(directory)), out, options=options, tables=TABLES)

    # Up to the third moment, when somebody reads each of the topics; then what is left of it.
    target.write_bytes(data[:cut])
    run(spark, replace(job, tables=(*TABLES, "lag")), now_ms=late_ms)
    # The same rows as `coordinatord lag` has, of partitions too that a member has and nobody has committed.
    names = TABLE_OF_ALL["lag"].names
    lag = [tuple(row) for row in read_table(spark, out, "lag").collect()]
    assert sorted(lag) == sorted(lag_without_spark(directory, late_ms, names))
    owned = {(topic, number) for each in story.members[2][1].values() for topic, number in each}
    assert owned <= {row[1:3] for row in lag}
    assert {row["counts_from"] for row in read_table(spark, out, "expiry").collect()} == {"in use"}
    assert {row["until_ms"] for row in read_table(spark, out, "members").where("end is null").collect()} == {None}
    target.write_bytes(data)
    run(spark, job, now_ms=now_ms)
    assert f'"{topic_id}": "payments"' in (out / FILE).read_text()

    found = {name: [row.asDict() for row in read_table(spark, out, name).collect()] for name in TABLES}
    told = sorted(found["rebalances"], key=lambda row: row["generation"])
    wanted = [(step.trigger, step.client) for step in story.steps if step.trigger is not None]
    assert [(row["trigger"], row["trigger_client_id"]) for row in told] == wanted
    assert {(row["group_id"], row["group_type"], row["how"]) for row in told} == {(GROUP, "consumer", "inferred")}
    assert told[2]["partitions_moved"] == 1
    assert sorted(row["end"] for row in found["members"]) == ["expired", "expired", "left", "left", "replaced"]
    assert {row["instance"] for row in found["members"]} == {"till-1", None}
    assert sum(row["added"] for row in found["churn"]) == 4, "epochs that the next one superseded count, too"
    assert {row["topic"] for row in found["expiry"]} == {"orders", "payments", "payments-eu"}
    assert {(row["counts_from"], row["abandoned"]) for row in found["expiry"]} == {("not subscribed", True)}
    assert all(row["expires_ms"] == row["committed_ms"] + options.retention_ms for row in found["expiry"])

    (load,) = found["offsets_load"]
    sums = ("records", "bytes", "live_records", "live_bytes")
    assert tuple(load[name] for name in sums) == load_of(data), "each record is one of the group's"
    assert (load["partition_records"], load["partition_bytes"]) == (load["records"], load["bytes"])
    assert (load["debt_bytes"], load["hot"]) == (load["bytes"] - load["live_bytes"], False)

    for at_ms, owners in story.members:
        then = moment(spark, out, GROUP, at_ms)
        places = {(topic, number): name for name, each in owners.items() for topic, number in each}
        assert {place: then.owner(place) for place in then.assigned} == {
            place: f"{'till-1' if name == 'b' else name} on 127.0.0.1" for place, name in places.items()
        }
        assert then.offsets.keys() <= places.keys()
        assert len(then.offsets) >= 4
    lines = list(tell(GROUP, moment(spark, out, GROUP, story.members[0][0])))
    assert lines[1] == "  epoch 4, 3 members, all reconciled"
    times = ["--time", str(story.members[0][0]), "--compare", str(story.members[1][0])]
    between = CliRunner().invoke(cli, ["pipeline", "at", "--out", str(out), "--group", GROUP, *times])
    assert between.exit_code == 0, between.output
    assert "no owner -> " in between.output
    assert "doomed on 127.0.0.1 -> " in between.output
