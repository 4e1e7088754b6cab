"""Arbitrary messages of any declaration, in any version, chosen by Hypothesis or by a seeded generator.

One walk over the declaration asks a `Choices` what to put into each field, so that a message that Hypothesis draws and
one that a seed gives have the same shapes: nulls where the version allows them, empty, single and several elements,
lengths around those where a varint grows by a byte, numbers at the ends of their range. Fields that the version does
not have keep their default, as a decoder leaves them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from hypothesis import strategies as st

from kafka_wire.schema import Field, Type, schema_of

T = TypeVar("T")

RANGES = {
    "int8": (-(2**7), 2**7 - 1),
    "int16": (-(2**15), 2**15 - 1),
    "uint16": (0, 2**16 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "int64": (-(2**63), 2**63 - 1),
}
MAX_ELEMENTS = 3
MAX_DEEP_ELEMENTS = 2  # below the first array: three levels of three would make messages of kilobytes
VARINT_EDGES = (126, 127, 128, 16382, 16383, 16384)  # of a length; the wire has it plus one


class Choices(Protocol):
    """Where an arbitrary message gets its values from."""

    def integer(self, low: int, high: int) -> int: ...
    def one_in(self, n: int) -> bool: ...
    def text(self) -> str: ...
    def binary(self, size: int | None = None) -> bytes: ...


class Seeded:
    """Choices from a `random.Random`: quick, and the same everywhere for the same seed."""

    TEXTS: Sequence[str] = ("", "a", "group-1", "naïve ☃", "𝄞", "\x00", "x" * 127, "ü" * 64, "y" * 16384)

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def integer(self, low: int, high: int) -> int:
        if high - low < 100:
            return self.rng.randint(low, high)
        kind = self.rng.randrange(4)
        if kind == 0:
            return self.rng.choice((low, high, 0, 1, max(low, -1)))
        return self.rng.randint(max(low, -300), min(high, 300)) if kind == 1 else self.rng.randint(low, high)

    def one_in(self, n: int) -> bool:
        return self.rng.randrange(n) == 0

    def text(self) -> str:
        if self.one_in(40):
            return self.rng.choice(self.TEXTS)
        return self.rng.choice(self.TEXTS[:5]) + str(self.rng.randrange(1000))

    def binary(self, size: int | None = None) -> bytes:
        if size is None:
            size = self.rng.choice(VARINT_EDGES) if self.one_in(40) else self.rng.randrange(20)
        return self.rng.randbytes(size)


class Drawn:
    """Choices that Hypothesis draws, and can shrink."""

    def __init__(self, draw: Callable[[st.SearchStrategy[Any]], Any]) -> None:
        self.draw = draw

    def integer(self, low: int, high: int) -> int:
        drawn: int = self.draw(st.integers(low, high))
        return drawn

    def one_in(self, n: int) -> bool:
        return self.integer(0, n - 1) == n - 1  # the simplest choice, 0, is "no"

    def text(self) -> str:
        drawn: str = self.draw(TEXT)
        return drawn

    def binary(self, size: int | None = None) -> bytes:
        drawn: bytes = self.draw(BINARY if size is None else st.binary(min_size=size, max_size=size))
        return drawn


TEXT = st.text(max_size=8) | st.sampled_from(VARINT_EDGES[:3]).map("x".__mul__)
BINARY = st.binary(max_size=12) | st.sampled_from(VARINT_EDGES).map(bytes)


def arbitrary(cls: type[T], version: int, choices: Choices, depth: int = 0) -> T:
    """A message of `cls` with arbitrary values in every field that `version` has."""
    values = {
        field.name: _value(field, version, choices, depth)
        for field in schema_of(cls).fields
        if version in field.versions
    }
    return cls(**values)


def _value(field: Field, version: int, choices: Choices, depth: int) -> Any:
    if version in field.nullable and choices.one_in(4):
        return None
    if version in field.tagged and choices.one_in(2):
        return field.fresh_default()
    type_ = field.type
    if type_.element is None:
        return _single(type_, version, choices, depth)
    count = choices.integer(0, MAX_DEEP_ELEMENTS if depth else MAX_ELEMENTS)
    return [_single(type_.element, version, choices, depth + 1) for _ in range(count)]


def _single(type_: Type, version: int, choices: Choices, depth: int) -> Any:
    if type_.struct is not None:
        return arbitrary(type_.struct, version, choices, depth)
    if type_.kind in RANGES:
        return choices.integer(*RANGES[type_.kind])
    if type_.kind == "float64":
        return choices.integer(-(2**53), 2**53) / 8
    if type_.kind == "bool":
        return choices.one_in(2)
    if type_.kind == "string":
        return choices.text()
    return choices.binary(16 if type_.kind == "uuid" else None)


def messages(cls: type[T], version: int) -> st.SearchStrategy[T]:
    """The Hypothesis strategy for a message in a version."""

    @st.composite
    def build(draw: Callable[[st.SearchStrategy[Any]], Any]) -> T:
        return arbitrary(cls, version, Drawn(draw))

    return build()


def seeded_messages(cls: type[T], version: int, count: int) -> list[T]:
    """`count` messages that are the same in every run: the seed is the message's name and the version."""
    choices = Seeded(random.Random(f"{cls.__name__} {version}"))
    return [arbitrary(cls, version, choices) for _ in range(count)]
