"""events: changes while the log was followed. Written by `pipeline run --follow`: run/events.py."""

from __future__ import annotations

from coordinatord.monitoring.pipeline.tables.table import Column

NAME = "events"
GRAIN = "one row per change: a condition began or ended; both rows have the same kind, place and since_ms"

COLUMNS = (
    Column("group_id", "string", ""),
    Column("kind", "string", "`stuck`, `storm` or `expiring`: see analysis/changes.py"),
    Column("change", "string", "`began`; `recovered`; `gone`: ended because the offset itself was deleted or expired"),
    Column(
        "since_ms",
        "bigint",
        "since when the condition holds or held, by the log: the commit, the first rebalance, …",
    ),
    Column("at_ms", "bigint", "when it was seen: the time of that look at the log and at the partitions' ends"),
    Column("topic", "string", "null for a storm"),
    Column("partition", "int", "null for a storm"),
    Column("committed_offset", "bigint", "at that time; null for a storm"),
    Column("committed_ms", "bigint", "when it was committed"),
    Column("end_offset", "bigint", "end offset of the partition; null if unknown"),
    Column("lag", "bigint", "unread records; null if the end is unknown"),
    Column("expires_ms", "bigint", "when the offset will expire; null while in use"),
    Column("rebalances", "bigint", "for a storm: rebalances within the window"),
    Column("text", "string", "in words, with the figures behind it"),
)

EVENTS_DDL = ", ".join(f"`{column.name}` {column.type}" for column in COLUMNS)
