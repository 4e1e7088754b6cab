"""Base classes for dataclasses that a start needs. Dataclass would generate their methods as source and compile each
one, for about a tenth of a millisecond: 300 of them were a quarter of a start on CPython 3.11. So such a class is
declared without them and inherits them, slower to call:

    @dataclass(slots=True, repr=False, eq=False)
    class Expire(Value):

    @frozen
    class Node(FrozenValue):

Modules that mypyc compiles cannot inherit from these; theirs have no such methods.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar, dataclass_transform

T = TypeVar("T")


class Value:
    """A dataclass that equals others of its class with equal fields. It cannot be hashed, as it has `__eq__` alone."""

    __slots__ = ()
    __dataclass_fields__: dict[str, Any]

    def __repr__(self) -> str:
        fields = ", ".join(
            f"{name}={getattr(self, name)!r}" for name, field in self.__dataclass_fields__.items() if field.repr
        )
        return f"{type(self).__qualname__}({fields})"

    def __eq__(self, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return self._compared() == other._compared()

    def _compared(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name, field in self.__dataclass_fields__.items() if field.compare)


class FrozenValue(Value):
    """The same for what never changes: it can be hashed."""

    __slots__ = ()

    def __hash__(self) -> int:
        return hash(self._compared())


@dataclass_transform(frozen_default=True)
def frozen(cls: type[T]) -> type[T]:
    """Make a dataclass with slots that type checkers let nobody change. At run time nothing prevents it: dataclass
    would compile two more methods for that, and an `__init__` that goes around them.
    """
    return dataclass(slots=True, repr=False, eq=False)(cls)
