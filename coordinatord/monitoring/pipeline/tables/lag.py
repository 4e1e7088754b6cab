"""lag, lag_history, status, group_status: the lag of groups, its age, and its reasons.

One pass over all commits for a partition, with the curve of its end offset, serves all groups that read it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from coordinatord.monitoring.analysis.commit_window import Trail
from coordinatord.monitoring.analysis.current_lag import Now, Partition, standing
from coordinatord.monitoring.analysis.ends import Ends
from coordinatord.monitoring.analysis.generations import TopicPartition
from coordinatord.monitoring.analysis.groups import SEVERITY, group_now
from coordinatord.monitoring.analysis.offset_timeline import Point
from coordinatord.monitoring.analysis.status import ALARMING, Members
from coordinatord.monitoring.offsets_log.lag.by_key import by_key
from coordinatord.monitoring.offsets_log.lag.commit_arrays import Ints, add_all
from coordinatord.monitoring.offsets_log.lag.known import Key
from coordinatord.monitoring.offsets_log.lag.lag_history import NO_HISTORY, lag_history
from coordinatord.monitoring.offsets_log.source.end_offsets import RecordTimes
from coordinatord.monitoring.pipeline.source.partition_ends import tail_of
from coordinatord.monitoring.pipeline.tables.departures import members_now
from coordinatord.monitoring.pipeline.tables.inputs import Inputs, part_of
from coordinatord.monitoring.pipeline.tables.table import Column, Table, arrow_schema, by_group

WHERE = (
    Column("group_id", "string", ""),
    Column("topic", "string", ""),
    Column("partition", "int", ""),
)

LAG_COLUMNS = (
    *WHERE,
    Column(
        "committed_offset",
        "bigint",
        "the next offset that the group will read; null if the partition is assigned to a member, and has none",
    ),
    Column("committed_ms", "bigint", "when it was committed; in a transaction, when the transaction was committed"),
    Column("moved_ms", "bigint", "when the group came to that offset; its later commits were of the same one"),
    Column(
        "stood_since_ms",
        "bigint",
        "since when it had stood at an earlier offset, the last time that it did so for a twentieth of the status "
        "window while records were unread; null if that was before the window",
    ),
    Column("stood_until_ms", "bigint", "when it moved on"),
    Column("end_offset", "bigint", "end offset of the partition; null if it was not looked up"),
    Column("end_offset_ms", "bigint", "when end_offset was looked up"),
    Column("log_start_offset", "bigint", "the first offset that retention has kept"),
    Column(
        "lag",
        "bigint",
        "existing unread records, without transaction markers and aborted records at the end where these are known; "
        "never negative; null if nothing is committed, if the end is unknown, or is before an "
        "offset to which the group came at least a minute earlier (moved_ms): the topic was deleted and created again, "
        "or has lost records",
    ),
    Column("time_lag_ms", "bigint", "milliseconds since the oldest unread record was appended"),
    Column(
        "time_lag_method",
        "string",
        "`caught up`; `record`: the record's own timestamp; `at most`: the record came after a known end offset; `at "
        "least`: it was there at the first one; `unknown`",
    ),
    Column("time_lag_error_ms", "bigint", "time_lag_ms is too large by this at most; null if there is no bound"),
    Column("lost_records", "bigint", "records that were deleted before they were read"),
    Column("retention_margin", "bigint", "records that may still be deleted before the group loses one"),
    Column(
        "retention_left_ms",
        "bigint",
        "until retention.ms lets the oldest unread record be deleted, at most; null if nothing is unread, or "
        "retention.ms is not known",
    ),
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
    Column("status", "string", f"see analysis/status.py: {', '.join(SEVERITY)}"),
    Column("why", "string", "the figures behind the status, in words"),
    Column("alarming", "boolean", "needs attention: " + ", ".join(word for word in SEVERITY if word in ALARMING)),
    Column("burrow", "string", "OK, WARN, STOP, STALL, REWIND: by Burrow's rules on its window of 10 commits"),
)

HISTORY_COLUMNS = (
    *WHERE,
    Column("at_ms", "bigint", "a moment: every minute, or less often if that would exceed 500 rows"),
    Column("committed_offset", "bigint", "at that moment"),
    Column(
        "lag",
        "bigint",
        "at that moment, at most: by the next known end offset; moments at which the group's offset was of a topic "
        "that has been deleted and created again since have no row",
    ),
    Column("least_lag", "bigint", "at that moment, at least: by the last known end offset"),
)

GROUP_COLUMNS = (
    Column("group_id", "string", ""),
    Column("status", "string", "status of its worst partition"),
    Column("why", "string", "the figures behind that status, in words"),
    Column("alarming_partitions", "bigint", ""),
    Column("partitions", "bigint", "partitions with a committed offset"),
    Column("lag", "bigint", "sum over its partitions; null if none is known"),
    Column("max_lag", "bigint", "the largest lag of a partition"),
    Column("max_time_lag_ms", "bigint", "the longest time_lag_ms of a partition; null if none is known"),
    Column(
        "max_time_lag_method",
        "string",
        "time_lag_method of that partition; `at least` if another one's unread records may be older; `unknown` if "
        "none is known",
    ),
    Column("last_commit_ms", "bigint", ""),
    Column("burrow", "string", "OK, WARN or ERR, by Burrow's rules"),
)

BOTH_COLUMNS = (*LAG_COLUMNS, *STATUS_COLUMNS[len(WHERE) :])
"""Columns of current_lag.Now."""

Rows = Iterator[tuple[Any, ...]]
PerGroup = Callable[[str, Ints, Ints, Partition, Members], Rows]

HISTORY_ARRAYS = ("_at_ms", "_committed_offset", "_lag", "_least_lag")
"""A partition's rows of lag_history, column by column, in addition to its row of lag and status."""
OF_HISTORY = frozenset({"lag_history", "slo"})
"""Tables that are made from the arrays of history."""


