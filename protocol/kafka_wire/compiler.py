"""Compiles a declaration to specialised Python functions, one pair per message and version.

    decode = decoder(JoinGroupRequest, 9)      # (buf: bytes, pos: int, end: int) -> JoinGroupRequest
    encode = encoder(JoinGroupResponse, 9)     # (m: JoinGroupResponse, out: bytearray) -> None

A decoder reads exactly `buf[pos:end]` or raises `DecodeError`. Where `buf` continues past `end`, it may read beyond
`end`, but it notices at the end and raises; so it checks bounds only where a length decides how much is copied.

A decoder that is not `exact` ignores bytes between the message's end and `end`. Requests are decoded this way, as in
Kafka: librdkafka, up to 2.16 at least, sends three surplus bytes when it asks for the metadata of all topics (its
issue 5049). Everything else is decoded exactly: in log records surplus bytes are damage; no broker is known to send
surplus bytes in responses, so there they would mean that a declaration is wrong.

The generated source is plain Python for reading (`python -m kafka_wire source JoinGroupRequest 9`) and debugging. It is
registered in `linecache` as `<kafka_wire JoinGroupRequest v9 decode>`. A run of fixed-size fields becomes one `struct`
call, and nested structs become inline loops: nothing is interpreted at run time, and no field costs a call.
"""

from __future__ import annotations

import linecache
import struct as struct_module
from collections.abc import Callable
from types import CodeType
from typing import Any, TypeVar

from kafka_wire import errors
from kafka_wire.decode_source import DecodeWriter
from kafka_wire.encode_source import EncodeWriter
from kafka_wire.lengths import read_tags, read_uvarint, write_uvarint
from kafka_wire.parts import Parts
from kafka_wire.schema import Schema, schema_of

T = TypeVar("T")


def _classes(cls: type[Any], found: dict[str, Any]) -> dict[str, Any]:
    """All struct classes reachable from a declaration, by name."""
    found[cls.__name__] = cls
    for field in schema_of(cls).fields:
        inner = field.type.element or field.type
        if inner.struct is not None and inner.struct.__name__ not in found:
            _classes(inner.struct, found)
    return found


def _check_version(cls: type[Any], version: int) -> Schema:
    schema = schema_of(cls)
    if version not in schema.versions:
        raise errors.UnknownApiError(f"{schema.name} has versions {schema.versions}, not {version}")
    return schema


def _decode_source(cls: type[Any], version: int, exact: bool) -> tuple[str, dict[str, Any]]:
    schema = _check_version(cls, version)
    writer = DecodeWriter(schema, version)
    writer.class_of = _classes(cls, {})
    writer.names.update(
        new=object.__new__,
        read_uvarint=read_uvarint,
        read_tags=read_tags,
        struct_error=struct_module.error,
    )
    for kind in (errors.TruncatedError, errors.TrailingBytesError, errors.LengthError, errors.TextError):
        writer.names[kind.__name__] = kind
    writer.depth = 2
    made = writer.fields(schema, "made")
    where = "f'decoded to {pos}, the message ends at {end}'"
    writer.emit("if pos > end:", f"    raise TruncatedError({where})")
    if exact:
        writer.emit("if pos < end:", f"    raise TrailingBytesError({where})")
    writer.emit(f"return {made}")
    head = ["def decode(buf, pos, end):", f'    """{schema.name} v{version}"""', "    try:"]
    tail = [
        "    except (struct_error, IndexError) as error:",
        "        raise TruncatedError('a field reaches beyond the end') from error",
        "    except UnicodeDecodeError as error:",
        "        raise TextError(str(error)) from error",
    ]
    return "\n".join(head + writer.lines + tail) + "\n", writer.names


def _encode_source(cls: type[Any], version: int) -> tuple[str, dict[str, Any]]:
    schema = _check_version(cls, version)
    writer = EncodeWriter(schema, version)
    writer.names.update(write_uvarint=write_uvarint, pack_numbers=struct_module.pack, Parts=Parts)
    writer.fields(schema, "m")
    writer.settle()
    head = ["def encode(m, out):", f'    """{schema.name} v{version}"""']
    return "\n".join(head + (writer.lines or ["    pass"])) + "\n", writer.names


def _compile(source: str, names: dict[str, Any], title: str) -> dict[str, Any]:
    """Compile generated source so that tracebacks and the debugger can show it (as attrs and cattrs do)."""
    linecache.cache[title] = (len(source), None, source.splitlines(True), title)
    code: CodeType = compile(source, title, "exec")
    exec(code, names)
    return names


_made: dict[str, Any] = {}
"""Compiled functions by title: message names are unique, as they are in Kafka's definitions."""


def decoder(cls: type[T], version: int, *, exact: bool = True) -> Callable[[bytes, int, int], T]:
    """The function that decodes `buf[pos:end]` as `cls` in `version`; UnknownApiError for an undeclared version. When
    not `exact`, it ignores surplus bytes after the message.
    """
    title = f"<kafka_wire {cls.__name__} v{version} decode{'' if exact else ' begin'}>"
    if title not in _made:
        _made[title] = _compile(*_decode_source(cls, version, exact), title)["decode"]
    decode: Callable[[bytes, int, int], T] = _made[title]
    return decode


def encoder(cls: type[T], version: int) -> Callable[[T, bytearray], None]:
    """The function that appends a `cls` in `version` to a bytearray; UnknownApiError for an undeclared version."""
    title = f"<kafka_wire {cls.__name__} v{version} encode>"
    if title not in _made:
        _made[title] = _compile(*_encode_source(cls, version), title)["encode"]
    encode: Callable[[T, bytearray], None] = _made[title]
    return encode


def source_of(cls: type[Any], version: int, *, exact: bool = True) -> str:
    """The generated source of both functions, for reading."""
    return _decode_source(cls, version, exact)[0] + "\n\n" + _encode_source(cls, version)[0]


def encode_message(message: Any, version: int) -> bytes:
    """Encode one message to bytes, outside the hot path."""
    out = bytearray()
    encoder(type(message), version)(message, out)
    return bytes(out)


def decode_message(cls: type[T], version: int, buf: bytes, *, exact: bool = True) -> T:
    """Decode all of `buf`, outside the hot path."""
    return decoder(cls, version, exact=exact)(buf, 0, len(buf))
