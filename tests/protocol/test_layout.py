"""A new type is one class: it is declared, parsed, built, generated and shown without anything else that knows it."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_wire import errors, generate, reference
from kafka_wire.layout.numbers import Number
from kafka_wire.layout.source import DecodeSource, EncodeSource
from kafka_wire.layout.tree import layout_of, shown
from kafka_wire.layout.wire import Wire
from kafka_wire.schema import _scalar, array, message, string


class Uint32(Number):
    """Kafka has it; none of the messages that we declare does."""

    kind, format = "uint32", "I"


class Twice(Wire):
    """A byte that is there twice."""

    kind, annotation = "twice", "int"

    def _parse(self, stream: Any, context: Any, path: str) -> int:
        first, second = stream.read(1), stream.read(1)
        if not second:
            raise errors.TruncatedError(path)
        if first != second:
            raise errors.LengthError(f"{path} differs")
        return int(first[0])

    def _build(self, obj: int, stream: Any, context: Any, path: str) -> int:
        stream.write(bytes((obj, obj)))
        return obj

    def emit_decode(self, out: DecodeSource, target: str, name: str) -> None:
        out.fixed("B", target)
        out.fixed("B", second := out.fresh("second"))
        out.refuse(f"{target} != {second}", "LengthError", f'"{name} differs"')

    def emit_encode(self, out: EncodeSource, value: str) -> None:
        out.fixed("B", value)
        out.fixed("B", value)


uint32, twice = _scalar("uint32", 0), _scalar("twice", 7)


@message()
class Inner:
    number: int = uint32("0+")
    pair: int = twice("0+")


@message(versions="0-1", flexible="1+")
class Outer:
    before: int = twice("0+")
    numbers: list[int] = array(uint32, "0+")
    pairs: list[int] = array(twice, "0+")
    inner: list[Inner] = array(Inner, "0+")
    tagged: int = twice("1+", tagged="1+", tag=0)
    text: str | None = string("1+", nullable="1+", default="a 'text'", tagged="1+", tag=1)


@pytest.fixture(scope="module")
def generated() -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(generate.module_text(__name__), names)
    return names


@pytest.mark.parametrize("version", [0, 1])
def test_a_new_type_is_one_class(generated: dict[str, Any], version: int) -> None:
    value = Outer(1, [2, 0xFFFFFFFF], [3, 4], [Inner(5, 6), Inner(7, 8)])
    if version == 1:
        value.tagged, value.text = 9, None
    out = bytearray()
    generated["ENCODERS"][Outer, version](value, out)
    data = bytes(out)
    assert reference.encode(value, version) == data
    assert b"\xff\xff\xff\xff" in data
    decode = generated["DECODERS"][Outer, version]
    assert decode(data, 0, len(data)) == value
    assert reference.decode(Outer, version, data) == (value, 0)
    for cut in range(len(data)):
        for refuse in (lambda part: decode(part, 0, len(part)), lambda part: reference.decode(Outer, version, part)):
            with pytest.raises(errors.DecodeError):
                refuse(data[:cut])
    with pytest.raises(errors.LengthError, match="before differs"):
        decode(b"\0" + data[1:], 0, len(data))


def test_defaults_are_written_as_source(generated: dict[str, Any]) -> None:
    out = bytearray()
    generated["ENCODERS"][Outer, 0](Outer(), out)
    decoded = generated["DECODERS"][Outer, 0](bytes(out), 0, len(out))
    assert (decoded.tagged, decoded.text) == (7, "a 'text'")


def test_the_tree_shows_it() -> None:
    assert list(shown(layout_of(Outer, 1)))[:4] == [
        "  before: Twice",
        "  numbers: Array of Uint32, compact",
        "  pairs: Array of Twice, compact",
        "  inner: Array of Inner, compact",
    ]
