"""The pipeline and `coordinatord lag` on the tables say what they say on a copy of the same log in a directory.

On the model, and on PostgreSQL.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from coordinatord.cli import cli
from coordinatord.monitoring.offsets_log.decode.row_types import KINDS, QUARANTINE
from coordinatord.monitoring.offsets_log.lag import lag_scan
from coordinatord.monitoring.offsets_log.lag.fold import KINDS as FOLDED
from coordinatord.monitoring.offsets_log.lag.lag_scan import Looks
from coordinatord.monitoring.offsets_log.source import store as asked
from coordinatord.monitoring.offsets_log.source.arrow import rows
from coordinatord.monitoring.offsets_log.source.end_offsets import RecordTimes, from_directories
from coordinatord.monitoring.offsets_log.source.ledger_topic import ledger_of
from coordinatord.monitoring.offsets_log.source.logs import read_part, tail_of
from coordinatord.monitoring.offsets_log.source.options import Options, read_options
from coordinatord.monitoring.offsets_log.source.segments import SourceError
from coordinatord.monitoring.offsets_log.source.topic_names import names_in_directories
from coordinatord.server.postgresql import schema, transfer, working_copy
from coordinatord.server.postgresql.contract import PartitionKey, Store, row_of
from coordinatord.server.postgresql.database import Link
from coordinatord.server.postgresql.lease import take
from coordinatord.server.postgresql.store import PostgresStore
from tests.daemon import free_port
from tests.server.postgresql.model import ModelDatabase, batches_of
from tests.server.postgresql.stored_logs import LEDGER, fill
from tests.server.postgresql.stored_model import URL, StoredModel

OF_PLACES = ("source", "position")
"""Where a piece of the quarantine was found: in a file, or in a row."""


class Source:
    """A database with a log, and the copy of it in a directory."""

    def __init__(self, store: Store, url: str, copy: Callable[[Path], object], scratch: Path) -> None:
        self.store, self.url = store, url
        self.now_ms = fill(store)
        self.directory = str(scratch / "copy")
        copy(scratch / "copy")

    def options(self, **given: Any) -> tuple[Options, Options]:
        """Of the database, and of the directory."""
        of = [
            read_options({"paths": json.dumps([path]), **{name: str(value) for name, value in given.items()}})
            for path in (self.url, self.directory)
        ]
        return of[0], of[1]


@pytest.fixture(params=["model", pytest.param("postgresql", marks=pytest.mark.postgresql)])
def source(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Source]:
    if request.param == "model":
        database = ModelDatabase()
        StoredModel(database).stand_in(monkeypatch)
        store = database.take()
        yield Source(store, URL, lambda path: working_copy.make(store, path, cluster_id="c", node_id=0), tmp_path)
        return
    url: str = request.getfixturevalue("database")
    link = Link(url)
    schema.migrate(link.open(), "cluster")
    lease = take(link, node_id=1, holder="one", lease_ms=600_000)
    assert lease is not None
    real = PostgresStore(url, lease.term)
    try:
        yield Source(real, url, lambda path: transfer.copy(url, path, node_id=0), tmp_path)
    finally:
        real.stop()
        real.close()
        lease.close(release=True)


def told(options: Options) -> dict[str, list[dict[str, Any]]]:
    """The rows of all kinds in one pass."""
    found: dict[str, list[dict[str, Any]]] = {}
    tail = tail_of(options)
    for part in tail.plan({}, tail.ends()):  # type: ignore[arg-type]
        for kind, batch in read_part(part, options.wanted):
            found.setdefault(kind, []).extend(
                batch.drop_columns([n for n in OF_PLACES if n in batch.schema.names]).to_pylist()
            )
    for rows_ in found.values():
        rows_.sort(key=lambda row: (row["log_partition"], row["log_offset"] or -1, str(row)))
    return found


def test_the_rows_of_all_kinds_are_those_of_the_copy(source: Source) -> None:
    stored, copied = source.options()
    expected = told(copied)
    assert told(stored) == expected
    assert told(source.options(splitBytes=700)[0]) == expected
    assert sum(map(len, expected.values())) >= 500
    assert {"offset_commits", "group_generations"} <= expected.keys()
    for options in ({"groups": "looping"}, {"partitions": "0-1"}, {"kinds": "offset_commits"}):
        stored, copied = source.options(**options)
        assert told(stored) == told(copied)


def test_arrow_batches(source: Source) -> None:
    kind = "offset_commits"
    found, expected = (rows(kind, path).read_all() for path in (source.url, source.directory))
    assert found.schema == KINDS[kind].schema
    order = [("log_partition", "ascending"), ("log_offset", "ascending")]
    assert found.sort_by(order).equals(expected.sort_by(order))


def test_a_read_is_cut_by_log_partitions_and_bytes(source: Source) -> None:
    options, _ = source.options(splitBytes=700)
    tail = tail_of(options)
    ends = tail.ends()
    parts = tail.plan({}, ends)
    assert {part.name for part in parts} == ends.keys(), "each has one partition's offsets"  # type: ignore[union-attr]
    assert len(parts) > 2 * len(ends)
    whole, _ = source.options(splitBytes=1 << 40)
    assert len(tail_of(whole).plan({}, ends)) == len(ends)
    assert sum(part.bytes for part in parts) == asked.size(source.url, list(tail.logs().values()))  # type: ignore[union-attr]


def test_a_stream_reads_each_record_once(source: Source) -> None:
    """Micro-batches of few bytes, or of few records, as Spark plans them."""
    expected = told(source.options()[1])["offset_commits"]
    for limits in ((20_000, None), (None, 97)):
        options, _ = source.options(kinds="offset_commits")
        tail, position, found, steps = tail_of(options), dict[str, int](), [], 0
        ends = tail.ends()
        while position != ends:
            after = tail.limited(position, ends, *limits)
            assert after != position, "it makes progress"
            for part in tail.plan(position, after):
                for _kind, batch in read_part(part, options.wanted):
                    found += [(row["log_partition"], row["log_offset"]) for row in batch.to_pylist()]
            position = after
            steps += 1
        assert sorted(found) == [(row["log_partition"], row["log_offset"]) for row in expected]
        assert steps > 2


def test_positions_are_those_of_a_directory(source: Source) -> None:
    """So a stream goes on with the one where it has read the other."""
    stored, copied = source.options()
    assert tail_of(stored).ends() == tail_of(copied).ends()


def test_lag_is_that_of_the_copy(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    """A database has no earlier ends of partitions, which a directory's indexes and batches have."""
    monkeypatch.setattr(lag_scan, "points_of", lambda *_: [])
    looks = []
    for options, place in zip(
        source.options(kinds=",".join(sorted(FOLDED))), (source.url, source.directory), strict=True
    ):
        found = Looks(options, place, {}).look(source.now_ms)
        looks.append(replace(found, records=0))
        assert found.records >= 500
    assert looks[0].rows == looks[1].rows
    assert looks[0] == looks[1]
    assert any(row.lag for row in looks[0].rows), "where partitions end is known"
    assert any(row.time_lag_ms for row in looks[0].rows)


