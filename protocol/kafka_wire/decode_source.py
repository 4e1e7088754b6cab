"""Writes the source of decoders; compiler.py documents their contract."""

from __future__ import annotations

import struct as struct_module
from collections.abc import Callable
from typing import Any

from kafka_wire.schema import Field, Schema, Type, schema_of
from kafka_wire.source import FIXED, Writer

MANY = 64


class _Unpackers(dict[int, Callable[..., tuple[Any, ...]]]):
    """count -> the `unpack_from` of `count` numbers; for more than MANY it is built on every call."""

    def __init__(self, format_: str) -> None:
        super().__init__()
        self._format = format_

    def __missing__(self, count: int) -> Callable[..., tuple[Any, ...]]:
        made = struct_module.Struct(f">{count}{self._format}").unpack_from
        if count <= MANY:
            self[count] = made
        return made


UNPACK_MANY = {format_: _Unpackers(format_) for format_ in FIXED.values()}


class DecodeWriter(Writer):
    """Writes the body of a decoder. Values go straight into the slots of new objects."""

    def settle(self) -> None:
        if not self.run:
            return
        run, self.run = self.run, []
        if len(run) == 1 and run[0][0] in ("?", "B"):
            # One byte needs no struct.
            self.emit(f"{run[0][1]} = buf[pos]" + (" != 0" if run[0][0] == "?" else ""), "pos += 1")
            return
        formats = "".join(fmt for fmt, _ in run)
        targets = ", ".join(target for _, target in run) + ("," if len(run) == 1 else "")
        unpack = self.packer(formats, "unpack_from")
        size = struct_module.calcsize(">" + formats)
        self.emit(f"{targets} = {unpack}(buf, pos)", f"pos += {size}")

    def fields(self, schema: Schema, name: str) -> str:
        """Decode a struct's fields into the slots of a new object; returns the name of the variable that holds it."""
        # object.__new__ instead of a constructor call: without __init__ this takes a half to a third of the time.
        made = self.fresh(name)
        self.emit(f"{made} = new({self.bind(schema.name, self.class_of[schema.name])})")
        targets = {field.name: f"{made}.{field.name}" for field in schema.fields}
        for field in schema.fields_of(self.version):
            self.value(field.type, targets[field.name], self.version in field.nullable, field.name)
        if self.flexible:
            self.tags(schema, targets)
        self.settle()
        for field in schema.fields:
            if self.version not in field.versions:
                self.emit(f"{targets[field.name]} = {self.default(schema, field)}")
        return made

    class_of: dict[str, Any]

    def default(self, schema: Schema, field: Field) -> str:
        """A source expression for a field's default."""
        if callable(field.default):
            if field.default is list:
                return "[]"
            return self.bind(f"default_{schema.name}_{field.name}", field.default) + "()"
        return repr(field.default)

    def tags(self, schema: Schema, targets: dict[str, str]) -> None:
        """Decode a tag buffer: known tags go into their fields, unknown tags are skipped."""
        known = schema.tagged_fields_of(self.version)
        for field in known:
            self.emit(f"{targets[field.name]} = {self.default(schema, field)}")
        self.emit("if not buf[pos]:", "    pos += 1", "else:")
        self.depth += 1
        if not known:
            self.emit("_, pos = read_tags(buf, pos, end)")
        else:
            tag, stop, after = self.fresh("tag"), self.fresh("stop"), self.fresh("after")
            outer = self.fresh("end")
            self.emit(f"found, {after} = read_tags(buf, pos, end)", f"{outer} = end")
            self.emit(f"for {tag}, pos, {stop} in found:")
            self.depth += 1
            # Within a tagged field, `end` is that field's end: its content must not read into what follows.
            self.emit(f"end = {stop}")
            for index, field in enumerate(known):
                self.emit(f"{'el' if index else ''}if {tag} == {field.tag}:")
                self.depth += 1
                nullable = self.version in field.nullable
                if field.type.struct is not None:
                    self.nested(field.type, targets[field.name], nullable, tagged=True)
                else:
                    self.value(field.type, targets[field.name], nullable, field.name)
                self.emit(f"if pos != {stop}:", f"    raise TrailingBytesError('tagged field {field.name}')")
                self.depth -= 1
            self.depth -= 1
            self.emit(f"end = {outer}", f"pos = {after}")
        self.depth -= 1

    def value(self, type_: Type, target: str, nullable: bool, name: str) -> None:
        """Decode one value into the variable `target`."""
        if type_.kind in FIXED:
            # struct's "?" takes any byte but 0 for true, as Kafka does.
            self.run.append((FIXED[type_.kind], target))
        elif type_.kind == "uuid":
            self.run.append(("16s", target))
        elif type_.kind in ("string", "bytes", "records"):
            self.blob(type_.kind, target, nullable, name)
        elif type_.kind == "array":
            self.array(type_, target, nullable, name)
        else:
            self.nested(type_, target, nullable)

    def length(self, kind: str, name: str) -> str:
        """Read a length or count into a variable (-1 for null); returns the variable's name."""
        size = self.fresh("n")
        if self.flexible:
            if self.run:
                # The first byte is unpacked together with the fixed-size fields before it.
                self.run.append(("B", size))
            else:
                self.emit(f"{size} = buf[pos]", "pos += 1")
            self.emit(f"if {size} > 127:", f"    {size}, pos = read_uvarint(buf, pos, {size})")
        elif kind == "string":
            self.run.append(("h", size))
        else:
            self.run.append(("i", size))
        self.settle()
        return size

    def null(self, size: str, target: str, nullable: bool, name: str, kind: str) -> None:
        """Open the branch for a non-null value. `size` is its length, plus one in flexible versions."""
        absent = f"{size} == 0" if self.flexible else f"{size} == -1"
        if nullable:
            self.emit(f"if {absent}:", f"    {target} = None")
            if self.flexible and kind == "string":
                # Nullable values are often empty.
                self.emit(f"elif {size} == 1:", f"    {target} = ''")
            self.emit("else:")
            self.depth += 1
        elif self.flexible:
            self.emit(f"if {absent}:", f"    raise LengthError('{name} must not be null')")
        if not self.flexible:
            self.emit(f"if {size} < 0:", f"    raise LengthError(f'length {{{size}}} of {name}')")

    def blob(self, kind: str, target: str, nullable: bool, name: str) -> None:
        size = self.length(kind, name)
        depth = self.depth
        self.null(size, target, nullable, name, kind)
        stop = self.fresh("stop")
        self.emit(f"{stop} = pos + {size}" + (" - 1" if self.flexible else ""))
        self.emit(
            f"if {stop} > end:", f"    raise TruncatedError(f'{name} ends at {{{stop}}}, the message at {{end}}')"
        )
        self.emit(f"{target} = buf[pos:{stop}]" + (".decode()" if kind == "string" else ""), f"pos = {stop}")
        self.depth = depth

    def array(self, type_: Type, target: str, nullable: bool, name: str) -> None:
        size = self.length("array", name)
        depth = self.depth
        self.null(size, target, nullable, name, "array")
        if self.flexible:
            self.emit(f"{size} -= 1")
        # Every element takes at least one byte: a count above the bytes left is false and must not be allocated.
        self.emit(f"if {size} > end - pos:", f"    raise LengthError(f'{{{size}}} elements of {name}')")
        element = type_.element
        assert element is not None
        if element.kind in FIXED:
            # Unpack all numbers at once. `unpack_from` raises where they would reach beyond the buffer.
            width = struct_module.calcsize(">" + FIXED[element.kind])
            unpackers = self.bind(f"unpack_many_{FIXED[element.kind]}", UNPACK_MANY[FIXED[element.kind]])
            self.emit(f"{target} = [*{unpackers}[{size}](buf, pos)]")
            self.emit(f"pos += {size} * {width}")
            self.depth = depth
            return
        items = self.fresh(name)
        self.emit(f"{target} = {items} = []", f"for _ in range({size}):")
        self.depth += 1
        if element.struct is not None:
            item = self.fields(schema_of(element.struct), "item")
        else:
            item = self.fresh("item")
            self.value(element, item, False, name)
        self.emit(f"{items}.append({item})")
        self.depth = depth

    def nested(self, type_: Type, target: str, nullable: bool, *, tagged: bool = False) -> None:
        assert type_.struct is not None
        depth = self.depth
        if nullable:
            # KIP-893: a nullable struct is led by an int8, -1 for null and 1 for present. One that is a tagged field
            # is led by an unsigned varint, 0 for null.
            marker = self.fresh("marker")
            if tagged:
                self.emit(f"{marker} = buf[pos]", "pos += 1")
                self.emit(f"if {marker} > 127:", f"    {marker}, pos = read_uvarint(buf, pos, {marker})")
            else:
                self.run.append(("b", marker))
            self.emit(f"if {marker} {'== 0' if tagged else '< 0'}:", f"    {target} = None", "else:")
            self.depth += 1
        made = self.fields(schema_of(type_.struct), "made")
        self.emit(f"{target} = {made}")
        self.depth = depth
