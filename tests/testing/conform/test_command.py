"""`coordinatord conform`, asked as users ask it: the exit status, the tables, the files."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import socketserver
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner, Result

from coordinatord.cli import cli
from tests.daemon import REPOSITORY, Daemon, running
from tests.support.waiting import PATIENCE_S

FAST = ("--only", "commit_stable", "--only", "static_rejoin_with_id", "--only", "consumer_unknown_group")
MAX_SIZE = ("--only", "max_size_stable")


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with running(tmp_path_factory.mktemp("conform"), {"group.initial.rebalance.delay.ms": "0"}) as started:
        yield started


def conform(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["conform", *arguments], prog_name="coordinatord")


def asked(daemon: Daemon, *arguments: str) -> Result:
    return conform("--bootstrap", daemon.bootstrap, *arguments)


def lines(told: Result) -> Sequence[str]:
    return told.output.splitlines()


def test_a_broker_that_answers_as_kafka(daemon: Daemon) -> None:
    told = asked(daemon, *FAST)
    assert told.exit_code == 0, told.output
    assert any(re.fullmatch(r"all +3 +· +·", line) for line in lines(told)), told.output
    assert re.search(r"(\d+) answers compared with those of Apache Kafka 4.4: \1 are the same", lines(told)[-1])


def test_a_broker_that_answers_otherwise(daemon: Daemon, tmp_path: Path) -> None:
    """The daemon has room for more members than this story's broker; it is assumed to have no more."""
    page, junit = tmp_path / "page.html", tmp_path / "junit.xml"
    told = asked(
        daemon, *MAX_SIZE, "--assume", "group.max.size=2", "--timeout", "6", "--html", str(page), "--junit", str(junit)
    )
    assert told.exit_code == 1, told.output
    assert "max_size_stable  line " in told.output
    assert "GROUP_MAX_SIZE_REACHED" in told.output
    assert "GROUP_MAX_SIZE_REACHED" in page.read_text("utf-8")
    suite = ElementTree.parse(junit).getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("1", "1")
    assert "GROUP_MAX_SIZE_REACHED" in (suite.findtext("testcase/failure") or "")


def test_an_answer_that_differs(daemon: Daemon) -> None:
    """A difference of ours that is meant: which of a protocol's two metadata counts."""
    told = asked(daemon, "--only", "join_duplicate_protocols")
    assert told.exit_code == 1, told.output
    assert "protocol_name='x' instead of protocol_name='y'" in told.output
    assert "[as coordinatord]" in told.output
    shown = asked(daemon, "--explain", "join_duplicate_protocols")
    assert "DIFFERS from Kafka (- Kafka, + this broker):" in shown.output
    assert "coordinatord gives this answer, too: " in shown.output


def test_as_json(daemon: Daemon) -> None:
    told = asked(daemon, "--json", *FAST, *MAX_SIZE)
    found = json.loads(told.output)
    assert (found["same"], found["differs"], found["not_played"]) == (3, 0, 1)
    rows = {row["story"]: row for row in found["stories"]}
    assert rows["max_size_stable"]["why"] == "needs group.max.size=2; the broker has 2147483647"
    assert rows["static_rejoin_with_id"]["kip"] == "KIP-345"
    assert rows["static_rejoin_with_id"]["verdict"] == "same"
    assert rows["static_rejoin_with_id"]["answers"] > 5


def test_a_story_frame_by_frame(daemon: Daemon) -> None:
    told = asked(daemon, "--explain", "consumer_unknown_group")
    assert told.exit_code == 0, told.output
    kinds = re.findall(r"(-->|<--) A ConsumerGroup\w+ v\d+ (\w+), \d+ bytes$", told.output, re.MULTILINE)
    assert set(kinds) == {("-->", "request"), ("<--", "response")}
    assert "group_id = 'conform-" in told.output
    assert "as Kafka:" in told.output
    assert "DIFFERS" not in told.output


def left_on(daemon: Daemon) -> list[str]:
    from kafka import KafkaAdminClient

    admin = KafkaAdminClient(bootstrap_servers=daemon.bootstrap)
    try:
        left = [name for name in admin.list_topics() if name.startswith("conform-")]
        return left + [group["group_id"] for group in admin.list_groups() if group["group_id"].startswith("conform-")]
    finally:
        admin.close()


