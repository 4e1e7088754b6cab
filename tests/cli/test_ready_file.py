"""`serve --ready-file`: there, whole, while clients can connect."""

from __future__ import annotations

import dataclasses
import json
import os
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from coordinatord.cli.ready_file import CannotTell, ReadyFile
from tests.daemon import Daemon, answers_api_versions, free_port
from tests.support.waiting import PATIENCE_S, wait_until

BOUND = [("127.0.0.1:1024", "broker.example:9092")]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ready.json"


@pytest.fixture
def daemon(tmp_path: Path, path: Path) -> Iterator[Daemon]:
    made = Daemon(tmp_path, arguments=["--ready-file", str(path), "--admin", "127.0.0.1:0"])
    yield made
    if made.process is not None:
        made.kill()


def told(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text())
    return found


@pytest.mark.parametrize("workers", [1, 2])
def test_it_is_there_while_clients_can_connect(daemon: Daemon, path: Path, workers: int) -> None:
    daemon.workers, daemon.port = workers, free_port(workers)
    process = daemon.launch()
    wait_until(lambda: path.exists() or process.poll() is not None, "the file", seen=daemon.log_tail)
    ready = told(path)
    assert ready["pid"] == process.pid
    assert ready["advertised"] == ready["listeners"]
    assert len(set(ready["listeners"])) == len(ready["admin"]) == workers
    assert all(answers_api_versions(int(address.rpartition(":")[2])) for address in ready["listeners"])
    for url in ready["admin"]:
        with urllib.request.urlopen(url + "healthz", timeout=PATIENCE_S) as answer:
            assert answer.status == 200
    assert list(path.parent.glob(".ready*")) == []
    assert daemon.stop() == 0
    assert not path.exists()


def test_a_file_that_a_killed_daemon_has_left_is_replaced(daemon: Daemon, path: Path) -> None:
    daemon.start()
    wait_until(path.exists, "the file")
    ready = told(path)
    daemon.kill()
    assert told(path) == ready
    daemon.start()
    wait_until(lambda: path.exists() and told(path)["pid"] == daemon.pid, "the new file")


def test_a_daemon_that_cannot_start_leaves_the_file_of_the_one_that_runs(daemon: Daemon, path: Path) -> None:
    daemon.start()
    wait_until(path.exists, "the file")
    ready = told(path)
    other = dataclasses.replace(daemon, port=free_port(), process=None)
    assert other.launch().wait(PATIENCE_S) == 1  # the data directory is in use
    assert told(path) == ready


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
