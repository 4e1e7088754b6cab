"""`python -m kafka_wire`: print generated codec source, decode a frame.

python -m kafka_wire source JoinGroupRequest 9
python -m kafka_wire decode request 0000002a000b0009…          (with or without its four-byte size)
python -m kafka_wire decode response JoinGroup 9 00000007…     (a response does not name its API or version)
python -m kafka_wire apis
"""

from __future__ import annotations

import sys
from typing import Any

import click
from construct import Container

from kafka_wire import errors, headers, reference, registry
from kafka_wire.compiler import source_of
from kafka_wire.schema import schema_of


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Look at Kafka's messages: generated codecs, and frames taken apart."""


def _find(name: str) -> type[Any]:
    from kafka_wire.records import consumer, offsets

    for module in (offsets, consumer):
        found = getattr(module, name, None)
        if found is not None and hasattr(found, "__schema__"):
            return found  # type: ignore[no-any-return]
    for api_key in registry.API_NAMES:
        for cls in registry.messages(api_key):
            if cls.__name__ == name:
                return cls
    raise click.ClickException(f"no message is called {name}; `python -m kafka_wire apis` lists the APIs")


def _is_request(cls: type[Any]) -> bool:
    return any(cls is registry.messages(api_key)[0] for api_key in registry.API_NAMES)


@main.command()
@click.argument("name")
@click.argument("version", type=int)
def source(name: str, version: int) -> None:
    """Print the source that was generated for message NAME in VERSION."""
    try:
        cls = _find(name)
        click.echo(source_of(cls, version, exact=not _is_request(cls)), nl=False)
    except errors.UnknownApiError as error:
        raise click.ClickException(str(error)) from error


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
    """Hex to bytes; a size prefix that matches the length is removed."""
    try:
        data = bytes.fromhex(text if text != "-" else sys.stdin.read())
    except ValueError as error:
        raise click.ClickException(f"that is not hex: {error}") from error
    if len(data) >= 4 and int.from_bytes(data[:4], "big") == len(data) - 4:
        return data[4:]
    return data


def _show(value: Any, depth: int = 0) -> None:
    """Print a container, one field per line."""
    pad = "  " * depth
    for name, item in value.items():
        if name == "_io" or (name == reference.TAGS and not item):
            continue
        if isinstance(item, Container | dict):
            click.echo(f"{pad}{name}:")
            _show(item, depth + 1)
        elif isinstance(item, list) and item and isinstance(item[0], Container):
            click.echo(f"{pad}{name}: {len(item)}")
            for index, element in enumerate(item):
                click.echo(f"{pad}  [{index}]")
                _show(element, depth + 2)
        else:
            click.echo(f"{pad}{name}: {item.hex() if isinstance(item, bytes) else item!r}")


def _parse(cls: type[Any], version: int, data: bytes) -> None:
    from kafka_wire.primitives import parse_all, parse_begin

    click.echo(f"{cls.__name__} v{version}")
    codec = reference.struct_for(cls, version)
    value, rest = parse_begin(codec, data) if _is_request(cls) else (parse_all(codec, data), 0)
    _show(value, 1)
    if rest:
        click.echo(f"not read: {data[-rest:].hex()}")


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
