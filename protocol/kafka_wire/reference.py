"""Turns a declaration into a construct `Struct`: the reference codec.

It is twenty times slower than the functions of `compiler` and was written independently of them. It decodes frames for
people to read (`python -m kafka_wire decode`) and is the oracle for the compiled functions in tests.
"""

from __future__ import annotations

from typing import Any, TypeVar

from construct import Construct, Container

from kafka_wire import errors
from kafka_wire.primitives import (
    SCALARS,
    Blob,
    CompactLength,
    CountedArray,
    NullableStruct,
    Struct,
    TagBuffer,
    Text,
    parse_all,
    parse_begin,
)
from kafka_wire.schema import Field, Schema, Type, schema_of

T = TypeVar("T")
TAGS = "_tagged_fields"

_structs: dict[tuple[type[Any], int], Construct] = {}


def _type(type_: Type, version: int, flexible: bool, nullable: bool, tagged: bool = False) -> Construct:
    if type_.kind in SCALARS:
        return SCALARS[type_.kind]
    if type_.kind == "struct":
        assert type_.struct is not None
        inner = _struct(schema_of(type_.struct), version, flexible)
        return NullableStruct(inner, tagged=tagged) if nullable else inner
    length = CompactLength() if flexible else SCALARS["int16" if type_.kind == "string" else "int32"]
    if type_.kind == "array":
        assert type_.element is not None
        return CountedArray(length, _type(type_.element, version, flexible, nullable=False), nullable)
    blob = Blob(length, nullable)
    return Text(blob) if type_.kind == "string" else blob


def _field(field: Field, version: int, flexible: bool) -> Construct:
    return _type(field.type, version, flexible, version in field.nullable, version in field.tagged)


def _struct(schema: Schema, version: int, flexible: bool) -> Construct:
    parts = [field.name / _field(field, version, flexible) for field in schema.fields_of(version)]
    if flexible:
        known = {f.tag: (f.name, _field(f, version, flexible)) for f in schema.tagged_fields_of(version)}
        parts.append(TAGS / TagBuffer(known))
    return Struct(*parts)


def struct_for(cls: type[Any], version: int) -> Construct:
    """The construct `Struct` of a message in `version`; tagged fields are a dict under `_tagged_fields`."""
    schema = schema_of(cls)
    if version not in schema.versions:
        raise errors.UnknownApiError(f"{schema.name} has versions {schema.versions}, not {version}")
    key = (cls, version)
    if key not in _structs:
        _structs[key] = _struct(schema, version, version in schema.flexible)
    return _structs[key]


def _to_message(value: Any, type_: Type, version: int) -> Any:
    if value is None or type_.kind in SCALARS or type_.kind in ("string", "bytes", "records"):
        return value
    if type_.kind == "array":
        assert type_.element is not None
        return [_to_message(item, type_.element, version) for item in value]
    assert type_.struct is not None
    return _message(type_.struct, value, version)


def _message(cls: type[Any], container: Any, version: int) -> Any:
    found = {**container.get(TAGS, {}), **{k: v for k, v in container.items() if k != TAGS}}
    fields = {f.name: f for f in schema_of(cls).fields}
    return cls(**{n: _to_message(v, fields[n].type, version) for n, v in found.items() if not n.startswith("_io")})


def _to_container(value: Any, type_: Type, version: int, flexible: bool) -> Any:
    if value is None or type_.kind in SCALARS or type_.kind in ("string", "bytes", "records"):
        return value
    if type_.kind == "array":
        assert type_.element is not None
        return [_to_container(item, type_.element, version, flexible) for item in value]
    schema = schema_of(type(value))
    made = Container()
    for field in schema.fields_of(version):
        made[field.name] = _to_container(getattr(value, field.name), field.type, version, flexible)
    if flexible:
        made[TAGS] = {
            field.name: _to_container(getattr(value, field.name), field.type, version, flexible)
            for field in schema.tagged_fields_of(version)
            if getattr(value, field.name) != field.fresh_default()
        }
    return made


def decode(cls: type[T], version: int, data: bytes, *, exact: bool = True) -> T:
    """Decode `data`, or its beginning when not `exact`; raises `DecodeError` as the compiled decoder does."""
    codec = struct_for(cls, version)
    made: T = _message(cls, parse_all(codec, data) if exact else parse_begin(codec, data)[0], version)
    return made


def encode(message: Any, version: int) -> bytes:
    """Encode a message as the compiled encoder does."""
    cls = type(message)
    flexible = version in schema_of(cls).flexible
    built: bytes = struct_for(cls, version).build(_to_container(message, Type("struct", struct=cls), version, flexible))
    return built
