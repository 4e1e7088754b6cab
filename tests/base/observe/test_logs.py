"""Log lines, for machines and for people."""

from __future__ import annotations

import io
import json
import logging
import re
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from coordinatord.base.observe import logger, logs
from coordinatord.base.observe.announce import for_people, listening


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logger.making()


@pytest.fixture
def json_lines() -> Callable[[], list[dict[str, Any]]]:
    stream = io.StringIO()
    logs.configure("auto", "info", stream)
    return lambda: [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_line_is_json_where_nobody_looks_on(json_lines: Callable[[], list[dict[str, Any]]]) -> None:
    logs.get_logger("coordinatord.transport.net").warning("connection closed", peer="10.0.0.1:4711", bytes=7)
    [line] = json_lines()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", line.pop("timestamp"))
    assert line == {
        "event": "connection closed",
        "level": "warning",
        "logger": "coordinatord.transport.net",
        "peer": "10.0.0.1:4711",
        "bytes": 7,
    }


def test_levels_below_the_one_asked_for_are_not_written(json_lines: Callable[[], list[dict[str, Any]]]) -> None:
    logs.get_logger().debug("no")
    logs.get_logger().info("yes")
    logging.getLogger("library").debug("no")
    assert [line["event"] for line in json_lines()] == ["yes"]


def test_the_standard_librarys_loggers_come_out_in_the_same_form(
    json_lines: Callable[[], list[dict[str, Any]]],
) -> None:
    logging.getLogger("asyncio").warning("executing took %.1f seconds", 0.3)
    logging.getLogger("odd").log(25, "between two levels")
    try:
        raise ValueError("cause")
    except ValueError:
        logging.getLogger("library").exception("failed")
    first, second, third = json_lines()
    assert (first["event"], first["level"], first["logger"]) == ("executing took 0.3 seconds", "warning", "asyncio")
    assert (second["event"], second["level"]) == ("between two levels", "info")
    assert third["level"] == "error"
    assert "ValueError: cause" in third["exception"]


def test_configuring_again_does_not_write_lines_twice() -> None:
    first, second = io.StringIO(), io.StringIO()
    logs.configure("json", "info", first)
    logs.configure("json", "info", second)
    logging.getLogger("library").warning("once")
    assert first.getvalue() == ""
    assert len(second.getvalue().splitlines()) == 1


def test_a_peers_text_cannot_draw_on_the_operators_terminal() -> None:
    stream = io.StringIO()
    logs.configure("console", "info", stream)
    logs.get_logger().info("joined", client_id="evil\n2026-01-01 [error] all is lost\x1b[31m")
    [line] = stream.getvalue().splitlines()
    assert line.isprintable()
    assert r"evil\\n2026-01-01 [error] all is lost\\x1b[31m" in line  # structlog quotes what has spaces


def test_an_exceptions_text_cannot_draw_on_the_operators_terminal() -> None:
    stream = io.StringIO()
    logs.configure("console", "info", stream)
    try:
        raise ValueError("evil\n2026-01-01 [error] all is lost\x1b[31m\x9b0m\u202e")
    except ValueError:
        logs.get_logger().exception("failed")
    first, *others = stream.getvalue().splitlines()
    assert "failed" in first
    assert all(line.isprintable() and line.startswith("  ") for line in others)
    assert r"  2026-01-01 [error] all is lost\x1b[31m\x9b0m\u202e" in others


def test_a_long_text_is_cut(json_lines: Callable[[], list[dict[str, Any]]]) -> None:
    logs.get_logger().info("joined", group="g" * 32_767)
    [line] = json_lines()
    assert line["group"] == "g" * 1000 + "… (32767 characters)"


def test_what_json_is_not_made_for_is_told_nevertheless(json_lines: Callable[[], list[dict[str, Any]]]) -> None:
    """Integers beyond 64 bits, half characters, objects; and nothing but ASCII leaves."""
    logs.get_logger().info("odd", number=1 << 70, text="\udc80", thing=b"bytes", name="Ölkännchen\x9b")
    [line] = json_lines()
    assert (line["number"], line["text"], line["thing"]) == (1 << 70, "\udc80", "b'bytes'")
    assert line["name"] == "Ölkännchen\x9b"


def test_lines_are_in_ascii() -> None:
    stream = io.StringIO()
    logs.configure("json", "info", stream)
    logs.get_logger().info("joined", client_id="\x9b2J")
    assert stream.getvalue().isascii()


def test_lines_of_a_turn_leave_together() -> None:
    stream, turn_ends = io.StringIO(), []
    logs.configure("json", "info", stream)
    log = logs.get_logger()
    logs.gather(turn_ends.append)
    try:
        log.info("one")
        log.info("two")
        assert stream.getvalue() == ""
        [write] = turn_ends
        write()
        assert [json.loads(line)["event"] for line in stream.getvalue().splitlines()] == ["one", "two"]
        log.info("three")
        assert len(turn_ends) == 2, "a new turn"
    finally:
        logs.gather(None)
    assert len(stream.getvalue().splitlines()) == 3, "whoever ends the loop loses nothing"
    log.info("four")
    assert len(stream.getvalue().splitlines()) == 4


def test_lines_of_a_turn_are_not_torn_by_those_of_other_processes_in_the_same_pipe() -> None:
    writes: list[str] = []

    class Pipe(io.StringIO):
        def write(self, text: str) -> int:
            writes.append(text)
            return len(text)

    logs.configure("json", "info", Pipe())
    turn: list[Any] = []
    logs.gather(turn.append)
    try:
        log = logs.get_logger("test")
        for number in range(100):
            log.info("x" * (10_000 if number == 50 else number), number=number)
        turn[0]()
    finally:
        logs.gather(None)
    assert 2 < len(writes) < 10
    assert all(len(text) <= logs.PIPE_BYTES or text.count("\n") == 1 for text in writes)
    assert all(text.endswith("\n") for text in writes)
    assert [json.loads(line)["number"] for line in "".join(writes).splitlines()] == list(range(100))


def test_what_is_bad_leaves_at_once_with_what_led_to_it() -> None:
    stream = io.StringIO()
    logs.configure("json", "info", stream)
    log = logs.get_logger()
    logs.gather(lambda _write: None)
    try:
        log.info("before")
        log.error("the log failed")
        log.info("after")
        assert [json.loads(line)["event"] for line in stream.getvalue().splitlines()] == ["before", "the log failed"]
        other = threading.Thread(target=log.info, args=("of another thread",))
        other.start()
        other.join()
        assert json.loads(stream.getvalue().splitlines()[-1])["event"] == "of another thread", "its turn never ends"
        for number in range(2 * logs.MAX_GATHERED):
            log.info("many", number=number)
        assert len(stream.getvalue().splitlines()) > logs.MAX_GATHERED, "no more are kept"
    finally:
        logs.gather(None)


def test_fields_come_with_bound_ones(json_lines: Callable[[], list[dict[str, Any]]]) -> None:
    logs.get_logger("x").bind(group="g").info("joined", generation=7)
    [line] = json_lines()
    assert (line["event"], line["group"], line["generation"], line["level"]) == ("joined", "g", 7, "info")


ODD_FIELDS: list[dict[str, Any]] = [
    {"group": "g", "generation": 7, "reason": None, "seconds": 0.25},
    {"group": "Ölkännchen\x9b"},
    {"group": 'a "quoted" \\ line\n'},
    {"group": "g" * 990},
    {"group": "g" * 32_767, "n": 1},
    {"number": 1 << 70},
    {"text": "\udc80", "thing": b"bytes"},
]


@pytest.mark.parametrize("worker", [None, 2])
def test_a_line_has_its_fields_in_order_and_the_time_to_the_microsecond(
    worker: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    moments_us = [1_700_000_000_000_000, 1_700_000_000_000_999, 1_700_000_000_999_999, 1_700_000_001_000_000]
    moment = 0
    monkeypatch.setattr(logs, "time_ns", lambda: moment * 1_000 + 999)
    stream = io.StringIO()
    logs.configure("json", "info", stream)
    if worker is not None:
        logs.set_worker(worker)
    for moment in moments_us:  # noqa: B007
        for fields in ODD_FIELDS:
            logs.get_logger("coordinatord.test").info("told", **fields)
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [line["timestamp"][17:] for line in lines[:: len(ODD_FIELDS)]] == [
        "20.000000Z", "20.000999Z", "20.999999Z", "21.000000Z",
    ]  # fmt: skip
    origin = {} if worker is None else {"worker": worker}
    about = {"logger": "coordinatord.test", "level": "info", "timestamp": "2023-11-14T22:13:20.000000Z"}
    assert list(lines[0].items()) == list((ODD_FIELDS[0] | {"event": "told"} | origin | about).items())


def test_lines_are_of_this_worker_until_logging_is_configured_again(
    json_lines: Callable[[], list[dict[str, Any]]],
) -> None:
    logs.set_worker(1)
    logs.get_logger("x").info("told")
    assert json_lines()[0]["worker"] == 1
    stream = io.StringIO()
    logs.configure("json", "info", stream)  # of another process, from here on
    logs.get_logger("x").info("told")
    assert "worker" not in json.loads(stream.getvalue())


def test_colours_are_for_terminals() -> None:
    terminal, file = Terminal(), io.StringIO()
    logs.configure("auto", "info", terminal)
    logs.get_logger().info("listening")
    logs.configure("console", "info", file)
    logs.get_logger().info("listening")
    assert "\x1b[" in terminal.getvalue()
    assert "\x1b[" not in file.getvalue()
    assert "listening" in file.getvalue()


def test_a_line_that_cannot_be_written_is_dropped() -> None:
    class Broken(io.StringIO):
        def write(self, _text: str) -> int:
            raise BrokenPipeError

    logs.configure("json", "info", Broken())
    logs.get_logger().info("nobody reads this")
    closed = io.StringIO()
    logs.configure("json", "info", closed)
    closed.close()
    logs.get_logger().info("nor this")


def test_where_it_listens_is_said_once_ready(
    json_lines: Callable[[], list[dict[str, Any]]], tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    bound = [("0.0.0.0:9092", "kafka:9092"), ("127.0.0.1:9093", "127.0.0.1:9093")]
    listening(bound, data_dir=tmp_path, admin_url="http://127.0.0.1:9180/", people=False)
    [line] = json_lines()
    assert line["event"] == "listening"
    assert line["listeners"] == ["0.0.0.0:9092", "127.0.0.1:9093"]
    assert line["advertised"] == ["kafka:9092", "127.0.0.1:9093"]
    assert line["admin"] == "http://127.0.0.1:9180/"
    assert line["build"] in ("compiled", "interpreted")

    listening(bound, data_dir=tmp_path, admin_url=None, people=True)
    assert capsys.readouterr().err.splitlines() == [
        "Ready: Kafka clients connect to 0.0.0.0:9092 (advertised as kafka:9092) and 127.0.0.1:9093.",
        f"Data is kept in {tmp_path}.",
        "Stop it with Ctrl+C.",
    ]


def test_sentences_are_for_people(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", Terminal())
    assert for_people("auto")
    assert not for_people("json")
    monkeypatch.setattr("sys.stderr", io.StringIO())
    assert not for_people("console")
