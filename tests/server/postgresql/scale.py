"""What nodes ask of their database, as computed from the code and as counted by it; what that costs it with many nodes;
how large a log is in it, and how long a start with it takes.

    python -m tests.server.postgresql.scale statements [SECONDS]      nodes without clients; pg_stat_statements counts
    python -m tests.server.postgresql.scale registry [NODES]          what one look costs the database
    python -m tests.server.postgresql.scale log [GROUPS]              five records of each group: 200,000 have a million

The figures of docs/postgresql.md are from it. The first half computes, the second measures.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from coordinatord.broker.topics import catalogue_file
from coordinatord.server.postgresql import lease, node, registry, schema, sharing, standby_copy
from coordinatord.server.postgresql.contract import Growth, PartitionKey, Row, row_of
from coordinatord.server.postgresql.database import Link
from coordinatord.server.postgresql.store import PostgresStore
from coordinatord.transport.cluster.partitioner import partition_for
from kafka_wire.records.batch import assign_offset, build_batch
from kafka_wire.records.keys import encode_key, encode_value
from kafka_wire.records.offsets import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)
from tests.daemon import Daemon
from tests.server.postgresql import server

LEASE_MS = 5_000
"""The default of storage.lease.ms."""
OFFSETS = "__consumer_offsets"
PARTITIONS = 50
NOW_MS = 1_800_000_000_000
COMMITTED = 4
"""Partitions to which each group has committed."""
STATEMENT_BYTES = 4 * 1024 * 1024


class Asked(NamedTuple):
    """Statements a second, by what they are (`kind`)."""

    renewals: float = 0.0
    registrations: float = 0.0
    registry: float = 0.0
    files: float = 0.0
    free_seats: float = 0.0
    standings: float = 0.0

    def times(self, nodes: int) -> Asked:
        return Asked(*(each * nodes for each in self))

    def plus(self, other: Asked) -> Asked:
        return Asked(*(one + two for one, two in zip(self, other, strict=True)))


KINDS = {
    "renewals": "UPDATE coordinatord_leader SET lease_until",
    "registrations": "INSERT INTO coordinatord_node",
    "registry": "SELECT n.*, l.seat",
    "files": "FROM coordinatord_file WHERE",
    "free_seats": "SELECT l.seat FROM coordinatord_leader",
    "standings": "FROM coordinatord_leader ORDER BY lease_until",
}
"""What is in the text of each kind of statement."""


def leading(leaders: int, lease_ms: int = LEASE_MS) -> Asked:
    """One node that leads, of so many: it renews its lease, says that it runs and looks who else does, RENEWALS times
    in a lease; one of several also looks at the registry and the shared files, every LOOK_S.
    """
    each = lease.RENEWALS / (lease_ms / 1000)
    look = 1 / sharing.LOOK_S if leaders > 1 else 0.0
    return Asked(each, each, each + look, look)


def waiting(lease_ms: int = LEASE_MS) -> Asked:
    """One node that waits: every WAIT_S it looks for a free seat, whose lease ends first, at the topics and the
    registry."""
    look = 1 / node.WAIT_S
    return Asked(0.0, lease.RENEWALS / (lease_ms / 1000), look, look, look, look)


def of_cluster(leaders: int, spares: int) -> Asked:
    """All nodes together."""
    return leading(leaders).times(leaders).plus(waiting().times(spares))


def most_connections(leaders: int, spares: int) -> int:
    """A node that leads has those of its store (two), its lease, and one of several those of its looks and of the lock
    of shared files; one that waits has one, and that of its copy.
    """
    return leaders * (5 if leaders > 1 else 3) + spares * 2


def counted(database: server.Server, name: str) -> Counter[str]:
    """Calls by kind, of everything else by their text."""
    found: Counter[str] = Counter()
    statement = (
        "SELECT s.query, s.calls FROM pg_stat_statements s JOIN pg_database d ON d.oid = s.dbid JOIN pg_roles r"
        f" ON r.oid = s.userid WHERE d.datname = '{name}' AND r.rolname = '{server.ROLE}'"
    )
    for query, calls in database.ask("postgres", statement):
        kinds = [kind for kind, part in KINDS.items() if part in str(query)]
        found[kinds[0] if kinds else f"other: {str(query)[:70]}"] += int(str(calls))
    return found


def statements(seconds: float) -> None:
    """Print both for one, two and three leading nodes with one that waits."""
    settings = ("shared_preload_libraries=pg_stat_statements", "pg_stat_statements.track_planning=off")
    with server.running(*settings) as database:
        database.ask("postgres", "CREATE EXTENSION pg_stat_statements")
        for leaders in (1, 2, 3):
            with ExitStack() as stack, tempfile.TemporaryDirectory() as directory:
                name = f"scale_{leaders}"
                url = database.make_database(name)
                for number in range(leaders + 1):
                    own = {"storage": url, "storage.leaders": str(leaders), "node.id": str(number)}
                    made = Daemon(Path(directory) / str(number), own)
                    made.start()
                    stack.callback(made.kill)
                time.sleep(3.0)  # their starts are over
                database.ask("postgres", "SELECT pg_stat_statements_reset()")
                began_s = time.monotonic()
                time.sleep(seconds)
                found, took_s = counted(database, name), time.monotonic() - began_s
                show(leaders, found, took_s)
                [(count,)] = database.ask(
                    "postgres",
                    f"SELECT count(*) FROM pg_stat_activity WHERE datname = '{name}' AND pid <> pg_backend_pid()",
                )
                print(f"  {'connections':>14}: at most {most_connections(leaders, 1)}, found {count}")


def show(leaders: int, found: Counter[str], took_s: float) -> None:
    """One line for each kind: computed, measured."""
    computed = of_cluster(leaders, 1)
    print(f"\n{leaders} leading, 1 waiting, {took_s:.1f} s: statements a second")
    for kind, rate in computed._asdict().items():
        print(f"  {kind:>14}: computed {rate:6.2f}, measured {found[kind] / took_s:6.2f}")
    others = {kind: calls for kind, calls in found.items() if kind.startswith("other")}
    known = sum(found.values()) - sum(others.values())
    print(f"  {'all of these':>14}: computed {sum(computed):6.2f}, measured {known / took_s:6.2f}")
    print(f"  {'others':>14}: measured {sum(others.values()) / took_s:6.2f} (the copy ahead of the one that waits)")
    for kind, calls in sorted(others.items(), key=lambda each: -each[1])[:6]:
        print(f"{'':18}{calls / took_s:6.2f} {kind}")


def registry_of(nodes: int) -> None:
    """Print what the two statements of a look cost the database where so many nodes lead."""
    settings = ("shared_preload_libraries=pg_stat_statements",)
    with server.running(*settings) as database, tempfile.TemporaryDirectory() as directory:
        database.ask("postgres", "CREATE EXTENSION pg_stat_statements")
        url = database.make_database("scale_registry")
        connection = Link(url).open()
        schema.migrate(connection, "cluster", nodes)
        for seat in range(nodes):
            led = lease.take(Link(url), node_id=seat, holder=f"holder {seat}", lease_ms=600_000)
            assert led is not None
            told = {"PLAINTEXT": (f"node-{seat}.example.org", 9092)}
            registry.Registration(f"holder {seat}", seat, 600_000, "rack", told).keep(connection)
            store = PostgresStore(url, led.term, led.seat, is_alone=False)
            store.put_file("followed", b"7", waits=True)
            store.close()
            led.close(release=False)
        shared = sharing.SharedFiles(url, PostgresStore(url, 1, 0, is_alone=False), directory, nodes)
        shared.look()
        database.ask("postgres", "SELECT pg_stat_statements_reset()")
        began_s = time.thread_time()
        for _ in range(1_000):
            looked = shared.look()
        own_s = time.thread_time() - began_s
        assert len(looked.nodes) == len(sharing.holders(looked.nodes)) == nodes
        statement = "SELECT query, calls, total_exec_time FROM pg_stat_statements WHERE calls = 1000"
        for query, calls, total_ms in database.ask("postgres", statement):
            print(f"{nodes} nodes: {float(str(total_ms)) / int(str(calls)):.3f} ms in the database: {str(query)[:60]}")
        print(f"{nodes} nodes: {own_s:.3f} ms of a node's processor time for each look")
        shared.close()


# The log


def group_batches(group: str) -> tuple[bytearray, bytearray]:
    """What a compacted log has of a group with one member: its generation, and a commit to four partitions."""
    subscription = b"\0\1" + b"\0\0\0\1" + b"\0\6orders" + b"\0\0\0\0" + bytes(4)
    assignment = b"\0\1" + b"\0\0\0\1" + b"\0\6orders" + b"\0\0\0\4" + bytes(16) + bytes(4)
    member = MemberMetadata(
        f"consumer-{group}-0e6c9c1f-9d38-4f4a-a4c6-3f0a3c1d5a77", None, f"consumer-{group}", "/10.12.13.14",
        300_000, 45_000, subscription, assignment,
    )  # fmt: skip
    stated = GroupMetadataValue("consumer", 7, "range", member.member_id, NOW_MS, [member])
    key = GroupMetadataKey(group)
    generation = build_batch([(encode_key(key), encode_value(stated))], NOW_MS)
    offsets = [
        (
            encode_key(OffsetCommitKey(group, "orders", number)),
            encode_value(OffsetCommitValue(1_000_000 + number, -1, "", NOW_MS)),
        )
        for number in range(COMMITTED)
    ]
    return generation, build_batch(offsets, NOW_MS)


def rows_of(key: PartitionKey, groups: list[str]) -> Iterator[Row]:
    """The rows of a partition."""
    offset = 0
    for group in groups:
        for batch, count in zip(group_batches(group), (1, COMMITTED), strict=True):
            assign_offset(batch, offset, 0)
            offset += count
            yield row_of(key, 0, bytes(batch))


def fill(url: str, groups: int) -> int:
    """Put that many groups into the log, as one that leads; the bytes of their batches."""
    link = Link(url)
    [(content,)] = link.open().execute("SELECT content FROM coordinatord_file WHERE name = 'topics.json'").fetchall()
    topic_id = catalogue_file.parsed(bytes(content), "topics.json").topics[OFFSETS].topic_id
    led = lease.take(link, node_id=9, holder="scale", lease_ms=LEASE_MS)
    assert led is not None, "a node leads"
    led.begin(lambda error: None)
    store = PostgresStore(url, led.term)
    by_partition: dict[int, list[str]] = {}
    for number in range(groups):
        by_partition.setdefault(partition_for(group := f"group-{number}", PARTITIONS), []).append(group)
    total = 0
    for partition, names in by_partition.items():
        key, end, waiting_rows, size = PartitionKey(topic_id, partition), 0, list[Row](), 0
        for row in rows_of(key, names):
            waiting_rows.append(row)
            size += len(row.batch)
            if size >= STATEMENT_BYTES:
                store.append([Growth(key, OFFSETS, end, row.last_offset + 1)], waiting_rows)
                end, total, size = row.last_offset + 1, total + size, 0
                waiting_rows = []
        if waiting_rows:
            store.append([Growth(key, OFFSETS, end, waiting_rows[-1].last_offset + 1)], waiting_rows)
            total += size
    store.close()
    led.close(release=True)
    return total


def log_of(groups: int) -> None:
    """Print sizes, and the time of two starts: with an empty directory, and of a node that had waited."""
    with server.running("max_wal_size=4GB") as database, tempfile.TemporaryDirectory() as directory:
        url = database.make_database("scale_log")
        settings = {"storage": url, "offsets.retention.minutes": "10000000"}
        first = Daemon(Path(directory) / "first", settings)
        first.start()
        assert first.stop() == 0
        size = fill(url, groups)
        database.ask("scale_log", "VACUUM ANALYZE")
        records, rows = groups * (1 + COMMITTED), groups * 2
        [(table, heap, index)] = database.ask(
            "scale_log",
            "SELECT pg_total_relation_size('coordinatord_batch'), pg_relation_size('coordinatord_batch'),"
            " pg_relation_size('coordinatord_batch_pkey')",
        )
        print(f"{groups} groups, {records} records in {rows} batches of {size / rows:.0f} bytes: {size / 1e6:.0f} MB")
        print(
            f"the table: {int(str(table)) / 1e6:.0f} MB, {int(str(table)) / rows:.0f} bytes a row, of them"
            f" {int(str(heap)) / rows:.0f} in the heap and {int(str(index)) / rows:.0f} in its index"
        )
        again = Daemon(Path(directory) / "again", settings)
        started(again, "with an empty directory", records)
        waits = Daemon(Path(directory) / "waits", {**settings, "node.id": "1"})
        waits.start()
        copy = Path(directory) / "waits" / "data" / "working-copy"
        deadline_s = time.monotonic() + 120
        before = -1
        while (now := sum(each.stat().st_size for each in copy.rglob("*.log"))) < size or now != before:
            assert time.monotonic() < deadline_s, f"it copies nothing ahead: {now} of {size} bytes"
            before = now
            time.sleep(standby_copy.LEAST_REST_S)
        assert again.stop() == 0
        ready(waits, "that has waited, with its copy made ahead", records, time.monotonic())
        assert waits.stop() == 0


def started(daemon: Daemon, what: str, records: int) -> None:
    began_s = time.monotonic()
    daemon.start()
    ready(daemon, what, records, began_s)


def ready(daemon: Daemon, what: str, records: int, began_s: float) -> None:
    deadline_s = began_s + 300
    while not (loaded := daemon.events("groups loaded")):
        assert time.monotonic() < deadline_s, daemon.log_tail()
        time.sleep(0.02)
    took_s = time.monotonic() - began_s
    [copied] = daemon.events("working copy made")
    assert loaded[0]["records"] == records, loaded[0]
    resident = daemon.resident_bytes() / 1e6
    print(
        f"a node {what}: {took_s:.2f} s until all groups are loaded; of it {copied['seconds']} s read the rows,"
        f" {loaded[0]['seconds']} s loaded the groups; it has {resident:.0f} MB of memory"
    )


def main() -> None:
    """See the module."""
    if why := server.missing():
        sys.exit(why)
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    what, number = [*sys.argv[1:], "", ""][:2]
    if what == "registry":
        registry_of(int(number or 100))
    elif what == "log":
        log_of(int(number or 200_000))
    else:
        statements(float(number or 20.0))


if __name__ == "__main__":
    main()
