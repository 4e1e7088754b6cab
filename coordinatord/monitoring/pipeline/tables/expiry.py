"""expiry: the expiry time of each committed offset, by the rules of KIP-211."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from coordinatord.monitoring.pipeline.tables.inputs import Inputs
from coordinatord.monitoring.pipeline.tables.table import Column, Table

NOT_SUBSCRIBED = "not subscribed"
"""The value of `counts_from` where the members of a group read other topics."""

COLUMNS = (
    Column("group_id", "string", ""),
    Column("topic", "string", ""),
    Column("partition", "int", ""),
    Column("committed_offset", "bigint", "null if it is negative, which clients treat as no offset"),
    Column("committed_ms", "bigint", ""),
    Column(
        "counts_from",
        "string",
        "what the retention counts from: `in use`: nothing, members read the topic; `not subscribed`: the commit, "
        "since members read other topics (in a group of the consumer protocol also without members); `empty`: the "
        "moment when the group lost its last member, or the commit if that is later; `simple`: the commit of a "
        "consumer without a group; `explicit`: the client gave the time",
    ),
    Column("expires_ms", "bigint", "when it will expire; null while in use"),
    Column("expires_in_ms", "bigint", "from now; negative if the coordinator's next expiry check will remove it"),
    Column("abandoned", "boolean", "the group has no members, so nothing will keep the offset from expiring"),
)


def _build(inputs: Inputs) -> DataFrame:
    # Not a window, for which Spark moves and sorts a row of each commit: this keeps one of each key where it reads.
    kept = ("tombstone", "committed_offset", "made_ms", "expire_timestamp_ms")
    newest = [F.max_by(name, "log_offset").alias(name) for name in kept]
    last = inputs.commits.groupBy("group_id", "topic", "partition").agg(*newest).where("not tombstone")
    groups = inputs.last_generations.select(
        "group_id",
        (F.size("members") > 0).alias("_in_use"),
        F.col("current_state_timestamp_ms").alias("_since_ms"),
        (F.col("protocol_type") == "").alias("_simple"),
        F.array_distinct(
            F.flatten(F.transform("members", lambda member: F.coalesce(member["subscription"]["topics"], F.array())))
        ).alias("_topics"),
        (F.col("protocol_type") == "consumer").alias("_consumers"),
    )
    rows = last.join(groups, "group_id", "left").join(
        inputs.members.select("group_id", F.col("has_members").alias("_has_members")), "group_id", "left"
    )
    if inputs.has_consumer_groups:
        read = F.col("topics").alias("_read")
        rows = rows.join(inputs.consumer_topics.select("group_id", read), "group_id", "left")
    else:
        rows = rows.withColumn("_read", F.lit(None).cast("array<string>"))
    in_use = F.coalesce("_has_members", F.lit(False))
    subscribed = ~F.coalesce("_consumers", F.lit(False)) | F.array_contains("_topics", F.col("topic"))
    counts_from = (
        F.when(F.col("expire_timestamp_ms").isNotNull(), "explicit")
        .when(F.array_contains("_read", F.col("topic")), "in use")
        .when(F.col("_read").isNotNull(), NOT_SUBSCRIBED)
        .when(in_use & F.coalesce(subscribed, F.lit(True)), "in use")
        .when(in_use, NOT_SUBSCRIBED)
        .when(F.col("_in_use").isNull() | F.coalesce("_simple", F.lit(True)), "simple")
        .otherwise("empty")
    )
    retention = F.lit(inputs.options.retention_ms)
    expires = (
        F.when(F.col("counts_from") == "explicit", F.col("expire_timestamp_ms"))
        .when(F.col("counts_from") == "empty", F.try_add(F.greatest("_since_ms", "committed_ms"), retention))
        .when(F.col("counts_from") != "in use", F.try_add("committed_ms", retention))
    )
    return (
        rows.withColumn("committed_ms", F.col("made_ms"))
        .withColumn("counts_from", counts_from)
        .withColumn("expires_ms", expires)
        .withColumn("expires_in_ms", F.try_subtract("expires_ms", F.lit(inputs.now_ms)))
        .withColumn("abandoned", ~in_use)
    )


EXPIRY = Table("expiry", "one row per committed offset: group, topic and partition", COLUMNS, _build, True)
