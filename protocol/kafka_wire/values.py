"""Base classes for dataclasses that a start needs. Dataclass would generate their methods as source and compile each
method, which takes about a tenth of a millisecond: 300 methods were a quarter of a start on CPython 3.11. So such a
class is declared without these methods and inherits them; the inherited methods are slower to call:

    @dataclass(slots=True, repr=False, eq=False)
    class Expire(Value):

    @frozen
    class Node(FrozenValue):

Modules that mypyc compiles cannot inherit from these classes; dataclasses in such modules have no such methods.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar, dataclass_transform

T = TypeVar("T")


class Value:
    """A dataclass whose instances are equal if their classes and fields are. Instances cannot be hashed, as the class
    has only `__eq__`.
    """

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
    """A `Value` that never changes: it can be hashed."""

    __slots__ = ()

    def __hash__(self) -> int:
        return hash(self._compared())


@dataclass_transform(frozen_default=True)
def frozen(cls: type[T]) -> type[T]:
    """Make a dataclass with slots that type checkers treat as immutable. At run time nothing prevents changes:
    dataclass would compile two more methods for that, and an `__init__` that bypasses them.
    """
    return dataclass(slots=True, repr=False, eq=False)(cls)
