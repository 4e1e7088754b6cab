"""`pipeline run` on a standalone cluster: a master and two workers, started from pyspark's own scripts, whose executors
have an environment of their own: everything that coordinatord needs, and not coordinatord.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyarrow import dataset

from coordinatord.monitoring.pipeline.source.shipping import archive
from tests.daemon import free_port
from tests.monitoring.pipeline.truth.world import World

ROOT = Path(__file__).parents[4]
HOST = "127.0.0.1"
WAIT_S = 200
CLASSES = "org.apache.spark.deploy"


@contextlib.contextmanager
def running(directory: Path, environment: dict[str, str]) -> Iterator[str]:
    """The master's URL."""
    import pyspark

    script = str(Path(pyspark.__file__).parent / "bin" / "spark-class")
    url = f"spark://{HOST}:{free_port()}"
    master = ["master.Master", "--host", HOST, "--port", url.rpartition(":")[2], "--webui-port", "0"]
    worker = ["worker.Worker", "--host", HOST, "--cores", "1", "--memory", "1g", "--webui-port", "0", url]
    started: list[subprocess.Popen[bytes]] = []
    logs = [directory / f"{number}.log" for number in range(3)]
    try:
        for command, log, says in (
            (master, logs[0], "New state: ALIVE"),
            (worker, logs[1], "Successfully registered"),
            (worker, logs[2], "Successfully registered"),
        ):
            name, *arguments = command
            started.append(
                subprocess.Popen(
                    [script, f"{CLASSES}.{name}", *arguments], cwd=directory, env=environment,
                    stdout=log.open("wb"), stderr=subprocess.STDOUT,
                )
            )  # fmt: skip
            deadline_s = time.monotonic() + WAIT_S
            while says not in log.read_text(errors="replace"):
                assert started[-1].poll() is None, log.read_text()
                assert time.monotonic() < deadline_s, log.read_text()
                time.sleep(0.1)
        yield url
    finally:
        for process in reversed(started):
            process.terminate()
            process.wait(60)


@pytest.fixture(autouse=True)
def _no_path_to_the_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    """An earlier test of this process may have told Spark's workers where they are."""
    monkeypatch.delenv("PYTHONPATH", raising=False)


def environment_of_executors(directory: Path) -> Path:
    """A Python with what is installed here, but for coordinatord."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(directory)], check=True, timeout=100)
    [site] = directory.glob("lib/python*/site-packages")
    for each in Path(sysconfig.get_path("purelib")).iterdir():
        if "coordinatord" not in each.name and not each.name.startswith("__"):
            (site / each.name).symlink_to(each)
    python = directory / "bin" / "python"
    told = subprocess.run([python, "-c", "import coordinatord"], cwd=directory, capture_output=True, text=True)
    assert "No module named 'coordinatord'" in told.stderr
    return python


@pytest.mark.timeout(1200)  # a master, two workers and a run: half a minute, and many times that on a busy machine
@pytest.mark.parametrize("way", ["pipeline run", "spark-submit"])
def test_on_a_cluster_whose_executors_lack_coordinatord(way: str, tmp_path: Path) -> None:
    world = World(1)
    (tmp_path / "data").mkdir()
    world.write(tmp_path / "data")
    python = environment_of_executors(tmp_path / "venv")
    packed = archive(tmp_path / "coordinatord.zip")
    out = tmp_path / "out"
    plain = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "SPARK_LOCAL_IP": HOST}
    if "JAVA_HOME" in os.environ:
        plain["JAVA_HOME"] = os.environ["JAVA_HOME"]
    run = ["pipeline", "run", "--source", str(tmp_path / "data"), "--out", str(out)]
    confs = ["--conf", "spark.executor.memory=600m", "--conf", f"spark.driver.host={HOST}"]
    with running(tmp_path, plain) as url:
        if way == "pipeline run":
            command = [sys.executable, "-m", "coordinatord", *run, "--master", url, *confs]
            environment = plain | {"PYSPARK_PYTHON": str(python), "PYSPARK_DRIVER_PYTHON": sys.executable}
            environment["PYTHONPATH"] = os.pathsep.join([str(ROOT / "protocol")])
        else:
            script = str(Path(sys.executable).parent / "spark-submit")
            main = str(ROOT / "coordinatord" / "__main__.py")
            command = [script, "--master", url, "--py-files", str(packed), *confs, main, *run]
            environment = plain | {"PYSPARK_PYTHON": str(python), "PYTHONPATH": str(packed)}
        cwd = ROOT if way == "pipeline run" else tmp_path
        done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=WAIT_S * 5)
    assert done.returncode == 0, done.stderr[-6000:]
    assert "new records in" in done.stdout
    workers = sum("Asked to launch executor" in (tmp_path / f"{number}.log").read_text() for number in (1, 2))
    assert workers == 2, "both had work"
    rows = dataset.dataset(str(out / "tables" / "lag"), format="parquet", partitioning="hive").to_table().to_pylist()
    names = ("group_id", "topic", "partition", "committed_offset", "end_offset", "lag")
    found = {tuple(row[name] for name in names) for row in rows}
    code = [sys.executable, "-m", "coordinatord", "lag", "--source", str(tmp_path / "data"), "--json"]
    told = subprocess.run(code, cwd=ROOT, env=plain | {"PYTHONPATH": "protocol"}, capture_output=True, timeout=WAIT_S)
    assert found == {tuple(row[name] for name in names) for row in json.loads(told.stdout)}
    assert len(found) > 10
