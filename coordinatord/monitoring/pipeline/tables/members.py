"""members, member_events, churn: the members of groups, the durations of their membership, and the patterns among them;
and rebalances, which come from the same pass over a group's log.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from coordinatord.monitoring.pipeline.tables import rebalances
from coordinatord.monitoring.pipeline.tables.inputs import Inputs
from coordinatord.monitoring.pipeline.tables.life import EVENT, MEMBER, REBALANCE, part
from coordinatord.monitoring.pipeline.tables.table import Column, Table

GROUP = Column("group_id", "string", "")

MEMBER_COLUMNS = (
    GROUP,
    Column("member_id", "string", ""),
    Column("instance", "string", "group.instance.id of a static member"),
    Column("client_id", "string", ""),
    Column("host", "string", ""),
    Column("since_ms", "bigint", "when its first generation was agreed, or its first epoch began"),
    Column("until_ms", "bigint", "when the first generation or epoch without it began; null while it is a member"),
    Column("lived_ms", "bigint", "from since_ms to until_ms"),
    Column(
        "end",
        "string",
        "`left`; `expired`: it was silent for its session timeout; `replaced`: a static member came with a new id; "
        "`went`: the log does not tell how; null while it is a member",
    ),
    Column("generations", "int", "records of generations, or epochs, that contain it"),
    Column("partitions", "int", "assigned to it in the last of them"),
    Column(
        "last_commit_ms",
        "bigint",
        "last commit for one of its partitions while it owned them; null if there is none",
    ),
    Column("session_timeout_ms", "int", "its own; in the consumer protocol the cluster's, as given to the run"),
)

EVENT_COLUMNS = (
    GROUP,
    Column(
        "kind",
        "string",
        "`crash loop`: a client joins three times or more, each time for five minutes at most; `deploy`: at least half"
        " of the members restart, at most ten minutes apart; `storm`: five rebalances or more in ten minutes; `zombie "
        "static member`: it has partitions and made no commit for five minutes in which the group did",
    ),
    Column("began_ms", "bigint", ""),
    Column("ended_ms", "bigint", ""),
    Column("client_id", "string", "if the event concerns one client"),
    Column("host", "string", "of that client"),
    Column("count", "int", "number of lives, restarts or rebalances"),
    Column("text", "string", "in words"),
)

CHURN_COLUMNS = (
    GROUP,
    Column("hour_ms", "bigint", "when the hour began"),
    Column("rebalances", "bigint", "that ended in that hour"),
    Column("added", "bigint", "members, in those rebalances of which it is known; null if there are none"),
    Column("removed", "bigint", "likewise"),
    Column("members", "double", "average number over those rebalances"),
    Column("partitions_moved", "bigint", ""),
    Column("missed_commit_ms", "bigint", "see rebalances"),
)

PARTS = {REBALANCE: rebalances.COLUMNS, MEMBER: MEMBER_COLUMNS, EVENT: EVENT_COLUMNS}


def _churn(inputs: Inputs) -> DataFrame:
    hour_ms = 3_600_000
    # A superseded epoch had its members, too.
    counts = "group_type = 'consumer' or outcome in ('completed', 'empty')"
    ended = inputs.table("rebalances").where(counts)
    hour = (F.floor(F.coalesce("ended_ms", "began_ms") / hour_ms) * hour_ms).cast("bigint").alias("hour_ms")
    return ended.groupBy("group_id", hour).agg(
        F.count("*").alias("rebalances"),
        F.sum(F.col("added").cast("bigint")).alias("added"),
        F.sum(F.col("removed").cast("bigint")).alias("removed"),
        F.avg("members").alias("members"),
        F.sum(F.col("partitions_moved").cast("bigint")).alias("partitions_moved"),
        F.sum("missed_commit_ms").alias("missed_commit_ms"),
    )


REBALANCES = Table(
    "rebalances",
    "one row per rebalance: a generation of a classic group, or an epoch of a group of the consumer protocol",
    rebalances.COLUMNS,
    lambda inputs: part(inputs, REBALANCE, PARTS),
)
MEMBERS = Table(
    "members", "one row per member id of a group", MEMBER_COLUMNS, lambda inputs: part(inputs, MEMBER, PARTS)
)
MEMBER_EVENTS = Table(
    "member_events",
    "one row per crash loop, deployment, storm of rebalances or zombie static member",
    EVENT_COLUMNS,
    lambda inputs: part(inputs, EVENT, PARTS),
)
CHURN = Table("churn", "one row per group and hour in which it rebalanced", CHURN_COLUMNS, _churn)
