"""The source of one function while it is being written: indented lines, fixed-size values that wait to be merged, and
the names that the function's module has to define.

A run of fixed-size values becomes one `struct` call, and nested structs become inline loops: the functions interpret
nothing at run time, and no field costs a call. Lines are folded as ruff folds them.
"""

from __future__ import annotations

import struct as struct_module
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

MAX_COLUMNS = 120
INDENT = "    "

TAKEN = frozenset(("new", "struct", "len", "range", "bytearray", "read_tags", "read_uvarint", "write_uvarint"))
"""Names that functions call: no variable may have such a name."""


@dataclass
class Needs:
    """Names that generated functions use of their module: imported names by module, and constants (name ->
    expression).
    """

    imports: dict[str, set[str]] = field(default_factory=dict)
    constants: dict[str, str] = field(default_factory=dict)

    def take(self, module: str, name: str) -> str:
        """Add an import and return the imported name."""
        self.imports.setdefault(module, set()).add(name)
        return name

    def constant(self, name: str, expression: str) -> str:
        """Bind a name of the module to an expression; return the name."""
        assert self.constants.setdefault(name, expression) == expression, name
        return name


def folded(head: str, items: list[str], tail: str, depth: int) -> list[str]:
    """Return `head`, items and `tail` in one line if they fit; else the items on a line of their own, or one line for
    each item.
    """
    pad = INDENT * depth
    line = f"{pad}{head}{', '.join(items)}{tail}"
    if len(line) <= MAX_COLUMNS:
        return [line]
    inner = f"{pad}{INDENT}{', '.join(items)}"
    if len(inner) <= MAX_COLUMNS and not (head.startswith("def ") and len(items) == 1):
        return [pad + head, inner, pad + tail]
    return [pad + head, *(f"{pad}{INDENT}{item}," for item in items), pad + tail]


class Source:
    """The body of a function. `params`: the names of its parameters."""

    params = ""

    def __init__(self, needs: Needs, depth: int) -> None:
        self.needs = needs
        self.depth = depth
        self.lines: list[str] = []
        self.run: list[tuple[str, str]] = []
        self._names = {*TAKEN, *self.params.split()}

    def emit(self, *lines: str) -> None:
        """Write lines at the current depth, after any pending fixed-size values."""
        self.settle()
        for line in lines:
            self.put(line)

    def put(self, line: str) -> None:
        """Write a line ahead of pending fixed-size values: one that neither reads nor writes bytes."""
        if len(line) + len(INDENT) * self.depth > MAX_COLUMNS and "(" in line and line.endswith(")"):
            head, _, inner = line[:-1].partition("(")
            self.lines += folded(f"{head}(", [inner], ")", self.depth)
        else:
            self.lines.append(INDENT * self.depth + line)

    @contextmanager
    def block(self, line: str) -> Iterator[None]:
        """Write the lines below a line that ends in a colon. Pending values are written before the block begins and
        before it ends.
        """
        self.emit(line)
        self.depth += 1
        yield
        self.settle()
        self.depth -= 1

    def refuse(self, condition: str, error: str, text: str) -> None:
        """Write lines that raise one of `kafka_wire.errors` if the condition holds; `text` is a literal."""
        with self.block(f"if {condition}:"):
            self.emit(f"raise {self.needs.take('kafka_wire.errors', error)}({text})")

    def fixed(self, formats: str, expression: str) -> None:
        """Add a value of fixed size, which waits for the values that follow it. `formats` are characters of `struct`;
        an "x", a byte of zero, has no expression.
        """
        self.run.append((formats, expression))

    def settle(self) -> None:
        """Write the pending run of fixed-size values."""
        if self.run:
            run, self.run = self.run, []
            self.write_run("".join(formats for formats, _ in run), [each for _, each in run if each])

    def write_run(self, formats: str, expressions: list[str]) -> None:
        """Write the fixed-size values."""
        raise NotImplementedError

    def fresh(self, name: str) -> str:
        """Return a variable that is unused in this function, called `name` if that name is free."""
        found, count = name, 1
        while found in self._names:
            count += 1
            found = f"{name}_{count}"
        self._names.add(found)
        return found

    def packer(self, formats: str, method: str) -> str:
        """Return `unpack_from` or `pack` of one struct for a run of values."""
        name = f"{method.removesuffix('_from')}_{formats.replace('?', 't')}"
        return self.needs.constant(name, f'struct.Struct(">{formats}").{method}')


class DecodeSource(Source):
    """The body of a decoder: `buf[pos:end]` becomes values, which go straight into the slots of new objects."""

    params = "buf pos end"

    def write_run(self, formats: str, expressions: list[str]) -> None:
        """Write a run; a single byte needs no struct."""
        if formats in ("?", "B"):
            self.put(f"{expressions[0]} = buf[pos]" + (" != 0" if formats == "?" else ""))
            self.put("pos += 1")
            return
        unpack = self.packer(formats, "unpack_from")
        if len(expressions) == 1:
            self.put(f"({expressions[0]},) = {unpack}(buf, pos)")
        else:
            line = f"{', '.join(expressions)} = {unpack}(buf, pos)"
            if len(line) + len(INDENT) * self.depth <= MAX_COLUMNS:
                self.put(line)
            else:
                pad = INDENT * self.depth
                self.lines += [f"{pad}(", *(f"{pad}{INDENT}{each}," for each in expressions)]
                self.lines.append(f"{pad}) = {unpack}(buf, pos)")
        self.put(f"pos += {struct_module.calcsize('>' + formats)}")


class EncodeSource(Source):
    """The body of an encoder: attributes of `message` are appended to `sink`, which is `out` or a part of it."""

    params = "message out"
    sink = "out"

    def __init__(self, needs: Needs, depth: int) -> None:
        super().__init__(needs, depth)
        self.present: set[str] = set()
        """Variables that are known not to be None."""

    def read(self, value: str) -> str:
        """Return a variable that holds the value of an expression; an expression that is a variable already is returned
        as it is.
        """
        if "." not in value:
            return value
        variable = self.fresh(value.rpartition(".")[2])
        self.put(f"{variable} = {value}")
        return variable

    def write_run(self, formats: str, expressions: list[str]) -> None:
        """Write a run with one call; a single byte of zero needs no struct."""
        if formats == "x":
            self.put(f"{self.sink}.append(0)")
            return
        pack = self.packer(formats, "pack")
        self.lines += folded(f"{self.sink} += {pack}(", expressions, ")", self.depth)
