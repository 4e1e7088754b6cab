"""slo: the number of minutes in which a group met its lag target, and the remaining share of its error budget."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from coordinatord.monitoring.pipeline.tables.inputs import Inputs
from coordinatord.monitoring.pipeline.tables.table import Column, Table

COLUMNS = (
    Column("group_id", "string", ""),
    Column("day", "date", "UTC"),
    Column("lag_target", "bigint", "records: a moment is good if no partition's lag exceeds this"),
    Column(
        "moments",
        "bigint",
        "moments of that day (lag_history) of which it is known whether they are good: both bounds of each lag are "
        "within the target, or those of one are beyond it",
    ),
    Column("good_moments", "bigint", "moments within the target"),
    Column("good_minutes", "double", "the time of good moments"),
    Column("bad_minutes", "double", ""),
    Column("good_share", "double", "0 to 1"),
    Column("budget_minutes", "double", "minutes that may be bad under the target share"),
    Column("budget_left", "double", "remaining share of the budget: 1 untouched, 0 used up, negative overdrawn"),
)


def _build(inputs: Inputs) -> DataFrame:
    options = inputs.options
    history = inputs.table("lag_history")
    # Partitions may have different steps: use the widest.
    step = history.groupBy("group_id", "topic", "partition").agg(
        F.when(F.count("*") > 1, (F.max("at_ms") - F.min("at_ms")) / (F.count("*") - 1)).alias("step_ms")
    )
    widest = step.groupBy("group_id").agg(
        F.greatest(F.max("step_ms"), F.lit(float(options.history_step_ms))).cast("bigint").alias("step_ms")
    )
    moments = (
        history.join(widest, "group_id")
        .withColumn("moment", F.floor(F.col("at_ms") / F.col("step_ms")))
        .groupBy("group_id", "step_ms", "moment")
        .agg(F.max("lag").alias("lag"), F.max("least_lag").alias("least_lag"))
        .where((F.col("lag") <= options.slo_lag) | (F.col("least_lag") > options.slo_lag))
        .withColumn("day", F.to_date(F.timestamp_millis(F.col("moment") * F.col("step_ms"))))
    )
    good = F.sum((F.col("lag") <= options.slo_lag).cast("bigint"))
    minutes = F.col("step_ms") / 60_000
    budget = F.col("moments") * minutes * (1 - options.slo_target)
    return (
        moments.groupBy("group_id", "day", "step_ms")
        .agg(F.count("*").alias("moments"), good.alias("good_moments"))
        .withColumn("lag_target", F.lit(options.slo_lag).cast("bigint"))
        .withColumn("good_minutes", F.col("good_moments") * minutes)
        .withColumn("bad_minutes", (F.col("moments") - F.col("good_moments")) * minutes)
        .withColumn("good_share", F.col("good_moments") / F.col("moments"))
        .withColumn("budget_minutes", budget)
        .withColumn("budget_left", 1 - F.col("bad_minutes") / F.col("budget_minutes"))
    )


SLO = Table("slo", "one row per group and day", COLUMNS, _build, True)
