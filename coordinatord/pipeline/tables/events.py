"""events: changes while the log was followed. Written by `pipeline run --follow`: run/events.py."""

from __future__ import annotations

from coordinatord.pipeline.tables.table import Column

NAME = "events"
GRAIN = "one row per change: something began, or was over; `began` and its end have kind, place and since_ms in common"

COLUMNS = (
    Column("group_id", "string", ""),
    Column("kind", "string", "`stuck`, `storm` or `expiring`: see analysis/changes.py"),
    Column("change", "string", "`began`; `recovered`; `gone`: over because the offset itself was deleted or expired"),
    Column("since_ms", "bigint", "since when it is or was so, by the log: the commit, the first rebalance, …"),
    Column("at_ms", "bigint", "when it was seen: that look at the log and at the partitions' ends"),
    Column("topic", "string", "null for a storm"),
    Column("partition", "int", "null for a storm"),
    Column("committed_offset", "bigint", "at that time; null for a storm"),
    Column("committed_ms", "bigint", "when it was committed"),
    Column("end_offset", "bigint", "of the partition; null where it is not known"),
    Column("lag", "bigint", "records unread; null where the end is not known"),
    Column("expires_ms", "bigint", "when the offset will be forgotten; null while in use"),
    Column("rebalances", "bigint", "of a storm: those within the window"),
    Column("text", "string", "in words, with the figures that decided"),
)

EVENTS_DDL = ", ".join(f"`{column.name}` {column.type}" for column in COLUMNS)
