"""Kafka's primitive types as construct types: the vocabulary of the reference codec.

They follow "Protocol Primitive Types" of Kafka's protocol guide. Each rejects what Kafka rejects (a negative length
that is not null, a varint of six bytes, a count that the rest of the message cannot hold) with a `DecodeError`, so that
tests can compare the reference codec and the compiled codec on bad input too.
"""

from __future__ import annotations

import io
from typing import Any

from construct import (
    Adapter,
    Bytes,
    Construct,
    Flag,
    Float64b,
    Int8sb,
    Int16sb,
    Int16ub,
    Int32sb,
    Int64sb,
    StreamError,
    stream_read,
    stream_write,
)
from construct import Struct as ConstructStruct

from kafka_wire import errors


class UnsignedVarint(Construct):  # type: ignore[misc]  # construct has no annotations
    """A non-negative int32, seven bits per byte, least significant group first, at most five bytes."""

    def _parse(self, stream: Any, context: Any, path: str) -> int:
        value = 0
        for shift in range(0, 35, 7):
            byte: int = stream_read(stream, 1, path)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if value > 0x7FFFFFFF:
                    raise errors.LengthError(f"varint {value} does not fit an int32")
                return value
        raise errors.LengthError("varint of more than five bytes")

    def _build(self, obj: int, stream: Any, context: Any, path: str) -> int:
        value = obj
        while value > 0x7F:
            stream_write(stream, bytes([value & 0x7F | 0x80]), 1, path)
            value >>= 7
        stream_write(stream, bytes([value]), 1, path)
        return obj


class CompactLength(Adapter):  # type: ignore[misc]
    """The length of a compact value, stored plus one, so that 0 is null (-1 here)."""

    def __init__(self) -> None:
        super().__init__(UnsignedVarint())

    def _decode(self, obj: int, context: Any, path: str) -> int:
        return obj - 1

    def _encode(self, obj: int, context: Any, path: str) -> int:
        return obj + 1


def _rest(stream: Any) -> int:
    """Number of bytes left in the message."""
    here = stream.tell()
    end: int = stream.seek(0, io.SEEK_END)
    stream.seek(here)
    return end - int(here)


class Blob(Construct):  # type: ignore[misc]
    """Bytes after their length; None where the length is -1 and null is allowed."""

    def __init__(self, length: Construct, nullable: bool) -> None:
        super().__init__()
        self.length = length
        self.nullable = nullable

    def _parse(self, stream: Any, context: Any, path: str) -> bytes | None:
        size = self.length._parsereport(stream, context, path)
        if size == -1 and self.nullable:
            return None
        if size < 0:
            raise errors.LengthError(f"length {size} at {path}")
        if size > _rest(stream):
            raise errors.TruncatedError(f"{path} has {size} bytes, {_rest(stream)} are left")
        data: bytes = stream_read(stream, size, path)
        return data

    def _build(self, obj: bytes | None, stream: Any, context: Any, path: str) -> Any:
        if obj is None:
            if not self.nullable:
                raise errors.EncodeError(f"{path} must not be null")
            self.length._build(-1, stream, context, path)
        else:
            self.length._build(len(obj), stream, context, path)
            stream_write(stream, obj, len(obj), path)
        return obj


class Text(Adapter):  # type: ignore[misc]
    """A `Blob` of UTF-8 text."""

    def _decode(self, obj: bytes | None, context: Any, path: str) -> str | None:
        if obj is None:
            return None
        try:
            return obj.decode()
        except UnicodeDecodeError as error:
            raise errors.TextError(str(error)) from error

    def _encode(self, obj: str | None, context: Any, path: str) -> bytes | None:
        return None if obj is None else obj.encode()


