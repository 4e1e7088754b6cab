"""Tests that wait for ever in C: tests/stuck.py."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.daemon import REPOSITORY

pytestmark = pytest.mark.slow

STUCK = """
import ctypes
import signal

import pytest

@pytest.fixture
def stuck_at_the_end():
    yield
    wait_in_c()

def wait_in_c():
    # A signal handler of Python's runs when this returns, and it does not return.
    libc = ctypes.CDLL(None)
    mutex = ctypes.create_string_buffer(64)
    libc.pthread_mutex_lock(mutex)
    libc.pthread_mutex_lock(mutex)

def test_it():
    wait_in_c()

def test_it_fails_and_its_fixture_is_stuck(stuck_at_the_end):
    raise ValueError("this one first")

def test_another():
    pass
"""
PLUGIN = """
from tests import stuck
from tests.stuck import *

stuck.LATER_S = 1
"""


@pytest.mark.parametrize("name", ["test_it", "test_it_fails_and_its_fixture_is_stuck"])
@pytest.mark.parametrize("workers", [[], ["-n", "1"]], ids=["one process", "with workers"])
def test_one_that_is_stuck_in_c_ends_its_process_and_says_where(name: str, workers: list[str], tmp_path: Path) -> None:
    (tmp_path / "test_these.py").write_text(STUCK)
    (tmp_path / "conftest.py").write_text(PLUGIN)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:asyncio", "--timeout", "1"]
    selected = [*workers, f"test_these.py::{name}", "test_these.py::test_another"]
    done = subprocess.run(
        [*command, *selected],
        cwd=tmp_path,
        env={"PYTHONPATH": str(REPOSITORY), "PATH": ""},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("Timeout (0:00:02)!\n")
    assert "in wait_in_c\n" in done.stderr
    if workers:
        assert f"worker 'gw0' crashed while running 'test_these.py::{name}'" in done.stdout
        assert "1 passed" in done.stdout
