"""pyspark-consumer-offsets, built and installed where there is Spark, what the wheel asks for, and no coordinatord."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from email.parser import Parser
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.monitoring.offsets_log.source.test_kafka_segments import GOLDEN, rows_in

ROOT = Path(__file__).parents[4]
PROGRAM = """
import importlib.util, json, sys
from pyspark.sql import SparkSession, functions as F
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
rows = spark.read.format("consumer_offsets").option("kinds", sys.argv[2]).load(sys.argv[1]).collect()
without = [name for name in ("click", "numba", "kafka", "structlog") if importlib.util.find_spec(name) is None]
place = [name for name in rows[0].__fields__ if name != "kind" and name not in sys.argv[2].split(",")]
told = [[row["kind"], {name: row[name] for name in place} | row[row["kind"]].asDict(True)] for row in rows]
print(json.dumps([without, told], default=bytes.hex))
"""
KINDS = ("offset_commits", "consumer_group_member_metadata")


def required(name: str, found: set[str]) -> None:
    """All distributions that one needs, itself included, where extras are not asked for."""
    if name in found:
        return
    try:
        asked = distribution(name).requires or []
    except PackageNotFoundError:
        return  # for another platform
    found.add(name)
    for each in map(Requirement, asked):
        if each.marker is None or each.marker.evaluate({"extra": ""}):
            required(each.name, found)


def environment(directory: Path, wheel: Path) -> Path:
    """A Python with the wheel, installed, and what it requires, of which this environment's copies are linked."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(directory)], check=True, timeout=300)
    python = directory / "bin" / "python"
    with zipfile.ZipFile(wheel) as file:
        [path] = [name for name in file.namelist() if name.endswith(".dist-info/METADATA")]
        asked = Parser().parsestr(file.read(path).decode()).get_all("Requires-Dist", [])
    names: set[str] = set()
    for each in map(Requirement, asked):
        if each.marker is None or each.marker.evaluate({"extra": ""}):
            required(each.name, names)
    [site] = directory.glob("lib/python*/site-packages")
    for name in names:
        for each in distribution(name).files or []:
            top = site / each.parts[0]
            if each.parts[0] not in ("..", "__pycache__") and not top.exists():
                top.symlink_to(Path(str(distribution(name).locate_file(each.parts[0]))))
    command = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*command, "--disable-pip-version-check", str(wheel)], check=True, timeout=300)
    return python


@pytest.mark.timeout(1200)  # a build and a start of Spark: half a minute, and many times that on a busy machine
def test_the_source_without_coordinatord(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps"]
    source = ROOT / "deploy" / "pyspark-consumer-offsets"
    subprocess.run([*build, "--wheel-dir", str(tmp_path), str(source)], check=True, timeout=600)
    [wheel] = tmp_path.glob("pyspark_consumer_offsets-*.whl")
    python = environment(tmp_path / "venv", wheel)
    plain = {name: os.environ[name] for name in ("PATH", "JAVA_HOME") if name in os.environ}
    done = subprocess.run(
        [python, "-c", PROGRAM, str(GOLDEN), ",".join(KINDS)], cwd=tmp_path, capture_output=True, text=True,
        env=plain | {"HOME": str(tmp_path), "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": str(python)},
        timeout=900, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-6000:]
    without, told = json.loads(done.stdout)
    assert without == ["click", "numba", "kafka", "structlog"], "what nobody asked for is not there"
    rows = rows_in(GOLDEN)
    for kind in KINDS:
        expected = json.loads(json.dumps(rows[kind], default=bytes.hex))
        assert [row for name, row in told if name == kind] == expected
        assert expected