class CountedArray(Construct):  # type: ignore[misc]
    """Elements after their count; None where the count is -1 and null is allowed."""

    def __init__(self, length: Construct, element: Construct, nullable: bool) -> None:
        super().__init__()
        self.length = length
        self.element = element
        self.nullable = nullable

    def _parse(self, stream: Any, context: Any, path: str) -> list[Any] | None:
        count = self.length._parsereport(stream, context, path)
        if count == -1 and self.nullable:
            return None
        if count < 0 or count > _rest(stream):
            raise errors.LengthError(f"{count} elements at {path}")
        return [self.element._parsereport(stream, context, f"{path}[{index}]") for index in range(count)]

    def _build(self, obj: list[Any] | None, stream: Any, context: Any, path: str) -> Any:
        if obj is None:
            if not self.nullable:
                raise errors.EncodeError(f"{path} must not be null")
            self.length._build(-1, stream, context, path)
        else:
            self.length._build(len(obj), stream, context, path)
            for index, item in enumerate(obj):
                self.element._build(item, stream, context, f"{path}[{index}]")
        return obj


class NullableStruct(Construct):  # type: ignore[misc]
    """KIP-893: an int8 that is negative for null, then the struct. In a tagged field an unsigned varint, 0 for null."""

    def __init__(self, inner: Construct, *, tagged: bool = False) -> None:
        super().__init__()
        self.inner = inner
        self.tagged = tagged
        self.varint = UnsignedVarint()

    def _parse(self, stream: Any, context: Any, path: str) -> Any:
        if self.tagged:
            if self.varint._parsereport(stream, context, path) == 0:
                return None
        elif Int8sb._parsereport(stream, context, path) < 0:
            return None
        return self.inner._parsereport(stream, context, path)

    def _build(self, obj: Any, stream: Any, context: Any, path: str) -> Any:
        Int8sb._build(1 if obj is not None else 0 if self.tagged else -1, stream, context, path)
        if obj is not None:
            self.inner._build(obj, stream, context, path)
        return obj


class TagBuffer(Construct):  # type: ignore[misc]
    """Tagged fields as {name: value} for known tags; unknown tags are skipped (KIP-482)."""

    def __init__(self, known: dict[int, tuple[str, Construct]]) -> None:
        super().__init__()
        self.known = known
        self.varint = UnsignedVarint()

    def _parse(self, stream: Any, context: Any, path: str) -> dict[str, Any]:
        count = self.varint._parsereport(stream, context, path)
        if count > _rest(stream):
            raise errors.LengthError(f"{count} tagged fields at {path}")
        values: dict[str, Any] = {}
        last = -1
        for _ in range(count):
            tag = self.varint._parsereport(stream, context, path)
            if tag <= last:
                raise errors.LengthError(f"tag {tag} after tag {last}")
            last = tag
            size = self.varint._parsereport(stream, context, path)
            if size > _rest(stream):
                raise errors.TruncatedError(f"tagged field {tag} of {size} bytes")
            data = stream_read(stream, size, path)
            if tag in self.known:
                name, inner = self.known[tag]
                values[name] = parse_all(inner, data)
        return values

    def _build(self, obj: dict[str, Any], stream: Any, context: Any, path: str) -> Any:
        present = [(tag, inner.build(obj[name])) for tag, (name, inner) in sorted(self.known.items()) if name in obj]
        self.varint._build(len(present), stream, context, path)
        for tag, data in present:
            self.varint._build(tag, stream, context, path)
            self.varint._build(len(data), stream, context, path)
            stream_write(stream, data, len(data), path)
        return obj


def parse_begin(codec: Construct, data: bytes) -> tuple[Any, int]:
    """Parse a value at the start of `data`; returns it and the number of bytes left after it. `DecodeError` when `data`
    is too short or invalid.
    """
    stream = io.BytesIO(data)
    try:
        value = codec.parse_stream(stream)
    except StreamError as error:
        raise errors.TruncatedError(str(error)) from error
    return value, _rest(stream)


def parse_all(codec: Construct, data: bytes) -> Any:
    """Parse exactly `data`; `DecodeError` when it is too short, too long or invalid."""
    value, rest = parse_begin(codec, data)
    if rest:
        raise errors.TrailingBytesError(f"{rest} bytes after the end")
    return value


SCALARS: dict[str, Construct] = {
    "bool": Flag,
    "int8": Int8sb,
    "int16": Int16sb,
    "uint16": Int16ub,
    "int32": Int32sb,
    "int64": Int64sb,
    "float64": Float64b,
    "uuid": Bytes(16),
}
"""The fixed-size types, under Kafka's names."""

Struct = ConstructStruct
