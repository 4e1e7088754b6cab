"""Writes the source of encoders."""

from __future__ import annotations

from kafka_wire.schema import Schema, Type, schema_of
from kafka_wire.source import FIXED, Writer


class EncodeWriter(Writer):
    """Writes the body of an encoder. Expressions name attributes of `m`; bytes are appended to `out`."""

    sink = "out"

    def settle(self) -> None:
        if not self.run:
            return
        run, self.run = self.run, []
        formats = "".join(fmt for fmt, _ in run)
        pack = self.packer(formats, "pack")
        self.emit(f"{self.sink} += {pack}({', '.join(expression for _, expression in run)})")

    def fields(self, schema: Schema, source: str) -> None:
        """Encode the struct denoted by the expression `source`."""
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
        """Write null where the value is None, and open the branch for non-null values."""
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
        """Write a length or count; `expression` is the plain length, before the 1 that compact forms add."""
        if self.flexible:
            size = self.fresh("n")
            self.emit(f"{size} = {expression} + 1")
            self.emit(f"if {size} < 128:", f"    {self.sink}.append({size})")
            self.emit("else:", f"    {self.sink} += write_uvarint({size})")
        else:
            self.run.append(("h" if kind == "string" else "i", expression))

    def blob(self, kind: str, source: str, nullable: bool) -> None:
        if self.flexible:
            self.compact_blob(kind, source, nullable)
            return
        depth = self.depth
        value = self.fresh("value")
        if kind == "string" and not nullable:
            # Pending fixed-size fields need not be flushed first: reading the value writes nothing.
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
        self.content(kind, value)
        self.depth = depth

    def compact_blob(self, kind: str, source: str, nullable: bool) -> None:
        """A length that fits one byte, as nearly always, is packed with the fixed-size fields before it."""
        value, size = self.fresh("value"), self.fresh("n")
        to_bytes = ".encode()" if kind == "string" else ""
        run, self.run = self.run, []
        if nullable:
            self.emit(f"{value} = {source}", f"if {value}:", f"    {value} = {value}{to_bytes}")
            self.emit(f"    {size} = len({value}) + 1")
            self.emit("else:", f"    {size} = 0 if {value} is None else 1", f"    {value} = b''")
        else:
            self.emit(f"{value} = {source}{to_bytes}", f"{size} = len({value}) + 1")
        self.emit(f"if {size} < 128:")
        self.depth += 1
        if run:
            self.run = [*run, ("B", size)]
            self.settle()
        else:
            self.emit(f"{self.sink}.append({size})")
        self.depth -= 1
        self.emit("else:")
        self.depth += 1
        self.run = run
        self.emit(f"{self.sink} += write_uvarint({size})")
        self.depth -= 1
        self.content(kind, value)

    def content(self, kind: str, value: str) -> None:
        """Append the content bytes; records, which may be megabytes, are not copied where the output supports that."""
        if kind == "records":
            self.emit(f"if {self.sink}.__class__ is Parts:", f"    {self.sink}.keep({value})", "else:")
            self.emit(f"    {self.sink} += {value}")
        else:
            self.emit(f"{self.sink} += {value}")

    def array(self, type_: Type, source: str, nullable: bool) -> None:
        depth = self.depth
        value, item = self.fresh("value"), self.fresh("item")
        run, self.run = self.run, []
        self.emit(f"{value} = {source}")
        self.run = run
        self.null(value, "array", nullable)
        self.length("array", f"len({value})")
        element = type_.element
        assert element is not None
        if element.kind in FIXED:
            self.emit(f"{self.sink} += pack_numbers(f'>{{len({value})}}{FIXED[element.kind]}', *{value})")
            self.depth = depth
            return
        self.emit(f"for {item} in {value}:")
        self.depth += 1
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
