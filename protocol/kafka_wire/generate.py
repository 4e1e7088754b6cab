"""Generator of the modules of `kafka_wire.generated`: Python functions for the wire format, from the construct trees of
`layout`.

    decode_join_group_request_v9(buf: bytes, pos: int, end: int) -> JoinGroupRequest
    encode_join_group_response_v9(message: JoinGroupResponse, out: bytearray) -> None
    make_join_group_response(throttle_time_ms, error_code, …) -> JoinGroupResponse

A decoder reads exactly `buf[pos:end]` or raises `DecodeError`; the decoder of a request ignores bytes after the message
(`Schema.surplus`). If `buf` continues past `end`, a decoder may read beyond `end`, but it detects this at the end and
raises; so it checks bounds only where a length determines the number of copied bytes. Versions of one layout share a
function.

Building a wheel (setup.py), `make` and `python -m kafka_wire generate` run the generator. `kafka_wire.codecs` finds the
functions; `kafka_wire.fresh` detects stale modules.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from kafka_wire import fresh
from kafka_wire.layout.source import DecodeSource, EncodeSource, Needs, folded
from kafka_wire.layout.tree import layout_of
from kafka_wire.schema import OPEN_END, schema_of

HEADER = '''"""Generated from `{module}` by `kafka_wire.generate`: change it there."""

# A None in a version whose layout has no null is an AttributeError or TypeError, not something to check for.
# mypy: disable-error-code="union-attr, arg-type"

from __future__ import annotations

import struct
'''

VERSIONS_FILE = "versions.py"

HANDLERS = [
    "    except (struct.error, IndexError) as error:",
    '        raise TruncatedError("a field reaches beyond the end") from error',
    "    except UnicodeDecodeError as error:",
    "        raise TextError(str(error)) from error",
]


@dataclass(frozen=True)
class Function:
    """A function for one or several versions of a message."""

    name: str
    versions: range
    lines: list[str]


def snake(name: str) -> str:
    """Convert JoinGroupRequest to join_group_request."""
    return "".join(
        "_" + c.lower() if c.isupper() and at and not name[at - 1].isupper() else c.lower() for at, c in enumerate(name)
    )


def messages_of(module: str) -> list[type[Any]]:
    """Return the classes that a module declares, including structs within messages, in the module's order."""
    found = [each for each in vars(importlib.import_module(module)).values() if hasattr(each, "__schema__")]
    return [each for each in found if each.__module__ == module]


def decoder_lines(cls: type[Any], version: int, needs: Needs) -> list[str]:
    """Return the body of a decoder, without its docstring."""
    out = DecodeSource(needs, depth=2)
    made = out.fresh("message")
    layout_of(cls, version).emit_decode(out, made, cls.__name__)
    where = 'f"decoded to {pos}, the message ends at {end}"'
    out.refuse("pos > end", "TruncatedError", where)
    if not schema_of(cls).surplus:
        out.refuse("pos < end", "TrailingBytesError", where)
    out.emit(f"return {made}")
    for name in ("TruncatedError", "TextError"):
        needs.take("kafka_wire.errors", name)
    return ["    try:", *out.lines, *HANDLERS]


def encoder_lines(cls: type[Any], version: int, needs: Needs) -> list[str]:
    """Return the body of an encoder, without its docstring."""
    out = EncodeSource(needs, depth=1)
    layout_of(cls, version).emit_encode(out, "message")
    out.settle()
    return out.lines


def by_layout(
    cls: type[Any], prefix: str, lines_of: Callable[[type[Any], int, Needs], list[str]], needs: Needs
) -> Iterator[Function]:
    """Yield a function for each run of versions that have the same lines."""
    versions = list(schema_of(cls).versions)
    bodies = [lines_of(cls, version, needs) for version in versions]
    first = 0
    for at in range(1, len(versions) + 1):
        if at == len(versions) or bodies[at] != bodies[first]:
            run = range(versions[first], versions[at - 1] + 1)
            last = f"_to_v{run[-1]}" if len(run) > 1 else ""
            yield Function(f"{prefix}_{snake(cls.__name__)}_v{run[0]}{last}", run, bodies[first])
            first = at


def definition(function: Function, cls: type[Any], params: list[str], returns: str) -> str:
    """Return the text of a function."""
    versions = function.versions
    last = f" to v{versions[-1]}" if len(versions) > 1 else ""
    head = folded(f"def {function.name}(", params, f") -> {returns}:", 0)
    return "\n".join([*head, f'    """{cls.__name__} v{versions[0]}{last}."""', *function.lines])


def constructor(cls: type[Any], needs: Needs) -> str:
    """Return the text of a function that takes all fields in declaration order."""
    fields = [field.name for field in schema_of(cls).fields]
    params = [f"{name}: {cls.__annotations__[name]}" for name in fields]
    call = f"new({needs.take(cls.__module__, cls.__name__)})"
    body = [f"made = {call}", *(f"made.{name} = {name}" for name in fields), "return made"]
    return "\n".join(
        [
            *folded(f"def make_{snake(cls.__name__)}(", params, f") -> {cls.__name__}:", 0),
            f'    """A {cls.__name__}: the values of all its fields, without defaults."""',
            *("    " + line for line in (body if fields else [f"return {call}"])),
        ]
    )