def partition_of(topic: str, number: int, row: Mapping[str, Any] | None) -> Partition:
    """Return a partition with its row of Inputs.endings, if it has one."""
    if row is None:
        return Partition(topic, number)
    ends = Ends(
        int(row["log_start_offset"]), int(row["end_offset"]), int(row["sampled_ms"]), tail_of(row["tail"]),
        row["retention_ms"],
    )  # fmt: skip
    return Partition.of(topic, number, ends, [Point(int(p["offset"]), int(p["time_ms"])) for p in row["points"]])


def per_partition(inputs: Inputs, told: PerGroup) -> DataFrame:
    """Return the rows that `told(group, offsets, times, partition, members)` returns for each group with an offset in a
    partition, or with a member to which the partition is assigned: then there are no commits. The columns are
    BOTH_COLUMNS and HISTORY_ARRAYS.
    """
    types = {column.name: column.type for column in BOTH_COLUMNS} | dict.fromkeys(HISTORY_ARRAYS, "array<bigint>")
    ddl = ", ".join(f"`{name}` {type_}" for name, type_ in types.items())
    arrays = [pa.field(name, pa.list_(pa.int64())) for name in HISTORY_ARRAYS]
    schema = pa.schema([*arrow_schema(BOTH_COLUMNS), *arrays])

    def apply(commits: pa.Table, endings: pa.Table) -> pa.Table:
        rows: list[tuple[Any, ...]] = []
        known = {(row["topic"], row["partition"]): row for row in endings.to_pylist()} if commits.num_rows else {}
        partitions: dict[TopicPartition, Partition] = {}  # each once, however many groups read it
        for (group_id, topic, number), members, offsets, times_ms in _commits(commits):
            place = topic, number
            if place not in partitions:
                partitions[place] = partition_of(topic, number, known.get(place))
            rows += told(group_id, offsets, times_ms, partitions[place], members)
        columns = zip(*rows, strict=True) if rows else [()] * len(schema)
        return pa.table([pa.array(each, field.type) for each, field in zip(columns, schema, strict=True)], schema)

    offset = F.coalesce("committed_offset", F.lit(NONE)).alias("committed_offset")
    effective_ms = F.coalesce("effective_ms", F.lit(0)).alias("effective_ms")
    commits = inputs.commits.select("group_id", "topic", "partition", offset, effective_ms, "log_offset").unionByName(
        inputs.assigned.select(
            "*",
            F.lit(NONE).cast("bigint").alias("committed_offset"),
            F.lit(0).cast("bigint").alias("effective_ms"),
            F.lit(ASSIGNED).cast("bigint").alias("log_offset"),
        )
    )
    of_members = commits.join(F.broadcast(members_now(inputs)), "group_id", "left")
    part = part_of("topic", "partition")
    return of_members.groupBy(part).cogroup(inputs.endings.groupBy(part)).applyInArrow(apply, ddl)


