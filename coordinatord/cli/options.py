"""Checks of options and messages of errors, for all commands. The daemon's settings are not imported here."""

from __future__ import annotations

from typing import Any, NoReturn

import click

from coordinatord.cli.terminal import echo

BAD_SETTINGS = 2
"""Exit status for invalid options or settings, the same as click's."""


def utf8(_context: click.Context, _parameter: click.Parameter, value: Any) -> Any:
    """Reject names that are not UTF-8: Kafka's names are UTF-8, and a shell may pass any bytes."""
    for text in (value,) if isinstance(value, str) else value or ():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise click.BadParameter(f"{text!r} is not UTF-8; names in Kafka are") from None
    return value


def sentence(error: object) -> str:
    """Return an error's text with one punctuation mark at its end: a question keeps its own."""
    text = str(error).rstrip(".")
    return text if text.endswith("?") else f"{text}."


def fail(*sentences: str, status: int = 1) -> NoReturn:
    """Print the sentences on standard error, and exit."""
    for sentence in sentences:
        echo(f"coordinatord: {sentence}", err=True)
    raise SystemExit(status)
