"""members, member_events, churn: who came, how long it stayed, and what that adds up to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from coordinatord.pipeline.analysis import members
from coordinatord.pipeline.analysis.generations import Commits, Generation, generation_of
from coordinatord.pipeline.tables.inputs import Inputs
from coordinatord.pipeline.tables.rebalances import arrow_table, commit_times, commits_of, generations
from coordinatord.pipeline.tables.table import Column, Table, pick

GROUP = Column("group_id", "string", "")

MEMBER_COLUMNS = (
    GROUP,
    Column("member_id", "string", ""),
    Column("instance", "string", "group.instance.id of a static member"),
    Column("client_id", "string", ""),
    Column("host", "string", ""),
    Column("since_ms", "bigint", "when the first generation with it was agreed"),
    Column("until_ms", "bigint", "when the first without it was; null while it is there"),
    Column("lived_ms", "bigint", "in between"),
    Column(
        "end",
        "string",
        "`left`; `expired`: it was silent for its session timeout; `replaced`: a static member came with a new id; "
        "`went`: the log does not tell how; null while it is there",
    ),
    Column("generations", "int", "records of generations that have it"),
    Column("partitions", "int", "assigned to it in the last of them"),
    Column("last_commit_ms", "bigint", "for one of its partitions while it had them; null where there is none"),
    Column("session_timeout_ms", "int", ""),
)

EVENT_COLUMNS = (
    GROUP,
    Column(
        "kind",
        "string",
        "`crash loop`: a client comes and goes, three times or more, for five minutes at most; `deploy`: half of the "
        "members or more restart, ten minutes from one to the next at most; `storm`: five rebalances or more in ten "
        "minutes; `zombie static member`: it has partitions and has not committed for five minutes of those in which "
        "the group did",
    ),
    Column("began_ms", "bigint", ""),
    Column("ended_ms", "bigint", ""),
    Column("client_id", "string", "where it is about one client"),
    Column("host", "string", "of that client"),
    Column("count", "int", "lives, restarts or rebalances"),
    Column("text", "string", "in words"),
)

CHURN_COLUMNS = (
    GROUP,
    Column("hour_ms", "bigint", "when the hour began"),
    Column("rebalances", "bigint", "that ended in that hour"),
    Column("added", "bigint", "members"),
    Column("removed", "bigint", "members"),
    Column("members", "double", "there were, on the average of those rebalances"),
    Column("partitions_moved", "bigint", ""),
    Column("missed_commit_ms", "bigint", "see rebalances"),
)

Tell = Callable[[list[Generation | None], Commits], list[tuple[Any, ...]]]


def _per_group(inputs: Inputs, columns: tuple[Column, ...], told: Tell) -> DataFrame:
    def tell(log: pa.Table, commits: pa.Table) -> pa.Table:
        rows = log.sort_by("log_offset").to_pylist()
        made = told([generation_of(row) for row in rows], commits_of(commits)) if rows else []
        return arrow_table(columns, [(rows[0]["group_id"], *each) for each in made])

    ddl = ", ".join(f"`{column.name}` {column.type}" for column in columns)
    log = generations(inputs).groupBy("group_id")
    return log.cogroup(commit_times(inputs).groupBy("group_id")).applyInArrow(tell, ddl)


def _members(inputs: Inputs) -> DataFrame:
    columns = MEMBER_COLUMNS[1:]
    return _per_group(
        inputs, MEMBER_COLUMNS, lambda log, commits: [pick(columns, life) for life in members.lives(log, commits)]
    )


def _events(inputs: Inputs) -> DataFrame:
    columns = EVENT_COLUMNS[1:]

    def told(log: list[Generation | None], commits: Commits) -> list[tuple[Any, ...]]:
        found = members.lives(log, commits)
        return [pick(columns, event) for event in members.events(found, log, commits)]

    return _per_group(inputs, EVENT_COLUMNS, told)


def _churn(inputs: Inputs) -> DataFrame:
    hour_ms = 3_600_000
    ended = inputs.table("rebalances").where("outcome in ('completed', 'empty')")
    hour = (F.floor(F.col("ended_ms") / hour_ms) * hour_ms).cast("bigint").alias("hour_ms")
    return ended.groupBy("group_id", hour).agg(
        F.count("*").alias("rebalances"),
        F.sum(F.col("added").cast("bigint")).alias("added"),
        F.sum(F.col("removed").cast("bigint")).alias("removed"),
        F.avg("members").alias("members"),
        F.sum(F.col("partitions_moved").cast("bigint")).alias("partitions_moved"),
        F.sum("missed_commit_ms").alias("missed_commit_ms"),
    )


MEMBERS = Table("members", "one row per member id of a group", MEMBER_COLUMNS, _members)
MEMBER_EVENTS = Table("member_events", "one row per thing that members did together", EVENT_COLUMNS, _events)
CHURN = Table("churn", "one row per group and hour in which it rebalanced", CHURN_COLUMNS, _churn)
