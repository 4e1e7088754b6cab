"""`coordinatord settings`: the table of settings with the values that a `serve` with the same options would use."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from coordinatord.base.config import TABLE, Loaded
from coordinatord.base.config.setting_types import Setting, written
from coordinatord.base.config.table import HEADINGS
from coordinatord.cli.options import BAD_SETTINGS, fail
from coordinatord.cli.settings_options import load_or_exit, settings_options
from coordinatord.cli.terminal import echo, echo_text


@click.command()
@click.argument("patterns", metavar="[TEXT]...", nargs=-1)
@settings_options
@click.option("--changed", is_flag=True, help="Only settings that are not at their defaults.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "toml", "json"]),
    default="text",
    show_default=True,
    help="toml: a file for --config, defaults commented out.",
)
def settings(
    patterns: tuple[str, ...],
    config: Path | None,
    assignments: tuple[str, ...],
    changed: bool,
    form: str,
    **short: str | None,
) -> None:
    """List settings with their values, defaults, origins and meanings.

    Lists all settings, or those whose name contains one of the TEXTs, with the values that `coordinatord serve` would
    use with the same options and environment.
    """
    loaded = load_or_exit(config, assignments, short)
    rows = [
        row
        for row in TABLE.values()
        if (not patterns or any(pattern.lower() in row.name for pattern in patterns))
        and (not changed or _value(row, loaded) != row.default)
    ]
    if not rows and not changed:
        fail(f"No setting's name contains {' or '.join(patterns)}.", status=BAD_SETTINGS)
    if not rows and form == "text":
        echo("All settings are at their defaults.")
    elif form == "json":
        echo_text(json.dumps([_as_json(row, loaded) for row in rows], indent=2))
    elif form == "toml":
        echo_text("\n".join(_toml(rows, loaded)).strip("\n"))
    else:
        _print(rows, loaded)
    for warning in loaded.warnings:
        echo(f"coordinatord: {warning}", err=True)


def _print(rows: list[Setting], loaded: Loaded) -> None:
    """Print the settings as text. Headings, and lines of settings that are not at their defaults, are bold."""
    for number, (heading, row) in enumerate(_with_headings(rows)):
        if number:
            echo()
        if heading:
            echo(heading, bold=True, underline=True)
            echo()
        value = _value(row, loaded)
        line = f"{row.name} = {written(value) or '(unset)'}"
        if row.name in loaded.origins:
            line += f"   ({loaded.origins[row.name]}; default: {written(row.default) or 'unset'})"
        echo(line, bold=value != row.default)
        echo(*_wrapped(row.doc, "    "), *_wrapped(_remarks(row), "    "))


def _toml(rows: list[Setting], loaded: Loaded) -> Iterator[str]:
    for heading, row in _with_headings(rows):
        if heading:
            yield from ("", f"# ---- {heading} ".ljust(80, "-"))
        yield ""
        yield from _wrapped(row.doc, "# ")
        yield from _wrapped(_remarks(row), "# ")
        value = _value(row, loaded)
        shown = value if isinstance(value, (bool, int, float)) else written(value)
        comment = "# " if value == row.default else ""
        if isinstance(shown, str) and not _is_unicode(shown):
            fail(f"{row.name} has bytes that are not UTF-8, which TOML cannot hold: {shown!a}.")
        yield f'{comment}"{row.name}" = {_toml_value(shown)}'


def _is_unicode(text: str) -> bool:
    return not any("\ud800" <= each <= "\udfff" for each in text)


def _toml_value(value: object) -> str:
    """Return a TOML value in printable characters. JSON escapes all other characters as TOML does, except for two
    kinds: DEL, and code points above U+FFFF, which JSON writes as two surrogates and TOML forbids.
    """
    return "".join(
        each if each.isprintable() else f"\\U{ord(each):08X}" for each in json.dumps(value, ensure_ascii=False)
    )


def _as_json(row: Setting, loaded: Loaded) -> dict[str, Any]:
    return {
        "name": row.name,
        "value": _plain(_value(row, loaded)),
        "default": _plain(row.default),
        "origin": loaded.origins.get(row.name, "default"),
        "kind": row.kind,
        "doc": row.doc,
        "differs_from_kafka": row.ours or None,
        "aliases": list(row.aliases),
    }


def _with_headings(rows: list[Setting]) -> Iterator[tuple[str, Setting]]:
    """Yield each row with its section's heading if it is the section's first, otherwise with ""."""
    heading, told = "", ""
    wanted = {row.name for row in rows}
    for row in TABLE.values():
        heading = HEADINGS.get(row.name, heading)
        if row.name in wanted:
            yield ("" if heading == told else heading), row
            told = heading


def _remarks(row: Setting) -> str:
    remarks = [row.kind]
    if row.aliases:
        remarks.append(f"also {', '.join(row.aliases)}")
    if row.ours:
        remarks.append(row.ours)
    return f"({' · '.join(remarks)})"


def _wrapped(text: str, indent: str) -> list[str]:
    return textwrap.wrap(
        text, 80, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False
    )


def _value(row: Setting, loaded: Loaded) -> Any:
    return row.shown(getattr(loaded.settings, row.attribute))


def _plain(value: Any) -> Any:
    return value if value is None or isinstance(value, (bool, int, float)) else written(value)