def table(name: str, type_: str, rows: list[str]) -> str:
    """Return the text of a dictionary."""
    if not rows:
        return f"{name}: {type_} = {{}}"
    return "\n".join([f"{name}: {type_} = {{", *(f"    {row}," for row in rows), "}"])


def module_text(module: str) -> str:
    """Return the generated module of a module of declarations."""
    needs = Needs()
    needs.take("collections.abc", "Callable")
    needs.take("typing", "Any")
    needs.take("typing", "Final")
    parts: list[str] = []
    decoders: list[str] = []
    encoders: list[str] = []
    classes = messages_of(module)
    for cls in classes:
        if schema_of(cls).versions.last != OPEN_END:
            for function in by_layout(cls, "decode", decoder_lines, needs):
                parts.append(definition(function, cls, ["buf: bytes", "pos: int", "end: int"], cls.__name__))
                decoders += [f"({cls.__name__}, {version}): {function.name}" for version in function.versions]
            for function in by_layout(cls, "encode", encoder_lines, needs):
                params = [f"message: {cls.__name__}", "out: bytearray"]
                parts.append(definition(function, cls, params, "None"))
                encoders += [f"({cls.__name__}, {version}): {function.name}" for version in function.versions]
        parts.append(constructor(cls, needs))
    constructors = [f"{cls.__name__}: make_{snake(cls.__name__)}" for cls in classes]
    tables = [
        table("DECODERS", "dict[tuple[type[Any], int], Callable[[bytes, int, int], Any]]", decoders),
        table("ENCODERS", "dict[tuple[type[Any], int], Callable[[Any, bytearray], None]]", encoders),
        table("CONSTRUCTORS", "dict[type[Any], Callable[..., Any]]", constructors),
    ]
    head = HEADER.format(module=module) + imports(needs)
    # Final: in compiled C, a call of a Final name does not look it up in the module each time.
    constants = {"new": "object.__new__", **dict(sorted(needs.constants.items()))}
    assigned = [f"{name}: Final = {text}" for name, text in constants.items()]
    return head + "\n".join(assigned) + "\n\n\n" + "\n\n\n".join(parts) + "\n\n\n" + "\n\n".join(tables) + "\n"


def imports(needs: Needs) -> str:
    """Return the import statements, the standard library's first."""
    groups: tuple[list[str], list[str]] = ([], [])
    for module, names in sorted(needs.imports.items()):
        ordered = sorted(names, key=lambda name: (not name.isupper(), not name[0].isupper(), name.lower()))
        lines = folded(f"from {module} import ", ordered, "", 0)
        if len(lines) > 1:
            lines = [f"from {module} import (", *(f"    {name}," for name in ordered), ")"]
        groups[module.startswith("kafka_wire")].extend(lines)
    return "\n\n".join("\n".join(group) for group in groups) + "\n\n"


def modules() -> dict[str, str]:
    """Return file name -> text of every generated module."""
    made: dict[str, str] = {}
    for module in fresh.declared_modules():
        name = module.rpartition(".")[2] + ".py"
        if name in made:
            raise ValueError(f"two modules of declarations are called {name}: rename one")
        made[name] = module_text(module)
    made[VERSIONS_FILE] = versions_text()
    return made


def versions_text() -> str:
    """Return the table of every API's versions: a server that advertises all APIs need not import their
    declarations.
    """
    requests = [
        schema
        for module in fresh.declared_modules()
        for schema in map(schema_of, messages_of(module))
        if schema.request
    ]
    rows = sorted((each.api_key or 0, each.versions.first, each.versions.last) for each in requests)
    written = [f"{api_key}: ({first}, {last})" for api_key, first, last in rows]
    head = '"""Generated from the declarations by `kafka_wire.generate`: API key -> (first version, last version)."""'
    return f"{head}\n\n{table('VERSIONS', 'dict[int, tuple[int, int]]', written)}\n"


def write() -> list[str]:
    """Bring the generated modules up to date with the declarations; return the names of the files that changed.

    Each file is replaced as a whole. After an interruption the modules count as stale, since the digest is written
    last.
    """
    wanted = fresh.digest()
    made = modules()
    changed = []
    for path in fresh.GENERATED.glob("*.py"):
        if path.name not in made and path.name != "__init__.py":
            path.unlink()
            changed.append(path.name)
    for name, text in made.items():
        changed += [name] * _replace(name, text)
    _replace(fresh.DIGEST.name, wanted + "\n")
    return changed


def _replace(name: str, text: str) -> bool:
    """Write a file unless it has this content already; return whether it was written."""
    path = fresh.GENERATED / name
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return False
    beside = path.with_name(f".{name}.{os.getpid()}")
    beside.write_text(text, encoding="utf-8")
    beside.replace(path)
    return True
