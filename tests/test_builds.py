"""The compiled build: what a wheel of it asks for, and that `make run` takes it if it is there and up to date."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.daemon import REPOSITORY

pytestmark = pytest.mark.interpreted  # about the checkout that `make compiled` copies from

ASK = """
import sys
sys.modules["mypyc"] = None  # as in pip's fresh environment
from setuptools.build_meta import get_requires_for_build_wheel
print(*get_requires_for_build_wheel(), sep="\\n")
"""

FAKE_PYTHON = """#!/bin/sh
echo "$PWD: $*"
"""


def sources(to: Path) -> None:
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE", "Makefile"):
        shutil.copy(REPOSITORY / name, to)
    for name in ("coordinatord", "protocol"):
        (to / name).mkdir()


@pytest.mark.parametrize("compile_", ["", "1"])
def test_a_compiled_wheel_asks_for_the_compiler_and_for_what_the_modules_import(tmp_path: Path, compile_: str) -> None:
    sources(tmp_path)
    asked = subprocess.run(
        [sys.executable, "-c", ASK],
        cwd=tmp_path,
        env={**os.environ, "COORDINATORD_COMPILE": compile_},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert asked.returncode == 0, asked.stderr
    for package in ("mypy", "uvloop", "orjson"):
        assert any(line.startswith(package) for line in asked.stdout.splitlines()) is bool(compile_), asked.stdout


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Sources older than their compiled copy, and a Python that says where it is started and with what."""
    sources(tmp_path)
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(FAKE_PYTHON)
    python.chmod(0o755)
    (tmp_path / "coordinatord" / "module.py").touch()
    (tmp_path / "build" / "compiled").mkdir(parents=True)
    for path in tmp_path.rglob("*"):
        os.utime(path, (1_000_000_000, 1_000_000_000))
    for name in (".venv/.run", "build/compiled/.stamp"):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (1_100_000_000, 1_100_000_000))
    return tmp_path


def run(checkout: Path, *arguments: str) -> str:
    # `make test` hands its own variables to what it runs.
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    done = subprocess.run(
        ["make", "run", *arguments],
        cwd=checkout,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_make_run_takes_the_compiled_build_and_says_so(checkout: Path) -> None:
    kernels = checkout / "coordinatord" / "__pycache__" / "kernels.crc32c-88.py311.nbi"  # numba's: no source
    kernels.parent.mkdir()
    kernels.touch()
    said = run(checkout)
    assert "the compiled build" in said
    *_, started = said.splitlines()
    assert started.startswith(f"{checkout}/build/compiled: -m coordinatord serve")
    assert started.endswith(f"--data-dir {checkout}/./data")
    assert said.count(" serve ") == 1


@pytest.mark.parametrize("why", ["none", "old", "refused"])
def test_make_run_is_interpreted_without_an_up_to_date_compiled_build(checkout: Path, why: str) -> None:
    if why == "none":
        (checkout / "build" / "compiled" / ".stamp").unlink()
    elif why == "old":
        os.utime(checkout / "coordinatord" / "module.py", (1_200_000_000, 1_200_000_000))
    said = run(checkout, *(["COMPILED=0"] if why == "refused" else []))
    assert ("make compiled, once" in said) is (why != "refused")
    assert said.splitlines()[-1] == f"{checkout}: -m coordinatord serve --listen 127.0.0.1:9092 --data-dir ./data"
    assert said.count(" serve ") == 1
