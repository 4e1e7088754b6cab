"""The log that options name, wherever it is: directories, a broker, a database."""

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
    """The log as it grows."""
    if options.bootstrap:
        return BrokerTail(options)
    return FileTail(options) if options.store is None else StoreTail(options)


def begins(tail: Tail) -> Position:
    """Where the log begins, as far as that has to be asked for: a broker may have deleted earlier records."""
    return tail.begins() if isinstance(tail, BrokerTail) else {}


def read_part(part: Part, wanted: Wanted, on_replaced: str = "reread") -> Iterator[KindBatch]:
    """The record batches of a range."""
    if isinstance(part, BrokerRange):
        return read_fetched(part, wanted)
    return read_stored(part, wanted) if isinstance(part, StoreRange) else read(part, wanted, on_replaced)


def reading_on(parts: Sequence[Part]) -> list[Part]:
    """The parts of one log, for who wants the last record of each key and reads only once: of a broker's log the last
    part goes on to the end of now if need be.
    """
    return [replace(part, reads_on=part is parts[-1]) if isinstance(part, BrokerRange) else part for part in parts]


def name_of(part: Part) -> str:
    """The name of the log that a range is of."""
    if isinstance(part, BrokerRange):
        return f"{part.options.topic}-{part.partition}"
    return part.name if isinstance(part, StoreRange) else part.log.name
