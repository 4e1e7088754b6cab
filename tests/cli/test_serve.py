"""The daemon as a process: what it prints, how it ends, and what keeps it from starting."""

from __future__ import annotations

import json
import os
import pty
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from coordinatord.cli import cli
from tests.support.waiting import PATIENCE_S, wait_until

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """`start("--listen", …)`: a daemon with its data in the test's directory."""
    started = []
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COORDINATORD_")}

    def run(*arguments: str, **streams: Any) -> subprocess.Popen[str]:
        streams = streams or {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        command = [sys.executable, "-m", "coordinatord", "serve", "--data-dir", str(tmp_path / "data"), *arguments]
        process = subprocess.Popen(command, text=True, env=environment, **streams)
        started.append(process)
        return process

    yield run
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=PATIENCE_S)


def listening(process: subprocess.Popen[str]) -> dict[str, Any]:
    """The log line that says where it listens."""
    assert process.stderr is not None
    for text in process.stderr:
        line: dict[str, Any] = json.loads(text)
        if line["event"] == "listening":
            return line
    raise AssertionError(f"ended with {process.wait(PATIENCE_S)} before it listened")


def readiness(admin_url: str) -> tuple[int, dict[str, Any]]:
    try:
        with urllib.request.urlopen(admin_url + "readyz", timeout=PATIENCE_S) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as not_yet:
        return not_yet.code, json.load(not_yet)


