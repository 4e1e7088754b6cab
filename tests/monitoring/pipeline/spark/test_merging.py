"""Files of many micro-batches put together: each row once, wherever that is cut off."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F

from coordinatord.monitoring.pipeline.run import merging
from coordinatord.monitoring.pipeline.run.merging import finish, merge

BUCKETS, ROWS, LAST = 3, 6, 4
DDL = "id bigint"


def test_merging(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merging, "AT_ONCE", 3)

    def write(number: int) -> None:
        ids = spark.range(ROWS * number, ROWS * (number + 1)).withColumn("bucket", F.col("id") % BUCKETS)
        ids.coalesce(1).write.partitionBy("bucket").parquet(str(tmp_path / f"batch={number:03d}"))

    def check(names: list[str], count: int) -> None:
        """Every row is there once, in its bucket."""
        assert sorted(path.name for path in tmp_path.iterdir()) == names
        found = spark.read.schema(f"{DDL}, bucket int").parquet(str(tmp_path)).collect()
        assert sorted((row["id"], row["bucket"]) for row in found) == [(n, n % BUCKETS) for n in range(ROWS * count)]

    for number in range(LAST + 1):
        write(number)
    merge(spark, tmp_path, "batch", DDL, 1)
    assert (tmp_path / "batch=000").exists(), "two are not many"
    merge(spark, tmp_path, "batch", DDL, LAST - 1)
    check(["batch=003", "batch=004"], LAST + 1)

    write(LAST + 1)
    with monkeypatch.context() as patched:  # the second call: everything is written, and nothing removed
        ends = iter([None])
        patched.setattr(merging, "finish", lambda _directory: next(ends))
        with pytest.raises(StopIteration):
            merge(spark, tmp_path, "batch", DDL, LAST + 1)
    shutil.rmtree(tmp_path / "batch=003")
    finish(tmp_path)
    check(["batch=005"], LAST + 2)
    (tmp_path / "_merge.json").write_text('["batch=003", "batch=005"]')  # put in its place, and not said
    finish(tmp_path)
    finish(tmp_path)
    check(["batch=005"], LAST + 2)
