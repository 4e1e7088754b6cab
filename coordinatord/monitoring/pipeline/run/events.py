"""Change events, live: Spark's part around analysis/changes.py.

    OUT/looks/<batch>.parquet       samples: a row per group each time the tables were made. Written once
    OUT/events_checkpoint/          the query's position in the samples, and the state of the groups (RocksDB)
    OUT/events/<batch>.jsonl        the events, each once

A separate query judges the samples with `transformWithState`: a group's state, the query's position and the events
belong to one micro-batch. A batch repeated after a crash is repeated with the same samples and finds its file written.
So every event occurs once, wherever the follower was killed.

Time is that of the samples (event time), and there are no timers. Each sample has a row for every group, and one last
row for each group that disappeared. So nothing is concluded from missing rows, and a follower that was down for an hour
does not mistake its own absence for the groups'. Processing time matters only here: the state of groups that are no
longer in any sample lives for `STATE_TTL_MS` (Spark offers no other time for that).
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor
from pyspark.sql.streaming.query import StreamingQuery

from coordinatord.monitoring.analysis import changes
from coordinatord.monitoring.analysis.changes import Change, Seen, Thresholds, Track
from coordinatord.monitoring.pipeline.tables.events import COLUMNS, EVENTS_DDL
from coordinatord.monitoring.pipeline.tables.expiry import NOT_SUBSCRIBED
from coordinatord.monitoring.pipeline.tables.inputs import nothing

LOOK_DDL = (
    "group_id string, at_ms bigint, has_members boolean, rebalances_ms array<bigint>, partitions array<struct<"
    "topic: string, partition: int, committed_offset: bigint, committed_ms: bigint, end_offset: bigint, "
    "expires_ms: bigint, moved_ms: bigint, unread_ms: bigint, stood_since_ms: bigint, stood_until_ms: bigint>>"
)
KEY_DDL = "topic string, partition int"
TRACK_DDL = (
    "committed_offset bigint, moved_ms bigint, end_offset bigint, stuck_ms bigint, expiring_ms bigint, "
    "touched_ms bigint"
)
STATE_TTL_MS = 7 * changes.REFRESH_MS
"""Time to live of the state of groups that are no longer in any sample. All other state is rewritten daily at least."""
KEEP_LOOKS = 1_000
MAX_REBALANCES = 1_000
"""Maximum number of rebalances of one group in one sample, and so the highest count in a storm's text."""
LOOKS_AT_ONCE = 100
STATE_STORE = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

REQUIRED_TABLES = ("lag", "expiry", "rebalances")


# Samples


def write_look(
    spark: SparkSession, out: Path, batch: int, at_ms: int, thresholds: Thresholds, read: Callable[[str], DataFrame]
) -> None:
    """Write the present content of the tables, for the judge. Only once: a repeated batch keeps its sample."""
    target = _look_path(out, batch)
    if target.exists():
        return
    keys = ["group_id", "topic", "partition"]
    has_members = ~F.col("abandoned")
    is_read = ~(has_members & (F.col("counts_from") == NOT_SUBSCRIBED))
    expiry = read("expiry").select(*keys, "expires_ms", has_members.alias("has_members"), is_read.alias("_is_read"))
    lag = read("lag").where("committed_offset is not null").join(expiry, keys, "left")
    waited_ms = F.col("time_lag_ms") - F.coalesce("time_lag_error_ms", F.lit(0))  # at least
    unread = F.when(F.col("lag") > 0, F.lit(at_ms) - waited_ms).alias("unread_ms")
    # Markers and aborted records cannot be read, and partitions of topics without a subscription are not read.
    has_nothing = (F.col("lag") == 0) | ~F.coalesce("_is_read", F.lit(True))
    end = F.when(has_nothing, F.col("committed_offset")).otherwise(F.col("end_offset")).alias("end_offset")
    columns = ["committed_offset", "committed_ms", end, "moved_ms", "stood_since_ms", "stood_until_ms", "expires_ms"]
    lag = lag.select(*keys, *columns, unread, "has_members")
    names = Seen._fields
    groups = lag.groupBy("group_id").agg(
        F.max("has_members").alias("has_members"), F.collect_list(F.struct(*names)).alias("partitions")
    )
    recent = read("rebalances").where((F.col("ended_ms") > at_ms - thresholds.storm_ms) & (F.col("ended_ms") <= at_ms))
    recent = recent.groupBy("group_id").agg(
        F.slice(F.sort_array(F.collect_list("ended_ms"), asc=False), 1, MAX_REBALANCES).alias("rebalances_ms")
    )
    seen = groups.join(recent, "group_id", "full").join(_before(spark, out, batch), "group_id", "full")
    row = seen.select(
        "group_id",
        F.lit(at_ms).cast("bigint").alias("at_ms"),
        "has_members",
        F.coalesce("rebalances_ms", F.array().cast("array<bigint>")).alias("rebalances_ms"),
        F.coalesce("partitions", F.array()).alias("partitions"),
    )
    staged = target.with_name(f"_{batch:09d}")
    row.coalesce(1).write.mode("overwrite").parquet(str(staged))
    (part,) = staged.glob("part-*.parquet")
    os.replace(part, target)
    shutil.rmtree(staged)
    for old in sorted(target.parent.glob("[0-9]*.parquet"))[:-KEEP_LOOKS]:
        old.unlink()


