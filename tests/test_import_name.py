"""The import name of the wire format does not collide with users' modules."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.interpreted
def test_a_protocol_py_in_the_working_directory_is_nobodys_business(tmp_path: Path) -> None:
    (tmp_path / "protocol.py").write_text("raise ImportError('a module of the user')\n")
    # `-m` puts the working directory first on the path, as `python -m pytest` does for a user's tests.
    command = [sys.executable, "-m", "coordinatord", "settings"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "group.max.size" in done.stdout
    decode = [sys.executable, "-m", "kafka_wire", "apis"]
    done = subprocess.run(decode, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert "JoinGroup" in done.stdout, done.stderr
