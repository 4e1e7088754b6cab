"""From a declaration to specialised Python functions, one pair per message and version.

    decode = decoder(JoinGroupRequest, 9)      # (buf: bytes, pos: int, end: int) -> JoinGroupRequest
    encode = encoder(JoinGroupResponse, 9)     # (m: JoinGroupResponse, out: bytearray) -> None

A decoder reads exactly `buf[pos:end]` or raises `DecodeError`. It may look a few bytes past `end` when `buf` goes on
there, but then it finds itself beyond `end` and refuses; so it checks only where a length decides how much is copied.

What is made is plain source that one can read (`python -m protocol source JoinGroupRequest 9`) and step through: it is
registered in `linecache` under the name `<protocol JoinGroupRequest v9 decode>`. Runs of fixed-size fields become one
`struct` call, nested structs become inline loops: there is no interpretation left and no call per field.
"""

from __future__ import annotations

import linecache
import struct as struct_module
from collections.abc import Callable
from types import CodeType
from typing import Any, TypeVar

from protocol import errors
from protocol.lengths import read_tags, read_uvarint, write_uvarint
from protocol.schema import Field, Schema, Type, schema_of

T = TypeVar("T")

FIXED = {"int8": "b", "int16": "h", "uint16": "H", "int32": "i", "int64": "q", "float64": "d", "bool": "?"}
"""Format characters of `struct` for the types that have a fixed size. A uuid, too, but it is bytes: "16s"."""


class _Writer:
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


class _DecodeWriter(_Writer):
    """Writes the body of a decoder. Values end in local variables, which the constructor call then takes."""

    def settle(self) -> None:
        if not self.run:
            return
        run, self.run = self.run, []
        formats = "".join(fmt for fmt, _ in run)
        targets = ", ".join(target for _, target in run) + ("," if len(run) == 1 else "")
        unpack = self.packer(formats, "unpack_from")
        size = struct_module.calcsize(">" + formats)
        self.emit(f"{targets} = {unpack}(buf, pos)", f"pos += {size}")

    def fields(self, schema: Schema, name: str) -> str:
        """Decode the fields of a struct straight into the slots of a new one; returns the variable that holds it."""
        # Not by a call of the class: without its __init__ this takes half as long, or a third.
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
        """An expression for a field's default."""
        if callable(field.default):
            if field.default is list:
                return "[]"
            return self.bind(f"default_{schema.name}_{field.name}", field.default) + "()"
        return repr(field.default)

    def tags(self, schema: Schema, targets: dict[str, str]) -> None:
        """Decode a tag buffer: known tags into their fields, unknown ones are stepped over."""
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
            # `end` is the tagged field's own end meanwhile: what is inside must not borrow from what follows.
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
        """Read a length or count, -1 for null, into a variable; returns its name."""
        size = self.fresh("n")
        if self.flexible:
            if self.run:
                # The first byte comes with the fixed-size fields before it.
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
        """Open the branch for a value that is there. `size` is its length, plus one in flexible versions."""
        absent = f"{size} == 0" if self.flexible else f"{size} == -1"
        if nullable:
            self.emit(f"if {absent}:", f"    {target} = None")
            if self.flexible and kind == "string":
                # What may be null is often empty.
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
        # Every element takes at least one byte: a count beyond that is a lie, and must not become memory.
        self.emit(f"if {size} > end - pos:", f"    raise LengthError(f'{{{size}}} elements of {name}')")
        element = type_.element
        assert element is not None
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


