"""The compiled build: what a wheel of it asks for, when `make run` takes it, and when it makes one by itself."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

import builds
from tests.daemon import REPOSITORY

pytestmark = pytest.mark.interpreted  # about the checkout that `make compiled` copies from

ASK = """
import sys
sys.modules["mypyc"] = None  # as in pip's fresh environment
from setuptools.build_meta import get_requires_for_build_wheel
print(*get_requires_for_build_wheel(), sep="\\n")
"""

SAYS = """
import os, sys
print(f"{os.getcwd()}: {' '.join(sys.argv[1:])}")
"""

SLOW = """
import os, pathlib, time
pathlib.Path(os.environ["TOLD"]).write_text(f"{os.getpid()} {os.getppid()} {os.getsid(0)}")
while not pathlib.Path(os.environ["GO"]).exists():
    time.sleep(0.01)
"""
MAKES = f"open({builds.LIBRARY!r}, 'w').close()"
FAILS = "raise SystemExit('there is an error in it')"


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
        timeout=300,
        check=False,
    )
    assert asked.returncode == 0, asked.stderr
    for package in ("mypy", "uvloop", "orjson"):
        assert any(line.startswith(package) for line in asked.stdout.splitlines()) is bool(compile_), asked.stdout


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Sources older than their compiled copy. The daemon says where it is started and with what."""
    sources(tmp_path)
    shutil.copy(REPOSITORY / "builds.py", tmp_path)
    # Neither a wheel is looked for in the index nor a compiler installed: this Python is the one that the tests run in.
    (tmp_path / "instead").mkdir()
    (tmp_path / "instead" / "pip.py").touch()
    (tmp_path / "coordinatord" / "__main__.py").write_text(SAYS)
    (tmp_path / "coordinatord" / "module.py").touch()
    (tmp_path / "protocol" / "kafka_wire").mkdir()
    (tmp_path / "protocol" / "kafka_wire" / "__main__.py").touch()
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    compiled = tmp_path / "build" / "compiled"
    compiled.mkdir(parents=True)
    shutil.copytree(tmp_path / "coordinatord", compiled / "coordinatord")
    (compiled / "protocol").mkdir()
    for path in tmp_path.rglob("*"):
        os.utime(path, (1_000_000_000, 1_000_000_000))
    for path in (tmp_path / ".venv" / ".run", compiled / ".stamp", compiled / builds.LIBRARY):
        path.touch()
        os.utime(path, (1_100_000_000, 1_100_000_000))
    return tmp_path


