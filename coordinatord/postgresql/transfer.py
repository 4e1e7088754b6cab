"""A data directory from the database, and the database from a data directory. `coordinatord store copy` and `load`.

A copy is a data directory like any other: `serve`, `log verify`, `log dump`, `export`, `lag` and the pipeline read it.
It is made from one snapshot, beside a running leader. A load takes the lead first, so no node serves meanwhile.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from coordinatord.log import checkpoint, epochs
from coordinatord.log.data_dir import DataDirectory
from coordinatord.log.disk import OsDisk, read_text
from coordinatord.log.errors import DataDirectoryError
from coordinatord.log.partition_log import PartitionLog
from coordinatord.log.scan import scan
from coordinatord.postgresql import database, schema, store, working_copy
from coordinatord.postgresql.contract import Growth, Held, PartitionKey, Row, Unusable, row_of
from coordinatord.postgresql.copy_disk import FILES
from coordinatord.postgresql.database import Link
from coordinatord.postgresql.lease import take
from coordinatord.postgresql.store import PostgresStore
from coordinatord.topics import catalogue_file

LEASE_MS = 5_000
STATEMENT_BYTES = 8 * 1024 * 1024


class Moved(NamedTuple):
    """What was copied or loaded."""

    partitions: int
    bytes: int


class Snapshot:
    """working_copy.Source: the store as one transaction sees it."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def files(self) -> dict[str, bytes]:
        """The small files by name."""
        return store.files(self._connection)

    def partitions(self) -> list[Held]:
        """All partitions."""
        return store.partitions(self._connection)

    def batches(self, key: PartitionKey) -> Iterator[tuple[int, bytes]]:
        """(segment, batch) of a partition's rows."""
        return store.batches(self._connection, key)


@contextmanager
def _translated(link: Link, what: str) -> Iterator[None]:
    try:
        yield
    except link.errors as error:
        raise database.translated(error, what) from error
    finally:
        link.close()


def copy(url: str, target: Path, *, node_id: int) -> Moved:
    """Make a data directory at `target`, which must be empty or missing. Raises LogError or OSError."""
    if target.exists() and any(target.iterdir()):
        raise DataDirectoryError(f"{target} is not empty: name a directory that is, or that does not exist yet")
    link = Link(url)
    with _translated(link, "cannot read the log"):
        connection = link.open()
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        cluster_id = schema.check(connection)
        snapshot = Snapshot(connection)
        size = working_copy.make(snapshot, target, cluster_id=cluster_id, node_id=node_id)
        count = len([held for held in snapshot.partitions() if held.end_offset])
        connection.execute("ROLLBACK")
    return Moved(count, size)


def load(source: Path, url: str) -> Moved:
    """Put a data directory, of which no daemon runs, into a database that has no log yet. Raises LogError or OSError.
    The catalogue is stored last: a load that was broken off leaves no topics.
    """
    properties = checkpoint.read_properties(OsDisk(), str(source / checkpoint.META_PROPERTIES))
    if properties is None:
        raise DataDirectoryError(f"{source} is not a data directory: it has no {checkpoint.META_PROPERTIES}")
    node_id = int(properties.get("node.id", 0))
    data = DataDirectory.open(str(source), node_id=node_id, catalogued=catalogue_file.catalogued)
    try:
        return _load(data, url, node_id)
    finally:
        data.close()


def _load(data: DataDirectory, url: str, node_id: int) -> Moved:
    link = Link(url)
    with _translated(link, "cannot load the log"):
        found = schema.migrate(link.open(), data.cluster_id)
        lease = take(link, node_id=node_id, holder=secrets.token_hex(16), lease_ms=LEASE_MS)
        if lease is None:
            raise Unusable("a node leads: stop all nodes first")
        target = PostgresStore(url, lease.term)
        lease.begin(lambda _error: target.stop())
        try:
            if target.partitions() or target.files():
                raise Unusable("the database has a log already: drop its tables, or name another database")
            if found != data.cluster_id:
                link.open().execute("UPDATE coordinatord_leader SET cluster_id = %s", (data.cluster_id,))
            size = sum(_load_partition(target, log) for log in data.logs.values())
            for name in sorted(FILES, key=lambda name: name == catalogue_file.FILE):
                text = read_text(OsDisk(), f"{data.path}/{name}")
                if text is not None:
                    target.put_file(name, text.encode(), waits=True)
        finally:
            lease.close(release=True)
            target.close()
    return Moved(len(data.logs), size)


def _load_partition(target: PostgresStore, log: PartitionLog) -> int:
    key = PartitionKey(log.topic_id, log.partition)
    if log.leader_epochs != epochs.FIRST:
        target.put_file(working_copy.EPOCHS + log.name, epochs.text(log.leader_epochs).encode(), waits=True)
    end, size, rows = 0, 0, list[Row]()

    def store_rows(until: int) -> None:
        nonlocal end
        target.append([Growth(key, log.topic, end, until)], rows)
        end = until
        rows.clear()

    waiting = 0
    for segment in log.segments:
        file = OsDisk().open(segment.log_path)
        try:
            for scanned in scan(file, segment.log_path, 0, segment.visible_bytes):
                header = scanned.header
                batch = scanned.buffer[scanned.at : scanned.at + header.size]
                rows.append(row_of(key, segment.base_offset, batch))
                size += header.size
                waiting += header.size
                if waiting >= STATEMENT_BYTES:
                    store_rows(header.next_offset)
                    waiting = 0
        finally:
            file.close()
    if rows or end < log.end_offset:
        store_rows(log.end_offset)
    return size
