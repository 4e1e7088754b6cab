"""One Spark session for all tests of this folder, on two cores and little memory.

It finds the data source as a user's does: a wheel of this repository is built and unpacked, and Spark's Python path
begins there, so what workers run is what would be installed.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from coordinatord.cli.pipeline import FEW_RECORDS

# The quick tests' environment has no Spark; a run of `-m spark` that finds no test fails.
if importlib.util.find_spec("pyspark") is None:
    collect_ignore_glob = ["test_*.py"]
# Delta Lake wants another Spark than the one that pip takes for the extra: its test is run by hand, see there.
elif importlib.util.find_spec("delta") is None:
    collect_ignore = ["test_delta.py"]

ROOT = Path(__file__).parents[4]
SETTINGS = FEW_RECORDS | {
    "spark.master": "local[2]",
    "spark.driver.memory": "1g",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.streaming.pollingDelay": "20ms",
    "spark.python.authenticate.socketTimeout": "120s",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.spark)


def unavailable(reason: str) -> None:
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(f"skipped: needs Java 17 and pip install '.[spark]' ({reason})")


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel's content: what is at the top of a user's site-packages."""
    directory = tmp_path_factory.mktemp("wheel")
    # From a copy: setuptools leaves a build directory behind, where two runs would meet.
    tree = directory / "tree"
    tree.mkdir()
    for name in ("pyproject.toml", "setup.py", "README.md"):
        shutil.copy(ROOT / name, tree / name)
    for name in ("coordinatord", "protocol"):
        shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps", "."]
    subprocess.run([*command, "--wheel-dir", str(directory)], cwd=tree, check=True, timeout=300)
    (built,) = directory.glob("*.whl")
    content = directory / "content"
    zipfile.ZipFile(built).extractall(content)
    return content


@pytest.fixture(scope="session")
def spark(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        unavailable("there is no Java")
    try:
        from coordinatord.monitoring.pipeline.source.frames import start_spark
    except ImportError as missing:
        unavailable(str(missing))
    before = dict(os.environ)
    os.environ["PYTHONPATH"] = os.pathsep.join([str(wheel), str(ROOT), os.environ.get("PYTHONPATH", "")])
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    scratch = str(tmp_path_factory.mktemp("spark"))
    session = start_spark(**SETTINGS, **{"spark.local.dir": scratch, "spark.sql.warehouse.dir": f"{scratch}/warehouse"})
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
    os.environ.clear()
    os.environ.update(before)
