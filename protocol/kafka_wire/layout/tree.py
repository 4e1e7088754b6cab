"""Conversion of a declaration to the construct tree of one version, and of that tree to text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kafka_wire import errors
from kafka_wire.layout import arrays, blobs, numbers, structs
from kafka_wire.layout.wire import Place, Wire
from kafka_wire.schema import schema_of

FAMILIES = (numbers, blobs, arrays, structs)
"""The modules of types, which register themselves when they are imported (`Wire.KINDS`)."""

_made: dict[tuple[type[Any], int], structs.Record] = {}


def layout_of(cls: type[Any], version: int) -> structs.Record:
    """Return the construct of a message in `version`. Raises UnknownApiError for an undeclared version."""
    schema = schema_of(cls)
    if version not in schema.versions:
        raise errors.UnknownApiError(f"{schema.name} has versions {schema.versions}, not {version}")
    key = (cls, version)
    if key not in _made:
        _made[key] = structs.Record(cls, Place(version, version in schema.flexible, schema.request))
    return _made[key]


def shown(wire: Wire, depth: int = 1) -> Iterator[str]:
    """Yield the parts of a type, one per line, with the parts of nested structs indented below them."""
    for name, part in wire.parts():
        yield f"{'  ' * depth}{name}: {part.description()}"
        yield from shown(part, depth + 1)
