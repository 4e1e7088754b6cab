"""Files of many micro-batches put together, so that a follower of many days doesn't open a hundred thousand of them for
each of its looks.

    DIRECTORY/<name>=<n>/bucket=<b>/   of many n, all of them in tables already, become those of the last
    DIRECTORY/_merged/                 where that is written
    DIRECTORY/_merge.json              it is written: the others may go, and it is to be put in the last one's place

Wherever that is cut off, the next run goes on: nothing is lost, and nothing is there twice.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

from pyspark.sql import SparkSession

AT_ONCE = 64
"""So many directories are put together. Everything is read and written again then, as it is read by each look."""


def merge(spark: SparkSession, directory: Path, name: str, ddl: str, last: int) -> None:
    """Put `<name>=<n>` together up to the number `last`, if there are many. `ddl` has all columns but `bucket`."""
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
    """What was cut off behind the point at which all is written."""
    try:
        parts = [directory / name for name in json.loads((directory / "_merge.json").read_text())]
    except FileNotFoundError:
        return
    if (directory / "_merged").exists():
        for part in parts:
            shutil.rmtree(part, ignore_errors=True)
        os.replace(directory / "_merged", parts[-1])
    (directory / "_merge.json").unlink()
