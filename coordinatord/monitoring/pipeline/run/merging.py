"""Merge of the files of many batches, so that a follower of many days does not open a hundred thousand files for
each of its snapshots.

    DIRECTORY/<name>=<n>/bucket=<b>/   many n that are all in tables already become the last of them
    DIRECTORY/_merged/                 the merged files while they are written
    DIRECTORY/_merge.json              the merged files are complete: remove the n, move the files to the last one

After an interruption the next run continues: nothing is lost, and nothing is duplicated.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

from pyspark.sql import SparkSession

AT_ONCE = 64
"""Number of directories to merge at once. A merge reads and rewrites everything, which each snapshot reads anyway."""


def merge(spark: SparkSession, directory: Path, name: str, ddl: str, last: int) -> None:
    """Merge `<name>=<n>` up to the number `last`, if there are many. `ddl` has all columns but `bucket`."""
    finish(directory)
    parts = sorted(path for path in directory.glob(f"{name}=*") if int(path.name.rpartition("=")[2]) <= last)
    if len(parts) < AT_ONCE:
        return
    rows = spark.read.schema(f"{ddl}, bucket int").option("basePath", str(directory)).parquet(*map(str, parts))
    rows = rows.drop(name).repartition(2, "bucket")
    rows.write.mode("overwrite").partitionBy("bucket").parquet(str(directory / "_merged"))
    staged = directory / "_merge.json.new"
    staged.write_text(json.dumps([part.name for part in parts]))
    os.replace(staged, directory / "_merge.json")
    finish(directory)


def finish(directory: Path) -> None:
    """Finish a merge that was interrupted after its files were complete."""
    try:
        parts = [directory / name for name in json.loads((directory / "_merge.json").read_text())]
    except FileNotFoundError:
        return
    if (directory / "_merged").exists():
        for part in parts:
            shutil.rmtree(part, ignore_errors=True)
        os.replace(directory / "_merged", parts[-1])
    (directory / "_merge.json").unlink()
