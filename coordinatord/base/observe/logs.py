"""Log lines on standard error: an event name and its fields, readable text on a terminal and JSON everywhere else.

The command line configures these lines with `configure`; if coordinatord is a library, lines go through the standard
library (logger.py). structlog makes all lines, with orjson for JSON. Lines that libraries log through the standard
library get the same format.

With an event loop (`gather`), lines of its thread are written together at the end of each iteration: one write for all
lines, not one each. A line of level warning or above is written at once, after all lines before it, so that the last
lines of a failing daemon are not lost.

Writing a log line never raises into the code that logs: when standard error has no reader any more, lines are dropped.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
import traceback
from collections.abc import Callable
from time import gmtime, strftime, time_ns
from typing import Any, TextIO

import orjson

from coordinatord.base.observe import logger as loggers
from coordinatord.base.observe.logger import get_logger
from coordinatord.base.observe.printable import printable


def _import_structlog() -> Any:
    """Import structlog without rich and greenlet. It imports them wherever they are installed, for tracebacks that
    coordinatord does not print, and for coroutines that it does not have: 6 MiB and 30 ms of every start.
    """
    hidden = [name for name in ("rich", "better_exceptions", "greenlet") if name not in sys.modules]
    for name in hidden:
        sys.modules[name] = None  # type: ignore[assignment]
    try:
        import structlog
    finally:
        for name in hidden:
            del sys.modules[name]
    return structlog


_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}

MAX_TEXT = 1_000
"""Maximum characters of one string in a log line. Peers choose client, group and topic names, and a name may have
32,767 bytes.
"""


CallSoon = Callable[[Callable[[], object]], object]

PIPE_BYTES = 4_096
"""Linux' PIPE_BUF: writes up to this size are atomic. Workers share a pipe and must not cut each other's lines."""

MAX_GATHERED = 1_000
"""Maximum number of lines of one loop iteration that are held until its end: some hundred kilobytes."""


class _Output:
    """The destination of formatted lines. The lines of one thread may be gathered, all others are written one
    by one.
    """

    __slots__ = ("_call_soon", "_gathered", "_stream", "_thread")

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._thread = 0  # no thread has this id
        self._call_soon: CallSoon | None = None
        self._gathered: list[str] = []

    def gather(self, call_soon: CallSoon | None) -> None:
        """Gather this thread's lines until the callback of `call_soon` runs; None stops gathering."""
        self._flush()
        self._thread = 0 if call_soon is None else threading.get_ident()
        self._call_soon = call_soon

    def write(self, line: str) -> None:
        """Write at once, after this thread's gathered lines."""
        if threading.get_ident() == self._thread:
            self._gathered.append(line)
            self._flush()
        else:
            self._write(line)

    def write_soon(self, line: str) -> None:
        """Write together with the other lines of this loop iteration."""
        if threading.get_ident() != self._thread:
            self._write(line)
            return
        gathered = self._gathered
        gathered.append(line)
        if len(gathered) == 1:
            assert self._call_soon is not None
            self._call_soon(self._flush)
        elif len(gathered) == MAX_GATHERED:
            self._flush()

    def _flush(self) -> None:
        if self._gathered:
            lines, self._gathered = self._gathered, []
            start = size = 0
            for number, line in enumerate(lines):
                size += len(line) + 1
                if size > PIPE_BYTES and number > start:
                    self._write("\n".join(lines[start:number]))
                    start, size = number, len(line) + 1
            self._write("\n".join(lines[start:]))

    def _write(self, lines: str) -> None:
        try:
            self._stream.write(lines + "\n")
            self._stream.flush()
        except (OSError, ValueError):
            # The reader has closed the pipe, or the stream was closed at exit.
            return


class _Lines:
    """A logger in structlog's sense: it has a name and takes formatted lines."""

    __slots__ = ("critical", "debug", "error", "info", "name", "warning")

    def __init__(self, output: _Output, name: str = "") -> None:
        self.name = name
        self.debug = self.info = output.write_soon
        self.warning = self.error = self.critical = output.write


class _Routed(logging.Handler):
    """Passes the records of the standard library's loggers on to our loggers."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            event = record.getMessage()
            fields: dict[str, Any] = {"exc_info": record.exc_info} if record.exc_info else {}
            # Libraries may define their own levels; ours has the five standard ones.
            level = min(record.levelno // 10 * 10, logging.CRITICAL)
            get_logger(record.name).log(level, event, **fields)
        except Exception:
            self.handleError(record)


_output = _Output(sys.stderr)


def configure(form: str = "auto", level: str = "info", stream: TextIO | None = None) -> None:
    """Configure all logging of the process by the settings logging.format and logging.level."""
    global _output, _worker
    _worker = None
    stream = sys.stderr if stream is None else stream
    _output.gather(None)
    _output = output = _Output(stream)
    console = form == "console" or (form == "auto" and stream.isatty())
    processors = _console(colors=stream.isatty()) if console else [_to_json]
    wrapper: type[Any] = _import_structlog().make_filtering_bound_logger(_LEVELS[level])
    if not console:
        wrapper = _without_chain(wrapper, _LEVELS[level])
    loggers.making(lambda name: wrapper(_Lines(output, name), processors, {}))
    root = logging.getLogger()
    for handler in [handler for handler in root.handlers if isinstance(handler, _Routed)]:
        root.removeHandler(handler)
    root.addHandler(_Routed())
    root.setLevel(_LEVELS[level])


def gather(call_soon: CallSoon | None) -> None:
    """Gather lines of this thread, which runs an event loop with this `call_soon`; None when the loop has ended."""
    _output.gather(call_soon)


def set_worker(worker: int) -> None:
    """Add the worker's number to all later lines."""
    global _worker
    _worker = worker


