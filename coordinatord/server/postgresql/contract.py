"""What the rest of this room asks of a store, and what the store promises. tests/server/postgresql holds its model to
it.

- Every change carries the *term* of the leader that makes it. A change of another term than the current one changes
  nothing and raises Fenced.
- `append` is all or nothing for one call, and each partition's rows must begin where its rows end. When it returns,
  they are committed; when it raises, they may be, and nobody may be told of them.
- A connection that is lost in a commit leaves its fate unknown. `append` finds it out before it returns.
- The store does not shorten its answers to a caller that waits: `append` waits until the database is back or `stop`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from coordinatord.broker.log.errors import LogError, LogFailed, StoreAway


class Away(StoreAway):
    """The database cannot be reached, or does not answer in time. Whether the change was made is not known."""


class Fenced(LogFailed):
    """Another node leads now: nothing was changed."""


class Unusable(LogError):
    """The database cannot be used: another version of the tables, missing rights, rows that contradict each other."""


@dataclass(frozen=True, slots=True)
class PartitionKey:
    """A topic's id (16 bytes) and the partition's number."""

    topic_id: bytes
    partition: int


class Row(NamedTuple):
    """A record batch with where it belongs. `segment` is the base offset of the segment that it was written to."""

    key: PartitionKey
    segment: int
    base_offset: int
    last_offset: int
    max_timestamp: int
    batch: bytes | bytearray


_ends = struct.Struct(">q15xi").unpack_from
"""A batch's base offset and last offset delta (kafka_wire.records.batch)."""
_max_timestamp = struct.Struct(">35xq").unpack_from


def row_of(key: PartitionKey, segment: int, batch: bytes | bytearray) -> Row:
    """A batch as a row."""
    base_offset, delta = _ends(batch)
    return Row(key, segment, base_offset, base_offset + delta, _max_timestamp(batch)[0], batch)


class Growth(NamedTuple):
    """A partition's end before and after an append."""

    key: PartitionKey
    topic: str
    end_before: int
    end_after: int


class Held(NamedTuple):
    """A partition as the store holds it."""

    key: PartitionKey
    topic: str
    end_offset: int


class Store(Protocol):
    """See the module."""

    def append(self, growths: Sequence[Growth], rows: Sequence[Row]) -> None:
        """Add rows; returns when they are committed. Raises Fenced, Unusable, or Away after `stop`."""

    def put_file(self, name: str, content: bytes, *, waits: bool = False) -> None:
        """Replace one of the small files. Raises Away at once if the database is away, unless it `waits`."""

    def pause(self) -> None:
        """Wait a moment before another try. Raises Away after `stop`."""

    def replace(self, key: PartitionKey, first: int, end: int, rows: Iterable[Row]) -> None:
        """Put `rows` in the place of those whose base offsets are in [first, end): compaction."""

    def remove(self, key: PartitionKey, segments: Sequence[int]) -> None:
        """Remove the rows of these segments: retention."""

    def forget(self, keys: Sequence[PartitionKey]) -> None:
        """Remove partitions of deleted topics, later, and without telling: the next leader finishes it."""

    def files(self) -> dict[str, bytes]:
        """The small files by name."""

    def partitions(self) -> list[Held]:
        """All partitions of the store's seat, those of deleted topics included."""

    def batches(self) -> Iterator[tuple[PartitionKey, int, bytes]]:
        """(partition, segment, batch) of all rows of these partitions, by partition and in the order of offsets."""
