"""Fast constructors for messages that are created by the hundred thousand.

    offset_value = maker(OffsetCommitValue)    # like the class, without default values and keywords

Calling a class looks up `__init__` each time in a cache that all types of the process share: 0.15 us at best, 0.4 us
where two entries collide, which varies from start to start. A function that fills the slots always takes 0.12 us.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from kafka_wire.schema import schema_of

T = TypeVar("T")


def maker(cls: type[T]) -> Callable[..., T]:
    """A function that takes the values of all fields in declaration order and returns a message or struct."""
    names = [field.name for field in schema_of(cls).fields]
    lines = [
        f"def make({', '.join(names)}):",
        f'    """A {cls.__name__}."""',
        "    made_ = new_(class_)",
        *(f"    made_.{name} = {name}" for name in names),
        "    return made_",
    ]
    known: dict[str, Any] = {"new_": object.__new__, "class_": cls}
    exec("\n".join(lines), known)
    make: Callable[..., T] = known["make"]
    return make
