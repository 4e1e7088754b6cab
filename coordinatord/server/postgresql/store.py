"""The store on PostgreSQL: contract.Store, and the operations of a leading node.

There are three connections, so that no operation waits for an unrelated one: `append` and the files with `waits` use
the first one, all other changes use the second one on a thread of its own, and lease.py has the third one.

Each change is one statement that calls one function (schema.py), so it is one transaction and one round trip, and no
open transaction ever waits for this process. Two operations have more statements, the take-over and `replace`;
`replace` locks the leader's row last, so a compaction of a large segment does not delay a take-over, and is undone if
there was a take-over meanwhile.

**A commit with an unknown outcome**, because the connection was lost during it, is resolved by the partitions' ends. A
new connection locks the partitions' rows, and so waits until the server has ended the old transaction. If the
partitions end where the append would have put them, under this node's term, the append was committed: no other node
writes under this term. If the partitions end where the append found them, it is repeated; should the old statement
still arrive, it finds other ends and changes nothing.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as TooLate
from typing import TYPE_CHECKING, Any, TypeVar

from coordinatord.base.observe.logger import get_logger
from coordinatord.server.postgresql.contract import Away, Fenced, Growth, Held, PartitionKey, Row, Unusable
from coordinatord.server.postgresql.database import Link, import_psycopg, translated
from coordinatord.server.postgresql.schema import DIVERGED

if TYPE_CHECKING:
    from psycopg import Connection

T = TypeVar("T")

log = get_logger("coordinatord.server.postgresql")

RETRY_S = 0.1
"""Pause before the next attempt, in seconds."""

FILE_S = 1.0
"""Time limit of a change of a small file, in seconds: the event loop waits for it."""

GAVE_UP = "the database did not answer before the end of shutdown.timeout.ms; what is not stored was not acknowledged"
"""The error of all that waits for the database after `stop`."""

TELL_S = 5.0
"""Shortest interval between two log lines about an outage, in seconds."""

APPEND = (
    "SELECT coordinatord_append(%b::bigint, %b::bytea[], %b::int[], %b::text[], %b::bigint[], %b::bigint[],"
    " %b::bytea[], %b::int[], %b::bigint[], %b::bigint[], %b::bigint[], %b::bigint[], %b::bytea[])"
)
RESOLVE = (
    "SELECT p.topic_id, p.partition, p.leader_epoch, p.end_offset FROM coordinatord_partition p,"
    " unnest(%b::bytea[], %b::int[]) AS w(id, number) WHERE p.topic_id = w.id AND p.partition = w.number"
    " ORDER BY p.topic_id, p.partition FOR UPDATE OF p"
)
FORGET = "SELECT coordinatord_forget(%s::bigint, w.id, w.number) FROM unnest(%s::bytea[], %s::int[]) AS w(id, number)"
FORGET_KEYS = 500
"""Number of partitions that one statement forgets: changes of small files wait for it."""
FENCE_PARTITION = "SELECT coordinatord_fence_partition(%s::bigint, %s::bytea, %s::int)"
PUT_FILE = "SELECT coordinatord_put_file(%b::bigint, %b::text, %b::bytea, %b::bigint)"
SHARE_FILE = "SELECT coordinatord_share_file(%b::bigint, %b::text, %b::bytea, %b::bigint)"

SHARED = frozenset({"topics.json", "producer_ids.json", "groups.json"})
"""Small files that belong to the cluster, not to a seat."""
EPOCHS = "epochs/"
"""Name prefix of the files with partitions' leader epochs, in the state in which they were loaded."""
SEATS = "seats/{}/"
"""Name prefix of a seat's own files, where there are several seats."""
FOLLOWED = "followed"
"""Name of a seat's own file with the change of the catalogue up to which its holder has removed the data of deleted
topics.
"""
BATCHES = "SELECT topic_id, partition, segment, batch FROM coordinatord_batch ORDER BY topic_id, partition, base_offset"
BATCHES_OF_SEAT = (
    "SELECT b.topic_id, b.partition, b.segment, b.batch FROM coordinatord_partition AS p"
    " JOIN coordinatord_batch AS b ON b.topic_id = p.topic_id AND b.partition = p.partition WHERE p.seat = {}"
    " ORDER BY b.topic_id, b.partition, b.base_offset"
)
BY_INDEX = "SET LOCAL enable_sort = off; SET LOCAL enable_hashjoin = off"
BEGIN_BY_INDEX = "BEGIN; " + BY_INDEX
"""The primary keys have this order. The first rows come at once, and the database does not sort on its disk."""
COPY_IN = (
    "COPY coordinatord_batch (topic_id, partition, base_offset, last_offset, leader_epoch, max_timestamp, segment,"
    " batch) FROM STDIN (FORMAT BINARY)"
)
COPY_TYPES = ["bytea", "int4", "int8", "int8", "int8", "int8", "int8", "bytea"]


