"""Conversion of many numbers of one type at once, for generated codecs: `Unpackers("i")[count](buf, pos)`, and
`Packers("i")[count](*numbers)`.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Any

MANY = 64


class Packers(dict[int, Callable[..., bytes]]):
    """count -> the `pack` of `count` numbers; for more than MANY numbers it is built on every call."""

    def __init__(self, format_: str) -> None:
        super().__init__()
        self._format = format_

    def __missing__(self, count: int) -> Callable[..., bytes]:
        made = Struct(f">{count}{self._format}").pack
        if count <= MANY:
            self[count] = made
        return made


class Unpackers(dict[int, Callable[..., tuple[Any, ...]]]):
    """count -> the `unpack_from` of `count` numbers; for more than MANY numbers it is built on every call."""

    def __init__(self, format_: str) -> None:
        super().__init__()
        self._format = format_

    def __missing__(self, count: int) -> Callable[..., tuple[Any, ...]]:
        made = Struct(f">{count}{self._format}").unpack_from
        if count <= MANY:
            self[count] = made
        return made
