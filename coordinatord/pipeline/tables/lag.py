"""lag, lag_history, status, group_status: how far groups are behind, since when, and why.

One pass over all commits for a partition, with the curve of its end offset, serves all groups that read it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from coordinatord.pipeline.analysis import burrow, status
from coordinatord.pipeline.analysis.burrow import Commit
from coordinatord.pipeline.analysis.curve import Point, curve
from coordinatord.pipeline.analysis.lag import Ends, history, lag_now, with_lags
from coordinatord.pipeline.source.end_offsets import record_time
from coordinatord.pipeline.tables.inputs import Inputs, TableOptions
from coordinatord.pipeline.tables.table import Column, Table

WHERE = (
    Column("group_id", "string", ""),
    Column("topic", "string", ""),
    Column("partition", "int", ""),
)

LAG_COLUMNS = (
    *WHERE,
    Column("committed_offset", "bigint", "the next offset that the group will read"),
    Column("committed_ms", "bigint", "when it was committed; in a transaction, when the transaction was committed"),
    Column("end_offset", "bigint", "end offset of the partition; null if it was not looked up"),
    Column("end_offset_ms", "bigint", "when end_offset was looked up"),
    Column("log_start_offset", "bigint", "the first offset that retention has kept"),
    Column(
        "lag",
        "bigint",
        "existing unread records; never negative; null if the end is unknown, or is before an offset that was "
        "committed at least a minute earlier: the topic was deleted and created again, or has lost records",
    ),
    Column("time_lag_ms", "bigint", "milliseconds since the oldest unread record was appended"),
    Column(
        "time_lag_method",
        "string",
        "`caught up`; `record`: the record's own timestamp; `interpolated` on the curve of end offsets; `at least`, "
        "`at most`: the record is beyond the known part of the curve; `unknown`",
    ),
    Column("time_lag_error_ms", "bigint", "the largest possible error of time_lag_ms; null if there is no bound"),
    Column("lost_records", "bigint", "records that retention deleted before they were read"),
    Column("retention_margin", "bigint", "records that retention may still delete before the group loses one"),
    Column(
        "consumed_per_s",
        "double",
        "records a second, from the commits in the status window; null if it has fewer than two",
    ),
    Column(
        "produced_per_s",
        "double",
        "records appended per second in that window; null if it has fewer than two known end offsets",
    ),
    Column(
        "zero_in_s",
        "double",
        "seconds until the lag is zero, if both rates stay the same; null if the lag does not fall",
    ),
    Column("producer_idle", "boolean", "nothing was appended in that window"),
)

STATUS_COLUMNS = (
    *WHERE,
    Column("status", "string", "see analysis/status.py: unknown, ok, ended, stopped, stuck, rewound, falling, …"),
    Column("why", "string", "the figures behind the status, in words"),
    Column("alarming", "boolean", "needs attention: stopped, stuck, rewound or falling"),
    Column("burrow", "string", "OK, WARN, STOP, STALL, REWIND: by Burrow's rules on its window of 10 commits"),
)

HISTORY_COLUMNS = (
    *WHERE,
    Column("at_ms", "bigint", "a moment: every minute, or less often if that would exceed 500 rows"),
    Column("committed_offset", "bigint", "at that moment"),
    Column("lag", "bigint", "at that moment, with the end offset interpolated"),
)

GROUP_COLUMNS = (
    Column("group_id", "string", ""),
    Column("status", "string", "status of its worst partition"),
    Column("why", "string", "the figures behind that status, in words"),
    Column("alarming_partitions", "bigint", ""),
    Column("partitions", "bigint", "partitions with a committed offset"),
    Column("lag", "bigint", "sum over its partitions; null if none is known"),
    Column("max_lag", "bigint", "the largest lag of a partition"),
    Column("max_time_lag_ms", "bigint", ""),
    Column("last_commit_ms", "bigint", ""),
    Column("burrow", "string", "OK, WARN or ERR, by Burrow's rules"),
)

SEVERITY = (
    status.STOPPED, status.STUCK, status.REWOUND, status.FALLING, status.BEHIND, status.CATCHING, status.UNKNOWN,
    status.ENDED, status.OK,
)  # fmt: skip
"""The worst first."""

BOTH_COLUMNS = (*LAG_COLUMNS, *STATUS_COLUMNS[len(WHERE) :])

Rows = Iterator[tuple[Any, ...]]
PerGroup = Callable[[str, list[Commit], "Partition"], Rows]


class Partition:
    """A topic's partition, with its curve; `has_members` by group."""

    def __init__(self, topic: str, partition: int, endings: pd.DataFrame) -> None:
        self.topic = topic
        self.partition = partition
        self.points: list[Point] = []
        self.ends: Ends | None = None
        self.has_members: dict[str, bool | None] = {}
        if len(endings):
            row = endings.iloc[0]
            self.points = curve([Point(int(each["offset"]), int(each["time_ms"])) for each in row["points"]])
            self.ends = Ends(int(row["log_start_offset"]), int(row["end_offset"]), int(row["sampled_ms"]))


def per_partition(inputs: Inputs, columns: tuple[Column, ...], told: PerGroup) -> DataFrame:
    """The rows that `told(group, commits, partition)` returns for each group with an offset in a partition."""
    ddl = ", ".join(f"`{column.name}` {column.type}" for column in columns)
    names = [column.name for column in columns]

    def apply(commits: pd.DataFrame, endings: pd.DataFrame) -> pd.DataFrame:
        rows: list[tuple[Any, ...]] = []
        if len(commits):
            first = commits.iloc[0]
            partition = Partition(str(first["topic"]), int(first["partition"]), endings)
            for group_id, each in commits.groupby("group_id", sort=False):
                kept = _since_tombstone(each)
                if kept:
                    known = each["has_members"].iloc[0]
                    partition.has_members[str(group_id)] = None if pd.isna(known) else bool(known)
                    rows += told(str(group_id), kept, partition)
        return pd.DataFrame(rows, columns=names).astype(object)

    commits = inputs.commits.select(
        "group_id", "topic", "partition", "committed_offset", "effective_ms", "log_offset"
    ).join(F.broadcast(inputs.members), "group_id", "left")
    keys = ["topic", "partition"]
    return commits.groupBy(*keys).cogroup(inputs.endings.groupBy(*keys)).applyInPandas(apply, ddl)