class PostgresStore:
    """The store of a leading node (see the module). `term` is the term in which this node leads `seat`."""

    def __init__(self, url: str, term: int, seat: int = 0, *, is_alone: bool = True) -> None:
        """`is_alone`: the database has only one seat."""
        self.term = term
        self.seat = seat
        self._prefix = "" if is_alone else SEATS.format(seat)
        self.appending_since_s: float | None = None
        """Start of the append in progress (time.monotonic); None if there is none. Other threads read it."""
        self.appends = self.retries = self.resolved = 0
        self._psycopg = import_psycopg()
        self._writing = Link(url)
        self._aside = Link(url)
        self._stopped = threading.Event()
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="store-aside")
        self._file_version = term << 32
        self._file_guard = threading.Lock()

    # contract.Store: changes

    def append(self, growths: Sequence[Growth], rows: Sequence[Row]) -> None:
        """See contract.Store."""
        if not growths:
            return
        self.appending_since_s = time.monotonic()
        try:
            self._append(growths, rows)
        finally:
            self.appending_since_s = None
        self.appends += 1

    def put_file(self, name: str, content: bytes, *, waits: bool = False) -> None:
        """See contract.Store."""
        with self._file_guard:
            self._file_version += 1
            version = self._file_version
        parameters = (self.term, self._stored(name), content, version)

        def put(connection: Connection[Any]) -> None:
            connection.execute(PUT_FILE, parameters)

        if waits:
            self._until_done(lambda: self._on(self._writing, f"{name} not stored", put))
            return
        self._soon(f"{name} not stored", put)

    def share_file(self, name: str, content: bytes, version: int) -> None:
        """Replace a file that all leading nodes share, if its version is `version`; then its version is one more.
        Raises Away at once, also if the file has another version.
        """
        parameters = (self.term, name, content, version)
        self._soon(f"{name} not stored", _executing(SHARE_FILE, parameters))

    def put_later(self, name: str, content: bytes) -> None:
        """Replace a file of this seat, later; errors are not reported."""
        with self._file_guard:
            self._file_version += 1
            parameters = (self.term, self._stored(name), content, self._file_version)
        with contextlib.suppress(Away):
            self._submit(f"{name} not stored", _executing(PUT_FILE, parameters), attempts=2)

    def _stored(self, name: str) -> str:
        """Return the stored name: files of the cluster keep theirs, a seat's own files have its prefix."""
        return name if name in SHARED or name.startswith(EPOCHS) else self._prefix + name

    def pause(self) -> None:
        """See contract.Store."""
        if self._stopped.wait(RETRY_S):
            raise Away(GAVE_UP)

    def replace(self, key: PartitionKey, first: int, end: int, rows: Iterable[Row]) -> None:
        """See contract.Store."""

        def replace(connection: Connection[Any]) -> None:
            with connection.transaction(), connection.cursor() as cursor:
                cursor.execute(
                    "DELETE FROM coordinatord_batch WHERE topic_id = %s AND partition = %s"
                    " AND base_offset >= %s AND base_offset < %s",
                    (key.topic_id, key.partition, first, end),
                )
                with cursor.copy(COPY_IN) as copy:
                    copy.set_types(COPY_TYPES)
                    for row in rows:
                        copy.write_row(
                            (
                                key.topic_id,
                                key.partition,
                                row.base_offset,
                                row.last_offset,
                                self.term,
                                row.max_timestamp,
                                row.segment,
                                bytes(row.batch),
                            )
                        )
                cursor.execute(FENCE_PARTITION, (self.term, key.topic_id, key.partition))

        self._submit("compacted records not stored", replace).result()

    def remove(self, key: PartitionKey, segments: Sequence[int]) -> None:
        """See contract.Store."""
        statement = "SELECT coordinatord_remove(%s::bigint, %s::bytea, %s::int, %s::bigint[])"
        parameters = (self.term, key.topic_id, key.partition, list(segments))
        self._submit("segments not removed", _executing(statement, parameters), attempts=2).result()

    def forget(self, keys: Sequence[PartitionKey]) -> None:
        """See contract.Store."""
        for first in range(0, len(keys), FORGET_KEYS):
            some = keys[first : first + FORGET_KEYS]
            parameters = (self.term, [key.topic_id for key in some], [key.partition for key in some])
            self._submit("deleted topics not removed", _executing(FORGET, parameters), attempts=2)

    # contract.Store: reads, before anything is changed

    def files(self) -> dict[str, bytes]:
        """See contract.Store."""
        found = self._on(self._writing, "cannot read the log", files, attempts=2)
        return of_seat(found, self._prefix) if self._prefix else found

    def partitions(self) -> list[Held]:
        """See contract.Store."""
        return self._on(self._writing, "cannot read the log", lambda found: partitions(found, self.seat), attempts=2)

    def batches(self) -> Iterator[tuple[PartitionKey, int, bytes]]:
        """See contract.Store."""
        try:
            yield from batches(self._writing.open(), self.seat if self._prefix else None)
        except self._psycopg.Error as error:
            self._writing.close()
            raise translated(error, "cannot read the log") from error

    # The end

    def stop(self) -> None:
        """Fail all waits for the database with Away. Records that are not committed are not confirmed."""
        self._stopped.set()
        self._writing.cut()
        self._aside.cut()

    def close(self) -> None:
        """Close the connections. No operation may be waiting any more."""
        self._stopped.set()
        self._worker.shutdown(wait=True, cancel_futures=True)
        self._writing.close()
        self._aside.close()

    # Appending

    def _append(self, growths: Sequence[Growth], rows: Sequence[Row]) -> None:
        parameters = self._parameters(growths, rows)
        is_unknown = False

        def attempt(connection: Connection[Any]) -> None:
            connection.execute(APPEND, parameters)

        def try_once() -> None:
            nonlocal is_unknown
            if is_unknown:
                self.resolved += 1
                if self._on(self._writing, "records not stored", lambda connection: self._has(connection, growths)):
                    return
                is_unknown = False
            try:
                self._on(self._writing, "records not stored", attempt)
            except Away:
                is_unknown = True
                raise
            except Unusable as error:
                # An earlier attempt may have been committed after `_has` read the ends and before this attempt.
                if not isinstance(error.__cause__, self._psycopg.Error) or error.__cause__.sqlstate != DIVERGED:
                    raise
                if not self._on(self._writing, "records not stored", lambda connection: self._has(connection, growths)):
                    raise

        self._until_done(try_once)

    def _parameters(self, growths: Sequence[Growth], rows: Sequence[Row]) -> tuple[Any, ...]:
        return (
            self.term,
            [growth.key.topic_id for growth in growths],
            [growth.key.partition for growth in growths],
            [growth.topic for growth in growths],
            [growth.end_before for growth in growths],
            [growth.end_after for growth in growths],
            [row.key.topic_id for row in rows],
            [row.key.partition for row in rows],
            [row.base_offset for row in rows],
            [row.last_offset for row in rows],
            [row.max_timestamp for row in rows],
            [row.segment for row in rows],
            [row.batch for row in rows],
        )

    def _has(self, connection: Connection[Any], growths: Sequence[Growth]) -> bool:
        """Return whether an append with an unknown outcome was committed. Waits until its transaction has ended. Raises
        Unusable if the partitions end elsewhere.
        """
        with connection.transaction():
            connection.execute("SELECT coordinatord_fence(%s::bigint)", (self.term,))
            ids, numbers = [g.key.topic_id for g in growths], [g.key.partition for g in growths]
            found = connection.execute(RESOLVE, (ids, numbers)).fetchall()
        ends = {PartitionKey(bytes(id_), number): (epoch, end) for id_, number, epoch, end in found}
        nothing = (self.term, 0)
        if all(ends.get(growth.key, nothing) == (self.term, growth.end_after) for growth in growths):
            return True
        if all(ends.get(growth.key, nothing) == (self.term, growth.end_before) for growth in growths):
            return False
        raise Unusable("the database's partitions end neither where an append found them nor where it put them")

    # Waiting and failing

    def _on(self, link: Link, what: str, work: Callable[[Connection[Any]], T], attempts: int = 1) -> T:
        """Return work(connection) on a link. After an error the connection is closed, because its state is unknown.
        Work that may be repeated has two `attempts`: the first one may use a connection that the server has closed.
        """
        try:
            return work(link.open())
        except self._psycopg.Error as error:
            link.close()
            told = translated(error, what)
            if attempts == 1 or not isinstance(told, Away):
                raise told from error
        return self._on(link, what, work, attempts - 1)

    def _until_done(self, attempt: Callable[[], object]) -> None:
        """Repeat `attempt` until it succeeds; `stop` makes it raise Away."""
        told_s = 0.0
        while True:
            try:
                attempt()
                return
            except Away as error:
                self.retries += 1
                if time.monotonic() - told_s > TELL_S:
                    told_s = time.monotonic()
                    log.warning("the database is away; trying again", error=str(error))
                self.pause()

    def _submit(self, what: str, work: Callable[[Connection[Any]], T], *, attempts: int = 1) -> Future[T]:
        """Run `work` on the second connection's thread. Raises Away after `stop`."""
        try:
            return self._worker.submit(self._on, self._aside, what, work, attempts)
        except RuntimeError:
            raise Away(GAVE_UP) from None

    def _soon(self, what: str, work: Callable[[Connection[Any]], object]) -> None:
        """Run `work` for the event loop, which must not wait long: FILE_S at most, then raise Away."""
        future = self._submit(what, work, attempts=2)
        try:
            future.result(FILE_S)
        except TooLate:
            if not future.cancel():
                self._aside.interrupt()
            raise Away(f"{what}: no answer in {FILE_S} s") from None


