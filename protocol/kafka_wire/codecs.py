"""The functions of the wire, by message and version: what `kafka_wire.generate` wrote, found and imported at first use.

    decode = decoder(JoinGroupRequest, 9)      # (buf: bytes, pos: int, end: int) -> JoinGroupRequest
    encode = encoder(JoinGroupResponse, 9)     # (message: JoinGroupResponse, out: bytearray) -> None

A decoder reads exactly `buf[pos:end]` or raises `DecodeError`. One of a request ignores bytes between the message's end
and `end`, as Kafka does: librdkafka, up to 2.16 at least, sends three surplus bytes when it asks for the metadata of
all topics (its issue 5049). So does one of a consumer's subscription or assignment (records/consumer.py). Everything
else is decoded exactly: in log records surplus bytes are damage; no broker is known to send surplus bytes in responses,
so there they would mean that a declaration is wrong.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import ModuleType
from typing import Any, TypeVar

from kafka_wire import errors
from kafka_wire.schema import schema_of

T = TypeVar("T")

_modules: dict[type[Any], ModuleType] = {}


def generated(cls: type[Any]) -> ModuleType:
    """The module with the functions of a declared class; `NotGenerated` (an ImportError) if it is stale or missing."""
    if cls not in _modules:
        _modules[cls] = importlib.import_module(f"kafka_wire.generated.{cls.__module__.rpartition('.')[2]}")
    return _modules[cls]


def _undeclared(cls: type[Any], version: int) -> errors.UnknownApiError:
    schema = schema_of(cls)
    return errors.UnknownApiError(f"{schema.name} has versions {schema.versions}, not {version}")


def decoder(cls: type[T], version: int) -> Callable[[bytes, int, int], T]:
    """The function that decodes `buf[pos:end]` as `cls` in `version`; UnknownApiError for an undeclared version."""
    found: Callable[[bytes, int, int], T] | None = generated(cls).DECODERS.get((cls, version))
    if found is None:
        raise _undeclared(cls, version)
    return found


def encoder(cls: type[T], version: int) -> Callable[[T, bytearray], None]:
    """The function that appends a `cls` in `version` to a bytearray; UnknownApiError for an undeclared version."""
    found: Callable[[T, bytearray], None] | None = generated(cls).ENCODERS.get((cls, version))
    if found is None:
        raise _undeclared(cls, version)
    return found


def maker(cls: type[T]) -> Callable[..., T]:
    """A function that takes the values of all fields in declaration order and returns a message or struct.

    For those that are created by the hundred thousand. Calling a class looks up `__init__` each time in a cache that
    all types of the process share: 0.15 us at best, 0.4 us where two entries collide, which varies from start to start.
    A function that fills the slots always takes 0.12 us.
    """
    made: Callable[..., T] = generated(cls).MAKERS[cls]
    return made


def encode_message(message: Any, version: int) -> bytes:
    """Encode one message to bytes, outside the hot path."""
    out = bytearray()
    encoder(type(message), version)(message, out)
    return bytes(out)


def decode_message(cls: type[T], version: int, buf: bytes) -> T:
    """Decode all of `buf`, outside the hot path."""
    return decoder(cls, version)(buf, 0, len(buf))
