"""Message declarations: one typed class per message, with version ranges.

    @message(versions="0-9", flexible="6+", api_key=11)
    class JoinGroupRequest:
        group_id: str = string("0+")
        rebalance_timeout_ms: int = int32("1+", default=-1)
        group_instance_id: str | None = string("5+", nullable="5+", default=None)
        protocols: list[JoinGroupRequestProtocol] = array(JoinGroupRequestProtocol, "0+")

The class becomes a slots dataclass: one class for all versions, every field with Kafka's default. From the same
declaration `layout` makes a construct tree, and `generate` turns the tree into Python functions that decode and encode;
the tree itself is the oracle of tests (`reference`).

Version ranges are written as in Kafka's JSON definitions ("3", "0-2", "5+", "none"). A field that is not in a version
keeps its default when decoded and is omitted when encoded.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, TypeVar, dataclass_transform

from kafka_wire.values import FrozenValue, frozen

ZERO_UUID = bytes(16)
"""Kafka's `Uuid.ZERO_UUID`: no topic id. UUIDs are 16 raw bytes throughout."""

OPEN_END = 0x7FFF
"""The last version of a range written with a plus sign."""


@frozen
class Versions(FrozenValue):
    """An inclusive range of versions; empty when `last < first`."""

    first: int
    last: int

    @classmethod
    def parse(cls, text: str) -> Versions:
        """Parse "3", "0-2", "5+" or "none". Raises ValueError otherwise."""
        if text == "none":
            return cls(0, -1)
        if text.endswith("+"):
            return cls(int(text[:-1]), OPEN_END)
        first, _, last = text.partition("-")
        return cls(int(first), int(last or first))

    def __contains__(self, version: int) -> bool:
        return self.first <= version <= self.last

    def __iter__(self) -> Any:
        return iter(range(self.first, self.last + 1))

    def __bool__(self) -> bool:
        return self.first <= self.last

    def __str__(self) -> str:
        if not self:
            return "none"
        if self.last == OPEN_END:
            return f"{self.first}+"
        return str(self.first) if self.first == self.last else f"{self.first}-{self.last}"


NONE = Versions(0, -1)


@frozen
class Type(FrozenValue):
    """A field's type. `kind` is Kafka's name of the type; arrays have `element`, structs have `struct`."""

    kind: str
    element: Type | None = None
    struct: type[Any] | None = None


@frozen
class Field(FrozenValue):
    """One field of a declaration. In the versions `tagged` it is a tagged field with number `tag`."""

    name: str
    type: Type
    versions: Versions
    nullable: Versions
    tagged: Versions
    tag: int
    default: Any

    def fresh_default(self) -> Any:
        """Return the default; a new object if it is mutable."""
        return self.default() if callable(self.default) else self.default


@frozen
class Schema(FrozenValue):
    """The declaration of a message, or of a struct within one (which has no versions of its own)."""

    name: str
    fields: tuple[Field, ...]
    versions: Versions
    flexible: Versions
    api_key: int | None
    request: bool
    surplus: bool
    """True if bytes may follow the message; such bytes are ignored (see `codecs`)."""

    def fields_of(self, version: int) -> list[Field]:
        """Return the untagged fields of `version`, in wire order."""
        return [f for f in self.fields if version in f.versions and version not in f.tagged]

    def tagged_fields_of(self, version: int) -> list[Field]:
        """Return the fields in the tag buffer of `version`, ordered by tag."""
        return sorted(
            (f for f in self.fields if version in f.versions and version in f.tagged), key=lambda field: field.tag
        )


def schema_of(cls: type[Any]) -> Schema:
    """Return the declaration of a message or struct class."""
    schema: Schema = cls.__schema__
    return schema


_absent: dict[type[Any], Any] = {}


def absent(cls: type[T]) -> T:
    """Return a struct's defaults, which a tagged field has when it is not sent: one object, for messages made by the
    thousand. It must not be changed. Encoders recognise the object without comparing its fields.
    """
    made: T | None = _absent.get(cls)
    if made is None:
        made = _absent[cls] = cls()
    return made


class _Declared:
    """A field as a class declares it: the arguments of `Field` as text."""

    __slots__ = ("_default", "_nullable", "_tag", "_tagged", "_type", "_versions")

    def __init__(self, type_: Type, versions: str, nullable: str, default: Any, tagged: str | None, tag: int) -> None:
        self._type = type_
        self._versions = versions
        self._nullable = nullable
        self._default = default
        self._tagged = tagged
        self._tag = tag

    def named(self, name: str) -> Field:
        """Return the field with its name."""
        return Field(
            name=name,
            type=self._type,
            versions=Versions.parse(self._versions),
            nullable=Versions.parse(self._nullable),
            tagged=Versions.parse(self._tagged) if self._tagged else NONE,
            tag=self._tag,
            default=self._default,
        )

    def default(self) -> Any:
        """Return the default in the form that `dataclass` expects."""
        if callable(self._default):
            return dataclasses.field(default_factory=self._default)
        return dataclasses.field(default=self._default)


def _declare(
    type_: Type, versions: str, nullable: str, default: Any, tagged: str | None, tag: int
) -> Any:  # Any: dataclass_transform requires the right-hand side to fit each annotation
    return _Declared(type_, versions, nullable, default, tagged, tag)


