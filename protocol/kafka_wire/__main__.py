"""`python -m kafka_wire`: each stage from a declaration to a codec, and frames taken apart.

python -m kafka_wire tree JoinGroupRequest 9                   (the construct tree of the declaration)
python -m kafka_wire source JoinGroupRequest 9                 (the functions that were generated from it)
python -m kafka_wire decode request 0000002a000b0009…          (with or without its four-byte size)
python -m kafka_wire decode response JoinGroup 9 00000007…     (a response does not name its API or version)
python -m kafka_wire apis
python -m kafka_wire generate                                  (writes the functions of all messages)
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import click

from kafka_wire import errors, fresh, headers, reference, registry
from kafka_wire.codecs import decoder, encoder
from kafka_wire.generate import messages_of, write
from kafka_wire.layout.structs import Record, record_in
from kafka_wire.layout.tree import layout_of, shown
from kafka_wire.schema import schema_of


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Look at Kafka's messages: generated codecs, and frames taken apart."""


def _find(name: str) -> type[Any]:
    for module in fresh.declared_modules():
        for cls in messages_of(module):
            if cls.__name__ == name:
                return cls
    raise click.ClickException(f"no message is called {name}; `python -m kafka_wire apis` lists the APIs")


def _text(function: Callable[..., Any]) -> str:
    """Return the source of a generated function, even if its module was compiled to C (setup.py), whose source inspect
    cannot find.
    """
    module = fresh.GENERATED / f"{function.__module__.rpartition('.')[2]}.py"
    _, definition, rest = module.read_text(encoding="utf-8").partition(f"def {function.__name__}(")
    return definition + rest.partition("\n\n\n")[0] + "\n"


@main.command()
@click.argument("name")
@click.argument("version", type=int)
def source(name: str, version: int) -> None:
    """Print the functions that were generated for message NAME in VERSION."""
    try:
        cls = _find(name)
        click.echo("\n\n".join([_text(decoder(cls, version)), _text(encoder(cls, version))]), nl=False)
    except (errors.UnknownApiError, fresh.NotGenerated) as error:
        raise click.ClickException(str(error)) from error


@main.command()
@click.argument("name")
@click.argument("version", type=int)
def tree(name: str, version: int) -> None:
    """Print the construct tree of message NAME in VERSION."""
    try:
        layout = layout_of(_find(name), version)
    except errors.UnknownApiError as error:
        raise click.ClickException(str(error)) from error
    click.echo("\n".join([f"{name} v{version}", *shown(layout)]))


@main.command()
def generate() -> None:
    """Write the functions of all messages, unless they are what the declarations say already."""
    if fresh.stored() != fresh.digest() and (changed := write()):
        click.echo(f"modules generated in {fresh.GENERATED}: {len(changed)}")


@main.command()
def apis() -> None:
    """List the declared APIs with their keys and versions."""
    for api_key, name in sorted(registry.API_NAMES.items()):
        schema = schema_of(registry.messages(api_key)[0])
        click.echo(f"{api_key:3d}  {name:<26} {schema.versions!s:<6} flexible {schema.flexible}")


@main.group()
def decode() -> None:
    """Take a frame apart with the reference codec."""


def _bytes(text: str) -> bytes:
    """Convert hex to bytes; a size prefix that matches the length is removed."""
    try:
        data = bytes.fromhex(text if text != "-" else sys.stdin.read())
    except ValueError as error:
        raise click.ClickException(f"that is not hex: {error}") from error
    if len(data) >= 4 and int.from_bytes(data[:4], "big") == len(data) - 4:
        return data[4:]
    return data


def _show(message: Any, layout: Record, depth: int) -> None:
    """Print a message, one field per line: the fields of its version, and the tagged fields that it has."""
    pad = "  " * depth
    fields = {name: getattr(message, name) for name, _ in layout.fields}
    if layout.tags is not None:
        fields |= layout.tags.present_in(message)
    inner = {name.partition(" ")[0]: wire for name, wire in layout.parts()}
    for name, value in fields.items():
        struct = record_in(inner[name])
        if struct is None or value is None or value == []:
            click.echo(f"{pad}{name}: {value.hex() if isinstance(value, bytes) else repr(value)}")
        elif isinstance(value, list):
            click.echo(f"{pad}{name}: {len(value)}")
            for index, element in enumerate(value):
                click.echo(f"{pad}  [{index}]")
                _show(element, struct, depth + 2)
        else:
            click.echo(f"{pad}{name}:")
            _show(value, struct, depth + 1)


def _parse(cls: type[Any], version: int, data: bytes) -> None:
    click.echo(f"{cls.__name__} v{version}")
    message, left = reference.decode(cls, version, data)
    _show(message, layout_of(cls, version), 1)
    if left:
        click.echo(f"not read: {data[-left:].hex()}")


@decode.command("request")
@click.argument("data", metavar="HEX")
def decode_request(data: str) -> None:
    """Take a request apart; its header says what it is. HEX may be - for standard input."""
    frame = _bytes(data)
    try:
        codec = registry.codec(*_key_and_version(frame))
        header, pos = headers.read_request_header(frame, 0, len(frame), codec.flexible)
        click.echo(f"header: correlation_id {header.correlation_id}, client_id {header.client_id!r}")
        _parse(codec.request, codec.api_version, frame[pos:])
    except errors.DecodeError as error:
        raise click.ClickException(f"{type(error).__name__}: {error}") from error


def _key_and_version(frame: bytes) -> tuple[int, int]:
    if len(frame) < 4:
        raise errors.TruncatedError(f"a frame of {len(frame)} bytes has no api key and version")
    return int.from_bytes(frame[:2], "big"), int.from_bytes(frame[2:4], "big")


@decode.command("response")
@click.argument("api")
@click.argument("version", type=int)
@click.argument("data", metavar="HEX")
def decode_response(api: str, version: int, data: str) -> None:
    """Take the response of API (name or key) in VERSION apart."""
    frame = _bytes(data)
    keys = {name: key for key, name in registry.API_NAMES.items()}
    api_key = int(api) if api.isdigit() else keys.get(api, -1)
    try:
        codec = registry.codec(api_key, version)
        if len(frame) < 5:
            raise errors.TruncatedError(f"a response of {len(frame)} bytes")
        click.echo(f"header: correlation_id {int.from_bytes(frame[:4], 'big', signed=True)}")
        pos = 4
        if codec.response_header_flexible:
            from kafka_wire.lengths import read_tags

            _, pos = read_tags(frame, pos, len(frame))
        _parse(codec.response, version, frame[pos:])
    except (errors.DecodeError, IndexError) as error:
        raise click.ClickException(f"{type(error).__name__}: {error}") from error


if __name__ == "__main__":
    main(prog_name="python -m kafka_wire")
