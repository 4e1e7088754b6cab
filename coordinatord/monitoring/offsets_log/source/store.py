"""Queries of coordinatord's log in PostgreSQL (docs/postgresql.md), one statement for each.

Each process makes its own connection: a command, Spark's driver, each of its executors. The address has no password in
it; the password is in PGPASSWORD or in a file that the address names (`passfile`), at each of these processes.

Only the columns that are named here are read, and nothing is locked or written.
"""

from __future__ import annotations

import atexit
import base64
import json
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from coordinatord.base.libpq import address as libpq
from coordinatord.monitoring.offsets_log.source.segments import SourceError
from kafka_wire.errors import DecodeError
from kafka_wire.records.batch import read_header
from kafka_wire.records.key_values import key_values

FRESH_S = 1.0
"""Seconds: a connection that was unused for longer may be broken, and is tested before its use."""

UNDEFINED = ("42P01", "42703")
"""SQLSTATEs: there is no such table, or no such column."""

PLACES = (
    "SELECT p.topic_id, p.partition, p.topic, p.end_offset,"
    " (SELECT convert_from(content, 'UTF8') FROM coordinatord_file WHERE name = 'topics.json')"
    " FROM coordinatord_partition p WHERE p.end_offset > 0 ORDER BY p.topic, p.partition"
)
"""Query for partitions with records, each with the catalogue of topics."""

STARTS = "SELECT topic_id, partition, min(segment) FROM coordinatord_batch GROUP BY topic_id, partition"

START_CHECKPOINTS = (
    "SELECT convert_from(content, 'UTF8') FROM coordinatord_file"
    " WHERE name = 'log-start-offset-checkpoint' OR name LIKE 'seats/%/log-start-offset-checkpoint'"
)
"""Query for the checkpoint files of each node that leads."""

TIME_OF = (
    "SELECT batch FROM coordinatord_batch WHERE topic_id = %(id)s AND partition = %(partition)s"
    " AND base_offset >= coalesce((SELECT max(base_offset) FROM coordinatord_batch"
    "   WHERE topic_id = %(id)s AND partition = %(partition)s AND base_offset <= %(offset)s), 0)"
    " AND last_offset >= %(offset)s ORDER BY base_offset LIMIT 2"
)
"""Query for the batch with an offset, and the next one: the cleaner may have removed the batch's last records."""

KNOWN_S = 10.0
"""Seconds for which the ids of topics are cached: a topic's id changes only if the topic is deleted and made again."""

BATCHES = (
    "COPY (SELECT base_offset, {what} FROM coordinatord_batch WHERE topic_id = {id} AND partition = {partition}"
    " AND base_offset >= coalesce((SELECT max(base_offset) FROM coordinatord_batch WHERE topic_id = {id}"
    "   AND partition = {partition} AND base_offset <= {first}), 0)"
    " AND base_offset < {next} AND last_offset >= {first} ORDER BY base_offset) TO STDOUT (FORMAT BINARY)"
)


PIECES = (
    "SELECT number, min(base_offset), sum(size)::bigint FROM (SELECT w.number, b.base_offset,"
    " octet_length(b.batch) AS size, (sum(octet_length(b.batch)) OVER (PARTITION BY w.number ORDER BY b.base_offset)"
    " - octet_length(b.batch)) / %s AS piece FROM coordinatord_batch b,"
    " unnest(%s::bytea[], %s::int[], %s::bigint[], %s::bigint[]) AS w(id, number, first, next)"
    " WHERE b.topic_id = w.id AND b.partition = w.number AND b.last_offset >= w.first AND b.base_offset < w.next)"
    " AS batches GROUP BY number, piece ORDER BY number, piece"
)
"""Query for the first offset and the bytes of each piece of about a given size."""


@dataclass(frozen=True, slots=True)
class Place:
    """A partition of an existing topic, with records."""

    url: str
    topic_id: bytes
    topic: str
    partition: int
    end_offset: int

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"


_known: dict[str, tuple[float, dict[tuple[str, int], bytes]]] = {}
"""By database: the time of the query, and the ids of topics by topic and partition."""