def _executing(statement: str, parameters: tuple[Any, ...]) -> Callable[[Connection[Any]], object]:
    return lambda connection: connection.execute(statement, parameters)


def files(connection: Connection[Any]) -> dict[str, bytes]:
    """Return the small files by name."""
    return {
        str(name): bytes(content) for name, content in connection.execute("SELECT name, content FROM coordinatord_file")
    }


def of_seat(found: Mapping[str, bytes], prefix: str) -> dict[str, bytes]:
    """Return the small files of one seat, without its prefix, and those of the cluster."""
    own = {name.removeprefix(prefix): each for name, each in found.items() if name.startswith(prefix)}
    own.pop(FOLLOWED, None)
    return {name: each for name, each in found.items() if name in SHARED or name.startswith(EPOCHS)} | own


def of_all(found: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the small files that one node with all seats would have: the seats' checkpoints are merged."""
    together: dict[str, list[bytes]] = {}
    for name, content in sorted(found.items()):
        if name.startswith("seats/") and not name.endswith(f"/{FOLLOWED}"):
            together.setdefault(name.split("/", 2)[2], []).extend(content.splitlines()[2:])
    whole = {
        name: b"0\n%d\n" % len(lines) + b"".join(line + b"\n" for line in lines) for name, lines in together.items()
    }
    return {name: each for name, each in found.items() if not name.startswith("seats/")} | whole


def partitions(connection: Connection[Any], seat: int | None = None) -> list[Held]:
    """Return the partitions of a seat, or all, ordered by topic name, topic id and partition."""
    found = connection.execute(
        "SELECT topic_id, partition, topic, end_offset FROM coordinatord_partition"
        " WHERE coalesce(seat = %s::int, true) ORDER BY topic, topic_id, partition",
        (seat,),
    )
    return [Held(PartitionKey(bytes(id_), number), str(topic), end) for id_, number, topic, end in found]


def batches(connection: Connection[Any], seat: int | None = None) -> Iterator[tuple[PartitionKey, int, bytes]]:
    """Yield (partition, segment, batch) of the rows of a seat's partitions, or of all: by partition, then by offset.
    The rows are streamed by one statement: one statement for each partition would take several times as long, while
    clients wait. After an error the connection is unusable.
    """
    from psycopg import pq, sql

    query = sql.SQL("COPY ({}) TO STDOUT (FORMAT BINARY)").format(
        sql.SQL(BATCHES) if seat is None else sql.SQL(BATCHES_OF_SEAT).format(sql.Literal(seat))
    )
    is_snapshot = connection.info.transaction_status != pq.TransactionStatus.IDLE
    connection.execute(BY_INDEX if is_snapshot else BEGIN_BY_INDEX)
    with connection.cursor() as cursor, cursor.copy(query) as copy:
        copy.set_types(["bytea", "int4", "int8", "bytea"])
        key = PartitionKey(b"", -1)
        for topic_id, partition, segment, batch in copy.rows():
            if partition != key.partition or topic_id != key.topic_id:
                key = PartitionKey(bytes(topic_id), partition)
            yield key, segment, bytes(batch)
    if not is_snapshot:
        connection.execute("COMMIT")


__all__ = ["Fenced", "PostgresStore"]
