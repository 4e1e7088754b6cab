"""Rows beside what they have to be."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

Row = dict[str, Any]


def differences(
    table: str, columns: Iterable[str], found: Iterable[Row], expected: Mapping[Any, Row], keys: tuple[str, ...]
) -> list[str]:
    """What is wrong with a table's rows: rows that are missing or too many, and each wrong value."""
    wanted = set(columns)
    by_key: dict[Hashable, Row] = {}
    wrong = []
    for row in found:
        key = tuple(row[name] for name in keys)
        if key in by_key:
            wrong.append(f"{table}{key}: twice")
        by_key[key] = row
    missing, more = expected.keys() - by_key.keys(), by_key.keys() - expected.keys()
    wrong += [f"{table}{key}: missing" for key in missing] + [f"{table}{key}: {by_key[key]}" for key in more]
    for key in sorted(expected.keys() & by_key.keys(), key=str):
        row, right = by_key[key], expected[key]
        assert right.keys() == wanted, f"{table}: the model has not {wanted ^ right.keys()}"
        for name, value in right.items():
            is_right = value(row[name]) if callable(value) else value == row[name]
            if not is_right:
                wrong.append(f"{table}{key}.{name}: {row[name]!r}, not {'that' if callable(value) else repr(value)}")
    return wrong
