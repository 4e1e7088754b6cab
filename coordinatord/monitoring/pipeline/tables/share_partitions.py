"""share_partitions: the share partitions of share groups (KIP-932), from `__share_group_state`.

The topic is small, since a coordinator deletes the records before the last snapshots: each run reads all of it, in the
process of the driver.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import DataFrame

from coordinatord.monitoring.analysis.current_lag import Partition
from coordinatord.monitoring.analysis.generations import TopicPartition
from coordinatord.monitoring.analysis.share_log import MEMBERS, Logged, logged, member_counts
from coordinatord.monitoring.analysis.share_state import DELIVERY_COUNT_LIMIT
from coordinatord.monitoring.offsets_log.source.end_offsets import RecordTimes
from coordinatord.monitoring.pipeline.tables.inputs import Inputs, Shared
from coordinatord.monitoring.pipeline.tables.lag import WHERE, partition_of
from coordinatord.monitoring.pipeline.tables.table import Column, Table, arrow_schema

COLUMNS = (
    WHERE[0],
    Column("topic", "string", "the topic's id if its name is unknown"),
    WHERE[2],
    Column("members", "int", "of the group"),
    Column(
        "start_offset",
        "bigint",
        "all records before it are done with: acknowledged, archived, or deleted; null before a member has "
        "acknowledged a record",
    ),
    Column("end_offset", "bigint", "end offset of the partition; null if it was not looked up"),
    Column("end_offset_ms", "bigint", "when end_offset was looked up"),
    Column(
        "lag",
        "bigint",
        "records from the start offset to the end that are neither acknowledged nor archived (KIP-1226), so also those "
        "that members have acquired, which are in no log; null if one of the two is unknown",
    ),
    Column(
        "delivery_complete",
        "bigint",
        "records from the start offset on that are acknowledged or archived, as the cluster has counted, or, if it has "
        "not, as they are stored",
    ),
    Column("acknowledged", "bigint", "records from the start offset on that are stored as acknowledged"),
    Column("archived", "bigint", "records from there on that were rejected, or delivered as often as the limit allows"),
    Column("archiving", "bigint", "records from there on whose dead letter is being written (KIP-1191)"),
    Column("available", "bigint", "records from there on that have been delivered, and wait for another delivery"),
    Column("redelivered", "bigint", "records from there on with a delivery count above 1, whatever became of them"),
    Column("most_deliveries", "int", "the highest stored delivery count; 0 without any"),
    Column("most_deliveries_offset", "bigint", "the first offset with that count; null without any"),
    Column(
        "delivery_limit",
        "int",
        "the group's share.delivery.count.limit, or the brokers', as far as the source has them; "
        f"otherwise {DELIVERY_COUNT_LIMIT}, the default",
    ),
    Column("suspected", "bigint", "available records whose delivery count is half of that limit or more"),
    Column("suspected_offset", "bigint", "the first one with the highest count of them; null without any"),
    Column("oldest_offset", "bigint", "the first offset that is neither acknowledged nor archived"),
    Column("time_lag_ms", "bigint", "milliseconds since the record at oldest_offset was appended; null if unknown"),
    Column("time_lag_method", "string", "`record`, `at most` …: as in the table lag"),
    Column(
        "changed_ms",
        "bigint",
        "when the stored state changed last; a snapshot counts as a change if the log no longer has what was before it",
    ),
    Column(
        "consumed_per_s", "double", "records by which the start offset has moved on, a second, in the status window"
    ),
    Column("produced_per_s", "double", "records appended per second in that window; null if it is not known"),
    Column("status", "string", "see analysis/share_groups.py"),
    Column("why", "string", "the figures behind the status, in words"),
    Column("alarming", "boolean", "needs attention, as in status"),
)


def _build(inputs: Inputs) -> DataFrame:
    shared = inputs.shared()
    schema = arrow_schema(COLUMNS)
    rows = [each.columns for each in _logged(inputs, shared)] if shared.named else []
    return inputs.spark.createDataFrame(pa.Table.from_pylist(rows, schema))


def _logged(inputs: Inputs, shared: Shared) -> Iterator[Logged]:
    endings, members = _endings(inputs, set(shared.named.values())), _members(inputs)
    time_of = RecordTimes(inputs.log_directories)
    for place, topic in sorted(shared.named.items()):
        partition = endings.get((topic, place.partition)) or Partition(topic, place.partition)
        row = logged(
            place.group_id, partition, shared.replayed[place], members.get(place.group_id, []), inputs.now_ms,
            rules=inputs.options.rules, limit=shared.limits.get(place.group_id, DELIVERY_COUNT_LIMIT),
            record_time=time_of,
        )  # fmt: skip
        if row is not None:
            yield row


def _endings(inputs: Inputs, topics: set[str]) -> dict[TopicPartition, Partition]:
    rows = inputs.endings.where(inputs.endings["topic"].isin(*topics)).toArrow()
    return {
        (row["topic"], row["partition"]): partition_of(row["topic"], row["partition"], row) for row in rows.to_pylist()
    }


def _members(inputs: Inputs) -> dict[str, list[tuple[int, int]]]:
    columns = ("log_offset", "group_id", "member_id", "tombstone", "timestamp_ms")
    rows = inputs.facts(MEMBERS).select(*columns).toArrow().sort_by("log_offset")
    return member_counts(rows.to_pylist())


SHARE_PARTITIONS = Table(
    "share_partitions", "one row per share group, topic and partition: now", COLUMNS, _build, depends_on_time=True
)
