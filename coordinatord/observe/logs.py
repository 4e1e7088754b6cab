"""Log lines: one event name and its fields, for people on a terminal and as JSON everywhere else, on standard error.

Everybody logs through structlog; what libraries log through the standard library comes out in the same form. A line
of a level that is off costs 0.8 µs through a module's logger and 0.15 µs through one that was bound (`log.bind()`)
after `configure`; on a hot path hold a bound one. Lines that are told by the thousand have a `Teller`: the same line in
half the time.

Where an event loop runs (`gather`), lines of its thread leave together at the end of its turn: one write for all that
a turn has to tell, not one each. A warning, and whatever is worse, leaves at once with all that was said before it, so
what a failing daemon says is there when it has gone.

Writing a log line never fails into the code that wrote it: when nobody reads standard error any more, lines are
dropped.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
from collections.abc import Callable
from time import gmtime, strftime, time_ns
from typing import Any, TextIO

import orjson


def _import_structlog() -> Any:
    """structlog imports rich as soon as rich is installed, for tracebacks that we do not print: 5 MiB and 30 ms of
    every start.
    """
    hidden = [name for name in ("rich", "better_exceptions") if name not in sys.modules]
    for name in hidden:
        sys.modules[name] = None  # type: ignore[assignment]
    try:
        import structlog
    finally:
        for name in hidden:
            del sys.modules[name]
    return structlog


structlog = _import_structlog()

_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}

MAX_TEXT = 1_000
"""Characters of one text in a log line. Peers choose client, group and topic names, and a name may have 32,767
bytes.
"""


CallSoon = Callable[[Callable[[], object]], object]

PIPE_BYTES = 4_096
"""Linux' PIPE_BUF: so much goes into a pipe in one piece. Workers share theirs, and must not cut each other's lines."""

MAX_GATHERED = 1_000
"""Lines of one turn that are kept for its end: some hundred kilobytes."""


class _Output:
    """Where finished lines go. Those of one thread may be gathered, all others are written one by one."""

    __slots__ = ("_call_soon", "_gathered", "_stream", "_thread")

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._thread = 0  # nobody's
        self._call_soon: CallSoon | None = None
        self._gathered: list[str] = []

    def gather(self, call_soon: CallSoon | None) -> None:
        """From now on gather this thread's lines until `call_soon` calls back; None: no more."""
        self._flush()
        self._thread = 0 if call_soon is None else threading.get_ident()
        self._call_soon = call_soon

    def write(self, line: str) -> None:
        """Now, behind what this thread has said before."""
        if threading.get_ident() == self._thread:
            self._gathered.append(line)
            self._flush()
        else:
            self._write(line)

    def write_soon(self, line: str) -> None:
        """With whatever else is said in this turn."""
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
            # The reader is gone, or the stream was closed under us at exit.
            return


class _Lines:
    """What structlog calls a logger: it has a name and takes finished lines."""

    __slots__ = ("critical", "debug", "error", "info", "name", "warning")

    def __init__(self, output: _Output, name: str = "") -> None:
        self.name = name
        self.debug = self.info = output.write_soon
        self.warning = self.error = self.critical = output.write


class _Routed(logging.Handler):
    """Hands the records of the standard library's loggers to structlog."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            event = record.getMessage()
            fields: dict[str, Any] = {"exc_info": record.exc_info} if record.exc_info else {}
            # Libraries may have levels of their own, structlog has the five standard ones.
            level = min(record.levelno // 10 * 10, logging.CRITICAL)
            get_logger(record.name).log(level, event, **fields)
        except Exception:
            self.handleError(record)


def _wrapper(level: int) -> type[Any]:
    """structlog's logger that filters by level, whose `info` does not copy the fields twice on their way."""
    filtering: type[Any] = structlog.make_filtering_bound_logger(level)
    if level > logging.INFO:
        return filtering

    class Wrapper(filtering):  # type: ignore[misc]
        def info(self, event: str, *args: Any, **fields: Any) -> None:
            if args or self._context:
                super().info(event, *args, **fields)
                return
            fields["event"] = event
            logger, line = self._logger, fields
            try:
                for process in self._processors:
                    line = process(logger, "info", line)
            except structlog.DropEvent:
                return
            logger.info(line)

    return Wrapper


_output = _Output(sys.stderr)