def run(checkout: Path, *arguments: str, **more: str) -> str:
    # `make test` hands its own variables to what it runs, and .ci/run says that it is one.
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS", "VENV", "CI"))
    }
    path = os.pathsep.join(str(checkout / name) for name in ("protocol", "instead"))
    environment |= {"PYTHONPATH": path, "CC": "true", **more}
    done = subprocess.run(
        ["make", "run", *arguments],
        cwd=checkout,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(": serve ") == 1
    return done.stdout


def wait_until(holds: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + 300
    while not holds():
        assert time.monotonic() < deadline_s
        time.sleep(0.01)


def is_free(checkout: Path) -> bool:
    with builds.locked(checkout, "compiled", wait=False) as mine:
        return mine


def leave_uncompiled(checkout: Path, setup: str) -> None:
    shutil.rmtree(checkout / "build")
    (checkout / "setup.py").write_text(setup)


def test_make_run_takes_the_compiled_build_and_says_so(checkout: Path) -> None:
    kernels = checkout / "coordinatord" / "__pycache__" / "kernels.crc32c-88.py311.nbi"  # numba's: no source
    kernels.parent.mkdir(exist_ok=True)
    kernels.touch()
    said = run(checkout)
    assert "the compiled build" in said
    *_, started = said.splitlines()
    assert started.startswith(f"{checkout}/build/compiled: serve")
    assert started.endswith(f"--data-dir {checkout}/data")


@pytest.mark.parametrize(
    ("why", "says"),
    [
        ("none", "there is no C compiler"),
        ("old", "there is no C compiler"),
        ("another Python's", "there is no C compiler"),
        ("refused", "COMPILED=0"),
    ],
)
def test_make_run_is_interpreted_without_an_up_to_date_compiled_build(checkout: Path, why: str, says: str) -> None:
    compiled = checkout / "build" / "compiled"
    if why == "none":
        (compiled / ".stamp").unlink()
    elif why == "old":
        os.utime(checkout / "coordinatord" / "module.py", (1_200_000_000, 1_200_000_000))
    elif why == "another Python's":
        (compiled / builds.LIBRARY).rename(compiled / "coordinatord__mypyc.cpython-27.so")
    line, started = run(checkout, *(["COMPILED=0"] if why == "refused" else []), CC="no-such-cc").splitlines()[-2:]
    assert line.startswith("interpreted")
    assert says in line
    assert started == f"{checkout}: serve --listen 127.0.0.1:9092 --data-dir {checkout}/data"
    assert not (checkout / "build" / "compile.log").exists()


def test_with_a_compiler_the_next_start_is_compiled(checkout: Path) -> None:
    leave_uncompiled(checkout, MAKES)
    said = run(checkout)
    assert "interpreted; compiling in the background" in said
    assert "build/compile.log" in said
    assert "COMPILED=0" in said
    assert said.splitlines()[-1].startswith(f"{checkout}: serve")
    wait_until((checkout / "build" / "compiled").exists)
    assert run(checkout).splitlines()[-1].startswith(f"{checkout}/build/compiled: serve")


def test_two_do_not_compile_and_a_killed_one_is_no_build_and_keeps_no_lock(checkout: Path) -> None:
    told, go = checkout / "told", checkout / "go"
    leave_uncompiled(checkout, SLOW + MAKES)
    run(checkout, TOLD=str(told), GO=str(go))
    wait_until(lambda: told.exists() and bool(told.read_text()))
    compiler, builder, session = map(int, told.read_text().split())
    assert session == builder, "Ctrl-C is for the daemon alone"
    assert "is being made" in run(checkout)
    os.kill(builder, signal.SIGKILL)
    os.kill(compiler, signal.SIGKILL)
    wait_until(lambda: is_free(checkout))
    assert not (checkout / "build" / "compiled").exists()
    go.touch()
    assert "compiling in the background" in run(checkout, TOLD=str(told), GO=str(go))
    wait_until((checkout / "build" / "compiled").exists)
    wait_until(lambda: is_free(checkout))
    assert {path.name for path in (checkout / "build").iterdir()} == {"compile.log", "compiled", "compiled.lock"}


def test_a_source_that_changes_meanwhile_makes_the_build_old(checkout: Path) -> None:
    told, go = checkout / "told", checkout / "go"
    leave_uncompiled(checkout, SLOW + MAKES)
    run(checkout, TOLD=str(told), GO=str(go))
    wait_until(told.exists)
    (checkout / "coordinatord" / "module.py").write_text("changed = True")
    go.touch()
    wait_until((checkout / "build" / "compiled").exists)
    assert not builds.is_up_to_date(checkout, checkout / "build" / "compiled")


def test_what_failed_is_not_tried_again_until_a_source_changes(checkout: Path) -> None:
    leave_uncompiled(checkout, FAILS)
    run(checkout)
    wait_until((checkout / "build" / "compiled.failed").exists)
    wait_until(lambda: is_free(checkout))
    assert "there is an error in it" in (checkout / "build" / "compile.log").read_text()
    assert "failed (log: build/compile.log)" in run(checkout)
    (checkout / "setup.py").write_text(MAKES)
    assert "compiling in the background" in run(checkout)
    wait_until((checkout / "build" / "compiled").exists)


def test_neither_ci_nor_sources_that_are_being_edited_are_compiled_unasked(checkout: Path) -> None:
    leave_uncompiled(checkout, MAKES)
    assert "interpreted, as CI=true" in run(checkout, CI="true")
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    for command in (["init", "--quiet"], ["add", "coordinatord", "setup.py"], ["commit", "--quiet", "-m", "a"]):
        subprocess.run([*git, *command], cwd=checkout, check=True)
    for name in ("pyproject.toml", "protocol"):
        subprocess.run([*git, "add", name], cwd=checkout, check=True)
    assert "sources have been edited" in run(checkout)
    assert not (checkout / "build" / "compile.log").exists()
    subprocess.run([*git, "commit", "--quiet", "-m", "b"], cwd=checkout, check=True)
    assert "compiling in the background" in run(checkout)
    wait_until((checkout / "build" / "compiled").exists)


@pytest.mark.parametrize("what", ["the same", "changed", "a new module", "another Python", "no wheel"])
def test_a_wheel_fits_the_sources_that_it_was_made_from(checkout: Path, what: str) -> None:
    registered = checkout / "coordinatord" / "pipeline" / "registered" / "spark_source"
    registered.mkdir(parents=True)
    (registered / "__init__.py").touch()
    wheel = checkout / "build" / "wheels" / "coordinatord-0.1.0-a-b-c.whl"
    wheel.parent.mkdir()
    with zipfile.ZipFile(wheel, "w") as archive:
        for name in ("coordinatord/__main__.py", "coordinatord/module.py"):
            archive.write(checkout / name, name)
        archive.write(checkout / "protocol" / "kafka_wire" / "__main__.py", "kafka_wire/__main__.py")
        archive.writestr("spark_source/__init__.py", "")
        archive.writestr("coordinatord-0.1.0.dist-info/RECORD", "")
        archive.writestr(builds.LIBRARY if what != "another Python" else "coordinatord__mypyc.cpython-27.so", "C")
    assert builds.unpacked(checkout) is None, "its library does not load"
    if what == "changed":
        (checkout / "coordinatord" / "module.py").write_text("changed = True")
    elif what == "a new module":
        (checkout / "coordinatord" / "new.py").touch()
    elif what == "no wheel":
        wheel.write_bytes(b"PK")
    assert builds.fits(checkout, wheel) is (what == "the same")


def test_a_damaged_wheel_is_not_taken(checkout: Path) -> None:
    shutil.rmtree(checkout / "build" / "compiled")
    wheel = checkout / "build" / "wheels" / "coordinatord-0.1.0-a-b-c.whl"
    wheel.parent.mkdir()
    with zipfile.ZipFile(wheel, "w") as archive:
        for path in builds.in_a_wheel(checkout).items():
            archive.write(path[1], path[0])
        archive.writestr(builds.LIBRARY, "C" * 100)
    data = wheel.read_bytes()
    wheel.write_bytes(data.replace(b"C" * 100, b"D" * 100))
    assert builds.fits(checkout, wheel)
    assert builds.unpacked(checkout) is None
    assert run(checkout, CC="no-such-cc").startswith("interpreted")


def test_where_build_cannot_be_written_the_daemon_is_interpreted(checkout: Path) -> None:
    leave_uncompiled(checkout, MAKES)
    (checkout / "build").touch()
    line, started = run(checkout).splitlines()[-2:]
    assert line.startswith("interpreted: ")
    assert started.startswith(f"{checkout}: serve")


def test_a_build_that_a_daemon_runs_from_is_not_replaced_unasked(checkout: Path) -> None:
    compiled = checkout / "build" / "compiled"
    builds.use(compiled)
    assert builds.is_in_use(compiled)
    os.utime(checkout / "coordinatord" / "module.py", (1_200_000_000, 1_200_000_000))
    assert "a daemon still runs an older compiled build" in run(checkout)


def test_the_data_is_where_the_user_means(checkout: Path) -> None:
    for home in ("~/kafka", "elsewhere"):
        said = run(checkout, f"DATA={home}", HOME="/home/somebody")
        assert said.splitlines()[-1].endswith(
            "--data-dir /home/somebody/kafka" if home[0] == "~" else f"--data-dir {checkout}/elsewhere"
        )
