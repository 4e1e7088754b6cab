"""The base of every type of the wire format: a construct that can also write the source of its decoder and its
encoder.
"""

from __future__ import annotations

import io
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from construct import Construct, StreamError

from kafka_wire import errors
from kafka_wire.layout.source import DecodeSource, EncodeSource
from kafka_wire.schema import Type


@dataclass(frozen=True, slots=True)
class Place:
    """The context of a value: the version of the message, and whether null is allowed, whether the value is a tagged
    field, and whether the message is a request (`request`), which peers write.
    """

    version: int
    flexible: bool
    request: bool
    nullable: bool = False
    tagged: bool = False

    def within(self) -> Place:
        """Return the place of an array's elements, or of a struct that is the value itself: never null, never
        tagged.
        """
        return replace(self, nullable=False, tagged=False)


class Wire(Construct):  # type: ignore[misc]  # construct has no annotations
    """A type of the wire format. `_parse` and `_build` are construct's methods; a subclass has its emitters next to
    them.

    The two must agree on the bytes, and on the input that is rejected. Tests compare them in every version of every
    message.
    """

    kind: ClassVar[str] = ""
    """Kafka's name of the type, as in `kafka_wire.schema.Type.kind`; "" for parts of other types."""

    KINDS: ClassVar[dict[str, type[Wire]]] = {}

    annotation = "Any"
    """The Python type of a value, in source."""

    def __init_subclass__(cls) -> None:
        if "kind" in cls.__dict__:
            Wire.KINDS[cls.kind] = cls

    @classmethod
    def declared(cls, type_: Type, place: Place) -> Construct:
        """Return the construct of a declared type at a place."""
        return cls()

    def emit_decode(self, out: DecodeSource, target: str, name: str) -> None:
        """Write the lines that read a value at `buf[pos]` into `target`, a variable or an attribute. `name` is the
        field's name, for errors.
        """
        raise NotImplementedError

    def emit_encode(self, out: EncodeSource, value: str) -> None:
        """Write the lines that append the value of the expression `value`, an attribute or a variable."""
        raise NotImplementedError

    def emit_encode_element(self, out: EncodeSource, value: str) -> None:
        """Write the body of the loop over an array, for the element in the variable `value`."""
        self.emit_encode(out, value)

    def description(self) -> str:
        """Return the description of the type in the output of `python -m kafka_wire tree`."""
        return type(self).__name__

    def parts(self) -> list[tuple[str, Wire]]:
        """Return the parts that `python -m kafka_wire tree` shows below the type: (name, type)."""
        return []


def wire_of(type_: Type, place: Place) -> Wire:
    """Return the construct of a declared type at a place."""
    found: Wire = Wire.KINDS[type_.kind].declared(type_, place)
    return found


def rest(stream: Any) -> int:
    """Return the number of bytes left in the message."""
    here = stream.tell()
    end: int = stream.seek(0, io.SEEK_END)
    stream.seek(here)
    return end - int(here)


def parse_begin(codec: Construct, data: bytes) -> tuple[Any, int]:
    """Parse a value at the start of `data`; return it and the number of bytes left after it. Raises `DecodeError` if
    `data` is too short or invalid.
    """
    stream = io.BytesIO(data)
    try:
        value = codec.parse_stream(stream)
    except StreamError as error:
        raise errors.TruncatedError(str(error)) from error
    return value, rest(stream)


def parse_all(codec: Construct, data: bytes) -> Any:
    """Parse exactly `data`. Raises `DecodeError` if `data` is too short, too long or invalid."""
    value, left = parse_begin(codec, data)
    if left:
        raise errors.TrailingBytesError(f"{left} bytes after the end")
    return value
