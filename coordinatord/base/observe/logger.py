"""Loggers of our modules: `log.info("listening", host=…, port=…)`, an event and its fields.

If coordinatord is used as a library, a line goes to the standard library's logger of the same name, below
`coordinatord`, and has no output until the application configures logging, for example with
`logging.basicConfig(level=logging.INFO)`. The daemon's command line has its own log lines (`logs.configure`). A logger
looks up its destination at each line, so a module may get its logger when it is imported.
"""

from __future__ import annotations

import contextlib
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import Any

ROOT = "coordinatord"

logging.getLogger(ROOT).addHandler(logging.NullHandler())  # without it, warnings would be printed


class _Methods(ABC):
    """The methods by level of a logger that has `log`."""

    __slots__ = ()

    @abstractmethod
    def log(self, level: int, event: str, **fields: Any) -> None:
        """Log a line."""

    def debug(self, event: str, **fields: Any) -> None:
        self.log(logging.DEBUG, event, **fields)

    def info(self, event: str, **fields: Any) -> None:
        self.log(logging.INFO, event, **fields)

    def warning(self, event: str, **fields: Any) -> None:
        self.log(logging.WARNING, event, **fields)

    def error(self, event: str, **fields: Any) -> None:
        self.log(logging.ERROR, event, **fields)

    def exception(self, event: str, **fields: Any) -> None:
        """Log an error with the exception that is being handled."""
        self.log(logging.ERROR, event, **{"exc_info": True, **fields})


class StandardLogger(_Methods):
    """A logger of the standard library, with fields: they follow the event in the message, and are in the record's
    attribute `fields`.
    """

    __slots__ = ("_context", "_logger")

    def __init__(self, name: str, context: dict[str, Any] | None = None) -> None:
        self._logger = logging.getLogger(name or ROOT)
        self._context = context or {}

    def bind(self, **context: Any) -> StandardLogger:
        """Return a logger of the same name whose lines also have these fields."""
        return StandardLogger(self._logger.name, {**self._context, **context})

    def is_enabled_for(self, level: int) -> bool:
        return self._logger.isEnabledFor(level)

    def log(self, level: int, event: str, exc_info: Any = None, **fields: Any) -> None:
        if self._logger.isEnabledFor(level):
            fields = {**self._context, **fields}
            told = "".join(f" {name}={value!r}" for name, value in fields.items())
            self._logger.log(level, "%s%s", event, told, exc_info=exc_info, extra={"fields": fields}, stacklevel=3)


Make = Callable[[str], Any]
"""A logger's name -> the object that logs its lines: it has the methods of StandardLogger."""

_make: Make = StandardLogger


def making(make: Make = StandardLogger) -> Make:
    """Make all loggers log through the result of `make`, by default through the standard library. Returns the previous
    function.
    """
    global _make
    before, _make = _make, make
    return before


class Logger:
    """A module's logger: its methods are looked up at each line."""

    __slots__ = ("_made", "_made_by", "name")

    def __init__(self, name: str = "") -> None:
        self.name = name
        self._made: Any = None
        self._made_by: Make | None = None

    @property
    def made(self) -> Any:
        """The object that currently logs its lines. Keeping this object saves the look-up, but misses later changes."""
        if self._made_by is not _make:
            self._made, self._made_by = _make(self.name), _make
        return self._made

    # Properties: `__getattr__` is called after an AttributeError, which costs more than the rest of the look-up.
    debug = property(attrgetter("made.debug"))
    info = property(attrgetter("made.info"))
    warning = property(attrgetter("made.warning"))
    error = property(attrgetter("made.error"))

    def __getattr__(self, method: str) -> Any:
        return getattr(self.made, method)


def get_logger(name: str = "") -> Any:
    """Return the logger of a module, which may call this when it is imported."""
    return Logger(name)


class _Kept(_Methods):
    """A logger whose lines are kept in a list."""

    def __init__(self, lines: list[dict[str, Any]], context: dict[str, Any]) -> None:
        self._lines = lines
        self._context = context

    def bind(self, **context: Any) -> _Kept:
        return _Kept(self._lines, {**self._context, **context})

    def is_enabled_for(self, _level: int) -> bool:
        return True

    def log(self, level: int, event: str, **fields: Any) -> None:
        log_level = logging.getLevelName(level).lower()
        self._lines.append({**self._context, **fields, "event": event, "log_level": log_level})


@contextlib.contextmanager
def captured() -> Iterator[list[dict[str, Any]]]:
    """Capture, for tests, the lines of all loggers during the block, as their fields with `event` and `log_level`. The
    lines have no other output.
    """
    lines: list[dict[str, Any]] = []
    before = making(lambda _name: _Kept(lines, {}))
    try:
        yield lines
    finally:
        making(before)


class _Silent(_Methods):
    """A logger without output."""

    def bind(self, **_context: Any) -> _Silent:
        return self

    def is_enabled_for(self, _level: int) -> bool:
        return False

    def log(self, level: int, event: str, **fields: Any) -> None:
        """Log nothing."""


@contextlib.contextmanager
def silent() -> Iterator[None]:
    """Suppress the lines of all loggers during the block, and the computation of their fields."""
    before = making(lambda _name: _Silent())
    try:
        yield
    finally:
        making(before)


class _Copied(_Methods):
    """A logger that also passes its lines of level info and above to a function: (logger's name, level, event,
    fields).
    """

    def __init__(self, name: str, inner: Any, copy: Callable[[str, int, str, dict[str, Any]], object]) -> None:
        self._name = name
        self._inner = inner
        self._copy = copy

    def bind(self, **context: Any) -> _Copied:
        return _Copied(self._name, self._inner.bind(**context), self._copy)

    def is_enabled_for(self, level: int) -> bool:
        return level >= logging.INFO or bool(self._inner.is_enabled_for(level))

    def log(self, level: int, event: str, **fields: Any) -> None:
        if level >= logging.INFO:
            self._copy(self._name, level, event, fields)
        self._inner.log(level, event, **fields)


@contextlib.contextmanager
def copied(copy: Callable[[str, int, str, dict[str, Any]], object]) -> Iterator[None]:
    """For tests: call `copy(logger's name, level, event, fields)` for each line of level info and above during the
    block, on the thread that logs it. The lines keep their usual output as well.
    """
    before = _make
    mine = making(lambda name: _Copied(name, before(name), copy))
    try:
        yield
    finally:
        making(mine)
