"""Values in stories, turned into messages.

`fields("group_id=group, topics=[{name=topic}]")` becomes keyword arguments by way of Python's own parser: `{a=1}` is
read as a call of `dict`. Only literals, the names of the story, and these functions are evaluated:

    subscription(topic, ...)        a consumer's subscription in JoinGroup (consumer protocol v0)
    owning(topic, 0, 1, ...)        the subscription of a consumer of one topic that owns partitions of it (v1)
    assignment(topic, 0, 1, ...)    a consumer's assignment in SyncGroup: partitions of one topic
    header(key, version, flexible)  a request header, for frames that are deliberately wrong
    repeat(value, n)                a string or bytes n times
    batch("a", "b", ...)            a record batch with these values, at timestamps from 1_700_000_000_000 on;
                                    keys=["k", None, ...] are its keys
"""

from __future__ import annotations

import ast
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kafka_wire.codecs import encode_message
from kafka_wire.records.batch import TRANSACTIONAL, BatchBuilder
from kafka_wire.records.consumer import ConsumerProtocolAssignment, ConsumerProtocolSubscription, TopicPartition
from kafka_wire.schema import Type, schema_of

_STRING_OR_BRACE = re.compile(r"""("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')|([{}])""")


def subscription(*topics: str) -> bytes:
    return struct.pack(">h", 0) + encode_message(ConsumerProtocolSubscription(list(topics)), 0)


def owning(topic: str, *partitions: int) -> bytes:
    owned = [TopicPartition(topic, list(partitions))]
    return struct.pack(">h", 1) + encode_message(ConsumerProtocolSubscription([topic], owned_partitions=owned), 1)


def assignment(topic: str, *partitions: int) -> bytes:
    return struct.pack(">h", 0) + encode_message(
        ConsumerProtocolAssignment([TopicPartition(topic, list(partitions))]), 0
    )


def header(api_key: int, api_version: int, flexible: bool = False) -> bytes:
    client_id = b"raw"
    out = struct.pack(">hhih", api_key, api_version, 1, len(client_id)) + client_id
    return out + b"\0" if flexible else out


def batch(
    *record_values: str,
    keys: Sequence[str | None] = (),
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
) -> bytes:
    builder = BatchBuilder()
    for number, value in enumerate(record_values):
        key = keys[number] if number < len(keys) else None
        builder.add(None if key is None else key.encode(), value.encode(), FIRST_TIMESTAMP_MS + number)
    built = builder.finish(
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        attributes=TRANSACTIONAL if transactional else 0,
    )
    return bytes(built)


def repeat(value: Any, times: int) -> Any:
    return value * times


FIRST_TIMESTAMP_MS = 1_700_000_000_000

FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "subscription": subscription,
    "owning": owning,
    "assignment": assignment,
    "header": header,
    "repeat": repeat,
    "batch": batch,
    "dict": dict,
}


def fields(text: str, lookup: Callable[[str], Any], seen: Callable[[str, Any], None]) -> dict[str, Any]:
    """Return `a=1, b={c=2}` as a dictionary. `seen` is called with (source, value) of each function call. Raises
    ValueError.
    """
    call = _parse(f"dict({text})")
    assert isinstance(call, ast.Call)
    made: dict[str, Any] = _evaluate(call, lookup, seen)
    return made


def expression(text: str, lookup: Callable[[str], Any]) -> Any:
    """Return one value. Raises ValueError."""
    return _evaluate(_parse(text), lookup, lambda source, value: None)


def _parse(text: str) -> ast.expr:
    as_calls = _STRING_OR_BRACE.sub(lambda m: m.group(1) or {"{": "dict(", "}": ")"}[m.group(2)], text)
    return ast.parse(as_calls, mode="eval").body


def _evaluate(node: ast.expr, lookup: Callable[[str], Any], seen: Callable[[str, Any], None]) -> Any:
    match node:
        case ast.Constant():
            return node.value
        case ast.List():
            return [_evaluate(item, lookup, seen) for item in node.elts]
        case ast.Name():
            return lookup(node.id)
        case ast.UnaryOp(op=ast.USub()):
            return -_evaluate(node.operand, lookup, seen)
        case ast.BinOp(op=ast.Add()):
            return _evaluate(node.left, lookup, seen) + _evaluate(node.right, lookup, seen)
        case ast.Call(func=ast.Name(id=name)) if name in FUNCTIONS:
            arguments = [_evaluate(argument, lookup, seen) for argument in node.args]
            named = {str(keyword.arg): _evaluate(keyword.value, lookup, seen) for keyword in node.keywords}
            value = FUNCTIONS[name](*arguments, **named)
            if name != "dict":
                seen(ast.unparse(node), value)
            return value
    raise ValueError(f"not a value of a story: {ast.unparse(node)}")


def message(cls: type[Any], given: Mapping[str, Any]) -> Any:
    """Return a message or struct with the given fields; structs within it from dictionaries. Raises ValueError for
    unknown fields.
    """
    types = {field.name: field.type for field in schema_of(cls).fields}
    unknown = set(given) - set(types)
    if unknown:
        raise ValueError(f"{cls.__name__} has no {', '.join(sorted(unknown))}; it has {', '.join(types)}")
    return cls(**{name: _typed(types[name], value) for name, value in given.items()})


def _typed(type_: Type, value: Any) -> Any:
    if value is None:
        return None
    if type_.element is not None:
        return [_typed(type_.element, item) for item in value]
    return message(type_.struct, value) if type_.struct is not None else value
