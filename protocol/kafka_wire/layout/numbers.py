"""Values of fixed size: integers, the boolean, the float, the uuid. All are big-endian."""

from __future__ import annotations

from construct import Bytes, FormatField

from kafka_wire.layout.source import DecodeSource, EncodeSource
from kafka_wire.layout.wire import Wire


class Fixed(Wire):
    """A value of fixed size, which `struct` reads and writes together with adjacent values."""

    format = ""
    """The format character or characters of `struct`."""

    def emit_decode(self, out: DecodeSource, target: str, name: str) -> None:
        out.fixed(self.format, target)

    def emit_encode(self, out: EncodeSource, value: str) -> None:
        out.fixed(self.format, value)


class Number(Fixed, FormatField):  # type: ignore[misc]
    """A number of one `struct` character: one call converts an array of numbers."""

    annotation = "int"

    def __init__(self) -> None:
        # Construct accepts only "l" for four bytes; in big-endian that is the same.
        FormatField.__init__(self, ">", self.format.replace("i", "l").replace("I", "L"))


class Int8(Number):
    kind, format = "int8", "b"


class Int16(Number):
    kind, format = "int16", "h"


class Uint16(Number):
    kind, format = "uint16", "H"


class Int32(Number):
    kind, format = "int32", "i"


class Int64(Number):
    kind, format = "int64", "q"


class Float64(Number):
    kind, format, annotation = "float64", "d", "float"


class Boolean(Number):
    """One byte. Any value but 0 is true, for Kafka and for `struct`."""

    kind, format, annotation = "bool", "?", "bool"


class Uuid(Fixed, Bytes):  # type: ignore[misc]
    """Sixteen raw bytes."""

    kind, format, annotation = "uuid", "16s", "bytes"

    def __init__(self) -> None:
        Bytes.__init__(self, 16)
