"""Structs: a message or a struct within a message, a nullable struct, and the tagged fields at a struct's end
(KIP-482).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from construct import Adapter, Construct, Container, Struct, stream_read, stream_write

from kafka_wire import errors
from kafka_wire.layout.arrays import Array
from kafka_wire.layout.blobs import String
from kafka_wire.layout.lengths import UnsignedVarint
from kafka_wire.layout.numbers import Fixed, Int8
from kafka_wire.layout.source import DecodeSource, EncodeSource
from kafka_wire.layout.wire import Place, Wire, parse_all, rest, wire_of
from kafka_wire.schema import ZERO_UUID, Field, Type, schema_of

TAGS = "_tagged_fields"
"""The name of a tag buffer among a struct's fields."""


class Record(Wire, Adapter):  # type: ignore[misc]
    """A construct `Struct` whose values are objects of the declared class. Fields that the version does not have get
    their defaults.
    """

    kind = "struct"

    def __init__(self, cls: type[Any], place: Place) -> None:
        schema = schema_of(cls)
        self.cls = cls
        self.annotation = cls.__name__
        self.fields: list[tuple[str, Wire]] = [
            (field.name, wire_of(field.type, _place_of(field, place))) for field in schema.fields_of(place.version)
        ]
        self.tags: TagBuffer | None = None
        if place.flexible:
            tagged = schema.tagged_fields_of(place.version)
            self.tags = TagBuffer([(field, wire_of(field.type, _place_of(field, place))) for field in tagged])
        self.absent = [field for field in schema.fields if place.version not in field.versions]
        parts = [name / wire for name, wire in self.fields]
        Adapter.__init__(self, Struct(*parts, *([] if self.tags is None else [TAGS / self.tags])))

    @classmethod
    def declared(cls, type_: Type, place: Place) -> Construct:
        assert type_.struct is not None
        inner = cls(type_.struct, place.within())
        return NullableRecord(inner, tagged=place.tagged) if place.nullable else inner

    def description(self) -> str:
        return self.annotation

    def parts(self) -> list[tuple[str, Wire]]:
        return self.fields + ([] if self.tags is None else self.tags.parts())

    def _decode(self, obj: Container, context: Any, path: str) -> Any:
        return self.cls(**{name: obj[name] for name, _ in self.fields}, **obj.get(TAGS, {}))

    def _encode(self, obj: Any, context: Any, path: str) -> Container:
        made = Container((name, getattr(obj, name)) for name, _ in self.fields)
        if self.tags is not None:
            made[TAGS] = self.tags.present_in(obj)
        return made

    def emit_decode(self, out: DecodeSource, target: str, name: str) -> None:
        """Write the decoder. Values go straight into the slots of a new object: without `__init__` this takes a half to
        a third of the time.
        """
        made = out.fresh(name) if "." in target else target
        out.emit(f"{made} = new({out.needs.take(self.cls.__module__, self.cls.__name__)})")
        for field, wire in self.fields:
            wire.emit_decode(out, f"{made}.{field}", field)
        if self.tags is not None:
            self.tags.emit_decode(out, made, TAGS)
        out.settle()
        for absent in self.absent:
            out.emit(f"{made}.{absent.name} = {default_of(absent, out)}")
        if made != target:
            out.emit(f"{target} = {made}")

    def emit_encode(self, out: EncodeSource, value: str) -> None:
        value = out.read(value)
        for field, wire in self.fields:
            wire.emit_encode(out, f"{value}.{field}")
        if self.tags is not None:
            self.tags.emit_encode(out, value)

    def emit_encode_element(self, out: EncodeSource, value: str) -> None:
        """Write the body of the loop over an array of this struct. If its only field of variable size is a nullable
        text, which is usually empty (the metadata of an offset), an element with an empty one is packed by one call.
        """
        variable = [(field, wire) for field, wire in self.fields if not isinstance(wire, Fixed)]
        if len(variable) != 1 or (self.tags is not None and self.tags.known):
            self.emit_encode(out, value)
            return
        ((text, wire),) = variable
        if not isinstance(wire, String) or not wire.nullable:
            self.emit_encode(out, value)
            return
        read = out.read(f"{value}.{text}")
        with out.block(f'if {read} == "":'):
            self._emit_around(out, value, text, lambda: wire.length.put_zero(out))
            out.emit("continue")
        self._emit_around(out, value, text, lambda: wire.emit_encode(out, read))

    def _emit_around(self, out: EncodeSource, value: str, text: str, emit_text: Callable[[], None]) -> None:
        """Write the encoder of a struct whose field `text` is encoded by `emit_text`."""
        for field, wire in self.fields:
            if field == text:
                emit_text()
            else:
                wire.emit_encode(out, f"{value}.{field}")
        if self.tags is not None:
            self.tags.emit_encode(out, value)


