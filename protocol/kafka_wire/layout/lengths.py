"""Lengths and counts: plain lengths have a fixed size, compact lengths are those of flexible versions (KIP-482). The
length of null is -1.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from construct import stream_read, stream_write

from kafka_wire import errors
from kafka_wire.layout.numbers import Int16, Int32, Number
from kafka_wire.layout.source import DecodeSource, EncodeSource
from kafka_wire.layout.wire import Wire

MAX_TEXT_BYTES = 0x7FFF


class UnsignedVarint(Wire):
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

    def emit_decode(self, out: DecodeSource, target: str, name: str) -> None:
        """Write the decoder. The value nearly always has one byte, which is unpacked together with the fixed-size
        values before it.
        """
        out.fixed("B", target)
        with out.block(f"if {target} > 127:"):
            out.emit(f"{target}, pos = {out.needs.take('kafka_wire.lengths', 'read_uvarint')}(buf, pos, {target})")
            self.emit_check(out, target, name)

    def emit_check(self, out: DecodeSource, target: str, name: str) -> None:
        """Write the check of a value of several bytes, if the type has one."""

    def emit_encode(self, out: EncodeSource, value: str) -> None:
        """Write the encoder. `value` is a variable. A single byte is packed together with the fixed-size values before
        it.
        """
        run, out.run = out.run, []
        with out.block(f"if {value} < 128:"):
            if run:
                out.run = [*run, ("B", value)]
            else:
                out.emit(f"{out.sink}.append({value})")
        with out.block("else:"):
            out.run = run
            out.emit(f"{out.sink} += {out.needs.take('kafka_wire.lengths', 'write_uvarint')}({value})")


class TextVarint(UnsignedVarint):
    """The length plus one of a compact string in a request, or 0 for null. It admits no more bytes than a plain string
    can have, 32,767.

    Kafka's generated decoders reject longer strings (MessageDataGenerator): the string may later be written to a place
    where its length has two bytes, such as the key of a record, or a response to another version. A varint of one byte
    is below the limit, and is not checked.
    """

    def _parse(self, stream: Any, context: Any, path: str) -> int:
        stored = super()._parse(stream, context, path)
        if stored > MAX_TEXT_BYTES + 1:
            raise errors.LengthError(f"length {stored - 1} at {path}")
        return stored

    def emit_check(self, out: DecodeSource, target: str, name: str) -> None:
        out.refuse(
            f"{target} > {MAX_TEXT_BYTES + 1}",
            "LengthError",
            f'f"length {{{target} - 1}} of {name}, beyond {MAX_TEXT_BYTES}"',
        )


class Length(Wire):
    """A length or count. In source a variable holds the stored form; `number` converts it to the length."""

    def number(self, stored: str) -> str:
        """Return the length, as an expression of the stored value."""
        raise NotImplementedError

    def put_null(self, out: EncodeSource) -> None:
        """Append the length of null."""
        raise NotImplementedError

    def put_zero(self, out: EncodeSource) -> None:
        """Append the length of an empty value."""
        raise NotImplementedError

    def present(
        self, out: DecodeSource, stored: str, target: str, name: str, *, nullable: bool, empty: str | None = None
    ) -> AbstractContextManager[None]:
        """Return a context manager for the lines that decode a value which is not null. The lines before them store
        null in `target`, or reject null. `empty`: the literal of an empty value, for types whose nullable values are
        often empty.
        """
        raise NotImplementedError


class PlainLength(Length):
    """A length of fixed size."""

    def __init__(self, number: Number) -> None:
        super().__init__()
        self.stored_as = number

    def description(self) -> str:
        return type(self.stored_as).__name__

    def _parse(self, stream: Any, context: Any, path: str) -> int:
        size: int = self.stored_as._parsereport(stream, context, path)
        return size

    def _build(self, obj: int, stream: Any, context: Any, path: str) -> int:
        self.stored_as._build(obj, stream, context, path)
        return obj

    def emit_decode(self, out: DecodeSource, target: str, name: str) -> None:
        self.stored_as.emit_decode(out, target, name)
        out.settle()

    def emit_encode(self, out: EncodeSource, value: str) -> None:
        self.stored_as.emit_encode(out, value)

    def number(self, stored: str) -> str:
        return stored

    def put_null(self, out: EncodeSource) -> None:
        self.stored_as.emit_encode(out, "-1")

    def put_zero(self, out: EncodeSource) -> None:
        self.stored_as.emit_encode(out, "0")

    @contextmanager
    def present(
        self, out: DecodeSource, stored: str, target: str, name: str, *, nullable: bool, empty: str | None = None
    ) -> Iterator[None]:
        if nullable:
            with out.block(f"if {stored} == -1:"):
                out.emit(f"{target} = None")
            with out.block("else:"):
                self._refuse_negative(out, stored, name)
                yield
        else:
            self._refuse_negative(out, stored, name)
            yield

    def _refuse_negative(self, out: DecodeSource, stored: str, name: str) -> None:
        out.refuse(f"{stored} < 0", "LengthError", f'f"length {{{stored}}} of {name}"')


class CompactLength(Length):
    """The length of a compact value: an unsigned varint of the length plus one, so that 0 is null."""

    def __init__(self, varint: UnsignedVarint) -> None:
        super().__init__()
        self.varint = varint

    def description(self) -> str:
        return "compact"

    def _parse(self, stream: Any, context: Any, path: str) -> int:
        stored: int = self.varint._parsereport(stream, context, path)
        return stored - 1

    def _build(self, obj: int, stream: Any, context: Any, path: str) -> int:
        self.varint._build(obj + 1, stream, context, path)
        return obj

    def emit_decode(self, out: DecodeSource, target: str, name: str) -> None:
        self.varint.emit_decode(out, target, name)

    def emit_encode(self, out: EncodeSource, value: str) -> None:
        """Write the encoder. `value` is a variable that holds the length plus one."""
        self.varint.emit_encode(out, value)

    def number(self, stored: str) -> str:
        return f"{stored} - 1"

    def put_null(self, out: EncodeSource) -> None:
        out.fixed("b", "0")

    def put_zero(self, out: EncodeSource) -> None:
        out.fixed("b", "1")

    @contextmanager
    def present(
        self, out: DecodeSource, stored: str, target: str, name: str, *, nullable: bool, empty: str | None = None
    ) -> Iterator[None]:
        if nullable:
            with out.block(f"if {stored} == 0:"):
                out.emit(f"{target} = None")
            if empty is not None:
                with out.block(f"elif {stored} == 1:"):
                    out.emit(f"{target} = {empty}")
            with out.block("else:"):
                yield
        else:
            out.refuse(f"{stored} == 0", "LengthError", f'"{name} must not be null"')
            yield


SHORT, LONG, COMPACT = PlainLength(Int16()), PlainLength(Int32()), CompactLength(UnsignedVarint())
COMPACT_TEXT = CompactLength(TextVarint())
