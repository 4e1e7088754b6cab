"""`serve --ready-file`: there, whole, while clients can connect."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from coordinatord.cli.ready_file import CannotTell, ReadyFile
from tests.daemon import answers_api_versions
from tests.support.waiting import PATIENCE_S

BOUND = [("127.0.0.1:1024", "broker.example:9092")]
Start = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ready.json"


@pytest.fixture
def start(tmp_path: Path, path: Path) -> Iterator[Start]:
    started = []

    def run(*arguments: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "coordinatord", "serve", "--data-dir", str(tmp_path / "data")]
        with (tmp_path / "log").open("ab") as log:
            process = subprocess.Popen([*command, "--ready-file", str(path), *arguments], stdout=log, stderr=log)
        started.append(process)
        return process

    yield run
    for process in started:
        process.kill()
        process.wait(PATIENCE_S)


def told(path: Path, process: subprocess.Popen[bytes]) -> dict[str, Any]:
    """What the file says, which is read as soon as it is there."""
    deadline_s = time.monotonic() + PATIENCE_S
    while not path.exists():
        assert process.poll() is None, "it ended"
        assert time.monotonic() < deadline_s, "no file"
        time.sleep(0.01)
    found: dict[str, Any] = json.loads(path.read_text())
    return found


@pytest.mark.parametrize("workers", [1, 2])
def test_it_is_there_while_clients_can_connect(start: Start, path: Path, workers: int) -> None:
    process = start("--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--workers", str(workers))
    ready = told(path, process)
    assert ready["pid"] == process.pid
    assert ready["advertised"] == ready["listeners"]
    assert len(set(ready["listeners"])) == len(ready["admin"]) == workers
    assert all(answers_api_versions(int(address.rpartition(":")[2])) for address in ready["listeners"])
    for url in ready["admin"]:
        with urllib.request.urlopen(url + "healthz", timeout=PATIENCE_S) as answer:
            assert answer.status == 200
    assert list(path.parent.glob(".ready*")) == []
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE_S) == 0
    assert not path.exists()


def test_a_file_that_a_killed_daemon_has_left_is_replaced(start: Start, path: Path) -> None:
    first = start("--listen", "127.0.0.1:0")
    ready = told(path, first)
    first.kill()
    first.wait(PATIENCE_S)
    assert json.loads(path.read_text()) == ready
    second = start("--listen", "127.0.0.1:0")
    deadline_s = time.monotonic() + PATIENCE_S
    pid = first.pid
    while pid != second.pid:
        assert time.monotonic() < deadline_s, "the old file stays"
        time.sleep(0.01)
        with contextlib.suppress(FileNotFoundError):  # the old one is gone, the new one is not there yet
            pid = json.loads(path.read_text())["pid"]


def test_a_daemon_that_cannot_start_leaves_the_file_of_the_one_that_runs(start: Start, path: Path) -> None:
    first = start("--listen", "127.0.0.1:0")
    ready = told(path, first)
    assert start("--listen", "127.0.0.1:0").wait(PATIENCE_S) == 1  # the data directory is in use
    assert json.loads(path.read_text()) == ready


def test_it_appears_whole_and_is_gone_afterwards(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    replace = Path.replace

    def watched(source: Path, target: Path) -> Path:
        seen.append((target.exists(), source.read_text()))
        return replace(source, target)

    monkeypatch.setattr(Path, "replace", watched)
    whole = {"listeners": ["127.0.0.1:1024"], "advertised": ["broker.example:9092"], "admin": [], "pid": os.getpid()}
    with ReadyFile(path) as ready:
        assert not path.exists()
        ready.write(BOUND, [])
        assert json.loads(path.read_text()) == whole
    [(was_there, text)] = seen
    assert not was_there
    assert json.loads(text) == whole
    assert list(path.parent.iterdir()) == []


@pytest.mark.parametrize("pid", [None, -1, 0, "ours", 2**80, "7"])
def test_what_no_other_process_can_have_written_is_removed_at_the_start(path: Path, pid: object) -> None:
    path.write_text(json.dumps({"pid": os.getpid() if pid == "ours" else pid}))
    with ReadyFile(path):
        assert not path.exists()


@pytest.mark.parametrize("content", ["", "[]", "{}", "\x00", "my notes"])
def test_somebody_elses_file_is_not_touched(path: Path, content: str) -> None:
    path.write_text(content)
    with pytest.raises(CannotTell, match="no ready file"), ReadyFile(path):
        pass
    assert path.read_text() == content


def test_a_directory_that_is_not_there_is_told_before_the_start(tmp_path: Path) -> None:
    with pytest.raises(CannotTell, match="choose another --ready-file"), ReadyFile(tmp_path / "nowhere" / "ready"):
        pass


def test_nobody_wants_a_file(tmp_path: Path) -> None:
    with ReadyFile(None) as ready:
        ready.write(BOUND, [])
    assert list(tmp_path.iterdir()) == []