def record_in(wire: Wire) -> Record | None:
    """Return the struct that a value is, or that an array's elements are; None if there is none."""
    if isinstance(wire, Array):
        wire = wire.element
    if isinstance(wire, NullableRecord):
        wire = wire.inner
    return wire if isinstance(wire, Record) else None


def _place_of(field: Field, place: Place) -> Place:
    version = place.version
    return replace(place, nullable=version in field.nullable, tagged=version in field.tagged)


def default_of(field: Field, out: DecodeSource | EncodeSource) -> str:
    """Return the source of a field's default; a new object if the default is mutable."""
    default = field.default
    if default is list:
        return "[]"
    if isinstance(default, type):
        return f"{out.needs.take(default.__module__, default.__name__)}()"
    if default == ZERO_UUID and field.type.kind == "uuid":
        return out.needs.take("kafka_wire.schema", "ZERO_UUID")
    if isinstance(default, str):
        return json.dumps(default, ensure_ascii=False)
    return 'b""' if default == b"" else repr(default)


def _differs(value: str, default: str, out: EncodeSource) -> str:
    """Return the condition that a value is not the default."""
    if default in ("False", "True"):
        return value if default == "False" else f"not {value}"
    if default.endswith("()"):
        # Code that makes many messages gives them the one struct of defaults: then there are no fields to compare.
        absent = out.needs.constant(
            f"no_{default[:-2]}", f"{out.needs.take('kafka_wire.schema', 'absent')}({default[:-2]})"
        )
        return f"{value} is not {absent} and {value} != {absent}"
    return f"{value} is not None" if default == "None" else f"{value} != {default}"


class NullableRecord(Wire):
    """A nullable struct (KIP-893): an int8 that is negative for null, then the struct. In a tagged field an unsigned
    varint, 0 for null.
    """

    def __init__(self, inner: Record, *, tagged: bool) -> None:
        super().__init__()
        self.inner = inner
        self.tagged = tagged
        self.marker = UnsignedVarint() if tagged else Int8()
        self.annotation = f"{inner.annotation} | None"

    def description(self) -> str:
        return f"{self.inner.description()}, nullable"

    def parts(self) -> list[tuple[str, Wire]]:
        return self.inner.parts()

    def _parse(self, stream: Any, context: Any, path: str) -> Any:
        marker = self.marker._parsereport(stream, context, path)
        if marker == 0 if self.tagged else marker < 0:
            return None
        return self.inner._parsereport(stream, context, path)

    def _build(self, obj: Any, stream: Any, context: Any, path: str) -> Any:
        self.marker._build(1 if obj is not None else 0 if self.tagged else -1, stream, context, path)
        if obj is not None:
            self.inner._build(obj, stream, context, path)
        return obj

    def emit_decode(self, out: DecodeSource, target: str, name: str) -> None:
        marker = out.fresh(f"{name}_marker")
        self.marker.emit_decode(out, marker, name)
        with out.block(f"if {marker} {'== 0' if self.tagged else '< 0'}:"):
            out.emit(f"{target} = None")
        with out.block("else:"):
            self.inner.emit_decode(out, target, name)

    def emit_encode(self, out: EncodeSource, value: str) -> None:
        read = out.read(value)
        if read in out.present:
            out.fixed("b", "1")
            self.inner.emit_encode(out, read)
            return
        with out.block(f"if {read} is None:"):
            out.fixed("b", "0" if self.tagged else "-1")
        with out.block("else:"):
            out.fixed("b", "1")
            self.inner.emit_encode(out, read)


