"""Spark's classes as an archive: Java writes it when the first run of a small log has ended; the next run uses it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from pyarrow import dataset

from coordinatord.monitoring.pipeline.run.class_archive import is_complete
from tests.monitoring.offsets_log.source.test_kafka_segments import GOLDEN
from tests.monitoring.pipeline.spark.conftest import ROOT, unavailable
from tests.monitoring.pipeline.spark.test_truth import GRAINS

pytestmark = [pytest.mark.timeout(2400)]  # half a minute each, and many times that
WAIT_S = 700


def run(tmp_path: Path, out: str, **environment: str) -> list[list[Any]]:
    """Its tables."""
    command = [sys.executable, "-m", "coordinatord", "pipeline", "run", "--source", str(tmp_path / "data")]
    environment = dict(os.environ) | {"XDG_CACHE_HOME": str(tmp_path / "cache"), "PYTHONPATH": "protocol"} | environment
    done = subprocess.run(
        [*command, "--out", str(tmp_path / out)], cwd=ROOT, env=environment, capture_output=True, text=True,
        timeout=WAIT_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("97 new records in "), "Java has said nothing"
    tables = [dataset.dataset(tmp_path / out / "tables" / name, format="parquet") for name in sorted(GRAINS)]
    now = {"at_ms", "end_offset_ms", "expires_in_ms"}
    return [
        sorted(repr({k: v for k, v in row.items() if k not in now}) for row in table.to_table().to_pylist())
        for table in tables
    ]


def test_the_second_run_uses_what_the_first_one_wrote(tmp_path: Path) -> None:
    from coordinatord.monitoring.pipeline.source.java import java_problem

    if (problem := java_problem()) is not None:
        unavailable(problem)
    (tmp_path / "data").symlink_to(GOLDEN)
    tables = run(tmp_path, "first")
    cache = tmp_path / "cache" / "coordinatord"
    deadline = time.monotonic() + WAIT_S
    while not (found := [path for path in cache.glob("spark-*.jsa") if is_complete(path)]):
        assert time.monotonic() < deadline, list(cache.iterdir())
        time.sleep(0.2)
    (archive,) = found
    written = archive.stat().st_ino, archive.stat().st_size
    assert run(tmp_path, "second", _JAVA_OPTIONS=f"-Xlog:class+load:file={tmp_path}/loaded-%p") == tables
    loaded = [path.read_text() for path in tmp_path.glob("loaded-*")]
    assert any(text.count("source: shared objects file (top)") > 5_000 for text in loaded)
    assert (archive.stat().st_ino, archive.stat().st_size) == written