def _without_chain(wrapper: type[Any], level: int) -> type[Any]:
    """Return structlog's class with methods that have `_to_json` as their only processor. A new group logs four lines,
    and structlog's loop over processors and its checks of their results are a quarter of the cost of each.
    """

    def method(name: str) -> Callable[..., None]:
        def log(self: Any, event: str, **fields: Any) -> None:
            fields = {**self._context, **fields, "event": event}
            getattr(self._logger, name)(_to_json(self._logger, name, fields))

        return log

    return type("Json", (wrapper,), {name: method(name) for name, number in _LEVELS.items() if number >= level})


def _console(colors: bool) -> list[Any]:
    """Return structlog's processors for readable text."""
    renderer = _import_structlog().dev.ConsoleRenderer(
        colors=colors, pad_event_to=28, sort_keys=False, exception_formatter=_traceback
    )
    return [_add_origin, _cut, _visible, renderer]


def _add_origin(logger: Any, method: str, event: dict[str, Any]) -> dict[str, Any]:
    """Add logger name, level, and time: UTC, to the microsecond."""
    if _worker is not None:
        event.setdefault("worker", _worker)
    if logger.name:
        event["logger"] = logger.name
    event["level"] = method
    began_us, time = _millisecond
    now_us = time_ns() // 1_000
    if not 0 <= now_us - began_us < 1_000:
        began_us, time = _begin_millisecond(now_us)
    event["timestamp"] = f"{time}{_MICROSECONDS[now_us - began_us]}"
    return event


def _begin_millisecond(now_us: int) -> tuple[int, str]:
    """Return the start of the current millisecond and the text prefix of its times. Cached: a step logs two or three
    lines.
    """
    global _millisecond, _second
    began_us, second = _second
    if not 0 <= now_us - began_us < 1_000_000:
        seconds = now_us // 1_000_000
        began_us, second = _second = seconds * 1_000_000, strftime("%Y-%m-%dT%H:%M:%S", gmtime(seconds))
    milliseconds = (now_us - began_us) // 1_000
    made = _millisecond = began_us + milliseconds * 1_000, f"{second}.{milliseconds:03}"
    return made


_second: tuple[int, str] = (0, "")
_millisecond: tuple[int, str] = (0, "")
_MICROSECONDS = [f"{microseconds:03}Z" for microseconds in range(1_000)]
_worker: int | None = None


def _to_json(logger: Any, method: str, event: dict[str, Any]) -> str:
    """Return one JSON object per line, in ASCII: it contains nothing that a terminal would interpret."""
    _add_origin(logger, method, event)
    if "exc_info" in event:
        _format_exception(event)
    try:
        line = orjson.dumps(event, default=repr)
    except TypeError:  # integers beyond 64 bits, lone surrogates
        line = b""
    if line and len(line) <= MAX_TEXT and line.isascii():
        return line.decode()
    return json.dumps(_cut(logger, method, event), separators=(",", ":"), default=repr)


def _format_exception(event: dict[str, Any]) -> None:
    """Replace `exc_info` by its text: an exception, a triple, or true for the exception that is being handled."""
    info = event.pop("exc_info")
    if isinstance(info, tuple):
        info = info[1]
    error = info if isinstance(info, BaseException) else sys.exc_info()[1] if info else None
    if error is not None:
        event["exception"] = "".join(traceback.format_exception(error)).rstrip("\n")


def _cut(_logger: object, _method: str, event: dict[str, Any]) -> dict[str, Any]:
    for field, value in event.items():
        if isinstance(value, str) and len(value) > MAX_TEXT and field != "exception":
            event[field] = f"{value[:MAX_TEXT]}… ({len(value)} characters)"
    return event


def _visible(_logger: object, _method: str, event: dict[str, Any]) -> dict[str, Any]:
    """Make control characters visible: a peer's client id must not forge log lines. JSON escapes them itself."""
    for field, value in event.items():
        if isinstance(value, str):
            event[field] = printable(value)
    return event


def _traceback(stream: TextIO, info: Any) -> None:
    """Write an exception below its line, indented, so that no line break in its message can begin a log line."""
    for line in "".join(traceback.format_exception(info[1])).splitlines():
        stream.write(f"\n  {printable(line)}")
