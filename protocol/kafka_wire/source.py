"""What writing a decoder and writing an encoder have in common: lines of Python, indented, and names for them to use.

The two are decode_source.py and encode_source.py; compiler.py makes functions of what they write.
"""

from __future__ import annotations

import struct as struct_module
from typing import Any

from kafka_wire.schema import Schema

FIXED = {"int8": "b", "int16": "h", "uint16": "H", "int32": "i", "int64": "q", "float64": "d", "bool": "?"}
"""Format characters of `struct` for the types that have a fixed size. A uuid, too, but it is bytes: "16s"."""


class Writer:
    """Lines of source with their indentation, fixed-size fields still waiting to be merged, and names to use."""

    def __init__(self, schema: Schema, version: int) -> None:
        self.version = version
        self.flexible = version in schema.flexible
        self.lines: list[str] = []
        self.depth = 1
        self.names: dict[str, Any] = {}
        self.run: list[tuple[str, str]] = []
        self.counter = 0

    def emit(self, *lines: str) -> None:
        """Write lines at the present depth, after the fixed-size fields that came before them."""
        self.settle()
        self.lines.extend("    " * self.depth + line for line in lines)

    def settle(self) -> None:
        """Write the pending run of fixed-size fields."""

    def fresh(self, name: str) -> str:
        """A variable name that nothing else of this function uses."""
        self.counter += 1
        return f"{name}_{self.counter}"

    def bind(self, name: str, value: Any) -> str:
        """Make `value` known to the source under `name`, or a variant when that is taken by something else."""
        while self.names.setdefault(name, value) is not value:
            name += "_"
        return name

    def packer(self, formats: str, method: str) -> str:
        """The bound `unpack_from` or `pack` of one struct for a run of fields."""
        name = ("unpack_" if method == "unpack_from" else "pack_") + formats.replace("?", "t")
        if name not in self.names:
            self.names[name] = getattr(struct_module.Struct(">" + formats), method)
        return name
