"""commits, offsets_load: the commits of groups, and the load on the offsets log."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from coordinatord.monitoring.analysis.consumer_group import CONSUMER_KINDS
from coordinatord.monitoring.analysis.load import LOAD_RATE
from coordinatord.monitoring.offsets_log.decode.row_types import GROUP_GENERATIONS
from coordinatord.monitoring.pipeline.tables.inputs import Inputs
from coordinatord.monitoring.pipeline.tables.table import Column, Table

HOT = 2.0
"""Ratio to the average number of records from which an offsets partition is hot."""

NOT_LIVE = -1
"""Value that replaces the bytes of a tombstone, and of a commit of an aborted transaction."""
ABORTED = -(2**62)
"""Summand that makes the offset of an aborted commit less than all others, so that the others decide if there are
any.
"""

OTHER = "_other"
"""Column with the kind of a record that is neither a commit nor a generation, and the rest of its key; null for
those.
"""

MOST = float(2**63 - 1024)
"""The greatest double that fits into a bigint."""

COLUMNS = (
    Column("group_id", "string", ""),
    Column("topic", "string", ""),
    Column("partition", "int", ""),
    Column("commits", "bigint", "commits in the log, when it was read, that took effect"),
    Column("first_ms", "bigint", "when the first of them was made"),
    Column("last_ms", "bigint", "and the last"),
    Column("commits_per_s", "double", "average between the two; null with fewer than two commits"),
    Column("no_op_commits", "bigint", "commits of the offset that was already committed"),
    Column("rewinds", "bigint", "commits of an earlier offset"),
    Column("rewound_records", "bigint", "the sum of those steps back: an estimate of records that were read twice"),
    Column("forgotten", "bigint", "how often the offset was removed: expired or deleted"),
    Column("bytes", "bigint", "of keys and values in the log"),
)

LOAD_COLUMNS = (
    Column("group_id", "string", ""),
    Column("log_partition", "int", "of __consumer_offsets"),
    Column(
        "records",
        "bigint",
        "of the group that were in the log when read, tombstones too: commits, and what is written of members",
    ),
    Column("bytes", "bigint", "their keys and values"),
    Column(
        "live_records",
        "bigint",
        "records that cleaning would keep: the last of each key, unless a tombstone or aborted",
    ),
    Column("live_bytes", "bigint", ""),
    Column("debt_bytes", "bigint", "bytes that cleaning would free"),
    Column("commits_per_s", "double", "of the group, from its first commit to its last"),
    Column("partition_records", "bigint", "of all groups in that partition but share groups and streams groups"),
    Column("partition_bytes", "bigint", ""),
    Column("times_average", "double", "the partition's records, divided by the average of partitions that have any"),
    Column("hot", "boolean", "more than twice the average, and not the only partition with records"),
    Column(
        "load_ms",
        "double",
        "expected time for a coordinator to load the partition, at `--load-rate` records a second "
        f"(default {LOAD_RATE:,}, as measured for Kafka 4.3; coordinatord was measured at 740,000)",
    ),
    Column("load_ms_cleaned", "double", "the same, after cleaning"),
)

KEYS = ("group_id", "topic", "partition")


def _commits(inputs: Inputs) -> DataFrame:
    place = Window.partitionBy(*KEYS).orderBy("log_offset")
    before = F.lag("committed_offset").over(place)
    rows = inputs.commits.withColumn("_ms", F.col("made_ms")).withColumn("_before", before)
    # Not in integers: a client may commit any offset, and an overflowing sum would end the run.
    back = F.col("_before").cast("double") - F.col("committed_offset").cast("double")
    # `least` skips nulls: without steps back, their sum has to be zero before.
    rewound = F.least(F.coalesce(F.sum(F.when(back > 0, back)), F.lit(0.0)), F.lit(MOST)).cast("bigint")
    seconds = (F.max("_ms") - F.min("_ms")) / 1000
    live = rows.withColumn("_ms", F.when(~F.col("tombstone"), F.col("_ms")))
    return (
        live.groupBy(*KEYS)
        .agg(
            F.count("_ms").alias("commits"),
            F.min("_ms").alias("first_ms"),
            F.max("_ms").alias("last_ms"),
            F.when((F.count("_ms") > 1) & (seconds > 0), (F.count("_ms") - 1) / seconds).alias("commits_per_s"),
            F.count_if(F.col("_before") == F.col("committed_offset")).alias("no_op_commits"),
            F.count_if(F.col("_before") > F.col("committed_offset")).alias("rewinds"),
            rewound.alias("rewound_records"),
            F.count_if("tombstone").alias("forgotten"),
            F.sum(F.col("record_bytes").cast("bigint")).alias("bytes"),
        )
        .where("commits > 0")
    )


def _other(facts: DataFrame, kind: str) -> DataFrame:
    """Return the records of the consumer protocol, with a column that distinguishes a group's keys."""
    parts = [name for name in ("member_id", "regular_expression") if name in facts.columns]
    return facts.withColumn(OTHER, F.to_json(F.array(F.lit(kind), *parts))).withColumn("_aborted", F.lit(False))