def test_ends_times_names_and_the_ledger_are_those_of_the_copy(source: Source) -> None:
    endings = [from_directories([path], source.now_ms, with_points=False) for path in (source.url, source.directory)]
    assert sorted(endings[0], key=str) == sorted(endings[1], key=str)
    assert endings[0]
    for each in endings[0]:
        for offset in (each.log_start_offset, (each.log_start_offset + each.end_offset) // 2, each.end_offset):
            times = [RecordTimes([path])(each.topic, each.partition, offset) for path in (source.url, source.directory)]
            assert times[0] == times[1]
    assert RecordTimes([source.url])("nowhere", 0, 0) is None
    names = names_in_directories([source.url])
    assert names == names_in_directories([source.directory])
    assert LEDGER in names.values()
    stored, copied = source.options()
    for starts in ({}, {0: 2}):
        assert list(ledger_of(stored, starts)) == list(ledger_of(copied, starts))
    assert len(list(ledger_of(stored, {}))) == 3


@pytest.mark.parametrize("name", ["log-start-offset-checkpoint", "seats/1/log-start-offset-checkpoint"])
def test_records_that_were_deleted_within_a_segment(name: str, source: Source) -> None:
    """Each node that leads has a file of its own."""
    first = from_directories([source.url], 0)[0]
    content = f"0\n1\n{first.topic} {first.partition} {first.end_offset - 1}\n"
    source.store.put_file(name, content.encode())
    found = from_directories([source.url], 0)
    assert found[0] == replace(first, log_start_offset=first.end_offset - 1)
    (Path(source.directory) / "log-start-offset-checkpoint").write_text(content)
    assert found[0] in from_directories([source.directory], 0, with_points=False)


def test_a_row_that_is_no_batch_is_a_row_of_the_quarantine(source: Source) -> None:
    options, _ = source.options()
    place = max(tail_of(options).logs().values(), key=lambda each: each.end_offset)  # type: ignore[union-attr]
    key = PartitionKey(place.topic_id, place.partition)  # type: ignore[union-attr]
    held = batches_of(source.store, key)
    expected = told(options)
    segment, batch = held[len(held) // 2]
    row = row_of(key, segment, batch)
    damaged = batch[:16] + b"\x07" + batch[17:]
    source.store.replace(key, row.base_offset, row.base_offset + 1, [row._replace(batch=damaged)])
    lost = {(key.partition, row.base_offset + n) for n in range(row.last_offset - row.base_offset + 1)}
    left = told(options)
    reasons = [each["reason"] for each in left.pop(QUARANTINE) if each["level"] == "bytes"]
    assert reasons == [f"the row of offset {row.base_offset} has no whole batch"]
    expected.pop(QUARANTINE, None)
    for kind, found in left.items():
        kept = [each for each in expected[kind] if (each["log_partition"], each["log_offset"]) not in lost]
        assert found == kept


# One sentence for each mistake


def lag(*arguments: str, status: int = 0) -> str:
    found = CliRunner().invoke(cli, ["lag", *arguments])
    assert found.exit_code == status, found.output
    return found.output


def sentence(*arguments: str) -> str:
    text = lag(*arguments, status=2)
    assert "Traceback" not in text
    assert len(text.strip().splitlines()) == 1
    return text


def test_a_driver_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    assert "pip install 'coordinatord[postgresql]'" in sentence("--source", "postgresql://host/database")


def test_a_database_beside_a_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    StoredModel(ModelDatabase()).stand_in(monkeypatch)
    assert "give one, and nothing beside it" in sentence("--source", URL, "--source", str(tmp_path))
    with pytest.raises(SourceError, match="no records of __consumer_offsets"):
        tail_of(read_options({"path": URL})).ends()


@pytest.mark.postgresql
def test_a_database_that_cannot_be_read(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("psycopg", reason="psycopg is not installed (make .venv/.postgresql)")
    told = sentence("--source", f"postgresql://user@127.0.0.1:{free_port()}/nowhere")
    assert told.startswith("coordinatord: cannot connect to 127.0.0.1/nowhere: ")
    told = sentence("--source", "postgresql://user:secret@127.0.0.1/database")
    assert "PGPASSWORD" in told
    assert "secret" not in told
    assert "has no log of coordinatord" in sentence("--source", database)
    link = Link(database)
    schema.migrate(link.open(), "cluster")
    link.close()
    assert "no records of __consumer_offsets" in sentence("--source", database)


@pytest.mark.postgresql
def test_a_connection_that_the_server_has_closed_is_made_again(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    link = Link(database)
    schema.migrate(link.open(), "cluster")
    asked.places(database)
    link.open().execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE pid <> pg_backend_pid() AND datname = current_database()"
    )
    link.close()
    monkeypatch.setattr(asked, "FRESH_S", -1.0)
    assert asked.places(database) == []


@pytest.mark.postgresql
def test_the_command_reads_the_tables(database: str, tmp_path: Path) -> None:
    link = Link(database)
    schema.migrate(link.open(), "cluster")
    lease = take(link, node_id=1, holder="one", lease_ms=600_000)
    assert lease is not None
    store = PostgresStore(database, lease.term)
    fill(store)
    store.stop()
    store.close()
    lease.close(release=True)
    transfer.copy(database, tmp_path / "copy", node_id=0)
    found = [json.loads(lag("--source", source, "--json")) for source in (database, str(tmp_path / "copy"))]
    lasting = (
        "group_id",
        "topic",
        "partition",
        "committed_offset",
        "end_offset",
        "log_start_offset",
        "lag",
        "moved_ms",
    )
    stored, copied = ([[row[name] for name in lasting] for row in rows_] for rows_ in found)  # at two moments
    assert sorted(stored, key=str) == sorted(copied, key=str)
    assert len(stored) > 10