class TagBuffer(Wire):
    """Tagged fields as {name: value} for known tags; unknown tags are skipped. Tags ascend, and each tag occurs
    once.
    """

    def __init__(self, known: list[tuple[Field, Wire]]) -> None:
        super().__init__()
        self.known = known
        self.varint = UnsignedVarint()

    def parts(self) -> list[tuple[str, Wire]]:
        return [(f"{field.name} (tag {field.tag})", wire) for field, wire in self.known]

    def present_in(self, message: Any) -> dict[str, Any]:
        """Return the tagged fields of an object that are written: those that differ from their defaults."""
        values = {field.name: getattr(message, field.name) for field, _ in self.known}
        return {
            field.name: values[field.name] for field, _ in self.known if values[field.name] != field.fresh_default()
        }

    def _parse(self, stream: Any, context: Any, path: str) -> dict[str, Any]:
        known = {field.tag: (field.name, wire) for field, wire in self.known}
        count = self.varint._parsereport(stream, context, path)
        if count > rest(stream):
            raise errors.LengthError(f"{count} tagged fields at {path}")
        values: dict[str, Any] = {}
        last = -1
        for _ in range(count):
            tag = self.varint._parsereport(stream, context, path)
            if tag <= last:
                raise errors.LengthError(f"tag {tag} after tag {last}")
            last = tag
            size = self.varint._parsereport(stream, context, path)
            if size > rest(stream):
                raise errors.TruncatedError(f"tagged field {tag} of {size} bytes")
            data = stream_read(stream, size, path)
            if tag in known:
                name, inner = known[tag]
                values[name] = parse_all(inner, data)
        return values

    def _build(self, obj: dict[str, Any], stream: Any, context: Any, path: str) -> Any:
        present = [(field.tag, wire.build(obj[field.name])) for field, wire in self.known if field.name in obj]
        self.varint._build(len(present), stream, context, path)
        for tag, data in present:
            self.varint._build(tag, stream, context, path)
            self.varint._build(len(data), stream, context, path)
            stream_write(stream, data, len(data), path)
        return obj

    def emit_decode(self, out: DecodeSource, target: str, name: str) -> None:
        """Write the decoder. `target` is the object whose fields these are."""
        for field, _ in self.known:
            out.emit(f"{target}.{field.name} = {default_of(field, out)}")
        with out.block("if not buf[pos]:"):
            out.emit("pos += 1")
        read = out.needs.take("kafka_wire.lengths", "read_tags")
        with out.block("else:"):
            if not self.known:
                out.emit(f"_, pos = {read}(buf, pos, end)")
                return
            found, tag, stop = out.fresh("found"), out.fresh("tag"), out.fresh("stop")
            after, outer = out.fresh("after"), out.fresh("outer_end")
            # Within a tagged field, `end` is that field's end: its content must not read into later bytes.
            out.emit(f"{found}, {after} = {read}(buf, pos, end)", f"{outer} = end")
            with out.block(f"for {tag}, pos, {stop} in {found}:"):
                out.emit(f"end = {stop}")
                for index, (field, wire) in enumerate(self.known):
                    with out.block(f"{'el' if index else ''}if {tag} == {field.tag}:"):
                        wire.emit_decode(out, f"{target}.{field.name}", field.name)
                        out.refuse(f"pos != {stop}", "TrailingBytesError", f'"tagged field {field.name}"')
            out.emit(f"end = {outer}", f"pos = {after}")

    def emit_encode(self, out: EncodeSource, value: str) -> None:
        """Write the encoder. `value` is the object whose fields these are."""
        if not self.known:
            out.fixed("x", "")
            return
        write = out.needs.take("kafka_wire.lengths", "write_uvarint")
        if len(self.known) == 1:
            self._emit_only(out, value, write)
            return
        count, block, outer = out.fresh("count"), out.fresh("block"), out.sink
        out.emit(f"{count} = 0", f'{block} = b""')
        for field, wire in self.known:
            read, part = out.fresh(field.name), out.fresh(f"{field.name}_part")
            out.emit(f"{read} = {value}.{field.name}")
            default = default_of(field, out)
            if default == "None":
                out.present.add(read)
            with out.block(f"if {_differs(read, default, out)}:"):
                out.emit(f"{count} += 1", f"{part} = bytearray()")
                out.sink = part
                wire.emit_encode(out, read)
                out.settle()
                out.sink = outer
                out.emit(f"{block} += {write}({field.tag})", f"{block} += {write}(len({part}))", f"{block} += {part}")
        with out.block(f"if {count}:"):
            out.emit(f"{outer} += {write}({count})", f"{outer} += {block}")
        with out.block("else:"):
            out.emit(f"{outer}.append(0)")

    def _emit_only(self, out: EncodeSource, value: str, write: str) -> None:
        """Write the encoder for a single known field, which is present or absent."""
        field, wire = self.known[0]
        outer, read, part = out.sink, out.fresh(field.name), out.fresh(f"{field.name}_part")
        out.emit(f"{read} = {value}.{field.name}")
        default = default_of(field, out)
        if default == "None":
            out.present.add(read)
        with out.block(f"if {_differs(read, default, out)}:"):
            out.emit(f"{part} = bytearray()")
            out.sink = part
            wire.emit_encode(out, read)
            out.settle()
            out.sink = outer
            assert field.tag < 0x80, "a varint of one byte"
            head = "".join(f"\\{each:o}" for each in (1, field.tag))
            out.emit(f'{outer} += b"{head}"')
            out.emit(f"{outer} += {write}(len({part}))", f"{outer} += {part}")
        with out.block("else:"):
            out.emit(f"{outer}.append(0)")
