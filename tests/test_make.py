"""The Makefile's targets, as far as `make -n` shows them."""

from __future__ import annotations

import os
import subprocess

import pytest

from tests.daemon import REPOSITORY


def printed(*arguments: str) -> list[str]:
    """Return the commands that make would run. The variables of a make that runs these tests do not count."""
    environment = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    done = subprocess.run(
        ["make", "-n", "run", "LISTEN=127.0.0.1:0", *arguments],
        cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout.strip().splitlines()


@pytest.mark.parametrize(("more", "ends"), [((), "./data"), (("DATA=/var/lib/c",), "/var/lib/c")])
def test_make_run_starts_the_daemon_and_nothing_else(more: tuple[str, ...], ends: str) -> None:
    *before, last = printed(*more)
    assert last == f'exec .venv/bin/python -m coordinatord serve --listen "127.0.0.1:0" --data-dir "{ends}"'
    assert not [line for line in before if "setup.py" in line or line.rstrip().endswith("&")]


def test_the_compiled_build_is_given_an_absolute_directory() -> None:
    last = printed("COMPILED=1", "DATA=data")[-1]
    assert "cd build/compiled" in last
    assert last.endswith(f'--data-dir "{REPOSITORY}/data"')