def _scalar(kind: str, zero: Any) -> Callable[..., Any]:
    def declare(
        versions: str, *, nullable: str = "none", default: Any = zero, tagged: str | None = None, tag: int = -1
    ) -> Any:
        return _declare(Type(kind), versions, nullable, default, tagged, tag)

    declare.__name__ = declare.__qualname__ = kind
    declare.__doc__ = f"Declare a field of Kafka's type {kind}."
    return declare


boolean = _scalar("bool", False)
int8 = _scalar("int8", 0)
int16 = _scalar("int16", 0)
uint16 = _scalar("uint16", 0)
int32 = _scalar("int32", 0)
int64 = _scalar("int64", 0)
float64 = _scalar("float64", 0.0)
uuid = _scalar("uuid", ZERO_UUID)
string = _scalar("string", "")
bytes_ = _scalar("bytes", b"")
records = _scalar("records", None)


def _type_of(of: Any) -> Type:
    """Return the type for `of`: a struct class or one of the scalar functions above."""
    if isinstance(of, type):
        return Type("struct", struct=of)
    kind: str = of.__name__
    return Type(kind)


def array(
    of: Any, versions: str, *, nullable: str = "none", default: Any = list, tagged: str | None = None, tag: int = -1
) -> Any:
    """Declare an array of structs (`of` a class) or scalars (`of` one of `int32`, `string` …)."""
    return _declare(Type("array", element=_type_of(of)), versions, nullable, default, tagged, tag)


def struct(
    of: type[Any],
    versions: str,
    *,
    nullable: str = "none",
    default: Any = ...,
    tagged: str | None = None,
    tag: int = -1,
) -> Any:
    """Declare a single nested struct. Its default is a struct of defaults, or None if Kafka's default is null."""
    return _declare(_type_of(of), versions, nullable, of if default is ... else default, tagged, tag)


T = TypeVar("T")

METHODS = ("__init__", "__repr__", "__eq__")


@dataclass_transform()
def message(
    *, versions: str = "0+", flexible: str = "none", api_key: int | None = None, surplus: bool = False
) -> Callable[[type[T]], type[T]]:
    """Turn a class of declared fields into a slots dataclass that carries its `Schema` as `__schema__`.

    `api_key` is the key of a request, a response or a coordinator record. A struct within a message has neither key nor
    versions; those of the enclosing message apply. `surplus`: bytes may follow the message, as they may follow any
    request.

    A start declares about a hundred messages and structs and uses a dozen. So this function makes only the class; each
    method, the result of `dataclasses.fields` and the schema are made at first use.
    """

    def decorate(cls: type[T]) -> type[T]:
        content = {"__doc__": cls.__name__, **{name: each for name, each in cls.__dict__.items() if each is not None}}
        declared: dict[str, _Declared] = {name: content.pop(name) for name in cls.__annotations__}
        for name in ("__dict__", "__weakref__"):
            content.pop(name, None)
        content.update({name: _lazy(name, declared) for name in METHODS})
        content["__hash__"] = None
        content["__slots__"] = content["__match_args__"] = tuple(declared)
        content["__dataclass_fields__"] = _Later(lambda made: _whole(made, declared).__dataclass_fields__)
        is_request = api_key is not None and cls.__name__.endswith("Request")
        content["__schema__"] = _Later(
            lambda made: Schema(
                name=made.__name__,
                fields=tuple(field.named(name) for name, field in declared.items()),
                versions=Versions.parse(versions),
                flexible=Versions.parse(flexible),
                api_key=api_key,
                request=is_request,
                surplus=surplus or is_request,
            )
        )
        made: type[T] = type(cls.__name__, cls.__bases__, content)
        made.__qualname__ = cls.__qualname__
        return made

    return decorate


class _Later:
    """An attribute of a class that is computed when it is first read, and then replaced by its value."""

    def __init__(self, make: Callable[[type[Any]], Any]) -> None:
        self._make = make

    def __set_name__(self, owner: type[Any], name: str) -> None:
        self._name = name

    def __get__(self, instance: object, owner: type[Any]) -> Any:
        made = self._make(owner)
        setattr(owner, self._name, made)
        return made


def _lazy(name: str, declared: dict[str, _Declared]) -> Callable[..., Any]:
    """Return a stand-in for a method that `dataclass` would generate; the stand-in generates the method at the first
    call.
    """

    def first_call(self: Any, *arguments: Any, **named: Any) -> Any:
        cls = type(self)
        method = getattr(_whole(cls, declared, name), name)
        method.__qualname__ = f"{cls.__qualname__}.{name}"
        setattr(cls, name, method)
        return method(self, *arguments, **named)

    return first_call


def _whole(cls: type[Any], declared: dict[str, _Declared], only: str = "") -> type[Any]:
    """Return the dataclass with these fields, and with one of METHODS."""
    return dataclasses.make_dataclass(
        cls.__name__,
        [(name, cls.__annotations__[name], field.default()) for name, field in declared.items()],
        namespace={"__doc__": cls.__doc__},  # without `__doc__`, dataclass makes inspect build a signature
        init=only == "__init__",
        repr=only == "__repr__",
        eq=only == "__eq__",
    )
