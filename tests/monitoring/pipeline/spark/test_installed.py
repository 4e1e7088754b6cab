"""What somebody does who has a directory of Kafka's segments and no daemon: pip install, one command, a report."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.monitoring.offsets_log.source.test_kafka_segments import GOLDEN

INSTALL_S, RUN_S = 600, 500  # a busy machine: a minute and half a one otherwise


class Installed:
    """A virtual environment with the wheel and its extras. Commands run in a directory of their own."""

    def __init__(self, directory: Path, wheel: Path) -> None:
        self.directory = directory
        self.wheel = wheel
        self.bin = directory / "venv" / "bin"
        venv.create(directory / "venv", with_pip=True)

    def install(self, extras: str) -> None:
        command = [self.bin / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        # What the session's Spark finds there is installed already, pip would say.
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        wanted = f"coordinatord{extras} @ {self.wheel.as_uri()}"
        subprocess.run([*command, wanted], env=environment, check=True, timeout=INSTALL_S)

    def run(self, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
        kept = {name: os.environ[name] for name in ("HOME", "PATH", "LANG") if name in os.environ}
        return subprocess.run(
            [self.bin / command[0], *command[1:]], cwd=self.directory, env={**kept, **environment},
            capture_output=True, text=True, timeout=RUN_S, check=False,
        )  # fmt: skip


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    directory = tmp_path_factory.mktemp("user")
    (built,) = wheel.parent.glob("*.whl")
    yield Installed(directory, built)
    shutil.rmtree(directory)  # half a gigabyte


@pytest.mark.timeout(2 * INSTALL_S + RUN_S)
def test_from_a_wheel_to_a_report(installed: Installed) -> None:
    segments = installed.directory / "copied" / "__consumer_offsets-0"
    segments.mkdir(parents=True)
    for path in GOLDEN.glob("*.log"):
        shutil.copy(path, segments / f"{0:020d}.log")

    installed.install("")  # without the extra
    run = ("coordinatord", "pipeline", "run", "--source", "copied", "--out", "out")
    told = installed.run(*run)
    assert told.returncode != 0
    assert told.stderr.startswith("coordinatord: The pipeline needs PySpark: ")
    assert f"install 'coordinatord[spark] @ {installed.wheel.as_uri()}', and Java 17 or newer" in told.stderr
    assert told.stderr.count("\n") == 1

    installed.install("[spark,plot]")
    where = installed.run("python", "-c", "import coordinatord; print(coordinatord.__file__)").stdout
    assert where.startswith(str(installed.bin.parent))

    told = installed.run(*run, PATH="/nowhere")
    assert told.returncode != 0
    assert told.stderr.splitlines()[-1].startswith(
        "Spark needs Java 17 or newer, and there is none: install it (Debian:"
    )
    old = installed.directory / "old"
    (old / "bin").mkdir(parents=True)
    (old / "bin" / "java").write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    (old / "bin" / "java").chmod(0o755)
    told = installed.run(*run, JAVA_HOME=str(old))
    assert f"Spark needs Java 17 or newer, and {old}/bin/java is Java 11: install it" in told.stderr
    assert "Traceback" not in told.stderr

    told = installed.run(*run)
    assert told.returncode == 0, told.stderr
    assert told.stdout.startswith("97 new records in ")
    assert "; none needs attention" in told.stdout or "need attention" in told.stdout
    assert all(line.startswith("  ") for line in told.stderr.splitlines()), f"Spark's own lines: {told.stderr}"
    told = installed.run("coordinatord", "pipeline", "report", "--out", "out", "--html", "report.html")
    assert told.returncode == 0, told.stderr
    assert "open it in a browser" in told.stdout
    page = (installed.directory / "report.html").read_text()
    assert page.startswith("<!doctype html>")
    assert not (installed.directory / "data").exists(), "no daemon has run"


def test_a_clone_is_told_to_install_itself() -> None:
    """Here coordinatord runs from the repository."""
    from coordinatord.cli.install import how_to_install

    clone = Path(__file__).parents[4]
    assert how_to_install("plot", "spark").endswith(f" install --editable '{clone}[plot,spark]'")
    assert how_to_install("spark").startswith(("pip ", sys.executable))
