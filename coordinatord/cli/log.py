"""`coordinatord log`: show a log's files, check them, and remove damaged parts, without a daemon."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from coordinatord.broker.log.checkpoint import META_PROPERTIES
from coordinatord.broker.log.dump import Decoder, describe, plain
from coordinatord.broker.log.segment import LOG_SUFFIX
from coordinatord.cli.options import fail
from coordinatord.cli.terminal import echo
from kafka_wire.errors import DecodeError

if TYPE_CHECKING:
    from coordinatord.broker.log.repair import Plan

SHOWN_GROUPS = 20

PATH = click.Path(exists=True, path_type=Path)


@click.group(name="log")
def log() -> None:
    """Show, check and repair the files of a log."""


@log.command()
@click.argument("paths", nargs=-1, required=True, type=PATH)
@click.option("--records/--no-records", default=True, help="Show each record, or only the batches.")
@click.option("--raw", is_flag=True, help="Show undecoded keys and values, also of the coordinator's own topics.")
def dump(paths: tuple[Path, ...], records: bool, raw: bool) -> None:
    """Show segments, indexes, journals or whole partitions as text.

    Records of __consumer_offsets, __transaction_state and __share_group_state are decoded. Damage is shown in
    place, and the exit status is 1. Nothing is changed. A daemon may be running.
    """
    damaged = False
    with _system_errors_as_sentences():
        for path in paths:
            if path.is_dir() and not any(path.glob(f"*{LOG_SUFFIX}")):
                fail(f"{path} has no segments: name a partition's directory, or a file.")
            for line in describe(str(path), with_records=records, decoder=plain if raw else decoder_for(path)):
                damaged = damaged or line.startswith("damaged at byte")
                echo(line)
    raise SystemExit(1 if damaged else 0)


@log.command()
@click.argument("path", type=PATH)
def verify(path: Path) -> None:
    """Check every batch of every segment: CRC, offsets, records.

    PATH is a data directory, a partition's directory, or a segment. The daemon itself checks the offsets log when it
    loads it, and after a crash the last writes; this command reads everything.
    """
    segments = damaged = total_bytes = 0
    with _system_errors_as_sentences():
        for segment in _segments(path):
            segments += 1
            total_bytes += segment.stat().st_size
            for line in describe(str(segment)):
                if line.startswith("damaged at byte"):
                    damaged += 1
                    echo(f"{segment} is {line}")
        # A partition without writes has no segments yet.
        if not segments and not (path / META_PROPERTIES).exists():
            fail(f"{path} has no segments: name a data directory, a partition's, or a segment.")
    echo(f"{segments} segments, {total_bytes} bytes, {damaged} damaged")
    raise SystemExit(1 if damaged else 0)


@log.command()
@click.argument("segment", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--from-position", "position", type=click.IntRange(min=0), required=True, help="The byte at which a batch begins."
)
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
def repair(segment: Path, position: int, yes: bool) -> None:
    """Remove everything in a partition from a position of SEGMENT on, so that the daemon can start with the rest.

    Shows what would be removed and asks. The removed bytes are kept beside the segment, in files that end with
    .removed. The removed offsets will be assigned again. The daemon must not be running.
    """
    from coordinatord.broker.log import repair as repairing
    from coordinatord.broker.log.config import LogConfig
    from coordinatord.broker.log.disk import OsDisk
    from coordinatord.broker.log.errors import LogError

    disk, path = OsDisk(), str(segment.absolute())
    try:
        held = repairing.lock(disk, path)
        try:
            witness = Witness(decode=os.path.basename(os.path.dirname(path)).startswith("__consumer_offsets-"))
            made = repairing.plan(disk, path, position, witness)
            for line in _repair_lines(made, witness):
                echo(line)
            if not yes and not _is_confirmed():
                echo("Nothing was changed. Add --yes to repair without asking.")
                raise SystemExit(1)
            for side_file in repairing.carry_out(disk, made, LogConfig().index_interval_bytes):
                echo(f"kept aside: {side_file}")
            echo(f"{made.name} ends at offset {made.end_offset} now.")
        finally:
            held.release()
    except (LogError, OSError) as error:
        fail(str(error))


class Witness:
    """A callback for each record that a repair removes: collects the keys and the groups that they belong to."""

    def __init__(self, *, decode: bool) -> None:
        self._decode = decode
        self.keys: set[bytes | None] = set()
        self.groups: set[str] = set()

    def __call__(self, key: bytes | None, _value: bytes | None) -> None:
        from kafka_wire.records import keys

        if key in self.keys:
            return
        self.keys.add(key)
        if self._decode and key is not None:
            with contextlib.suppress(DecodeError):
                self.groups.add(keys.group_of(keys.decode_key(key)))


def _repair_lines(made: Plan, witness: Witness) -> Iterator[str]:
    """Return lines about the records that a repair would keep and remove."""
    kept_bytes = sum(share.end - share.begin for share in made.kept)
    removed_bytes = sum(share.end - share.begin for share in made.removed)
    readable = sum(share.record_count for share in made.removed)
    yield f"kept: {kept_bytes} bytes of {made.name}, up to offset {made.end_offset - 1}"
    what = f"removed: {removed_bytes} bytes from byte {made.position} of {made.segment.log_path} on"
    if len(made.removed) > 1:
        what += f", with {len(made.removed) - 1} later segments"
    yield what
    for share in made.removed:
        if share.record_count:
            name = os.path.basename(share.path)
            offsets = f"offsets {share.first_offset} to {share.last_offset}"
            yield f"  of {name}, {share.record_count} records can be read: {offsets}"
    yield f"  {readable} records of {len(witness.keys)} keys in all; damaged records are not counted"
    if witness.groups:
        shown = sorted(witness.groups)[:SHOWN_GROUPS]
        more = f" and {len(witness.groups) - len(shown)} more" if len(witness.groups) > len(shown) else ""
        yield f"  groups that fall back to an earlier state: {', '.join(shown)}{more}"


def _is_confirmed() -> bool:
    return sys.stdin.isatty() and click.confirm("Remove them?")


def _segments(path: Path) -> Iterator[Path]:
    """Return the segments of a data directory or of a partition's directory, or the one segment that is named."""
    if path.is_dir():
        yield from sorted(path.glob(f"*{LOG_SUFFIX}"))
        for directory in sorted(entry.path for entry in os.scandir(path) if entry.is_dir()):
            yield from sorted(Path(directory).glob(f"*{LOG_SUFFIX}"))
    elif path.suffix == LOG_SUFFIX:
        yield path


