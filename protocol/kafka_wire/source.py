"""The base of the decoder and encoder writers: indented lines of Python and the names they use.

The writers are decode_source.py and encode_source.py; compiler.py compiles their output.
"""

from __future__ import annotations

import struct as struct_module
from typing import Any

from kafka_wire.schema import Schema

FIXED = {"int8": "b", "int16": "h", "uint16": "H", "int32": "i", "int64": "q", "float64": "d", "bool": "?"}
"""`struct` format characters of the fixed-size types. A uuid has a fixed size too, but is bytes: "16s"."""


class Writer:
    """Indented source lines, fixed-size fields that wait to be merged, and bound names."""

    def __init__(self, schema: Schema, version: int) -> None:
        self.version = version
        self.flexible = version in schema.flexible
        self.lines: list[str] = []
        self.depth = 1
        self.names: dict[str, Any] = {}
        self.run: list[tuple[str, str]] = []
        self.counter = 0

    def emit(self, *lines: str) -> None:
        """Write lines at the current depth, after any pending fixed-size fields."""
        self.settle()
        self.lines.extend("    " * self.depth + line for line in lines)

    def settle(self) -> None:
        """Write the pending run of fixed-size fields."""

    def fresh(self, name: str) -> str:
        """A variable name that is unused in this function."""
        self.counter += 1
        return f"{name}_{self.counter}"

    def bind(self, name: str, value: Any) -> str:
        """Bind `value` for the source to `name`, or to a variant when `name` is taken; returns the name."""
        while self.names.setdefault(name, value) is not value:
            name += "_"
        return name

    def packer(self, formats: str, method: str) -> str:
        """The bound `unpack_from` or `pack` of one struct for a run of fields."""
        name = ("unpack_" if method == "unpack_from" else "pack_") + formats.replace("?", "t")
        if name not in self.names:
            self.names[name] = getattr(struct_module.Struct(">" + formats), method)
        return name
