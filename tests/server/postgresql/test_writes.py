"""The log over a store: what is acknowledged is committed, and a new working copy holds it. On the model."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from coordinatord.broker.log import DataDirectory, LogConfig, LogFailed, LogWriter, PartitionLog, checkpoint
from coordinatord.broker.log.cleaner import Cleaner, CleanerSettings, InProcess
from coordinatord.broker.log.disk import replace_text
from coordinatord.broker.log.errors import DataDirectoryError
from coordinatord.broker.log.names import METADATA_TOPIC, METADATA_TOPIC_ID
from coordinatord.broker.log.segment_write import SegmentWrite
from coordinatord.broker.topics import catalogue_file, group_configs, producer_ids
from coordinatord.server.postgresql import working_copy
from coordinatord.server.postgresql.contract import Away
from coordinatord.server.postgresql.copy_disk import FILES, WAITING, CopyDisk
from coordinatord.server.postgresql.store_flusher import StoreFlusher
from kafka_wire.records.batch import KeyValues
from tests.broker.log.world import HandLoop, HandWorker, contents
from tests.server.postgresql.model import LOST_AFTER, LOST_BEFORE, ModelDatabase, ModelStore

TOPIC_ID = b"E" * 16
CONFIG = LogConfig(segment_bytes=600, cleanup_policy="compact", min_cleanable_dirty_ratio=0.0)


class Node:
    """A node that leads: its working copy, its log, a thread that is turned by hand."""

    def __init__(self, database: ModelDatabase, path: Path, config: LogConfig = CONFIG) -> None:
        self.store: ModelStore = database.take()
        self.path = path / f"copy-{self.store.term}"
        working_copy.make(self.store, self.path, cluster_id="cluster", node_id=0)
        self.disk = CopyDisk(self.store, str(self.path))
        self.data = DataDirectory.open(str(self.path), config_for=lambda _topic: config, disk=self.disk)
        self.loop, self.worker, self.background = HandLoop(), HandWorker(), HandWorker()
        self.failures: list[BaseException] = []
        self.flusher = StoreFlusher(self.store, self.data, self.disk)
        self.writer = LogWriter(
            self.data,
            self.loop,
            self.failures.append,
            worker=self.worker,
            background=self.background,
            flusher=self.flusher,
        )
        self.config = config
        self.told: list[bytes] = []
        self.failed: list[bytes] = []

    def log(self, partition: int = 0, topic: str = "events") -> PartitionLog:
        found = self.data.get(topic, partition)
        return found or self.data.create(topic, [partition], TOPIC_ID, self.config, lazy=True)[0]

    def append(self, value: bytes, partition: int = 0, key: bytes | None = None) -> None:
        epoch = self.writer.append_records(self.log(partition), KeyValues([(key or value, value)]), 1_000)
        self.writer.hold(epoch, lambda: self.told.append(value), lambda: self.failed.append(value))

    def settle(self) -> None:
        while self.loop.ready or self.worker.jobs or self.background.jobs:
            self.loop.turn()
            self.worker.run_one()
            self.background.run_one()

    def values(self, partition: int = 0) -> list[bytes]:
        return [value for _offset, _key, value in contents(self.log(partition)) if value is not None]

    def clean(self) -> None:
        """Let the cleaner do all it wants to."""
        worker = HandWorker()
        cleaner = Cleaner(
            self.data, self.writer, self.loop, CleanerSettings(), workshop=InProcess(self.data.disk), worker=worker,
            now_ms=lambda: 1_000_000, on_failed=lambda _log, error: self.failures.append(error),
        )  # fmt: skip
        cleaner.look()
        while self.loop.ready or self.worker.jobs or worker.jobs:
            self.loop.turn()
            self.worker.run_one()
            worker.run_one()


@pytest.fixture
def database() -> ModelDatabase:
    return ModelDatabase()


def test_a_turn_is_one_transaction(database: ModelDatabase, tmp_path: Path) -> None:
    node = Node(database, tmp_path)
    appended: list[int] = []
    original = node.store.append
    node.store.append = lambda growths, rows: (appended.append(len(growths)), original(growths, rows))  # type: ignore
    for number in range(20):
        node.append(b"%d" % number, number % 10)
    node.settle()
    assert appended == [10]
    assert len(node.told) == 20


def acknowledged_is_committed(database: ModelDatabase, path: Path, flusher: Callable[[Node], object]) -> None:
    """Whatever is told is in the database at that moment, and the next leader has it: in any order of threads, with
    lost connections.
    """
    chance = random.Random(7)
    node = Node(database, path)
    flusher(node)
    for number in range(60):
        if chance.random() < 0.5:
            database.faults.append(chance.choice([LOST_BEFORE, LOST_AFTER]))
        node.append(b"<%d>" % number, number % 3)
        for _ in range(chance.randrange(4)):
            chance.choice([node.loop.turn, node.worker.run_one])()
            stored = b"".join(bytes(row.batch) for rows in database.rows.values() for row in rows.values())
            for value in node.told:
                assert value in stored, f"{value!r} is told and not committed"
    following = Node(database, path)
    found = {value for partition in range(3) for value in following.values(partition)}
    assert set(node.told) <= found
    assert node.told, "something was told"


def test_what_is_acknowledged_is_committed(database: ModelDatabase, tmp_path: Path) -> None:
    acknowledged_is_committed(database, tmp_path, lambda node: None)


def test_an_answer_before_the_commit_is_noticed(database: ModelDatabase, tmp_path: Path) -> None:
    def mutate(node: Node) -> None:
        write = node.flusher.write

        def too_early(epoch: int, writes: list[SegmentWrite]) -> bool:
            node.background.submit(lambda: write(epoch, writes))
            return False

        node.flusher.write = too_early  # type: ignore[method-assign]

    with pytest.raises(AssertionError, match="is told and not committed"):
        acknowledged_is_committed(database, tmp_path, mutate)


def test_what_waits_for_the_database_is_told_when_it_is_back(database: ModelDatabase, tmp_path: Path) -> None:
    node = Node(database, tmp_path)
    waits: list[list[bytes]] = []

    def on_wait() -> None:
        waits.append(list(node.told))
        database.is_away = len(waits) < 3

    node.store.on_wait = on_wait
    database.is_away = True
    node.append(b"a")
    node.settle()
    assert waits == [[], [], []]
    assert node.told == [b"a"]


def test_a_former_leader_tells_nothing_and_stops(database: ModelDatabase, tmp_path: Path) -> None:
    node = Node(database, tmp_path)
    node.append(b"a")
    node.settle()
    following = Node(database, tmp_path)
    node.append(b"b")
    node.settle()
    assert (node.told, node.failed) == ([b"a"], [b"b"])
    assert len(node.failures) == 1
    with pytest.raises(LogFailed):
        node.append(b"c")
    assert following.values() == [b"a"]


def test_a_new_copy_has_the_same_segments(database: ModelDatabase, tmp_path: Path) -> None:
    node = Node(database, tmp_path)
    for number in range(40):
        node.append(b"value %d" % number, number % 2)
        node.settle()
    following = Node(database, tmp_path)
    for partition in range(2):
        ours, theirs = node.log(partition), following.log(partition)
        assert [each.base_offset for each in theirs.segments] == [each.base_offset for each in ours.segments]
        assert len(ours.segments) > 2
        assert contents(theirs) == contents(ours)
        assert (theirs.end_offset, theirs.high_watermark) == (ours.end_offset, ours.high_watermark)
    following.append(b"more")
    following.settle()
    assert Node(database, tmp_path).values()[-1] == b"more"


def test_compaction_is_in_the_store(database: ModelDatabase, tmp_path: Path) -> None:
    node = Node(database, tmp_path)
    for number in range(60):
        node.append(b"value %d" % number, key=b"key %d" % (number % 3))
        node.settle()
    rows = sum(map(len, database.rows.values()))
    node.clean()
    assert not node.failures
    assert sum(map(len, database.rows.values())) < rows / 2
    following = Node(database, tmp_path)
    assert contents(following.log()) == contents(node.log())
    assert following.values()[-3:] == [b"value 57", b"value 58", b"value 59"]
    assert len(following.log().segments) == len(node.log().segments)


def test_compaction_of_a_former_leader_is_not(database: ModelDatabase, tmp_path: Path) -> None:
    node = Node(database, tmp_path)
    for number in range(60):
        node.append(b"value %d" % number, key=b"key %d" % (number % 3))
        node.settle()
    before = {key: dict(rows) for key, rows in database.rows.items()}
    database.take()
    node.clean()
    assert len(node.failures) == 1
    assert database.rows == before


def test_retention_is_in_the_store(database: ModelDatabase, tmp_path: Path) -> None:
    config = LogConfig(segment_bytes=600, retention_bytes=1_500)
    node = Node(database, tmp_path, config)
    for number in range(80):
        node.append(b"value %d" % number)
        node.settle()
    assert node.writer.apply_retention(1_000) > 0
    node.settle()
    following = Node(database, tmp_path, config)
    assert following.log().log_start_offset == node.log().log_start_offset > 0
    assert contents(following.log()) == contents(node.log())


def test_an_empty_log_keeps_its_end(database: ModelDatabase, tmp_path: Path) -> None:
    node = Node(database, tmp_path)
    for number in range(5):
        node.append(b"value %d" % number)
    node.settle()
    key = next(iter(database.rows))
    node.store.remove(key, [each.base_offset for each in node.log().segments])
    following = Node(database, tmp_path)
    assert (following.log().end_offset, following.values()) == (5, [])
    following.append(b"next")
    following.settle()
    assert [offset for offset, _key, _value in contents(following.log())] == [5]


def test_deleted_records_stay_deleted(database: ModelDatabase, tmp_path: Path) -> None:
    node = Node(database, tmp_path)
    for number in range(5):
        node.append(b"value %d" % number)
    node.settle()
    node.writer.delete_records(node.log(), 3)
    node.settle()
    assert Node(database, tmp_path).log().log_start_offset == 3


def test_a_deleted_topic_leaves_no_rows(database: ModelDatabase, tmp_path: Path) -> None:
    node = Node(database, tmp_path)
    node.append(b"a", 0)
    node.append(b"b", 1)
    node.settle()
    node.append(b"c", 0)  # not flushed when its log is deleted
    node.writer.delete([node.log(0)])
    node.append(b"d", 1)
    node.settle()
    assert [held.key.partition for held in node.store.partitions()] == [1]
    assert not node.failures


def test_a_change_that_failed_is_undone_before_more_is_committed(database: ModelDatabase, tmp_path: Path) -> None:
    """The store has it, the node was told that it failed: the next leader must see what this one serves."""
    node = Node(database, tmp_path)
    path = f"{node.path}/topics.json"
    replace_text(node.disk, path, "with the topic")
    put_file = node.store.put_file

    def lost(name: str, content: bytes, *, waits: bool = False) -> None:
        put_file(name, content, waits=waits)
        raise Away("no answer")

    node.store.put_file = lost  # type: ignore[method-assign]
    with pytest.raises(OSError, match="no answer"):
        replace_text(node.disk, path, "without it")
    assert node.store.files() == {"topics.json": b"without it"}
    waits: list[bytes] = []

    def on_wait() -> None:
        waits.append(node.store.files()["topics.json"])
        node.store.put_file = put_file  # type: ignore[method-assign]

    node.store.on_wait = on_wait
    node.append(b"a")
    node.settle()
    assert waits, "the database was still away"
    assert node.told == [b"a"]
    assert node.store.files() == {"topics.json": b"with the topic"}
    replace_text(node.disk, path, "another")
    node.append(b"b")
    node.settle()
    assert node.store.files() == {"topics.json": b"another"}


def test_a_topic_that_was_made_again_has_its_own_records(database: ModelDatabase, tmp_path: Path) -> None:
    """The rows of the deleted one are removed later, perhaps by the next leader."""
    for name, value in ((b"A" * 16, b"old"), (b"B" * 16, b"new"), (b"C" * 16, b"older")):
        node = Node(database, tmp_path)
        content = catalogue_file.Content({"events": catalogue_file.Entry(name, 1, {})}, {}, 1)
        catalogue_file.write(node.disk, f"{node.path}/topics.json", content)
        if log := node.data.get("events", 0):
            node.data.logs.pop((log.topic, log.partition))
        log = node.data.create("events", [0], name, CONFIG, lazy=True)[0]
        node.append(value)
        node.settle()
        assert node.told == [value], node.failures
    last = Node(database, tmp_path)
    assert last.values() == [b"older"]
    content = catalogue_file.Content({"events": catalogue_file.Entry(b"B" * 16, 1, {})}, {}, 2)
    catalogue_file.write(last.disk, f"{last.path}/topics.json", content)
    assert Node(database, tmp_path).values() == [b"new"]


def test_the_metadata_log_is_no_topic_and_is_kept(database: ModelDatabase, tmp_path: Path) -> None:
    node = Node(database, tmp_path)
    catalogue_file.write(node.disk, f"{node.path}/topics.json", catalogue_file.Content({}, {}, 1))
    log = node.data.create(METADATA_TOPIC, [0], METADATA_TOPIC_ID, CONFIG, lazy=True)[0]
    node.writer.append_records(log, KeyValues([(b"", b"an ACL")]), 1_000)
    node.settle()
    following = Node(database, tmp_path)
    assert [value for _offset, _key, value in contents(following.data.logs[METADATA_TOPIC, 0])] == [b"an ACL"]


def test_the_small_files_are_those_that_are_written() -> None:
    written = {catalogue_file.FILE, producer_ids.FILE, group_configs.FILE, checkpoint.LOG_START, checkpoint.CLEANER}
    assert written == FILES
    assert WAITING <= FILES


def test_a_data_directory_is_not_taken_for_a_copy(tmp_path: Path) -> None:
    DataDirectory.open(str(tmp_path)).close()
    with pytest.raises(DataDirectoryError, match="store load"):
        working_copy.lock(tmp_path)
    lock = working_copy.lock(tmp_path / "other")
    with pytest.raises(DataDirectoryError, match="in use"):
        working_copy.lock(tmp_path / "other")
    lock.release()