def _since_tombstone(rows: pd.DataFrame) -> list[Commit]:
    """A group's commits for a partition since its last tombstone, in the order of the log."""
    rows = rows.sort_values("log_offset")
    commits: list[Commit] = []
    for offset, committed_ms in zip(rows["committed_offset"], rows["effective_ms"], strict=True):
        if pd.isna(offset):
            commits.clear()
        else:
            commits.append(Commit(int(offset), int(committed_ms), None))
    return commits


def _now(inputs: Inputs) -> DataFrame:
    now_ms, options, directories = inputs.now_ms, inputs.options, inputs.log_directories

    def told(group_id: str, commits: list[Commit], partition: Partition) -> Rows:
        yield _row(group_id, commits, partition, now_ms, options, directories)

    return inputs.once("lag and status", lambda: per_partition(inputs, BOTH_COLUMNS, told))


def _row(
    group_id: str,
    commits: list[Commit],
    partition: Partition,
    now_ms: int,
    options: TableOptions,
    directories: tuple[str, ...],
) -> tuple[Any, ...]:
    ends, points = partition.ends, partition.points
    recent = with_lags(commits[-max(burrow.WINDOW, 100) :], points)
    last = recent[-1]
    record_ms = None
    if ends is not None and ends.log_start_offset is not None and last.offset < ends.end_offset:
        oldest = max(last.offset, ends.log_start_offset)
        times = (record_time(path, partition.topic, partition.partition, oldest) for path in directories)
        record_ms = next((time_ms for time_ms in times if time_ms is not None), None)
    lag = lag_now(recent, ends, points, now_ms, options.rules.window_ms, record_ms)
    found = status.partition_status(
        recent, lag.lag, now_ms, has_members=partition.has_members[group_id], rules=options.rules
    )
    if ends is not None and ends.is_of_another_log(last):
        why = f"offset {last.offset} is beyond the end, {ends.end_offset}: the topic was made anew, or lost records"
        found = status.Status(status.UNKNOWN, why)
    compatible = None
    if ends is not None:
        ends_seen = [point.offset for point in points[-burrow.WINDOW :]]
        compatible = burrow.partition_status(recent[-burrow.WINDOW :], ends_seen, lag.lag or 0, now_ms // 1000)
    return (
        group_id,
        partition.topic,
        partition.partition,
        last.offset,
        last.time_ms,
        None if ends is None else ends.end_offset,
        None if ends is None else ends.sampled_ms,
        None if ends is None else ends.log_start_offset,
        lag.lag,
        lag.time_lag_ms,
        lag.time_lag_method,
        lag.time_lag_error_ms,
        lag.lost_records,
        lag.retention_margin,
        lag.consumed_per_s,
        lag.produced_per_s,
        lag.zero_in_s,
        lag.producer_idle,
        found.status,
        found.why,
        found.status in status.ALARMING,
        compatible,
    )


def _history(inputs: Inputs) -> DataFrame:
    step_ms = inputs.options.history_step_ms

    def told(group_id: str, commits: list[Commit], partition: Partition) -> Rows:
        for at_ms, offset, lag in history(commits, partition.points, step_ms):
            yield group_id, partition.topic, partition.partition, at_ms, offset, lag

    return per_partition(inputs, HISTORY_COLUMNS, told)


def _groups(inputs: Inputs) -> DataFrame:
    severity = F.array(*[F.lit(each) for each in SEVERITY])
    rows = inputs.table("status").join(inputs.table("lag"), [column.name for column in WHERE])
    # The worst partition speaks for its group; of several as bad as it, the one with the most unread records.
    rank = F.struct(
        F.array_position(severity, F.col("status")), -F.coalesce(F.col("lag"), F.lit(0)), F.col("topic"), "partition"
    )
    is_error = F.col("burrow").isin(burrow.STOP, burrow.STALL, burrow.REWIND)
    return (
        rows.groupBy("group_id")
        .agg(
            F.min_by("status", rank).alias("status"),
            F.min_by("why", rank).alias("why"),
            F.sum(F.col("alarming").cast("bigint")).alias("alarming_partitions"),
            F.count("*").alias("partitions"),
            F.sum("lag").alias("lag"),
            F.max("lag").alias("max_lag"),
            F.max("time_lag_ms").alias("max_time_lag_ms"),
            F.max("committed_ms").alias("last_commit_ms"),
            F.max(is_error).alias("_error"),
            F.max(F.col("burrow") == burrow.WARN).alias("_warn"),
        )
        .withColumn(
            "burrow",
            F.when(F.col("_error"), burrow.ERROR).when(F.col("_warn"), burrow.WARN).when(~F.col("_warn"), burrow.OK),
        )
    )


LAG = Table("lag", "one row per group, topic and partition: now", LAG_COLUMNS, lambda inputs: _now(inputs), True)
STATUS = Table(
    "status", "one row per group, topic and partition: now", STATUS_COLUMNS, lambda inputs: _now(inputs), True
)
GROUP_STATUS = Table("group_status", "one row per group: now", GROUP_COLUMNS, _groups, True)
LAG_HISTORY = Table("lag_history", "one row per group, topic, partition and moment", HISTORY_COLUMNS, _history, True)
