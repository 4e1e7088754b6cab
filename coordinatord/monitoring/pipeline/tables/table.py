"""The definition of a table: a name, a grain, columns with their meaning, and a function that builds it from the input.

`build(inputs)` returns a DataFrame with the declared columns, in that order. Tables are rebuilt for the buckets with
new records (see run/update.py), so the result must not depend on other groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


TYPES = {"string": pa.string(), "int": pa.int32(), "bigint": pa.int64(), "boolean": pa.bool_(), "double": pa.float64()}


@dataclass(frozen=True, slots=True)
class Column:
    """A column. `type` is in Spark's DDL; `meaning` contains the unit, and the meaning of null."""

    name: str
    type: str
    meaning: str


@dataclass(frozen=True, slots=True)
class Table:
    """A table. `grain` describes one row."""

    name: str
    grain: str
    columns: tuple[Column, ...]
    build: Callable[[Any], DataFrame]
    """Function of `inputs.Inputs`, which gives access to the tables."""
    depends_on_time: bool = False
    """True if its rows change even when the group's log does not: each run rebuilds them, for all groups."""

    @property
    def ddl(self) -> str:
        return ", ".join(f"`{column.name}` {column.type}" for column in self.columns)

    @property
    def names(self) -> list[str]:
        return [column.name for column in self.columns]


def arrow_schema(columns: Iterable[Column]) -> pa.Schema:
    """Return the schema of columns of plain types."""
    return pa.schema([pa.field(column.name, TYPES[column.type]) for column in columns])


def by_group(rows: pa.Table, *order: str) -> Iterator[tuple[str, pa.Table]]:
    """Yield each group_id with its rows, sorted by the columns `order`."""
    rows = rows.sort_by([(name, "ascending") for name in ("group_id", *order)])
    if rows.num_rows:
        groups = rows["group_id"].combine_chunks().dictionary_encode()
        changes = np.flatnonzero(np.diff(groups.indices.to_numpy())) + 1
        for group_id, (start, end) in zip(
            groups.dictionary, pairwise([0, *changes.tolist(), rows.num_rows]), strict=True
        ):
            yield group_id.as_py(), rows.slice(start, end - start)


def pick(table_columns: tuple[Column, ...], row: Any) -> tuple[Any, ...]:
    """Return the values of a row's attributes, in the order of the columns."""
    return tuple(getattr(row, column.name) for column in table_columns)
