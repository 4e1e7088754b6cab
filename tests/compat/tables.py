"""The tables of the script's data directory, written by Spark, and their rows."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Any

from tests.compat.ledger import write_everything
from tests.reference.in_process import START_MS

NOW_MS = START_MS + 60_000
SOURCE, OUT = "source", "out"
"""What a golden archive has: the data directory that was read, and the OUT of the run."""


@contextmanager
def sparked(directory: Path) -> Iterator[Any]:
    """A Spark session of its own, for `python -m tests.compat`."""
    from coordinatord.monitoring.pipeline.source.frames import start_spark

    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    session = start_spark(
        **{
            "spark.master": "local[2]",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.shuffle.partitions": "2",
            "spark.python.authenticate.socketTimeout": "120s",  # a busy machine is slow to start workers
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.local.dir": str(directory / "spark"),
        }
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


def write_tables(spark: Any, directory: Path) -> None:
    """Fill `directory` with the script's data directory and the tables of it."""
    write_everything(directory / SOURCE)
    run_tables(spark, directory)


def run_tables(spark: Any, directory: Path) -> Any:
    """Continue the tables of `directory`, or begin them. The run's summary."""
    from coordinatord.monitoring.pipeline.run.ingest import Job
    from coordinatord.monitoring.pipeline.run.update import run
    from coordinatord.monitoring.pipeline.source.frames import Source

    source = str(directory / SOURCE)
    return run(spark, Job(Source(source), directory / OUT, source), now_ms=NOW_MS)


def table_contents(directory: Path) -> dict[str, Any]:
    """The columns and rows of each table, of each kind of facts, of the ledger and of the partitions' ends; without
    Spark. Rows are sorted: Spark has no order.
    """
    out = directory / OUT
    places = {f"tables/{path.name}": path for path in sorted((out / "tables").iterdir())}
    places |= {f"facts/{path.name}": path for path in sorted((out / "facts").iterdir())}
    places |= {"ledger": out / "ledger", "end_offsets": out / "end_offsets"}
    return {name: _content(path) for name, path in places.items()}


def declared() -> dict[str, dict[str, str]]:
    """The columns that each table should have, with their types in Spark's words."""
    from coordinatord.monitoring.pipeline.tables import TABLES

    return {name: {column.name: column.type for column in table.columns} for name, table in TABLES.items()}


def _content(path: Path) -> dict[str, Any]:
    from pyarrow import dataset

    files = [str(file) for file in sorted(path.rglob("*.parquet"))]
    if not files:
        return {"columns": {}, "rows": []}
    table = dataset.dataset(files, format="parquet").to_table()
    return {
        "columns": {field.name: str(field.type) for field in table.schema},
        "rows": plain_rows(table.to_pylist()),
    }


def plain_rows(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """As JSON has them, sorted; without the bucket, which a directory's name says."""
    plain = [{name: _plain(value) for name, value in row.items() if name != "bucket"} for row in rows]
    return sorted(plain, key=lambda row: str(sorted(row.items())))


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode("latin-1").encode("unicode_escape").decode()
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list) else value
