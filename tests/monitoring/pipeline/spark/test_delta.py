"""Tables in the format of Delta Lake. In an environment of its own: Delta of November 2026 is made for Spark 4.2.

    pip install '.[spark,plot,test]' pyspark==4.2.0 delta-spark==4.4.0
    pytest -m spark tests/monitoring/pipeline/spark/test_delta.py

Spark gets the jar from Maven.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.monitoring.pipeline.spark.test_run import NOW_MS, Log, ago

READ = """
import json, sys
from pathlib import Path
from coordinatord.monitoring.pipeline.run.delta import delta_settings
from coordinatord.monitoring.pipeline.source.frames import start_spark
from coordinatord.monitoring.pipeline.run.update import read_table
spark = start_spark(**delta_settings())
tables = {name: read_table(spark, Path(sys.argv[1]), name, "delta").collect() for name in ("commits", "lag")}
print(json.dumps({name: [row.asDict() for row in rows] for name, rows in tables.items()}))
"""


def python(*arguments: str) -> str:
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.timeout(900)  # Spark is started four times
def test_delta_tables(tmp_path: Path) -> None:
    log = Log(tmp_path / "data" / "__consumer_offsets-0")
    out = tmp_path / "out"
    command = ["-m", "coordinatord", "pipeline", "run", "--source", str(tmp_path / "data"), "--out", str(out)]
    command += ["--table", "commits", "--table", "lag"]

    def commits() -> dict[str, Any]:
        tables = json.loads(python("-c", READ, str(out)))
        assert sorted(row["group_id"] for row in tables["lag"]) == sorted(groups)
        return {row["group_id"]: row["commits"] for row in tables["commits"]}

    groups = [f"group {number}" for number in range(20)]
    for group in groups:
        log.commit(group, 1, ago(100))
    python(*command, "--format", "delta")
    log.commit(groups[7], 2, NOW_MS)
    python(*command, "--format", "delta")
    assert commits() == dict.fromkeys(groups, 1) | {groups[7]: 2}
    versions = [path.name for path in (out / "tables" / "commits" / "_delta_log").glob("*.json")]
    assert len(versions) == 2, "the second run has replaced one bucket of groups"

    python(*command, "--format", "parquet")
    assert not (out / "tables" / "commits" / "_delta_log").exists()
    html = tmp_path / "report.html"
    python("-m", "coordinatord", "pipeline", "report", "--out", str(out), "--html", str(html))
    assert html.read_text().startswith("<!doctype html>")