class Teller:
    """Tells of one kind of event: the line is that of `get_logger(name).info(event, **fields)`.

    JSON of fields and what all lines of the event end with are put together here. What is not as usual (another form,
    a text to be cut, a value that is no JSON, a test that listens) goes the way of all lines. To be made when logging
    is set up.
    """

    __slots__ = ("_ending", "_event", "_info", "_is_on", "_processors", "_say")

    def __init__(self, name: str, event: str) -> None:
        logger = get_logger(name).bind()
        self._event = event
        self._info: Callable[..., object] = logger.info
        self._processors: list[Any] = structlog.get_config()["processors"]
        self._is_on = isinstance(logger._logger, _Lines) and logger.is_enabled_for(logging.INFO)
        self._say: Callable[[str], object] = logger._logger.info if self._is_on else logger.info
        origin = _origin({"event": event}, name, "info")
        self._ending = f',{orjson.dumps(origin).decode()[1:-1]},"timestamp":"'

    def __call__(self, fields: dict[str, Any]) -> None:
        """`fields` are at least one. They are ours from now on."""
        if self._is_on and self._processors[0] is _to_json:
            began_us, time = _millisecond
            now_us = time_ns() // 1_000
            if not 0 <= now_us - began_us < 1_000:
                began_us, time = _begin_millisecond(now_us)
            try:
                told = orjson.dumps(fields)
            except TypeError:
                told = b""
            if 2 < len(told) <= MAX_TEXT and told.isascii():
                self._say(f'{told[:-1].decode()}{self._ending}{time}{_MICROSECONDS[now_us - began_us]}"}}')
                return
        self._info(self._event, **fields)


def configure(form: str = "auto", level: str = "info", stream: TextIO | None = None) -> None:
    """Set up all logging of the process, as the settings logging.format and logging.level say."""
    global _output, _worker
    _worker = None
    stream = sys.stderr if stream is None else stream
    _output.gather(None)
    _output = output = _Output(stream)
    console = form == "console" or (form == "auto" and stream.isatty())
    structlog.configure(
        processors=_rendering(console, colors=stream.isatty()),
        wrapper_class=_wrapper(_LEVELS[level]),
        logger_factory=lambda *names: _Lines(output, *names),
        cache_logger_on_first_use=True,
    )
    root = logging.getLogger()
    for handler in [handler for handler in root.handlers if isinstance(handler, _Routed)]:
        root.removeHandler(handler)
    root.addHandler(_Routed())
    root.setLevel(_LEVELS[level])


def gather(call_soon: CallSoon | None) -> None:
    """An event loop runs in this thread: `call_soon` is its. None: it has ended."""
    _output.gather(call_soon)


def tell_worker(worker: int) -> None:
    """Put the worker's number into every line from now on."""
    global _worker
    _worker = worker


def get_logger(name: str = "") -> Any:
    """`log.info("listening", host=…, port=…)`. A module may fetch its logger when it is imported: it is set up as
    `configure` said before its first line, and stays so.
    """
    return structlog.get_logger(name) if name else structlog.get_logger()


def _rendering(console: bool, colors: bool) -> list[Any]:
    if console:
        renderer = structlog.dev.ConsoleRenderer(
            colors=colors, pad_event_to=28, sort_keys=False, exception_formatter=structlog.dev.plain_traceback
        )
        return [_add_origin, _cut, _visible, renderer]
    return [_to_json]


def _add_origin(logger: Any, method: str, event: dict[str, Any]) -> dict[str, Any]:
    """Who says it, how bad it is, and when: UTC, to the microsecond."""
    _origin(event, logger.name, method)
    began_us, time = _millisecond
    now_us = time_ns() // 1_000
    if not 0 <= now_us - began_us < 1_000:
        began_us, time = _begin_millisecond(now_us)
    event["timestamp"] = f"{time}{_MICROSECONDS[now_us - began_us]}"
    return event


def _origin(event: dict[str, Any], name: str, method: str) -> dict[str, Any]:
    if _worker is not None:
        event.setdefault("worker", _worker)
    if name:
        event["logger"] = name
    event["level"] = method
    return event


def _begin_millisecond(now_us: int) -> tuple[int, str]:
    """When the millisecond began, and how times of it begin. Lines come in bursts: a step has two or three."""
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
    """One object a line, in ASCII: no terminal acts on what JSON leaves as it is."""
    _add_origin(logger, method, event)
    if "exc_info" in event:
        event = structlog.processors.format_exc_info(logger, method, event)
    try:
        line = orjson.dumps(event, default=repr)
    except TypeError:  # integers beyond 64 bits, halves of characters
        line = b""
    if line and len(line) <= MAX_TEXT and line.isascii():
        return line.decode()
    return json.dumps(_cut(logger, method, event), separators=(",", ":"), default=repr)


def _cut(_logger: object, _method: str, event: dict[str, Any]) -> dict[str, Any]:
    for field, value in event.items():
        if isinstance(value, str) and len(value) > MAX_TEXT and field != "exception":
            event[field] = f"{value[:MAX_TEXT]}… ({len(value)} characters)"
    return event


def _visible(_logger: object, _method: str, event: dict[str, Any]) -> dict[str, Any]:
    """Show what a terminal would act on: a peer's client id must not draw lines of its own. JSON escapes by itself."""
    for field, value in event.items():
        if isinstance(value, str) and not value.isprintable():
            event[field] = "".join(map(_picture, value))
    return event


def _picture(character: str) -> str:
    """The character, or Unicode's picture of a control character (␊ of a line feed), or that of something else."""
    if character.isprintable():
        return character
    return chr(0x2400 + ord(character)) if character < " " else "\N{REPLACEMENT CHARACTER}"
