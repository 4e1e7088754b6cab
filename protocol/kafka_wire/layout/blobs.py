"""Length-prefixed values: strings, bytes and records, each plain or compact."""

from __future__ import annotations

from typing import Any

from construct import Construct, stream_read, stream_write

from kafka_wire import errors
from kafka_wire.layout.lengths import COMPACT, COMPACT_TEXT, LONG, SHORT, CompactLength, Length, PlainLength
from kafka_wire.layout.source import DecodeSource, EncodeSource
from kafka_wire.layout.wire import Place, Wire, rest
from kafka_wire.schema import Type

LARGE_RECORDS = 1 << 20
"""Size of records from which on a request's records are decoded as a view."""


class Blob(Wire):
    """Bytes after their length. A nullable blob whose length is that of null is None."""

    plain: PlainLength = LONG
    annotation = "bytes"
    empty: str | None = None
    """The source literal of an empty value, for types whose nullable values are often empty."""
    decoded = encoded = ""
    """Source appended to an expression: `decoded` turns bytes into the value, `encoded` the value into bytes."""

    def __init__(self, length: Length, nullable: bool) -> None:
        super().__init__()
        self.length = length
        self.nullable = nullable

    @classmethod
    def declared(cls, type_: Type, place: Place) -> Construct:
        return cls(COMPACT if place.flexible else cls.plain, place.nullable)

    def description(self) -> str:
        return f"{type(self).__name__}, {self.length.description()}" + (", nullable" if self.nullable else "")

    def _parse(self, stream: Any, context: Any, path: str) -> Any:
        size = self.length._parsereport(stream, context, path)
        if size == -1 and self.nullable:
            return None
        if size < 0:
            raise errors.LengthError(f"length {size} at {path}")
        if size > rest(stream):
            raise errors.TruncatedError(f"{path} has {size} bytes, {rest(stream)} are left")
        return self.value_of(stream_read(stream, size, path))

    def _build(self, obj: Any, stream: Any, context: Any, path: str) -> Any:
        if obj is None:
            if not self.nullable:
                raise errors.EncodeError(f"{path} must not be null")
            self.length._build(-1, stream, context, path)
        else:
            data = self.bytes_of(obj)
            self.length._build(len(data), stream, context, path)
            stream_write(stream, data, len(data), path)
        return obj

    def value_of(self, data: bytes) -> Any:
        """Return the value that `data` encodes."""
        return data

    def bytes_of(self, value: Any) -> bytes:
        """Return the encoded value, without its length."""
        data: bytes = value
        return data

    def emit_decode(self, out: DecodeSource, target: str, name: str) -> None:
        size = out.fresh(f"{name}_size")
        self.length.emit_decode(out, size, name)
        with self.length.present(out, size, target, name, nullable=self.nullable, empty=self.empty):
            stop = out.fresh(f"{name}_stop")
            out.emit(f"{stop} = pos + {self.length.number(size)}")
            out.refuse(f"{stop} > end", "TruncatedError", f'f"{name} ends at {{{stop}}}, beyond {{end}}"')
            self.emit_taken(out, target, stop)
            out.emit(f"pos = {stop}")

    def emit_taken(self, out: DecodeSource, target: str, stop: str) -> None:
        """Emit source that takes the value in `buf` from `pos` up to the variable `stop`."""
        out.emit(f"{target} = buf[pos:{stop}]{self.decoded}")

    def emit_encode(self, out: EncodeSource, value: str) -> None:
        name = value.rpartition(".")[2]
        data, size = out.fresh(f"{name}_bytes"), out.fresh(f"{name}_size")
        nullable = self.nullable and value not in out.present
        if isinstance(self.length, CompactLength):
            self._emit_compact(out, value, data, size, nullable)
            self.emit_content(out, data)
        elif not nullable:
            out.put(f"{data} = {value}{self.encoded}")
            self.length.emit_encode(out, f"len({data})")
            self.emit_content(out, data)
        else:
            read = out.read(value)
            with out.block(f"if {read} is None:"):
                self.length.put_null(out)
            with out.block("else:"):
                if self.encoded:
                    out.emit(f"{data} = {read}{self.encoded}")
                else:
                    data = read
                self.length.emit_encode(out, f"len({data})")
                self.emit_content(out, data)

    def _emit_compact(self, out: EncodeSource, value: str, data: str, size: str, nullable: bool) -> None:
        """Emit source that encodes the value, then writes its length together with the fixed-size fields before it."""
        if not nullable:
            out.put(f"{data} = {value}{self.encoded}")
            out.put(f"{size} = len({data}) + 1")
        else:
            read = out.read(value)
            run, out.run = out.run, []
            with out.block(f"if {read}:"):
                out.emit(f"{data} = {read}{self.encoded}", f"{size} = len({data}) + 1")
            with out.block("else:"):
                out.emit(f"{size} = 0 if {read} is None else 1", f'{data} = b""')
            out.run = run
        self.length.emit_encode(out, size)

    def emit_content(self, out: EncodeSource, data: str) -> None:
        """Emit source that appends the variable `data` to the output."""
        out.emit(f"{out.sink} += {data}")


class Bytes(Blob):
    kind = "bytes"


class String(Blob):
    """UTF-8 text. Its plain length is an int16."""

    kind, annotation, plain = "string", "str", SHORT
    empty, decoded, encoded = '""', ".decode()", ".encode()"

    @classmethod
    def declared(cls, type_: Type, place: Place) -> Construct:
        compact = COMPACT_TEXT if place.request else COMPACT
        return cls(compact if place.flexible else cls.plain, place.nullable)

    def value_of(self, data: bytes) -> str:
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise errors.TextError(str(error)) from error

    def bytes_of(self, value: str) -> bytes:
        return value.encode()


class Records(Blob):
    """Batches of records, up to megabytes. If the output is a `Parts`, it keeps the records without a copy. Large
    records in a request are decoded as a view: copying 60 MB would block all threads of the interpreter for 50 ms.
    """

    kind, annotation = "records", "bytes | memoryview"
    in_request = False

    @classmethod
    def declared(cls, type_: Type, place: Place) -> Construct:
        made = cls(COMPACT if place.flexible else cls.plain, place.nullable)
        made.in_request = place.request
        return made

    def emit_taken(self, out: DecodeSource, target: str, stop: str) -> None:
        if not self.in_request:
            super().emit_taken(out, target, stop)
            return
        with out.block(f"if {stop} - pos < {LARGE_RECORDS}:"):
            super().emit_taken(out, target, stop)
        with out.block("else:"):
            out.emit(f"{target} = memoryview(buf)[pos:{stop}]")

    def emit_content(self, out: EncodeSource, data: str) -> None:
        with out.block(f"if isinstance({out.sink}, {out.needs.take('kafka_wire.message_parts', 'Parts')}):"):
            out.emit(f"{out.sink}.keep({data})")
        with out.block("else:"):
            out.emit(f"{out.sink} += {data}")