ASSIGNED = -1
"""Value in place of the log's offset, in a row for an assigned partition."""
NONE = -1
"""Value in place of the committed offset, in the row of a tombstone."""


def _commits(rows: pa.Table) -> Iterator[tuple[Key, Members, Ints, Ints]]:
    """Yield each group with an offset in a partition, or with a member that has the partition: the offsets and the
    times of its commits since its last tombstone, in the order of the log.
    """
    rows = rows.combine_chunks()
    every_offset, every_time_ms = rows["committed_offset"].to_numpy(), rows["effective_ms"].to_numpy()
    for key, numbers in by_key(rows):
        offsets, times_ms, first = every_offset[numbers], every_time_ms[numbers], int(numbers[0])
        tombstones = np.flatnonzero(offsets == NONE)
        since = int(tombstones[-1]) + 1 if len(tombstones) else 0
        offsets, times_ms = offsets[since:], times_ms[since:]
        if len(offsets) or rows["log_offset"][first].as_py() == ASSIGNED:
            has_any, empty_ms, how, topics = (
                rows[name][first].as_py() for name in ("has_members", "empty_ms", "how", "topics")
            )
            members = Members(has_any, empty_ms, how, None if topics is None else frozenset(topics))
            yield key, members, offsets, times_ms


def standings(inputs: Inputs) -> DataFrame:
    """Return the rows of lag and status, each with its history: BOTH_COLUMNS and HISTORY_ARRAYS."""
    now_ms, rules, directories = inputs.now_ms, inputs.options.rules, inputs.log_directories
    step_ms = inputs.options.history_step_ms if inputs.wants(OF_HISTORY) else None

    time_of = RecordTimes(directories)

    def told(group_id: str, offsets: Ints, times_ms: Ints, partition: Partition, members: Members) -> Rows:
        trail = Trail(rules.window_ms)
        add_all(trail, offsets, times_ms)
        row = standing(group_id, trail, partition, now_ms, members=members, rules=rules, record_time=time_of)
        past = NO_HISTORY if step_ms is None else lag_history(offsets, times_ms, partition.points, step_ms)
        yield (*row, past.times_ms, past.committed, past.most, past.least)

    return inputs.once("lag, status and history", lambda: per_partition(inputs, told))


def _now(inputs: Inputs) -> DataFrame:
    return standings(inputs).drop(*HISTORY_ARRAYS)


def _history(inputs: Inputs) -> DataFrame:
    at = F.explode(F.arrays_zip(*HISTORY_ARRAYS)).alias("_at")
    names = [column.name for column in HISTORY_COLUMNS[len(WHERE) :]]
    columns = [F.col(f"_at.{array}").alias(name) for array, name in zip(HISTORY_ARRAYS, names, strict=True)]
    return (
        standings(inputs)
        .select("group_id", "topic", "partition", at)
        .select("group_id", "topic", "partition", *columns)
    )


def _groups(inputs: Inputs) -> DataFrame:
    schema = arrow_schema(GROUP_COLUMNS)

    def told(rows: pa.Table) -> pa.Table:
        groups = (group_now([Now(**row) for row in own.to_pylist()]) for _, own in by_group(rows.select(Now._fields)))
        return pa.Table.from_pylist([group._asdict() for group in groups], schema)

    ddl = ", ".join(f"`{column.name}` {column.type}" for column in GROUP_COLUMNS)
    return _now(inputs).groupBy(part_of("group_id")).applyInArrow(told, ddl)


LAG = Table("lag", "one row per group, topic and partition: now", LAG_COLUMNS, lambda inputs: _now(inputs), True)
STATUS = Table(
    "status", "one row per group, topic and partition: now", STATUS_COLUMNS, lambda inputs: _now(inputs), True
)
GROUP_STATUS = Table("group_status", "one row per group: now", GROUP_COLUMNS, _groups, True)
LAG_HISTORY = Table("lag_history", "one row per group, topic, partition and moment", HISTORY_COLUMNS, _history, True)