@contextlib.contextmanager
def _system_errors_as_sentences() -> Iterator[None]:
    """Turn errors of the operating system into a sentence without a traceback."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        fail(f"{error.filename or 'a file'}: {error.strerror or error}")


def decoder_for(path: Path) -> Decoder:
    """Return the decoder for the records of a file or partition directory, by the topic in its name."""
    from kafka_wire.records import keys, share_state, transactions

    partition = path.name if path.is_dir() else path.absolute().parent.name
    topic = partition.rpartition("-")[0]
    if topic == "__consumer_offsets":
        return _typed(keys.decode_key, keys.decode_value)
    if topic == "__transaction_state":
        return _typed(transactions.decode_key, lambda _key, value: transactions.decode_value(value))
    if topic == "__share_group_state":
        return _typed(share_state.decode_key, lambda key, value: share_state.decode_value(key.record_type, value))
    return plain


def _typed(decode_key: Callable[[bytes], object], decode_value: Callable[[Any, bytes], object]) -> Decoder:
    """Return a decoder that shows records as messages, or as bytes where they cannot be decoded."""

    def show(key: bytes | None, value: bytes | None) -> str:
        try:
            typed_key = decode_key(key or b"")
            typed_value = "tombstone" if value is None else repr(decode_value(typed_key, value))
        except DecodeError as error:
            return f"{plain(key, value)} ({error})"
        return f"{typed_key!r}: {typed_value}"

    return show
