"""A set in the iteration order of Java's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

K = TypeVar("K")


class JavaSet(frozenset[K]):
    """A frozenset that iterates in the order in which a set of Java would."""

    __slots__ = ("_order",)

    _order: tuple[K, ...]

    def __new__(cls, order: Iterable[K] = ()) -> JavaSet[K]:
        """`order`: distinct elements in iteration order."""
        elements = tuple(order)
        self = super().__new__(cls, elements)
        self._order = elements
        return self

    def __iter__(self) -> Iterator[K]:
        return iter(self._order)

    def __reduce__(self) -> tuple[Any, ...]:
        return JavaSet, (self._order,)
