"""A model of the store: what PostgreSQL does, in memory, with lost connections. The quick tests use it.

tests/server/postgresql/test_store.py plays the same scripts on the model and on PostgreSQL and compares what they say
and what they hold.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from coordinatord.server.postgresql.contract import Away, Fenced, Growth, Held, PartitionKey, Row, Store, Unusable

T = TypeVar("T")

LOST_BEFORE = "lost before"
"""The connection is lost before the statement arrives."""
LOST_AFTER = "lost after"
"""The connection is lost after the commit: its answer does not arrive."""


class ModelDatabase:
    """What survives. `faults` meet the next attempts to append, one each."""

    def __init__(self) -> None:
        self._epoch = 0
        #: by seat
        self.terms: dict[int, int] = {}
        self.partitions: dict[PartitionKey, tuple[str, int]] = {}
        self.seats: dict[PartitionKey, int] = {}
        self.rows: dict[PartitionKey, dict[int, Row]] = {}
        self.files: dict[str, tuple[int, bytes]] = {}
        self.faults: deque[str] = deque()
        self.is_away = False

    @property
    def epoch(self) -> int:
        """The latest term of all seats. Setting it takes the first seat."""
        return self._epoch

    @epoch.setter
    def epoch(self, term: int) -> None:
        self._epoch = self.terms[0] = term

    def take(self, seat: int = 0) -> ModelStore:
        """The next leader of a seat."""
        self._epoch += 1
        self.terms[seat] = self._epoch
        return ModelStore(self, self._epoch, seat)

    def change(self, term: int, work: Callable[[], T], *, may_be_lost: bool = False) -> T:
        """One transaction."""
        fault = self.faults.popleft() if may_be_lost and self.faults else ""
        if self.is_away or fault == LOST_BEFORE:
            raise Away("no connection")
        if term not in self.terms.values():
            raise Fenced(f"epoch {term} does not lead")
        result = work()
        if fault == LOST_AFTER:
            raise Away("no answer")
        return result


class ModelStore:
    """contract.Store over a ModelDatabase. Where the store waits for the database, this one calls `on_wait`."""

    def __init__(self, database: ModelDatabase, term: int, seat: int = 0) -> None:
        self.term = term
        self.seat = seat
        self.appending_since_s: float | None = None
        self.on_wait: Callable[[], object] = lambda: None
        self._database = database
        self._file_version = term << 32

    def append(self, growths: Sequence[Growth], rows: Sequence[Row]) -> None:
        database = self._database
        while True:
            try:
                database.change(self.term, lambda: self._append(growths, rows), may_be_lost=True)
                return
            except Away:
                self.on_wait()

    def _append(self, growths: Sequence[Growth], rows: Sequence[Row]) -> None:
        partitions = self._database.partitions
        if any(self._database.seats.get(growth.key, self.seat) != self.seat for growth in growths):
            raise Unusable("another seat's partition")
        ends = [partitions.get(growth.key, ("", 0))[1] for growth in growths]
        if rows and all(end == growth.end_after for end, growth in zip(ends, growths, strict=True)):
            stored = [self._database.rows[row.key].get(row.base_offset) for row in rows]
            if [bytes(each.batch) if each else None for each in stored] == [bytes(row.batch) for row in rows]:
                return  # an attempt whose answer was lost
        if any(end != growth.end_before for end, growth in zip(ends, growths, strict=True)):
            raise Unusable("a partition ends elsewhere")
        for growth in growths:
            partitions[growth.key] = growth.topic, growth.end_after
            self._database.seats[growth.key] = self.seat
        for row in rows:
            self._database.rows.setdefault(row.key, {})[row.base_offset] = row

    def put_file(self, name: str, content: bytes, *, waits: bool = False) -> None:
        self._file_version += 1
        version = self._file_version

        def put() -> None:
            if self._database.files.get(name, (-1, b""))[0] < version:
                self._database.files[name] = version, content

        while True:
            try:
                self._database.change(self.term, put)
                return
            except Away:
                if not waits:
                    raise
                self.on_wait()

    def pause(self) -> None:
        self.on_wait()

    def replace(self, key: PartitionKey, first: int, end: int, rows: Iterable[Row]) -> None:
        new = list(rows)

        def replace() -> None:
            kept = {base: row for base, row in self._database.rows.get(key, {}).items() if not first <= base < end}
            self._database.rows[key] = kept | {row.base_offset: row for row in new}

        self._change(key, replace)

    def remove(self, key: PartitionKey, segments: Sequence[int]) -> None:
        def remove() -> None:
            rows = self._database.rows.get(key, {})
            self._database.rows[key] = {base: row for base, row in rows.items() if row.segment not in segments}

        self._change(key, remove)

    def forget(self, keys: Sequence[PartitionKey]) -> None:
        for key in keys:
            try:
                self._change(key, lambda key=key: self._forget(key))  # type: ignore[misc]
            except (Away, Fenced):
                continue

    def _change(self, key: PartitionKey, work: Callable[[], None]) -> None:
        def change() -> None:
            if self._database.seats.get(key, self.seat) != self.seat:
                raise Fenced("another seat's partition")
            work()

        self._database.change(self.term, change)

    def _forget(self, key: PartitionKey) -> None:
        self._database.rows.pop(key, None)
        self._database.partitions.pop(key, None)
        self._database.seats.pop(key, None)

    def files(self) -> dict[str, bytes]:
        return {name: content for name, (_version, content) in self._database.files.items()}

    def partitions(self) -> list[Held]:
        seats = self._database.seats
        found = [Held(key, *each) for key, each in self._database.partitions.items() if seats[key] == self.seat]
        return sorted(found, key=lambda held: (held.topic, held.key.topic_id, held.key.partition))

    def batches(self) -> Iterator[tuple[PartitionKey, int, bytes]]:
        keys = [held.key for held in self.partitions()]
        for key in sorted(keys, key=lambda each: (each.topic_id, each.partition)):
            for _base, row in sorted(self._database.rows.get(key, {}).items()):
                yield key, row.segment, bytes(row.batch)


def batches_of(store: Store, key: PartitionKey) -> list[tuple[int, bytes]]:
    """(segment, batch) of a partition's rows in the order of their offsets."""
    return [(segment, batch) for each, segment, batch in store.batches() if each == key]