def test_it_says_where_it_listens_becomes_ready_and_ends_well(start: Start, tmp_path: Path) -> None:
    process = start("--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
    line = listening(process)
    assert line["level"] == "info"
    assert line["pid"] == process.pid
    assert line["data_dir"] == str(tmp_path / "data")
    [address] = line["listeners"]
    assert line["advertised"] == [address]
    host, _, port = address.rpartition(":")
    socket.create_connection((host, int(port)), timeout=PATIENCE_S).close()

    wait_until(lambda: readiness(line["admin"]) == (200, {"state": "ready", "reasons": []}))
    with urllib.request.urlopen(line["admin"] + "metrics", timeout=PATIENCE_S) as answer:
        assert b"coordinatord_ready 1.0" in answer.read()

    process.send_signal(signal.SIGTERM)
    _output, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0
    assert [json.loads(text)["event"] for text in errors.splitlines()][-1] == "stopped"


def test_people_are_told_in_sentences(start: Start, tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    process = start("--listen", "127.0.0.1:0", stdout=theirs, stderr=theirs, stdin=subprocess.DEVNULL)
    os.close(theirs)
    shown = ""
    while "Stop it with Ctrl+C." not in shown:
        shown += os.read(ours, 4096).decode()
    assert "Ready: Kafka clients connect to 127.0.0.1:" in shown
    assert f"Data is kept in {tmp_path / 'data'}." in shown
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE_S) == 0
    os.close(ours)


def test_partitions_that_a_directory_keeps_are_told(start: Start) -> None:
    first = start("--listen", "127.0.0.1:0", "--set", "offsets.topic.num.partitions=4")
    [address] = listening(first)["listeners"]
    looked = CliRunner().invoke(cli, ["groups", "describe", "nobody", "--bootstrap", address])
    assert "nobody" in looked.output
    first.send_signal(signal.SIGTERM)
    first.communicate(timeout=PATIENCE_S)
    second = start("--listen", "127.0.0.1:0", "--set", "offsets.topic.num.partitions=8")
    assert second.stderr is not None
    told = []
    for text in second.stderr:
        line = json.loads(text)
        if line["level"] == "warning":
            told.append(line)
        if line["event"] == "listening":
            break
    assert [(line["setting"], line["asked"], line["kept"]) for line in told] == [("offsets.topic.num.partitions", 8, 4)]


STOPPED_EARLY = """
import os, signal, sys

class Dropped:
    def __del__(self):
        os.kill(os.getpid(), signal.{signal})

class Terminator:
    def find_spec(self, name, path, target=None):
        if name == {module!r}:
            {how}

sys.meta_path.insert(0, Terminator())
from coordinatord.cli import main
main()
"""
RAISED, DROPPED = "os.kill(os.getpid(), signal.{signal})", "Dropped()"
"""Python drops what is raised in `__del__`, as it does in callbacks that imports have."""


def stopped_early(directory: Path, workers: int, name: str, module: str, how: str) -> tuple[int, list[str]]:
    """The exit status of a start that a signal meets when a module is imported, and the events that are told."""
    program = STOPPED_EARLY.format(signal=name, module=module, how=how.format(signal=name))
    command = [sys.executable, "-c", program, "serve", "--listen", "127.0.0.1:0", "--data-dir", str(directory / "data")]
    done = subprocess.run(
        [*command, "--set", f"workers={workers}"], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    return done.returncode, [json.loads(line)["event"] for line in done.stderr.splitlines()]


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("module", ["coordinatord.server.daemon.process", "coordinatord.broker.log.writer"])
@pytest.mark.parametrize("how", [RAISED, DROPPED], ids=["raised", "dropped"])
@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_a_signal_ends_a_start(tmp_path: Path, name: str, how: str, module: str, workers: int) -> None:
    """Also of the first process of a container, for which the signal does nothing without a handler."""
    status, told = stopped_early(tmp_path, workers, name, module, how)
    assert (status, told) == (128 + signal.Signals[name], ["stopped before it served"])


@pytest.mark.parametrize(("workers", "module"), [(1, "uvloop"), (2, "coordinatord.server.workers.supervisor")])
def test_a_signal_that_python_drops_late_in_a_start_ends_what_it_has_started(
    tmp_path: Path, module: str, workers: int
) -> None:
    """These are imported after the start has looked whether one was dropped."""
    status, told = stopped_early(tmp_path, workers, "SIGTERM", module, DROPPED)
    assert status == 0
    assert "listening" in told
    assert told[-1] == "stopped"


@pytest.mark.parametrize("workers", [1, 2])
def test_more_signals_do_not_change_how_it_ends(start: Start, workers: int) -> None:
    """A script that sends one to the process and one to its group, or a user who presses Ctrl-C again."""
    process = start("--listen", "127.0.0.1:0", "--set", f"workers={workers}")
    listening(process)
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGINT)
    deadline, sent = time.monotonic() + PATIENCE_S, 0
    while process.poll() is None:
        assert time.monotonic() < deadline
        process.send_signal((signal.SIGTERM, signal.SIGINT)[sent % 2])
        sent += 1
        time.sleep(0.001)
    assert process.returncode == 0
    assert process.stderr is not None
    assert json.loads(process.stderr.readlines()[-1])["event"] == "stopped"


def test_two_daemons_do_not_share_a_directory(start: Start, tmp_path: Path) -> None:
    first = start("--listen", "127.0.0.1:0")
    listening(first)
    second = start("--listen", "127.0.0.1:0")
    _output, errors = second.communicate(timeout=PATIENCE_S)
    assert second.returncode == 1
    [told] = errors.splitlines()
    assert told.startswith("coordinatord: ")
    assert str(tmp_path / "data") in told
    assert first.poll() is None


def test_an_address_in_use_is_told_in_a_sentence(start: Start) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        process = start("--listen", address)
        _output, errors = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 1
        assert errors.splitlines()[0].startswith(f"coordinatord: {address} is in use: another program listens there")
        assert "Traceback" not in errors

        process = start("--listen", "127.0.0.1:0", "--admin", address)
        _output, errors = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 1
        assert f"coordinatord: The address {address} of --admin is in use" in errors
        assert "Traceback" not in errors


def test_a_directory_that_cannot_be_made_is_told_in_a_sentence(start: Start, tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file")
    process = start("--listen", "127.0.0.1:0")
    _output, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1
    assert errors.startswith("coordinatord: ")
    assert str(tmp_path / "data") in errors
    assert "Traceback" not in errors
