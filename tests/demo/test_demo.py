"""The demo is what newcomers see first: it runs to its end, and says so."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.daemon import REPOSITORY

COMMAND = [sys.executable, "-m", "tests.demo"]


@pytest.mark.clients
@pytest.mark.timeout(600)
def test_the_demo_runs_to_its_end() -> None:
    done = subprocess.run(COMMAND, cwd=REPOSITORY, capture_output=True, text=True, timeout=400, check=False)
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "every acknowledged commit survived" in done.stdout
    assert done.stderr == ""


@pytest.mark.clients
def test_an_interrupted_demo_leaves_nothing_behind(tmp_path: Path) -> None:
    """Ctrl-C with all processes running: they end, and the temporary directory goes."""
    process = subprocess.Popen(
        COMMAND,
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={"TMPDIR": str(tmp_path), "PATH": "/usr/bin:/bin"},
        start_new_session=True,
        # Jobs that a shell starts in the background ignore Ctrl-C, and so does what they start.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if "Generation " in line:  # the second one where a consumer took its time to start
                break
        process.send_signal(signal.SIGINT)
        rest = process.stdout.read()
        assert process.wait(60) == 130, rest
    finally:
        if process.poll() is None:
            process.kill()
            process.wait(20)
    assert rest.rstrip().endswith("Interrupted.")
    assert list(tmp_path.iterdir()) == []
    assert processes_of_session(process.pid) == []


def processes_of_session(leader: int) -> list[int]:
    """Who is left of those that a session's leader has started; Linux only."""
    left = []
    for directory in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            state, _, _, session = (directory / "stat").read_text().rpartition(")")[2].split()[:4]
            if int(session) == leader and state != "Z":
                left.append(int(directory.name))
    return left
