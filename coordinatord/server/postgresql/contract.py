"""The interface of the store, and its guarantees. tests/server/postgresql checks its model of the store against them.

- Every change carries the *term* of the leader that makes it. A change with another term than the current one changes
  nothing and raises Fenced.
- `append` is all or nothing for one call, and each partition's rows must begin at its current end. When it returns, the
  rows are committed; when it raises, they may or may not be, and no response may depend on them.
- A connection that is lost in a commit leaves the commit's outcome unknown. `append` determines it before it returns.
- The store has no timeout for a waiting caller: `append` waits until the database is reachable again or `stop`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from coordinatord.broker.log.errors import LogError, LogFailed, StoreAway


class Away(StoreAway):
    """The database cannot be reached, or does not respond in time. Whether the change was made is unknown."""


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
    """A record batch with its place. `segment` is the base offset of the segment that it was written to."""

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
    """Return a batch as a row."""
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
    """The operations. The module's docstring has their guarantees."""

    def append(self, growths: Sequence[Growth], rows: Sequence[Row]) -> None:
        """Add rows; return when they are committed. Raises Fenced, Unusable, or Away after `stop`."""

    def put_file(self, name: str, content: bytes, *, waits: bool = False) -> None:
        """Replace one of the small files. Without `waits`, raises Away at once if the database is unreachable."""

    def pause(self) -> None:
        """Wait a moment before another attempt. Raises Away after `stop`."""

    def replace(self, key: PartitionKey, first: int, end: int, rows: Iterable[Row]) -> None:
        """Replace the rows whose base offsets are in [first, end) by `rows`: compaction."""

    def remove(self, key: PartitionKey, segments: Sequence[int]) -> None:
        """Remove the rows of these segments: retention."""

    def forget(self, keys: Sequence[PartitionKey]) -> None:
        """Remove partitions of deleted topics, later, and without a notice: the next leader finishes it."""

    def files(self) -> dict[str, bytes]:
        """Return the small files by name."""

    def partitions(self) -> list[Held]:
        """Return all partitions of the store's seat, including those of deleted topics."""

    def batches(self) -> Iterator[tuple[PartitionKey, int, bytes]]:
        """Return (partition, segment, batch) of all rows of these partitions, by partition and in the order of
        offsets.
        """