def _look_path(out: Path, batch: int) -> Path:
    return out / "looks" / f"{batch:09d}.parquet"


def _before(spark: SparkSession, out: Path, batch: int) -> DataFrame:
    """Return the groups in the last non-empty sample: they get one more row, even if they disappeared."""
    earlier = [path for path in sorted((out / "looks").glob("[0-9]*.parquet")) if path < _look_path(out, batch)]
    if not earlier:
        return nothing(spark, "group_id string")
    rows = spark.read.schema(LOOK_DDL).parquet(str(earlier[-1]))
    return rows.where("size(partitions) > 0 or size(rebalances_ms) > 0").select("group_id")


# Judging samples


class Judge(StatefulProcessor):
    """The state of one group: `partitions` has each partition's track, `group` the start of a storm."""

    def __init__(self, thresholds: Thresholds) -> None:
        self.thresholds = thresholds

    def init(self, handle: Any) -> None:
        self.partitions = handle.getMapState("partitions", KEY_DDL, TRACK_DDL, STATE_TTL_MS)
        self.group = handle.getValueState("group", "storm_ms bigint, touched_ms bigint", STATE_TTL_MS)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: N803, Spark's
        for row in sorted(rows, key=lambda row: row["at_ms"]):
            for change in self._look(row):
                yield event(key[0], change)

    def close(self) -> None:
        """Nothing to close."""

    def _look(self, row: Row) -> Iterator[Change]:
        at_ms = row["at_ms"]
        tracks = {tuple(key): Track(*value) for key, value in self.partitions.iterator()}
        for partition in row["partitions"] or []:
            seen = Seen(*(partition[name] for name in Seen._fields))
            before = tracks.pop((seen.topic, seen.partition), None)
            after, found = changes.look(before, seen, at_ms, self.thresholds, has_members=row["has_members"])
            if after != before:
                self.partitions.updateValue((seen.topic, seen.partition), tuple(after))
            yield from found
        for (topic, number), track in tracks.items():
            self.partitions.removeKey((topic, number))
            yield from changes.gone(track, topic, number, at_ms)
        known = self.group.get()
        since_ms, touched_ms = known if known is not None else (None, at_ms)
        storm_ms, found = changes.storm(since_ms, row["rebalances_ms"] or [], at_ms, self.thresholds)
        if storm_ms is None and known is not None:
            self.group.clear()
        elif storm_ms is not None and (storm_ms != since_ms or at_ms - touched_ms >= changes.REFRESH_MS):
            self.group.update((storm_ms, at_ms))
        yield from found


def event(group_id: str, change: Change) -> Row:
    """Return a row of the table `events`."""
    seen = change.seen
    values: dict[str, Any] = {
        "group_id": group_id,
        "kind": change.kind,
        "change": change.change,
        "since_ms": change.since_ms,
        "at_ms": change.at_ms,
        "rebalances": change.rebalances,
        "text": change.text,
        "lag": None if seen is None else seen.lag,
    }
    if seen is not None:
        values |= seen._asdict()
    return Row(**{column.name: values.get(column.name) for column in COLUMNS})


def start(
    spark: SparkSession, out: Path, thresholds: Thresholds, say: Callable[[dict[str, Any]], object], **trigger: Any
) -> StreamingQuery:
    """Start the query that judges samples as they arrive. `say` is called with each new event."""
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", STATE_STORE)
    # With a time to live, Spark would run batches without data forever, because some state might expire.
    spark.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "false")
    (out / "looks").mkdir(parents=True, exist_ok=True)
    (out / "events").mkdir(parents=True, exist_ok=True)
    looks = (
        spark.readStream.schema(LOOK_DDL)
        .option("maxFilesPerTrigger", LOOKS_AT_ONCE)
        .option("pathGlobFilter", "[0-9]*.parquet")
        .parquet(str(out / "looks"))
    )
    found = looks.groupBy("group_id").transformWithState(Judge(thresholds), EVENTS_DDL, "append", "ProcessingTime")

    def write(rows: DataFrame, batch: int) -> None:
        told = sorted((row.asDict() for row in rows.collect()), key=lambda row: (row["at_ms"], row["group_id"]))
        path = out / "events" / f"{batch:09d}.jsonl"
        if not told or path.exists():  # a repeated batch has the same events
            return
        staged = path.with_name(f"_{path.name}")
        staged.write_text("".join(f"{json.dumps(row)}\n" for row in told))
        os.replace(staged, path)
        for row in told:
            say(row)

    writer = found.writeStream.queryName("events").foreachBatch(write).outputMode("append")
    return writer.option("checkpointLocation", str(out / "events_checkpoint")).trigger(**trigger).start()


def read_events(out: Path) -> list[dict[str, Any]]:
    """Return all events, oldest first. Does not need Spark."""
    found = []
    for path in sorted((out / "events").glob("[0-9]*.jsonl")):
        found += [json.loads(line) for line in path.read_text().splitlines()]
    return sorted(found, key=lambda row: (row["at_ms"], row["group_id"], row["kind"]))
