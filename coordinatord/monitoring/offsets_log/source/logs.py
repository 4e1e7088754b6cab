"""The log that options name, in any place: directories, a broker, a database."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from coordinatord.monitoring.offsets_log.decode.projection import Wanted
from coordinatord.monitoring.offsets_log.source.broker import BrokerRange, BrokerTail, read_fetched
from coordinatord.monitoring.offsets_log.source.options import Options
from coordinatord.monitoring.offsets_log.source.ranges import KindBatch, Range, read
from coordinatord.monitoring.offsets_log.source.store_log import StoreRange, StoreTail, read_stored
from coordinatord.monitoring.offsets_log.source.tail import FileTail, Position

Part = Range | BrokerRange | StoreRange
Tail = FileTail | BrokerTail | StoreTail


def tail_of(options: Options) -> Tail:
    """Return the log as it grows."""
    if options.bootstrap:
        return BrokerTail(options)
    return FileTail(options) if options.store is None else StoreTail(options)


def begins(tail: Tail) -> Position:
    """Return the beginning of the log if a request is needed for it: a broker may have deleted earlier records."""
    return tail.begins() if isinstance(tail, BrokerTail) else {}


def read_part(part: Part, wanted: Wanted, on_replaced: str = "reread") -> Iterator[KindBatch]:
    """Return the record batches of a range."""
    if isinstance(part, BrokerRange):
        return read_fetched(part, wanted)
    return read_stored(part, wanted) if isinstance(part, StoreRange) else read(part, wanted, on_replaced)


def reading_on(parts: Sequence[Part]) -> list[Part]:
    """Return the parts of one log for a reader that needs the last record of each key and reads only once: the last
    part of a broker's log continues to the current end if necessary.
    """
    return [replace(part, reads_on=part is parts[-1]) if isinstance(part, BrokerRange) else part for part in parts]


def name_of(part: Part) -> str:
    """Return the name of a range's log."""
    if isinstance(part, BrokerRange):
        return f"{part.options.topic}-{part.partition}"
    return part.name if isinstance(part, StoreRange) else part.log.name
