"""A working copy that was made ahead and brought up to date is the one that a leader would make anew."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from coordinatord.broker.log import DataDirectory, LogConfig, checkpoint
from coordinatord.broker.log.disk import Disk
from coordinatord.broker.log.ownership import no_catalogue
from coordinatord.broker.log.segment import INDEX_SUFFIX
from coordinatord.server.postgresql import schema, working_copy
from coordinatord.server.postgresql.contract import Growth, Held, PartitionKey, row_of
from coordinatord.server.postgresql.copy_disk import UnflushedDisk
from coordinatord.server.postgresql.database import Link
from coordinatord.server.postgresql.lease import take
from coordinatord.server.postgresql.standby_copy import StandbyCopy
from coordinatord.server.postgresql.store import PostgresStore
from kafka_wire.records.batch import build_batch
from tests.server.postgresql.model import ModelDatabase, ModelStore, batches_of

KEYS = [PartitionKey(b"A" * 16, 0), PartitionKey(b"A" * 16, 1), PartitionKey(b"B" * 16, 0), PartitionKey(b"C" * 16, 0)]
NAMES = {b"A" * 16: "first", b"B" * 16: "second", b"C" * 16: "second"}
"""The last topic is the second, made again."""
CHANGES = 12


def tree(path: Path) -> dict[str, bytes]:
    """What is in a copy, but for its random id and its lock."""
    files = {str(each.relative_to(path)): each.read_bytes() for each in path.rglob("*") if each.is_file()}
    assert files.pop(checkpoint.META_PROPERTIES)
    files.pop(checkpoint.LOCK, None)
    return files


def bring(store: working_copy.Source, path: Path) -> None:
    working_copy.make(store, path, cluster_id="cluster", node_id=0, disk=UnflushedDisk())


def open_once(path: Path) -> None:
    """As a node that waits does: then the indexes are there."""
    DataDirectory.open(str(path), config_for=lambda _topic: LogConfig(), disk=UnflushedDisk()).close()


class Writer:
    """Changes a store as a leader does: segments, compaction, retention, a topic that is made again, epochs."""

    def __init__(self, store: ModelStore, chance: random.Random) -> None:
        self.store, self.chance = store, chance
        self.segments: dict[PartitionKey, int] = {}

    def change(self) -> None:
        chance, store = self.chance, self.store
        ends = {held.key: held.end_offset for held in store.partitions()}
        key = chance.choice([each for each in KEYS if NAMES[each.topic_id] == "first" or self._is_second(each, ends)])
        end, kind = ends.get(key, 0), chance.random()
        segments = sorted({segment for segment, _batch in batches_of(store, key)})
        if kind < 0.6 or not segments:
            if not end or chance.random() < 0.3:
                self.segments[key] = end
            size = chance.choice([10, 3_000])
            batch = bytes(build_batch([(b"k", chance.randbytes(size))] * 2, chance.randrange(9_000), end))
            store.append([Growth(key, NAMES[key.topic_id], end, end + 2)], [row_of(key, self.segments[key], batch)])
        elif kind < 0.75:  # the same offsets, other bytes
            segment = chance.choice(segments)
            rows = [row_of(key, segment, batch) for at, batch in batches_of(store, key) if at == segment]
            kept = [row for row in rows if chance.random() < 0.7]
            short = [row_of(key, segment, bytes(build_batch([(b"k", b"v")], 5, row.base_offset))) for row in kept]
            store.replace(key, rows[0].base_offset, rows[-1].last_offset + 1, short)
        elif kind < 0.85:
            store.remove(key, segments[:1])
        elif kind < 0.9 and NAMES[key.topic_id] == "second":
            store.forget([key])
        else:
            store.put_file(f"epochs/first-{chance.randrange(2)}", b"0\n1\n%d 0\n" % chance.randrange(9))

    @staticmethod
    def _is_second(key: PartitionKey, ends: dict[PartitionKey, int]) -> bool:
        there = [each for each in ends if NAMES[each.topic_id] == "second"]
        return not there or key in there


@pytest.mark.parametrize("seed", range(4))
def test_a_copy_that_is_brought_up_to_date_is_a_new_one(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    store = ModelDatabase().take()
    writer = Writer(store, chance)
    old = tmp_path / "old"
    for number in range(CHANGES):
        for _ in range(chance.randrange(4)):
            writer.change()
        if chance.random() < 0.3:  # the reading is stopped, wherever it is
            with pytest.raises(InterruptedError):
                bring(Stopping(store, chance.randrange(9)), old)
        bring(store, old)
        new = tmp_path / f"new-{number}"
        bring(store, new)
        assert {path.name for path in old.iterdir()} - {checkpoint.LOCK} == {path.name for path in new.iterdir()}
        open_once(old)
        open_once(new)
        assert tree(old) == tree(new)


class Stopping:
    """A source that fails after so many batches, at its end at the latest."""

    def __init__(self, store: ModelStore, batches: int) -> None:
        self._store, self._left = store, batches
        self.files = store.files

    def partitions(self) -> list[Held]:
        return [*self._store.partitions(), Held(PartitionKey(b"Z" * 16, 0), "first", 1)]

    def batches(self) -> Iterator[tuple[PartitionKey, int, bytes]]:
        for found in self._store.batches():
            self._left -= 1
            if self._left < 0:
                raise InterruptedError
            yield found
        raise InterruptedError


def test_what_is_the_same_is_not_written_again(tmp_path: Path) -> None:
    """A stop that was planned costs what was written since, not the whole log."""
    store = ModelDatabase().take()
    first, second = KEYS[:2]
    for key in (first, second):
        batch = bytes(build_batch([(b"k", b"v")], 1, 0))
        store.append([Growth(key, "first", 0, 1)], [row_of(key, 0, batch)])
    path = tmp_path / "copy"
    bring(store, path)
    open_once(path)
    store.append([Growth(second, "first", 1, 2)], [row_of(second, 0, bytes(build_batch([(b"k", b"v")], 1, 1)))])
    before = {each: each.stat().st_mtime_ns for each in path.glob("first-0/*")}
    assert len(before) == 5
    bring(store, path)
    assert {each: each.stat().st_mtime_ns for each in path.glob("first-0/*")} == before
    assert not list(path.glob(f"first-1/*{INDEX_SUFFIX}")), "they belonged to fewer batches"


@pytest.mark.postgresql
def test_a_node_that_waits_has_a_copy(database: str, tmp_path: Path) -> None:
    link = Link(database)
    schema.migrate(link.open(), "cluster")
    lease = take(link, node_id=1, holder="one", lease_ms=60_000)
    assert lease is not None
    store = PostgresStore(database, lease.term)
    path, new = tmp_path / "copy", tmp_path / "new"
    ahead = StandbyCopy(database, path, 0, no_catalogue)
    try:
        for end in range(3):
            batch = bytes(build_batch([(b"k", b"v")], 1, end))
            store.append([Growth(KEYS[0], "first", end, end + 1)], [row_of(KEYS[0], 0, batch)])
            ahead.make("cluster")
            bring(store, new)
            open_once(new)
            assert tree(path) == tree(new)
        ahead.begin("cluster")
        ahead.close()
        assert path.exists(), "it can be brought up to date wherever it was stopped"
    finally:
        ahead.close()
        store.stop()
        store.close()
        lease.close(release=True)


@pytest.mark.postgresql
def test_a_copy_whose_indexes_were_not_finished_is_discarded(database: str, tmp_path: Path) -> None:
    with_tables = Link(database)
    schema.migrate(with_tables.open(), "cluster")
    with_tables.close()

    def fail(_disk: Disk, _path: str) -> None:
        raise OSError("no space")

    path = tmp_path / "copy"
    ahead = StandbyCopy(database, path, 0, fail)
    with pytest.raises(OSError, match="no space"):
        ahead.make("cluster")
    assert path.exists()
    ahead.close()
    assert not path.exists()


@pytest.mark.postgresql
def test_it_closes_when_a_signal_came_while_its_thread_was_being_started(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A handler that raises interrupts the wait for the thread, which begins after that, or not at all."""

    def interrupted(_thread: threading.Thread) -> None:
        raise KeyboardInterrupt

    ahead = StandbyCopy(database, tmp_path / "copy", 0, no_catalogue)
    with monkeypatch.context() as starting:
        starting.setattr(threading.Thread, "start", interrupted)
        with pytest.raises(KeyboardInterrupt):
            ahead.begin("cluster")
    thread = ahead._thread
    assert thread is not None
    ahead.close()
    thread.start()
    thread.join(30)
    assert not thread.is_alive()
    assert not (tmp_path / "copy").exists()
