"""TABLES.md: what the tables say of themselves."""

from __future__ import annotations

from collections.abc import Iterator

from coordinatord.pipeline.tables import TABLES

HEAD = """# The pipeline's tables

Written by `coordinatord pipeline tables`. Times that end in `_ms` are milliseconds, those at which something happened
since 1970. Parquet, in `OUT/tables/<name>/`.
"""


def markdown() -> str:
    """The whole file."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    yield HEAD
    for table in TABLES.values():
        when = "made anew by each run" if table.depends_on_time else "made anew for groups that have something new"
        yield f"## {table.name}\n\n{table.grain[0].upper()}{table.grain[1:]}; {when}.\n"
        yield "| column | type | |\n|---|---|---|"
        for column in table.columns:
            yield f"| `{column.name}` | {column.type} | {column.meaning} |"
        yield ""
