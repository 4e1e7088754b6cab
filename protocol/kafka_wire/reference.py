"""The reference codec: a message's construct tree parses and builds it.

It is twenty times slower than the generated functions and does not share their source. It decodes frames for output
(`python -m kafka_wire decode`) and is the oracle for the generated functions in tests.
"""

from __future__ import annotations

from typing import Any, TypeVar

from kafka_wire.layout.tree import layout_of
from kafka_wire.layout.wire import parse_all, parse_begin
from kafka_wire.schema import schema_of

T = TypeVar("T")


def decode(cls: type[T], version: int, data: bytes) -> tuple[T, int]:
    """Decode `data`; return the message and the number of bytes after it, which only a request may have. Raises
    `DecodeError` as the generated decoder does.
    """
    layout = layout_of(cls, version)
    made: T
    if schema_of(cls).surplus:
        made, left = parse_begin(layout, data)
        return made, left
    made = parse_all(layout, data)
    return made, 0


def encode(message: Any, version: int) -> bytes:
    """Encode a message as the generated encoder does."""
    built: bytes = layout_of(type(message), version).build(message)
    return built
