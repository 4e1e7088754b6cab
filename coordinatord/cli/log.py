"""`coordinatord log`: look into a log's files, and check them, without a daemon."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

from coordinatord.log.dump import Decoder, describe, plain
from protocol.errors import DecodeError

PATH = click.Path(exists=True, path_type=Path)


@click.group(name="log")
def log() -> None:
    """Look into the files of a log, and check them."""


@log.command()
@click.argument("paths", nargs=-1, required=True, type=PATH)
@click.option("--records/--no-records", default=True, help="Each record, or the batches only.")
@click.option("--raw", is_flag=True, help="Keys and values as they are, in the coordinator's own topics too.")
def dump(paths: tuple[Path, ...], records: bool, raw: bool) -> None:
    """Show segments, indexes, journals or whole partitions as text.

    Records of __consumer_offsets and __transaction_state are decoded. Damage is shown where it is, with exit status 1;
    nothing is changed. A daemon may be running.
    """
    damaged = False
    for path in paths:
        for line in describe(str(path), with_records=records, decoder=plain if raw else decoder_for(path)):
            damaged = damaged or line.startswith("damaged at byte")
            click.echo(line)
    raise SystemExit(1 if damaged else 0)


@log.command()
@click.argument("data_dir", type=PATH)
def verify(data_dir: Path) -> None:
    """Check every batch of every segment in a data directory: CRC, offsets, records.

    The daemon checks the offsets log when it loads it, and after a crash what was written last; this reads everything.
    """
    segments = damaged = total_bytes = 0
    for path in _segments(data_dir):
        segments += 1
        total_bytes += path.stat().st_size
        for line in describe(str(path)):
            if line.startswith("damaged at byte"):
                damaged += 1
                click.echo(f"{path} is {line}")
    click.echo(f"{segments} segments, {total_bytes} bytes, {damaged} damaged")
    raise SystemExit(1 if damaged else 0)


def _segments(data_dir: Path) -> Iterator[Path]:
    for directory in sorted(entry.path for entry in os.scandir(data_dir) if entry.is_dir()):
        yield from sorted(Path(directory).glob("*.log"))


def decoder_for(path: Path) -> Decoder:
    """How to show the records of a file or partition directory, by the topic in its name."""
    from protocol.records import keys, transactions

    partition = path.name if path.is_dir() else path.absolute().parent.name
    topic = partition.rpartition("-")[0]
    if topic == "__consumer_offsets":
        return _typed(keys.decode_key, keys.decode_value)
    if topic == "__transaction_state":
        return _typed(transactions.decode_key, lambda _key, value: transactions.decode_value(value))
    return plain


def _typed(decode_key: Callable[[bytes], object], decode_value: Callable[[Any, bytes], object]) -> Decoder:
    """Records as messages, or as bytes where they cannot be read."""

    def show(key: bytes | None, value: bytes | None) -> str:
        try:
            typed_key = decode_key(key or b"")
            typed_value = "tombstone" if value is None else repr(decode_value(typed_key, value))
        except DecodeError as error:
            return f"{plain(key, value)} ({error})"
        return f"{typed_key!r}: {typed_value}"

    return show
