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
from operator import attrgetter
from typing import Any, TypeVar, dataclass_transform

ZERO_UUID = bytes(16)
"""Kafka's `Uuid.ZERO_UUID`: no topic id. UUIDs are 16 raw bytes throughout."""

OPEN_END = 0x7FFF
"""The last version of a range written with a plus sign."""


@dataclasses.dataclass(frozen=True, slots=True)
class Versions:
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


@dataclasses.dataclass(frozen=True, slots=True)
class Type:
    """A field's type. `kind` is Kafka's name of the type; arrays have `element`, structs have `struct`."""

    kind: str
    element: Type | None = None
    struct: type[Any] | None = None
    batched: bool = False
    """True for an array whose position encoders note (message_parts.Noted)."""


@dataclasses.dataclass(frozen=True, slots=True)
class Field:
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


@dataclasses.dataclass(frozen=True, slots=True)
class Schema:
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
    of: Any,
    versions: str,
    *,
    nullable: str = "none",
    default: Any = list,
    tagged: str | None = None,
    tag: int = -1,
    batched: bool = False,
) -> Any:
    """Declare an array of structs (`of` a class) or scalars (`of` one of `int32`, `string` …). `batched`: a server
    encodes the elements in several parts (message_parts.Noted).
    """
    return _declare(Type("array", _type_of(of), batched=batched), versions, nullable, default, tagged, tag)


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


@dataclass_transform()
def message(
    *, versions: str = "0+", flexible: str = "none", api_key: int | None = None, surplus: bool = False
) -> Callable[[type[T]], type[T]]:
    """Turn a class of declared fields into a slots dataclass that carries its `Schema` as `__schema__`.

    `api_key` is the key of a request, a response or a coordinator record. A struct within a message has neither key nor
    versions; those of the enclosing message apply. `surplus`: bytes may follow the message, as they may follow any
    request.
    """

    def decorate(cls: type[T]) -> type[T]:
        declared: dict[str, _Declared] = {name: cls.__dict__[name] for name in cls.__annotations__}
        fields: Any = cls
        for name, field in declared.items():
            setattr(fields, name, field.default())
        fields.__doc__ = cls.__doc__ or cls.__name__
        fields.__init__ = _init_of(declared)
        fields.__repr__, fields.__eq__, fields.__hash__ = _repr_of(tuple(declared)), _eq_of(tuple(declared)), None
        made: Any = dataclasses.dataclass(slots=True, init=False, repr=False, eq=False)(fields)
        is_request = api_key is not None and cls.__name__.endswith("Request")
        made.__schema__ = Schema(
            name=cls.__name__,
            fields=tuple(field.named(name) for name, field in declared.items()),
            versions=Versions.parse(versions),
            flexible=Versions.parse(flexible),
            api_key=api_key,
            request=is_request,
            surplus=surplus or is_request,
        )
        message_class: type[T] = made
        return message_class

    return decorate


# A start declares two hundred messages and constructs a dozen of them. So no method is compiled for a declaration: two
# are closures, and `__init__` is compiled by the first call.


def _init_of(declared: dict[str, _Declared]) -> Callable[..., None]:
    def first_call(self: Any, *arguments: Any, **named: Any) -> None:
        cls: Any = type(self)
        fields = [(name, cls.__annotations__[name], field.default()) for name, field in declared.items()]
        made: Any = dataclasses.make_dataclass(cls.__name__, fields, repr=False, eq=False)
        cls.__init__ = made.__init__
        cls.__init__(self, *arguments, **named)

    return first_call


def _repr_of(names: tuple[str, ...]) -> Callable[[Any], str]:
    def show(self: Any) -> str:
        return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"

    return show


def _eq_of(names: tuple[str, ...]) -> Callable[[Any, object], bool]:
    values = attrgetter(*names) if names else bool

    def equals(self: Any, other: object) -> bool:
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    return equals
