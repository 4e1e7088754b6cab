"""Output of commands. No other module of this package writes to a terminal (a test checks this).

Names, reasons and error messages come from peers: groups, clients, brokers. Everything that a terminal would interpret
is escaped here, on output, so that commands need not track the origin of a text.
"""

from __future__ import annotations

import logging
import sys
import traceback
from types import TracebackType

import click

from coordinatord.base.observe.printable import printable


def echo(*lines: str, err: bool = False, bold: bool = False, underline: bool = False) -> None:
    """Print each of the lines, an empty one without an argument. A line break within a line is escaped as well.
    `err`: on standard error. `bold` and `underline` style the escaped line, where the output is a terminal.
    """
    for line in lines or ("",):
        shown = printable(line)
        if bold or underline:
            shown = click.style(shown, bold=bold or None, underline=underline or None)
        click.echo(shown, err=err)


def echo_text(text: str) -> None:
    """Print a text of several lines whose line breaks are the program's own, such as JSON or a report."""
    echo(*text.removesuffix("\n").split("\n"))


def echo_data(text: str) -> None:
    """Print output for other programs, such as CSV or a shell script: unchanged, except if standard output is a
    terminal.
    """
    if sys.stdout.isatty():
        echo_text(text)
    else:
        sys.stdout.write(text)  # click would remove escape sequences


def escape_errors() -> None:
    """Escape output that no command prints itself: exceptions that end the program, and warnings that libraries log."""
    sys.excepthook = _show_exception
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(_Escaped())


def _show_exception(_kind: type[BaseException], error: BaseException, _trace: TracebackType | None) -> None:
    echo(*"".join(traceback.format_exception(error)).splitlines(), err=True)


class _Escaped(logging.Formatter):
    """A formatter for the message alone, in one line, as `logging.lastResort` prints it."""

    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record))
