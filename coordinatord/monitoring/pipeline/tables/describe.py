"""TABLES.md, written from the tables' own descriptions."""

from __future__ import annotations

from collections.abc import Iterator

from coordinatord.monitoring.analysis import advice
from coordinatord.monitoring.pipeline.tables import TABLES, events
from coordinatord.monitoring.pipeline.tables.table import Column

HEAD = """# The pipeline's tables

Written by `coordinatord pipeline tables`. Columns that end in `_ms` are milliseconds; points in time count from
1970. Parquet, in `OUT/tables/<name>/`.
"""


def markdown() -> str:
    """Return the whole file."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    yield HEAD
    for table in TABLES.values():
        when = "rebuilt by each run" if table.depends_on_time else "rebuilt for groups with new records"
        yield from _table(table.name, f"{table.grain}; {when}", table.columns)
    where = "JSON lines in `OUT/events/`, written by `coordinatord pipeline run --follow`"
    yield from _table(events.NAME, f"{events.GRAIN}; {where}", events.COLUMNS)
    yield "## Statuses\n\nOf the columns `status`; analysis/status.py has the rules.\n"
    yield advice.markdown()


def _table(name: str, about: str, columns: tuple[Column, ...]) -> Iterator[str]:
    yield f"## {name}\n\n{about[0].upper()}{about[1:]}.\n"
    yield "| column | type | |\n|---|---|---|"
    for column in columns:
        yield f"| `{column.name}` | {column.type} | {column.meaning} |"
    yield ""
