"""Log lines: one event name and its fields, for people on a terminal and as JSON everywhere else, on standard error.

Everybody logs through structlog; what libraries log through the standard library comes out in the same form. A line
of a level that is off costs 0.8 µs through a module's logger and 0.15 µs through one that was bound (`log.bind()`)
after `configure`; on a hot path hold a bound one.

Writing a log line never fails into the code that wrote it: when nobody reads standard error any more, lines are
dropped.
"""

from __future__ import annotations

import logging
import sys
from typing import Any, TextIO


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


class _Lines:
    """What structlog calls a logger: it has a name and writes finished lines."""

    __slots__ = ("_stream", "name")

    def __init__(self, stream: TextIO, name: str = "") -> None:
        self._stream = stream
        self.name = name

    def msg(self, line: str) -> None:
        try:
            self._stream.write(line + "\n")
            self._stream.flush()
        except (OSError, ValueError):
            # The reader is gone, or the stream was closed under us at exit.
            return

    debug = info = warning = error = critical = exception = log = msg


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


def configure(form: str = "auto", level: str = "info", stream: TextIO | None = None) -> None:
    """Set up all logging of the process, as the settings logging.format and logging.level say."""
    stream = sys.stderr if stream is None else stream
    console = form == "console" or (form == "auto" and stream.isatty())
    structlog.configure(
        processors=[
            _add_name,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            _cut,
            *_rendering(console, colors=stream.isatty()),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[level]),
        logger_factory=lambda *names: _Lines(stream, *names),
        cache_logger_on_first_use=True,
    )
    root = logging.getLogger()
    for handler in [handler for handler in root.handlers if isinstance(handler, _Routed)]:
        root.removeHandler(handler)
    root.addHandler(_Routed())
    root.setLevel(_LEVELS[level])


def tell_worker(worker: int) -> None:
    """Put the worker's number into every line from now on; loggers that have been used already share the list."""

    def add_worker(_logger: object, _method: str, event: dict[str, Any]) -> dict[str, Any]:
        event.setdefault("worker", worker)
        return event

    structlog.get_config()["processors"].insert(0, add_worker)


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
        return [_visible, renderer]
    return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]


def _add_name(logger: Any, _method: str, event: dict[str, Any]) -> dict[str, Any]:
    if logger.name:
        event["logger"] = logger.name
    return event


def _cut(_logger: object, _method: str, event: dict[str, Any]) -> dict[str, Any]:
    for field, value in event.items():
        if isinstance(value, str) and len(value) > MAX_TEXT:
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
