"""The buckets of groups, which tasks compute without Spark: the same ones as in Spark."""

from __future__ import annotations

from typing import Any

from pyspark.sql import functions as F

from coordinatord.monitoring.pipeline.source.stored_facts import bucket_of_group
from coordinatord.monitoring.pipeline.source.xxhash64 import xxhash64
from coordinatord.monitoring.pipeline.tables.inputs import bucket_of


def test_buckets_are_those_of_spark(spark: Any) -> None:
    names = [("gruppe-ß-" * 9)[:length] + str(length) for length in range(80)] + [""]
    frame = spark.createDataFrame([(name,) for name in names], "name string")
    found = frame.select("name", F.xxhash64("name").alias("hash"), bucket_of(F.col("name")).alias("bucket")).collect()
    assert {row["name"]: row["hash"] % 2**64 for row in found} == {name: xxhash64(name.encode()) for name in names}
    assert {row["name"]: row["bucket"] for row in found} == {name: bucket_of_group(name) for name in names}