class _EncodeWriter(_Writer):
    """Writes the body of an encoder. Expressions name attributes of `m`; bytes go to the end of `out`."""

    sink = "out"

    def settle(self) -> None:
        if not self.run:
            return
        run, self.run = self.run, []
        formats = "".join(fmt for fmt, _ in run)
        pack = self.packer(formats, "pack")
        self.emit(f"{self.sink} += {pack}({', '.join(expression for _, expression in run)})")

    def fields(self, schema: Schema, source: str) -> None:
        """Encode the struct that the expression `source` stands for."""
        for field in schema.fields_of(self.version):
            self.value(field.type, f"{source}.{field.name}", self.version in field.nullable)
        if self.flexible:
            self.tags(schema, source)

    def tags(self, schema: Schema, source: str) -> None:
        """Encode a tag buffer: a tagged field is written when it differs from its default."""
        known = schema.tagged_fields_of(self.version)
        if not known:
            self.run.append(("b", "0"))
            return
        count, block, outer = self.fresh("count"), self.fresh("block"), self.sink
        self.emit(f"{count} = 0", f"{block} = bytearray()")
        for field in known:
            value, part = self.fresh("value"), self.fresh("part")
            default = field.fresh_default() if field.type.kind != "struct" else field.default
            if field.type.kind == "struct" and default is not None:
                other = self.bind(f"default_{schema.name}_{field.name}", default)
                condition = f"{value} != {other}()"
            elif default is None:
                condition = f"{value} is not None"
            else:
                condition = f"{value} != {default!r}"
            self.emit(f"{value} = {source}.{field.name}", f"if {condition}:")
            self.depth += 1
            self.emit(f"{count} += 1", f"{part} = bytearray()")
            self.sink = part
            nullable = self.version in field.nullable
            if field.type.struct is not None:
                self.nested(field.type, value, nullable, tagged=True)
            else:
                self.value(field.type, value, nullable)
            self.settle()
            self.sink = outer
            self.emit(f"{block} += write_uvarint({field.tag})", f"{block} += write_uvarint(len({part}))")
            self.emit(f"{block} += {part}")
            self.depth -= 1
        self.emit(f"{outer} += write_uvarint({count})", f"{outer} += {block}")

    def value(self, type_: Type, source: str, nullable: bool) -> None:
        """Encode the value of the expression `source`."""
        if type_.kind in FIXED:
            self.run.append((FIXED[type_.kind], source))
        elif type_.kind == "uuid":
            self.run.append(("16s", source))
        elif type_.kind in ("string", "bytes", "records"):
            self.blob(type_.kind, source, nullable)
        elif type_.kind == "array":
            self.array(type_, source, nullable)
        else:
            self.nested(type_, source, nullable)

    def null(self, value: str, kind: str, nullable: bool) -> None:
        """Write null where the value is None, and open the branch for where it isn't."""
        if not nullable:
            return
        absent = "0" if self.flexible else "-1"
        self.emit(f"if {value} is None:")
        self.depth += 1
        self.run.append(("b" if self.flexible else "h" if kind == "string" else "i", absent))
        self.settle()
        self.depth -= 1
        self.emit("else:")
        self.depth += 1

    def length(self, kind: str, expression: str) -> None:
        """Write a length or count; `expression` is without the one that compact forms add."""
        if self.flexible:
            size = self.fresh("n")
            self.emit(f"{size} = {expression} + 1")
            self.emit(f"if {size} < 128:", f"    {self.sink}.append({size})")
            self.emit("else:", f"    {self.sink} += write_uvarint({size})")
        else:
            self.run.append(("h" if kind == "string" else "i", expression))

    def blob(self, kind: str, source: str, nullable: bool) -> None:
        depth = self.depth
        value = self.fresh("value")
        if kind == "string" and not nullable:
            # Fixed fields that came before need not be written first: taking the value writes nothing.
            run, self.run = self.run, []
            self.emit(f"{value} = {source}.encode()")
            self.run = run
        else:
            run, self.run = self.run, []
            self.emit(f"{value} = {source}")
            self.run = run
            self.null(value, kind, nullable)
            if kind == "string":
                self.emit(f"{value} = {value}.encode()")
        self.length(kind, f"len({value})")
        self.emit(f"{self.sink} += {value}")
        self.depth = depth

    def array(self, type_: Type, source: str, nullable: bool) -> None:
        depth = self.depth
        value, item = self.fresh("value"), self.fresh("item")
        run, self.run = self.run, []
        self.emit(f"{value} = {source}")
        self.run = run
        self.null(value, "array", nullable)
        self.length("array", f"len({value})")
        self.emit(f"for {item} in {value}:")
        self.depth += 1
        element = type_.element
        assert element is not None
        if element.struct is not None:
            self.fields(schema_of(element.struct), item)
        else:
            self.value(element, item, False)
        self.settle()
        self.depth = depth

    def nested(self, type_: Type, source: str, nullable: bool, *, tagged: bool = False) -> None:
        assert type_.struct is not None
        depth = self.depth
        value = self.fresh("value")
        self.emit(f"{value} = {source}")
        if nullable:
            null = r"\x00" if tagged else r"\xff"
            self.emit(f"if {value} is None:", f"    {self.sink} += b'{null}'", "else:")
            self.depth += 1
            self.run.append(("b", "1"))
        self.fields(schema_of(type_.struct), value)
        self.settle()
        self.depth = depth