is_stored = libpq.is_address
"""Test for sources that are databases rather than directories."""


def check(url: str) -> None:
    """Check the address as far as possible without a connection. Raises SourceError."""
    _parameters(url)


def places(url: str) -> list[Place]:
    """Return the partitions in the order of their names, without those of deleted topics."""
    with connected(url) as connection:
        return _places(connection, url)


def topic_names(url: str) -> dict[str, str]:
    """Return the existing topics, by their id in Kafka's text form."""
    with connected(url) as connection:
        row = connection.execute("SELECT content FROM coordinatord_file WHERE name = 'topics.json'").fetchone()
    return {} if row is None else {entry["id"]: name for name, entry in _topics(bytes(row[0])).items()}


def starts(url: str) -> dict[tuple[bytes, int], int]:
    """Return the base offset of the first segment of each partition with batches, by topic id and partition."""
    with connected(url) as connection:
        return {(bytes(id_), number): start for id_, number, start in connection.execute(STARTS)}


def start_checkpoints(url: str) -> list[str]:
    """Return the checkpoint files of partitions that begin within a segment, for `end_offsets`."""
    with connected(url) as connection:
        return [str(text) for (text,) in connection.execute(START_CHECKPOINTS)]


def record_time(url: str, topic: str, partition: int, offset: int) -> int | None:
    """Return the timestamp of the record at `offset`, or of the first one after it; None if there is none."""
    asked_s, known = _known.get(url, (0.0, {}))
    if not known or time.monotonic() - asked_s > KNOWN_S:
        known = {(each.topic, each.partition): each.topic_id for each in places(url)}
        _known[url] = time.monotonic(), known
    if (topic, partition) not in known:
        return None
    parameters = {"id": known[topic, partition], "partition": partition, "offset": offset}
    with connected(url) as connection:
        found = connection.execute(TIME_OF, parameters).fetchall()
    try:
        for (batch,) in found:
            for record_offset, timestamp, _key, _value in key_values(bytes(batch), 0, read_header(bytes(batch))):
                if record_offset >= offset:
                    return timestamp
    except DecodeError:
        return None
    return None


def size(url: str, chosen: Sequence[Place]) -> int:
    """Return the size of partitions' batches in bytes."""
    with connected(url) as connection:
        row = connection.execute(
            "SELECT coalesce(sum(octet_length(b.batch)), 0)::bigint FROM coordinatord_batch b,"
            " unnest(%s::bytea[], %s::int[]) AS w(id, number) WHERE b.topic_id = w.id AND b.partition = w.number",
            ([each.topic_id for each in chosen], [each.partition for each in chosen]),
        ).fetchone()
    return int(row[0])


def pieces(url: str, wanted: Sequence[tuple[Place, int, int]], step: int) -> dict[int, list[tuple[int, int]]]:
    """Return, by partition of one topic, (base offset, bytes) of pieces of about `step` bytes. `wanted` are partitions
    with their first and next offsets.
    """
    parameters = (
        step,
        [place.topic_id for place, _, _ in wanted],
        [place.partition for place, _, _ in wanted],
        [first for _, first, _ in wanted],
        [next_offset for _, _, next_offset in wanted],
    )
    found: dict[int, list[tuple[int, int]]] = {}
    with connected(url) as connection:
        for number, base_offset, size in connection.execute(PIECES, parameters):
            found.setdefault(number, []).append((base_offset, size))
    return found


def batches(place: Place, first_offset: int, next_offset: int) -> Iterator[tuple[int, bytes]]:
    """Return (base offset, bytes) of the batches with offsets in [first_offset, next_offset), streamed by one
    statement, so from one state of the log.
    """
    yield from _copied(place, first_offset, next_offset, "batch", ["int8", "bytea"])


