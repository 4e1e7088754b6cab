"""Loggers where coordinatord is a library: silent until somebody asks, and then the standard library's."""

from __future__ import annotations

import logging
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import coordinatord
from coordinatord.base.observe import logger
from coordinatord.base.observe.logger import get_logger

PROGRAM = """
import asyncio, dataclasses, logging, sys, tempfile
from coordinatord.base.config import Settings
from coordinatord.base.config.address import parse_listeners
from coordinatord.server.daemon.daemon import Daemon

async def serve(directory):
    settings = dataclasses.replace(Settings(), log_dirs=directory, listeners=parse_listeners("127.0.0.1:0"))
    daemon = Daemon(settings, asyncio.get_running_loop())
    await daemon.start()
    _name, host, port = daemon.bound[0]
    for said in (b"GET / HTTP/1.1", b"\\x7f\\0\\0\\0"):
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(said)
        assert await reader.read() == b""
        writer.close()
    daemon.request_stop("done")
    assert await daemon.stop() == 0

if sys.argv[1:]:
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s", stream=sys.stdout)
with tempfile.TemporaryDirectory() as directory:
    asyncio.run(serve(directory))
assert "structlog" not in sys.modules
"""


@pytest.fixture(autouse=True)
def _as_a_library() -> Iterator[None]:
    before = logger.making()
    yield
    logger.making(before)


def run(*arguments: str) -> str:
    command = [sys.executable, "-c", PROGRAM, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def test_a_daemon_in_somebodys_process_prints_nothing() -> None:
    assert run() == ""


def test_who_asks_hears_it_by_the_standard_librarys_means() -> None:
    lines = run("asked").splitlines()
    closed = [
        line
        for line in lines
        if line.startswith("WARNING coordinatord.transport.net: connection closed peer='127.0.0.1:")
    ]
    assert len(closed) == 2
    assert "an HTTP request" in closed[0]
    assert any(line == "INFO coordinatord.server.daemon: stopping reason='done'" for line in lines)


def test_a_line_has_its_fields_and_where_it_comes_from(caplog: pytest.LogCaptureFixture) -> None:
    log = get_logger("coordinatord.test")
    with caplog.at_level(logging.INFO, "coordinatord"):
        log.debug("not this")
        log.bind(group="g").info("told", members=2)
        try:
            raise ValueError("why")
        except ValueError:
            log.exception("failed")
    told, failed = caplog.records
    assert (told.name, told.levelname, told.getMessage()) == ("coordinatord.test", "INFO", "told group='g' members=2")
    assert vars(told)["fields"] == {"group": "g", "members": 2}
    assert told.filename == "test_logger.py"
    assert failed.levelname == "ERROR"
    assert failed.exc_info is not None
    assert str(failed.exc_info[1]) == "why"


def test_what_is_off_is_not_made_into_text(caplog: pytest.LogCaptureFixture) -> None:
    class Costly:
        def __repr__(self) -> str:
            raise AssertionError("made into text")

    with caplog.at_level(logging.WARNING, "coordinatord"):
        get_logger("coordinatord.test").info("told", what=Costly())
    assert caplog.records == []


def test_a_percent_sign_in_a_field_is_one(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "coordinatord"):
        get_logger().warning("100%s", client_id="%d\n%s")
    assert caplog.records[0].name == "coordinatord"
    assert caplog.messages == ["100%s client_id='%d\\n%s'"]


def test_lines_can_be_kept_and_be_switched_off(caplog: pytest.LogCaptureFixture) -> None:
    log = get_logger("coordinatord.test")
    with logger.captured() as lines:
        log.warning("told", a=1)
        log.bind(b=2).error("worse")
        log.log(logging.INFO, "level")
        with logger.silent():
            log.exception("not this")
    log.warning("after")
    assert lines == [
        {"event": "told", "a": 1, "log_level": "warning"},
        {"event": "worse", "b": 2, "log_level": "error"},
        {"event": "level", "log_level": "info"},
    ]
    assert caplog.messages == ["after"]


def test_all_modules_log_through_these() -> None:
    """structlog's own loggers would print, where coordinatord is a library."""
    package = Path(coordinatord.__file__).parent
    users = [
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        if re.search(r"^\s*(import|from) structlog", path.read_text(), re.MULTILINE)
    ]
    assert users == ["base/observe/logs.py"]