def _load(inputs: Inputs) -> DataFrame:
    what = ["group_id", "log_partition", "log_offset", "tombstone", "record_bytes"]
    time = F.when(~F.col("tombstone"), F.coalesce("commit_timestamp_ms", "timestamp_ms"))
    is_aborted = F.col("outcome") == "ABORT"  # the cleaner removes it, whatever comes later
    commits = inputs.outcomes.select(*what, "topic", "partition", time.alias("commit_ms"), is_aborted.alias("_aborted"))
    generations = inputs.facts(GROUP_GENERATIONS).select(*what, F.lit(False).alias("_aborted"))
    both = commits.unionByName(generations, allowMissingColumns=True)
    keys_of = ["group_id", "log_partition", "topic", "partition"]
    if inputs.has_consumer_groups:  # otherwise no row of a commit needs another column
        keys_of.append(OTHER)
        for kind in CONSUMER_KINDS:
            both = both.unionByName(_other(inputs.facts(kind), kind).select(*what, OTHER, "_aborted"), True)
    record_bytes = F.col("record_bytes").cast("bigint")
    # In numbers, without a window: so Spark sums where it reads, and neither moves nor sorts a row of each commit.
    live_bytes = F.when(~F.col("tombstone") & ~F.col("_aborted"), record_bytes).otherwise(NOT_LIVE)
    order = F.col("log_offset") + F.when(F.col("_aborted"), F.lit(ABORTED)).otherwise(F.lit(0))
    keys = both.groupBy(*keys_of).agg(
        F.count("*").alias("records"),
        F.sum(record_bytes).alias("bytes"),
        F.max_by(live_bytes, order).alias("_live"),
        F.count("commit_ms").alias("_commits"),
        F.min("commit_ms").alias("_first"),
        F.max("commit_ms").alias("_last"),
    )
    seconds = (F.max("_last") - F.min("_first")) / 1000
    count = F.sum("_commits")
    is_live = F.col("_live") != NOT_LIVE
    groups = keys.groupBy("group_id", "log_partition").agg(
        F.sum("records").alias("records"),
        F.sum("bytes").alias("bytes"),
        F.count_if(is_live).alias("live_records"),
        F.coalesce(F.sum(F.when(is_live, F.col("_live"))), F.lit(0)).alias("live_bytes"),
        F.when((count > 1) & (seconds > 0), (count - 1) / seconds).alias("commits_per_s"),
    )
    partitions = groups.groupBy("log_partition").agg(
        F.sum("records").alias("partition_records"),
        F.sum("bytes").alias("partition_bytes"),
        F.sum("live_records").alias("_live"),
    )
    mean = partitions.agg(F.avg("partition_records").alias("_mean"), F.count("*").alias("_partitions"))
    return (
        groups.join(
            partitions.crossJoin(F.broadcast(mean)), groups["log_partition"].eqNullSafe(partitions["log_partition"])
        )
        .drop(partitions["log_partition"])
        .withColumn("debt_bytes", F.col("bytes") - F.col("live_bytes"))
        .withColumn("times_average", F.col("partition_records") / F.col("_mean"))
        .withColumn("hot", (F.col("times_average") > HOT) & (F.col("_partitions") > 1))
        .withColumn("load_ms", F.col("partition_records") * 1000 / inputs.options.load_rate)
        .withColumn("load_ms_cleaned", F.col("_live") * 1000 / inputs.options.load_rate)
    )


COMMITS = Table("commits", "one row per group, topic and partition", COLUMNS, _commits)
OFFSETS_LOAD = Table(
    "offsets_load", "one row per group and its partition of __consumer_offsets", LOAD_COLUMNS, _load, True
)
