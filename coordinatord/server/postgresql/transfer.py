"""Copies between the database and a data directory: `coordinatord store copy` and `coordinatord store load`.

A copy is a normal data directory: `serve`, `log verify`, `log dump`, `export`, `lag` and the pipeline read it. It is
made from one snapshot, while a leader may run. A load takes the leadership first, so no node serves meanwhile.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from coordinatord.broker.log import checkpoint, leader_epoch_cache
from coordinatord.broker.log.data_dir import DataDirectory
from coordinatord.broker.log.disk import OsDisk, read_text
from coordinatord.broker.log.errors import DataDirectoryError
from coordinatord.broker.log.loader import replay
from coordinatord.broker.log.partition_log import PartitionLog
from coordinatord.broker.log.scan import scan
from coordinatord.broker.topics import catalogue_file
from coordinatord.server.postgresql import database, schema, store, working_copy
from coordinatord.server.postgresql.contract import Growth, Held, PartitionKey, Row, Unusable, row_of
from coordinatord.server.postgresql.copy_disk import FILES
from coordinatord.server.postgresql.database import Link
from coordinatord.server.postgresql.leading import epoch_of_term_0
from coordinatord.server.postgresql.lease import Lease, take
from coordinatord.server.postgresql.store import PostgresStore
from coordinatord.transport.cluster.nodes import share_of
from kafka_wire.records.control import read_end_marker

LEASE_MS = 5_000
STATEMENT_BYTES = 8 * 1024 * 1024

RAISE_TERMS = "UPDATE coordinatord_leader SET epoch = greatest(epoch, %s) WHERE seat = 0"
"""Makes the term of the next take-over of any seat greater than this number."""
HIGHEST_TERM = "SELECT coalesce(max(epoch), 0) FROM coordinatord_leader"


class Moved(NamedTuple):
    """Numbers of partitions and bytes that were copied or loaded."""

    partitions: int
    bytes: int


class Snapshot:
    """working_copy.Source: the store in the snapshot of one transaction."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def files(self) -> dict[str, bytes]:
        """Return the small files by name, those of all seats merged."""
        return store.of_all(store.files(self._connection))

    def partitions(self) -> list[Held]:
        """Return all partitions."""
        return store.partitions(self._connection)

    def batches(self) -> Iterator[tuple[PartitionKey, int, bytes]]:
        """Return an iterator over (partition, segment, batch) of all rows."""
        return store.batches(self._connection)


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
        [highest] = connection.execute(HIGHEST_TERM).fetchone()
        # The nodes may continue, and clients may have read records that they append later.
        checkpoint.write_leader_epoch(OsDisk(), str(target), epoch_of_term_0(snapshot.files()) + int(highest) + 1)
        count = len([held for held in snapshot.partitions() if held.end_offset])
        connection.execute("ROLLBACK")
    return Moved(count, size)


def load(source: Path, url: str, *, leaders: int = 1) -> Moved:
    """Load a data directory, which no daemon may use, into a database that has no log yet, for `leaders` nodes that
    will lead a share of the partitions each. Raises LogError or OSError. The catalogue is stored last: an interrupted
    load leaves no topics.
    """
    properties = checkpoint.read_properties(OsDisk(), str(source / checkpoint.META_PROPERTIES))
    if properties is None:
        raise DataDirectoryError(f"{source} is not a data directory: it has no {checkpoint.META_PROPERTIES}")
    node_id = int(properties.get("node.id", 0))
    data = DataDirectory.open(str(source), node_id=node_id, catalogued=catalogue_file.catalogued)
    try:
        return _load(data, url, node_id, leaders)
    finally:
        data.close()


def _load(data: DataDirectory, url: str, node_id: int, leaders: int) -> Moved:
    link = Link(url)
    with _translated(link, "cannot load the log"):
        connection = link.open()
        found = schema.migrate(connection, data.cluster_id, leaders)
        if leaders > 1:
            connection.execute(RAISE_TERMS, (highest_coordinator_epoch(data),))
        leases: list[Lease] = []
        targets: list[PostgresStore] = []
        try:
            for seat in range(leaders):
                leases.append(_taken(url, node_id + seat))
                targets.append(PostgresStore(url, leases[-1].term, leases[-1].seat, is_alone=leaders == 1))
                leases[-1].begin(lambda _error: _stop(targets))
            targets.sort(key=lambda target: target.seat)
            if any(target.partitions() for target in targets) or targets[0].files():
                raise Unusable("the database has a log already: drop its tables, or name another database")
            if found != data.cluster_id:
                connection.execute("UPDATE coordinatord_leader SET cluster_id = %s", (data.cluster_id,))
            size = sum(
                _load_partition(targets[share_of(log.topic, log.partition, leaders)], log) for log in data.logs.values()
            )
            _load_files(data, targets)
        finally:
            for lease in leases:
                lease.close(release=True)
            for target in targets:
                target.close()
    return Moved(len(data.logs), size)


def _stop(targets: Sequence[PostgresStore]) -> None:
    for target in targets:
        target.stop()


def _taken(url: str, node_id: int) -> Lease:
    lease = take(Link(url), node_id=node_id, holder=secrets.token_hex(16), lease_ms=LEASE_MS)
    if lease is None:
        raise Unusable("a node leads: stop all nodes first")
    return lease


def highest_coordinator_epoch(data: DataDirectory) -> int:
    """Return the highest coordinator epoch of the transaction markers in the logs, 0 without one. The coordinator
    epochs of the nodes must be above.
    """
    highest = 0
    for log in data.logs.values():
        for batch in replay(log):
            if batch.control is not None and batch.records:
                marker = read_end_marker(*batch.records[0][2:])
                highest = max(highest, 0 if marker is None else marker[1])
    return highest


def _load_files(data: DataDirectory, targets: Sequence[PostgresStore]) -> None:
    """Store the small files, the catalogue last. Each seat receives its partitions' lines of the checkpoints."""
    disk, seats = OsDisk(), len(targets)
    for name in sorted(FILES, key=lambda name: name == catalogue_file.FILE):
        text = read_text(disk, f"{data.path}/{name}")
        if text is None:
            continue
        if name in store.SHARED or seats == 1:
            targets[0].put_file(name, text.encode(), waits=True)
            continue
        offsets = checkpoint.read_offsets(disk, f"{data.path}/{name}")
        for seat, target in enumerate(targets):
            own = {key: offset for key, offset in offsets.items() if share_of(*key, seats) == seat}
            target.put_file(name, checkpoint.offsets_text(own).encode(), waits=True)


def _load_partition(target: PostgresStore, log: PartitionLog) -> int:
    key = PartitionKey(log.topic_id, log.partition)
    if log.leader_epochs != leader_epoch_cache.FIRST:
        target.put_file(store.EPOCHS + log.name, leader_epoch_cache.text(log.leader_epochs).encode(), waits=True)
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