def test_nothing_is_left_on_the_broker(daemon: Daemon) -> None:
    asked(daemon, *FAST)
    assert left_on(daemon) == []


INTERRUPTED = """
import signal
from coordinatord.cli import main

signal.signal(signal.SIGINT, signal.{sigint})  # whoever runs the tests may ignore it
main()
"""


def interrupted(number: signal.Signals, begun: Callable[[], object], *arguments: str) -> tuple[int, str]:
    """The exit status of a run that gets a signal when it has begun, and what it says."""
    sigint = "SIG_IGN" if number == signal.SIGTERM else "default_int_handler"  # a shell's job in the background
    command = [sys.executable, "-c", INTERRUPTED.format(sigint=sigint), "conform", *arguments]
    run = subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    ends = time.monotonic() + PATIENCE_S
    try:
        while not begun():
            assert run.poll() is None, run.communicate()
            assert time.monotonic() < ends, "it does not begin"
        run.send_signal(number)
        said, _ = run.communicate(timeout=PATIENCE_S)
    finally:
        run.kill()
    return run.returncode, said.strip()


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_nothing_is_left_by_a_run_that_is_interrupted(daemon: Daemon, name: str) -> None:
    told = interrupted(signal.Signals[name], lambda: left_on(daemon), "--bootstrap", daemon.bootstrap)
    assert told == (1, "Aborted!")
    assert left_on(daemon) == []


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_run_that_is_interrupted_ends_the_broker_it_has_started(tmp_path: Path, name: str) -> None:
    pid, ready = tmp_path / "pid", tmp_path / "ready"
    serve = f"{shlex.quote(sys.executable)} -m coordinatord serve --listen 127.0.0.1:{{port}}"
    script = f"echo $$ > {pid}; exec {serve} --config {{properties}} --data-dir {{directory}} --ready-file {ready}"
    told = interrupted(signal.Signals[name], ready.exists, "--start", f"sh -c {shlex.quote(script)}")
    assert told == (1, "Aborted!")
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


def test_a_broker_that_is_started_for_the_stories() -> None:
    serve = f"{shlex.quote(sys.executable)} -m coordinatord serve --listen 127.0.0.1:{{port}}"
    told = conform(*MAX_SIZE, *FAST, "--start", f"{serve} --config {{properties}} --data-dir {{directory}}")
    assert told.exit_code == 0, told.output
    assert any(re.fullmatch(r"all +4 +· +·", line) for line in lines(told)), told.output


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), "Say either --bootstrap HOST:PORT or --start COMMAND."),
        (("--bootstrap", "127.0.0.1:1", "--only", "sync_twice"), "127.0.0.1:1 does not accept connections"),
        (("--bootstrap", "nowhere"), "must be HOST:PORT"),
        (("--only", "tale_of_two", "--list"), "No story is called tale_of_two: --list names all."),
        (("--bootstrap", "127.0.0.1:1", "--assume", "x"), "--assume x: write NAME=VALUE."),
        (("--start", "true"), "--start does not say {port}"),
        (("--start", "false {port} {properties}"), "the broker ended with status 1"),
        (("--start", "/no/such/broker {port} {properties}"), "/no/such/broker cannot be run"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_sentence(arguments: tuple[str, ...], sentence: str) -> None:
    told = conform(*arguments)
    assert told.exit_code == 2
    assert sentence in told.output
    assert "Traceback" not in told.output


class _Web(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        self.request.recv(1000)
        self.request.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")


def test_something_else_that_listens_is_no_broker() -> None:
    with socketserver.TCPServer(("127.0.0.1", 0), _Web) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        told = conform("--bootstrap", f"127.0.0.1:{server.server_address[1]}", "--timeout", "5", *FAST)
    assert told.exit_code == 2
    assert "does not answer as a Kafka broker" in told.output


def test_the_list_says_what_each_story_is_about() -> None:
    told = conform("--list", "--group-protocol", "consumer")
    assert told.exit_code == 0
    assert any(line.startswith("consumer_join ") and len(line) > 60 for line in lines(told))
    assert not any(line.startswith("sync_") for line in lines(told))
