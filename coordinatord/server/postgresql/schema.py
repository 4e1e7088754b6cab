"""The tables and functions in the database, their version, and the migrations from older versions.

`coordinatord store ddl` prints the statements. All names begin with `coordinatord_`, in the first schema of the
connection's search_path. The role needs CREATE on that schema at the first start and owns what it creates; it needs no
other right.

Every statement runs at READ COMMITTED: correctness depends on row locks, not on snapshots. Each change first locks its
seat's row of coordinatord_leader (FOR KEY SHARE), which it finds by the term: no two seats ever have the same one. A
take-over updates the term, which is part of a unique key of that row. So a change either is committed before the
take-over, which then sees it, or waits for the take-over and finds no row. A renewal of the lease updates no key, so it
does not wait for a change, which takes seconds if it has tens of megabytes. Should two nodes write nevertheless, three
checks detect that: `leader_epoch` of coordinatord_partition, which only the holder of the partition's seat has;
`end_offset`, which must equal the writer's; and the primary key of coordinatord_batch.

A database has a row of coordinatord_leader for each seat (lease.py). The number of seats is fixed when the database is
made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coordinatord.server.postgresql.contract import Unusable

if TYPE_CHECKING:
    from psycopg import Connection

VERSION = 4

MIGRATION_LOCK = 0x636F6F7264
"""Key of the advisory lock that a migration holds ("coord")."""

FENCED = "CD001"
"""SQLSTATE: the change has the term of a former leader."""
DIVERGED = "CD002"
"""SQLSTATE: a partition's end differs from the writer's."""
OVERTAKEN = "CD003"
"""SQLSTATE: another leading node has changed a shared file meanwhile."""

FIRST_VERSION = """
CREATE TABLE coordinatord_schema (version integer NOT NULL);

CREATE TABLE coordinatord_leader (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    cluster_id text NOT NULL,
    epoch bigint NOT NULL,
    node_id integer NOT NULL,
    holder text NOT NULL,
    lease_until timestamptz NOT NULL
);

CREATE TABLE coordinatord_file (
    name text PRIMARY KEY,
    content bytea NOT NULL,
    version bigint NOT NULL
);

CREATE TABLE coordinatord_partition (
    topic_id bytea NOT NULL,
    partition integer NOT NULL,
    topic text NOT NULL,
    leader_epoch bigint NOT NULL,
    end_offset bigint NOT NULL,
    PRIMARY KEY (topic_id, partition)
);

CREATE TABLE coordinatord_batch (
    topic_id bytea NOT NULL,
    partition integer NOT NULL,
    base_offset bigint NOT NULL,
    last_offset bigint NOT NULL,
    leader_epoch bigint NOT NULL,
    max_timestamp bigint NOT NULL,
    segment bigint NOT NULL,
    batch bytea NOT NULL,
    PRIMARY KEY (topic_id, partition, base_offset)
);
ALTER TABLE coordinatord_batch ALTER COLUMN batch SET STORAGE EXTERNAL;