def heads(place: Place, first_offset: int, next_offset: int) -> Iterator[tuple[int, int, int, int]]:
    """Return (base offset, bytes, records, last offset) of the batches with offsets in [first_offset, next_offset)."""
    what = "octet_length(batch), last_offset, substring(batch FROM 58 FOR 4)"
    for base, size, last, count in _copied(place, first_offset, next_offset, what, ["int8", "int4", "int8", "bytea"]):
        yield base, size, int.from_bytes(count, "big"), last


def _copied(place: Place, first_offset: int, next_offset: int, what: str, types: list[str]) -> Iterator[Any]:
    from psycopg import sql

    statement = sql.SQL(BATCHES).format(
        what=sql.SQL(what),
        id=sql.Literal(place.topic_id),
        partition=sql.Literal(place.partition),
        first=sql.Literal(first_offset),
        next=sql.Literal(next_offset),
    )
    with connected(place.url) as connection, connection.cursor() as cursor, cursor.copy(statement) as copy:
        copy.set_types(types)
        yield from copy.rows()


def _places(connection: Any, url: str) -> list[Place]:
    found = connection.execute(PLACES).fetchall()
    catalogue = found[0][4] if found else None
    ids = None if catalogue is None else {name: _id(entry["id"]) for name, entry in _topics(catalogue).items()}
    return [
        Place(url, bytes(id_), topic, number, end)
        for id_, number, topic, end, _ in found
        if ids is None or ids.get(topic) == bytes(id_)
    ]


def _topics(catalogue: str | bytes) -> dict[str, Any]:
    try:
        topics: dict[str, Any] = json.loads(catalogue)["topics"]
    except (ValueError, KeyError, TypeError):
        raise SourceError("the database's catalogue of topics (topics.json) cannot be read") from None
    return topics


def _id(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "==")


# Connections


class _Idle:
    """The connection that this process used last. A connection from before a fork belongs to the parent process."""

    def __init__(self) -> None:
        self._held: tuple[int, str, Any, float] | None = None
        atexit.register(self.close)

    def take(self, url: str) -> Any:
        """Return a working connection to `url`; None if there is none."""
        held, self._held = self._held, None
        if held is None or held[0] != os.getpid():
            return None
        connection = held[2]
        if held[1] == url and not connection.closed:
            if time.monotonic() - held[3] < FRESH_S:
                return connection
            try:
                connection.execute("SELECT 1")
            except _driver().Error:
                pass
            else:
                return connection
        connection.close()
        return None

    def put(self, url: str, connection: Any) -> None:
        self.close()
        self._held = (os.getpid(), url, connection, time.monotonic())

    def close(self) -> None:
        held, self._held = self._held, None
        if held is not None and held[0] == os.getpid():
            held[2].close()


_idle = _Idle()


@contextmanager
def connected(url: str) -> Iterator[Any]:
    """Return a connection in autocommit. Errors of the database become one sentence, a SourceError."""
    driver = _driver()
    connection = _idle.take(url) or _connect(url)
    is_sound = False
    try:
        yield connection
        is_sound = True
    except driver.Error as error:
        where = libpq.shown(_parameters(url))
        if error.sqlstate in UNDEFINED:
            raise SourceError(
                f"{where} has no log of coordinatord that this program could read ({libpq.first_line(error)}): is that "
                "the database, and the schema in the user's search_path, of storage=?"
            ) from None
        raise SourceError(f"{where} could not be read: {libpq.first_line(error)}") from None
    finally:
        if is_sound:
            _idle.put(url, connection)
        else:
            connection.close()  # in the middle of a statement: also if the caller does not read the rest of its rows


def _connect(url: str) -> Any:
    given = _parameters(url)
    try:
        return _driver().connect(**given, autocommit=True)
    except _driver().Error as error:
        raise SourceError(f"cannot connect to {libpq.shown(given)}: {libpq.first_line(error)}") from None


def _parameters(url: str) -> dict[str, str]:
    try:
        return libpq.parameters(url, "source")
    except libpq.Unreadable as error:
        raise SourceError(str(error)) from None


def _driver() -> Any:
    try:
        return libpq.import_psycopg("source=postgresql://")
    except libpq.Unreadable as error:
        raise SourceError(str(error)) from None