def _classes(cls: type[Any], found: dict[str, Any]) -> dict[str, Any]:
    """All struct classes that a declaration reaches, by name."""
    found[cls.__name__] = cls
    for field in schema_of(cls).fields:
        inner = field.type.element or field.type
        if inner.struct is not None and inner.struct.__name__ not in found:
            _classes(inner.struct, found)
    return found


def _check_version(cls: type[Any], version: int) -> Schema:
    schema = schema_of(cls)
    if version not in schema.versions:
        raise errors.UnknownApiError(f"{schema.name} has versions {schema.versions}, not {version}")
    return schema


def _decode_source(cls: type[Any], version: int) -> tuple[str, dict[str, Any]]:
    schema = _check_version(cls, version)
    writer = _DecodeWriter(schema, version)
    writer.class_of = _classes(cls, {})
    writer.names.update(
        new=object.__new__, read_uvarint=read_uvarint, read_tags=read_tags, struct_error=struct_module.error
    )
    for kind in (errors.TruncatedError, errors.TrailingBytesError, errors.LengthError, errors.TextError):
        writer.names[kind.__name__] = kind
    writer.depth = 2
    made = writer.fields(schema, "made")
    writer.emit(
        "if pos != end:",
        "    wrong = TrailingBytesError if pos < end else TruncatedError",
        "    raise wrong(f'decoded to {pos}, the message ends at {end}')",
        f"return {made}",
    )
    head = ["def decode(buf, pos, end):", f'    """{schema.name} v{version}"""', "    try:"]
    tail = [
        "    except (struct_error, IndexError) as error:",
        "        raise TruncatedError('a field reaches beyond the end') from error",
        "    except UnicodeDecodeError as error:",
        "        raise TextError(str(error)) from error",
    ]
    return "\n".join(head + writer.lines + tail) + "\n", writer.names


def _encode_source(cls: type[Any], version: int) -> tuple[str, dict[str, Any]]:
    schema = _check_version(cls, version)
    writer = _EncodeWriter(schema, version)
    writer.names.update(write_uvarint=write_uvarint)
    writer.fields(schema, "m")
    writer.settle()
    head = ["def encode(m, out):", f'    """{schema.name} v{version}"""']
    return "\n".join(head + (writer.lines or ["    pass"])) + "\n", writer.names


def _compile(source: str, names: dict[str, Any], title: str) -> dict[str, Any]:
    """Compile generated source so that tracebacks and the debugger can show it (as attrs and cattrs do)."""
    linecache.cache[title] = (len(source), None, source.splitlines(True), title)
    code: CodeType = compile(source, title, "exec")
    exec(code, names)
    return names


_made: dict[str, Any] = {}
"""Compiled functions by title: message names are unique, as they are in Kafka's definitions."""


def decoder(cls: type[T], version: int) -> Callable[[bytes, int, int], T]:
    """The function that decodes `buf[pos:end]` as `cls` in `version`; UnknownApiError for a version it has not."""
    title = f"<protocol {cls.__name__} v{version} decode>"
    if title not in _made:
        _made[title] = _compile(*_decode_source(cls, version), title)["decode"]
    decode: Callable[[bytes, int, int], T] = _made[title]
    return decode


def encoder(cls: type[T], version: int) -> Callable[[T, bytearray], None]:
    """The function that appends a `cls` in `version` to a bytearray; UnknownApiError for a version it has not."""
    title = f"<protocol {cls.__name__} v{version} encode>"
    if title not in _made:
        _made[title] = _compile(*_encode_source(cls, version), title)["encode"]
    encode: Callable[[T, bytearray], None] = _made[title]
    return encode


def source_of(cls: type[Any], version: int) -> str:
    """The generated source of both functions, for reading."""
    return _decode_source(cls, version)[0] + "\n\n" + _encode_source(cls, version)[0]


def encode_message(message: Any, version: int) -> bytes:
    """Encode one message to bytes: for the places that are not the wire's hot path."""
    out = bytearray()
    encoder(type(message), version)(message, out)
    return bytes(out)


def decode_message(cls: type[T], version: int, buf: bytes) -> T:
    """Decode all of `buf`: for the places that are not the wire's hot path."""
    return decoder(cls, version)(buf, 0, len(buf))
