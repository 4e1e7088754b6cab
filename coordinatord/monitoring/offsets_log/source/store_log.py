"""The offsets log in PostgreSQL: its partitions as they grow, ranges of them, and their batches through the decoder.

The counterparts for directories are `tail.FileTail` and `ranges`. Positions name logs in the same way, so a stream that
has read a copy of the log can continue with the database, and the reverse.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from coordinatord.monitoring.offsets_log.decode import quarantine
from coordinatord.monitoring.offsets_log.decode.chunk import decode
from coordinatord.monitoring.offsets_log.decode.columns import batch_of_rows
from coordinatord.monitoring.offsets_log.decode.projection import Wanted
from coordinatord.monitoring.offsets_log.decode.row_types import QUARANTINE
from coordinatord.monitoring.offsets_log.source import store
from coordinatord.monitoring.offsets_log.source.options import Options
from coordinatord.monitoring.offsets_log.source.ranges import KindBatch
from coordinatord.monitoring.offsets_log.source.segments import CHUNK_BYTES, SourceError
from coordinatord.monitoring.offsets_log.source.store import Place
from coordinatord.monitoring.offsets_log.source.tail import DataLoss, Position, shared_fairly


@dataclass(frozen=True, slots=True)
class StoreRange:
    """Offsets of one partition to read, and their approximate size in bytes."""

    place: Place
    first_offset: int
    next_offset: int
    bytes: int

    @property
    def name(self) -> str:
        return self.place.name


class StoreTail:
    """The partitions of the options' topic in the options' database."""

    def __init__(self, options: Options) -> None:
        assert options.store is not None
        self.options = options
        self.absent: frozenset[str] = frozenset()
        """Logs that cannot be read for now: none, as the database has all."""
        self._url = options.store

    def logs(self) -> dict[str, Place]:
        """Return the chosen partitions by name. Raises SourceError if the topic has no partition at all."""
        found = [each for each in store.places(self._url) if each.topic == self.options.topic]
        if not found:
            raise SourceError(f"the database has no records of {self.options.topic}: no group has committed there yet")
        chosen = [
            each for each in found if self.options.partitions is None or each.partition in self.options.partitions
        ]
        return {each.name: each for each in chosen}

    def ends(self) -> Position:
        """Return the end of each partition."""
        return {name: place.end_offset for name, place in self.logs().items()}

    def size(self) -> int:
        """Return the log's size in bytes."""
        return store.size(self._url, list(self.logs().values()))

    def limited(self, start: Position, ends: Position, max_bytes: int | None, max_records: int | None) -> Position:
        """Return the end of a micro-batch from `start`: see shared_fairly."""
        logs = self.logs()

        def batches(name: str, first: int, end: int) -> Iterator[tuple[int, int, int]]:
            for _base, size, records, last in store.heads(logs[name], first, end):
                yield size, records, min(last + 1, end)

        return shared_fairly(batches, start, ends, max_bytes, max_records)

    def plan(self, start: Position, end: Position) -> list[StoreRange]:
        """Return ranges of about `split_bytes` between two positions. Raises DataLoss for a missing partition."""
        logs = self.logs()
        wanted: list[tuple[Place, int, int]] = []
        for name, next_offset in end.items():
            first = start.get(name, 0)
            if next_offset > first:
                if name not in logs:
                    raise DataLoss(
                        f"{name} is gone, and the query still had to read its offsets {first} to {next_offset}"
                    )
                wanted.append((logs[name], first, next_offset))
        return self._pieces(wanted)

    def _pieces(self, wanted: Sequence[tuple[Place, int, int]]) -> list[StoreRange]:
        pieces = store.pieces(self._url, wanted, self.options.split_bytes)
        ranges = []
        for place, first, next_offset in wanted:
            of_place = pieces.get(place.partition, [])
            bounds = [first, *(base_offset for base_offset, _ in of_place[1:]), next_offset]
            for (_, size), begin, finish in zip(of_place, bounds, bounds[1:], strict=False):
                ranges.append(StoreRange(place, begin, finish, size))
        return ranges


def read_stored(part: StoreRange, wanted: Wanted) -> Iterator[KindBatch]:
    """Return the record batches of a range. Rows without a valid batch become rows of the quarantine."""
    wanted = replace(
        wanted,
        log_partition=part.place.partition,
        first_offset=part.first_offset,
        next_offset=part.next_offset,
        source=f"coordinatord_batch, {part.name}",
    )
    held: list[tuple[int, bytes]] = []
    size = 0
    for row in store.batches(part.place, part.first_offset, part.next_offset):
        held.append(row)
        size += len(row[1])
        if size >= CHUNK_BYTES:
            yield from _decoded(held, wanted)
            held, size = [], 0
    if held:
        yield from _decoded(held, wanted)


def _decoded(rows: Sequence[tuple[int, bytes]], wanted: Wanted) -> Iterator[KindBatch]:
    buffer = np.frombuffer(bytearray().join(batch for _, batch in rows), np.uint8)
    ends = np.cumsum([len(batch) for _, batch in rows])
    at = 0
    while at < len(buffer):
        decoded = decode(buffer, at, len(buffer), 0, wanted)
        for kind, batches in decoded.tables.items():
            for batch in batches:
                yield kind, batch
        if decoded.at == at:  # this row is no batch
            number = int(np.searchsorted(ends, at, "right"))
            base_offset, data = rows[number]
            if QUARANTINE in wanted.kinds:
                reason = f"the row of offset {base_offset} has no whole batch"
                row = quarantine.bytes_row(quarantine.BYTES, None, None, data, len(data), None, reason)
                yield QUARANTINE, batch_of_rows(QUARANTINE, [row], wanted.log_partition, wanted.source)
            at = int(ends[number])
        else:
            at = decoded.at