CREATE FUNCTION coordinatord_fence(term bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM 1 FROM coordinatord_leader WHERE epoch = term FOR SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'epoch % does not lead', term USING ERRCODE = 'CD001';
    END IF;
END $$;

CREATE FUNCTION coordinatord_append(
    term bigint,
    ids bytea[], numbers integer[], topics text[], ends_before bigint[], ends_after bigint[],
    row_ids bytea[], row_numbers integer[], bases bigint[], lasts bigint[], stamps bigint[], segments bigint[],
    batches bytea[]
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    moved integer;
BEGIN
    PERFORM coordinatord_fence(term);
    INSERT INTO coordinatord_partition (topic_id, partition, topic, leader_epoch, end_offset)
        SELECT w.id, w.number, w.topic, term, 0
        FROM unnest(ids, numbers, topics, ends_before) AS w(id, number, topic, end_before)
        WHERE w.end_before = 0
        ON CONFLICT DO NOTHING;
    UPDATE coordinatord_partition AS p SET end_offset = w.end_after
        FROM unnest(ids, numbers, ends_before, ends_after) AS w(id, number, end_before, end_after)
        WHERE p.topic_id = w.id AND p.partition = w.number
            AND p.leader_epoch = term AND p.end_offset = w.end_before;
    GET DIAGNOSTICS moved = ROW_COUNT;
    IF moved <> cardinality(ids) THEN
        RAISE EXCEPTION '% of % partitions end elsewhere', cardinality(ids) - moved, cardinality(ids)
            USING ERRCODE = 'CD002';
    END IF;
    INSERT INTO coordinatord_batch
            (topic_id, partition, base_offset, last_offset, leader_epoch, max_timestamp, segment, batch)
        SELECT w.id, w.number, w.base, w.last, term, w.stamp, w.segment, w.batch
        FROM unnest(row_ids, row_numbers, bases, lasts, stamps, segments, batches)
            AS w(id, number, base, last, stamp, segment, batch);
END $$;

CREATE FUNCTION coordinatord_put_file(term bigint, file_name text, bytes bytea, new_version bigint)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM coordinatord_fence(term);
    INSERT INTO coordinatord_file AS f (name, content, version) VALUES (file_name, bytes, new_version)
        ON CONFLICT (name) DO UPDATE SET content = excluded.content, version = excluded.version
        WHERE f.version < excluded.version;
END $$;

CREATE FUNCTION coordinatord_remove(term bigint, id bytea, number integer, bases bigint[])
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM coordinatord_fence(term);
    DELETE FROM coordinatord_batch WHERE topic_id = id AND partition = number AND segment = ANY (bases);
END $$;

CREATE FUNCTION coordinatord_forget(term bigint, id bytea, number integer)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM coordinatord_fence(term);
    DELETE FROM coordinatord_batch WHERE topic_id = id AND partition = number;
    DELETE FROM coordinatord_partition WHERE topic_id = id AND partition = number;
END $$;
"""

REGISTRY = """
CREATE TABLE coordinatord_node (
    holder text PRIMARY KEY,
    node_id integer NOT NULL,
    rack text,
    addresses text NOT NULL,
    since timestamptz NOT NULL,
    lease_until timestamptz NOT NULL
);

CREATE TABLE coordinatord_move (
    epoch bigint PRIMARY KEY,
    node_id integer NOT NULL,
    from_node_id integer NOT NULL,
    was_given_back boolean NOT NULL,
    at timestamptz NOT NULL
);

ALTER TABLE coordinatord_leader ADD COLUMN from_node_id integer NOT NULL DEFAULT -1;
ALTER TABLE coordinatord_leader ADD COLUMN was_given_back boolean NOT NULL DEFAULT false;
"""
"""The registry of nodes. It changes nothing that programs of the first version use: one that leads continues while
another node migrates.
"""

SEATS = """
ALTER TABLE coordinatord_leader DROP COLUMN one;
ALTER TABLE coordinatord_leader ADD COLUMN seat integer NOT NULL DEFAULT 0 CHECK (seat >= 0);
ALTER TABLE coordinatord_leader ADD PRIMARY KEY (seat);
CREATE UNIQUE INDEX coordinatord_leader_epoch ON coordinatord_leader (epoch) WHERE epoch > 0;
ALTER TABLE coordinatord_partition ADD COLUMN seat integer NOT NULL DEFAULT 0;
ALTER TABLE coordinatord_move ADD COLUMN seat integer NOT NULL DEFAULT 0;

CREATE OR REPLACE FUNCTION coordinatord_append(
    term bigint,
    ids bytea[], numbers integer[], topics text[], ends_before bigint[], ends_after bigint[],
    row_ids bytea[], row_numbers integer[], bases bigint[], lasts bigint[], stamps bigint[], segments bigint[],
    batches bytea[]
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    moved integer;
BEGIN
    PERFORM coordinatord_fence(term);
    IF 0 = ANY (ends_before) THEN
        INSERT INTO coordinatord_partition (topic_id, partition, topic, leader_epoch, end_offset, seat)
            SELECT w.id, w.number, w.topic, term, 0, l.seat
            FROM unnest(ids, numbers, topics, ends_before) AS w(id, number, topic, end_before), coordinatord_leader AS l
            WHERE w.end_before = 0 AND l.epoch = term
            ON CONFLICT DO NOTHING;
    END IF;
    UPDATE coordinatord_partition AS p SET end_offset = w.end_after
        FROM unnest(ids, numbers, ends_before, ends_after) AS w(id, number, end_before, end_after)
        WHERE p.topic_id = w.id AND p.partition = w.number
            AND p.leader_epoch = term AND p.end_offset = w.end_before;
    GET DIAGNOSTICS moved = ROW_COUNT;
    IF moved <> cardinality(ids) THEN
        RAISE EXCEPTION '% of % partitions end elsewhere', cardinality(ids) - moved, cardinality(ids)
            USING ERRCODE = 'CD002';
    END IF;
    INSERT INTO coordinatord_batch
            (topic_id, partition, base_offset, last_offset, leader_epoch, max_timestamp, segment, batch)
        SELECT w.id, w.number, w.base, w.last, term, w.stamp, w.segment, w.batch
        FROM unnest(row_ids, row_numbers, bases, lasts, stamps, segments, batches)
            AS w(id, number, base, last, stamp, segment, batch);
END $$;

CREATE FUNCTION coordinatord_fence_partition(term bigint, id bytea, number integer)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM coordinatord_fence(term);
    PERFORM 1 FROM coordinatord_partition WHERE topic_id = id AND partition = number AND leader_epoch <> term;
    IF FOUND THEN
        RAISE EXCEPTION 'epoch % does not lead this partition', term USING ERRCODE = 'CD001';
    END IF;
END $$;

CREATE OR REPLACE FUNCTION coordinatord_remove(term bigint, id bytea, number integer, bases bigint[])
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM coordinatord_fence_partition(term, id, number);
    DELETE FROM coordinatord_batch WHERE topic_id = id AND partition = number AND segment = ANY (bases);
END $$;

CREATE OR REPLACE FUNCTION coordinatord_forget(term bigint, id bytea, number integer)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM coordinatord_fence_partition(term, id, number);
    DELETE FROM coordinatord_batch WHERE topic_id = id AND partition = number;
    DELETE FROM coordinatord_partition WHERE topic_id = id AND partition = number;
END $$;

CREATE FUNCTION coordinatord_share_file(term bigint, file_name text, bytes bytea, version_before bigint)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM coordinatord_fence(term);
    IF version_before = 0 THEN
        INSERT INTO coordinatord_file (name, content, version) VALUES (file_name, bytes, 1) ON CONFLICT DO NOTHING;
    ELSE
        UPDATE coordinatord_file SET content = bytes, version = version_before + 1
            WHERE name = file_name AND version = version_before;
    END IF;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'another node has changed % meanwhile', file_name USING ERRCODE = 'CD003';
    END IF;
END $$;
"""
"""Several seats. Programs of the second version find everything that they use, and one seat, the only one they support:
one that leads continues while another node migrates. From this version on a database may have several seats; one that
was made before has one.
"""

KEYS = """
CREATE UNIQUE INDEX coordinatord_leader_key ON coordinatord_leader (seat, epoch);

CREATE OR REPLACE FUNCTION coordinatord_fence(term bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM 1 FROM coordinatord_leader WHERE epoch = term FOR KEY SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'epoch % does not lead', term USING ERRCODE = 'CD001';
    END IF;
END $$;
"""
"""Renewals that do not wait for changes. FOR KEY SHARE conflicts only with updates of columns of a unique index without
a predicate, and coordinatord_leader_epoch has one. A program of the third version that leads continues while another
node migrates.
"""

MIGRATIONS = (FIRST_VERSION, REGISTRY, SEATS, KEYS)
"""`MIGRATIONS[n]` migrates version n to n + 1; version 0 is an empty schema."""


def migrate(connection: Connection[Any], cluster_id: str, seats: int = 1) -> str:
    """Bring the tables to this version, in one transaction under an advisory lock; return the cluster's id. A new
    database gets `cluster_id` and this number of seats. Raises Unusable for the tables of a later program, and for a
    database with another number of seats.
    """
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (MIGRATION_LOCK,))
        version = _version(connection)
        if version > VERSION:
            raise Unusable(
                f"the database's tables have version {version} and this program reads version {VERSION}: start the "
                "later one, or give this one another database or schema"
            )
        for step in MIGRATIONS[version:]:
            connection.execute(step)
        if version == 0:
            connection.execute("INSERT INTO coordinatord_schema VALUES (%s)", (VERSION,))
            connection.execute(
                "INSERT INTO coordinatord_leader (cluster_id, epoch, node_id, holder, lease_until, seat) "
                "SELECT %s, 0, -1, '', clock_timestamp(), seat FROM generate_series(0, %s - 1) AS seat",
                (cluster_id, seats),
            )
        elif version < VERSION:
            connection.execute("UPDATE coordinatord_schema SET version = %s", (VERSION,))
        if (made := count_seats(connection)) != seats:
            raise Unusable(
                f"the database was made for {made} leading nodes at a time and this start asks for {seats}: the first "
                "start fixes that number; `coordinatord store copy` and `store load` move a log to another database"
            )
        return cluster(connection)


def check(connection: Connection[Any]) -> str:
    """Return the cluster's id. Changes nothing. Raises Unusable if the tables are missing, or have another version."""
    version = _version(connection)
    if version != VERSION:
        what = "has no tables of coordinatord" if version == 0 else f"has tables of version {version}"
        raise Unusable(f"the database {what}; this program reads version {VERSION}")
    return cluster(connection)


def cluster(connection: Connection[Any]) -> str:
    """Return the cluster's id."""
    row = connection.execute("SELECT cluster_id FROM coordinatord_leader LIMIT 1").fetchone()
    if row is None:
        raise Unusable("the table coordinatord_leader has no row: restore it from a backup")
    return str(row[0])


def count_seats(connection: Connection[Any]) -> int:
    """Return the number of nodes that lead at a time when all seats are taken."""
    row = connection.execute("SELECT count(*) FROM coordinatord_leader").fetchone()
    return int(row[0]) if row is not None else 0


def _version(connection: Connection[Any]) -> int:
    row = connection.execute("SELECT to_regclass('coordinatord_schema') IS NOT NULL").fetchone()
    if row is None or not row[0]:
        return 0
    found = connection.execute("SELECT version FROM coordinatord_schema").fetchone()
    return int(found[0]) if found is not None else 0
