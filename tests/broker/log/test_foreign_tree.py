"""A tree of whatever people leave in a data directory is the same, byte for byte and inode for inode, after all that a
daemon does there; and what the daemon itself was removing when it was killed is gone after the next start.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from kafka import KafkaAdminClient, KafkaProducer
from kafka.errors import KafkaConnectionError

from coordinatord.broker.log import DataDirectory
from coordinatord.broker.log.cleaner import Cleaner, CleanerSettings, InProcess
from coordinatord.broker.log.disk import File, OsDisk, OsFile
from coordinatord.broker.log.ownership import Foreign, is_begun
from coordinatord.broker.topics import Topics, catalogue_file
from kafka_wire.api.delete_topics import DeleteTopicsRequest
from tests.broker.log.foreign import FIRST_SEGMENT, Link, metadata, picture, pictures, put
from tests.broker.log.world import HandWorker
from tests.broker.topics.world import START_MS, World, batch
from tests.daemon import Daemon, running
from tests.support.rows import first_quick

LEFT, ASIDE = "left alone: it is not ours", "stray partition set aside"
HEX = b"other topic's id".hex()

NAMES = [
    "backup-2024", "lost+found", "x-0.abc-delete", f"x-0.{HEX}-delete", "orders-0-stray", f"orders-0.{HEX}-stray",
    f"orders-0.{HEX}-future", "__consumer_offsets-99", ".hidden", ".git", "odd \udcff\udcfe\n\t", "orders-0\n",
    "orders-007", "orders-\u0661", "orders-2", "orders-2024", "late-0", "late-1", "late", "-0", "..-1", "journal-2024",
    "spare-journal.bak", "recovery-point-offset-checkpoint.old", "topics.json.bak", "meta.properties~",
    "__cluster_metadata-0", ".worker-0.sock", "t" * 249 + "-0", "remote-log-index-cache", f"{0:020d}.log", "worker-1",
    "notes.tmp", "a.deleted", "b.swap", "c.cleaned",
]  # fmt: skip
"""Of the data directory's entries. `orders` has three partitions, and records in the first two; `late` comes later."""

INNER_NAMES = [
    FIRST_SEGMENT, f"{0:020d}.index", f"{7:020d}.log.deleted", f"{7:020d}.snapshot", "partition.metadata", "deep",
    "notes.txt", "leader-epoch-checkpoint", "partition.metadata.tmp", "app.log", "more-1", "\udcfe", ".hidden",
]  # fmt: skip

OWN_NAMES = [
    "notes.txt",
    "app.log",
    "5.log",
    "a.deleted",
    "b.swap",
    "c.cleaned",
    "deep",
    "x.snapshot",
    "\udcfd",
    ".hidden",
]
"""Of entries in the directory of a partition of ours."""


def contents_of(outside: Path) -> st.SearchStrategy[Any]:
    """A file, a link to a file or a directory elsewhere or to nothing, a named pipe, or a directory with such."""
    bytes_of = st.one_of(
        st.binary(max_size=40),
        st.sampled_from([metadata(b"x" * 16), metadata(bytes(16)), bytes(100)]),
    )
    links = st.sampled_from([Link(outside / "file"), Link(outside / "directory"), Link(outside / "nothing")])
    leaves = st.one_of(bytes_of, links, st.none())
    below = st.recursive(
        leaves, lambda more: st.dictionaries(st.sampled_from(INNER_NAMES), more, max_size=4), max_leaves=8
    )
    return st.one_of(leaves, st.dictionaries(st.sampled_from(INNER_NAMES), below, min_size=1, max_size=4))


class Hasty(OsFile):
    """A file whose flushes nobody waits for."""

    def datasync(self) -> None:
        pass


class HastyDisk(OsDisk):
    """Real files, for as long as there is no power failure."""

    def open(self, path: str, *, create: bool = False) -> File:
        file = super().open(path, create=create)
        return Hasty(file._fd)  # type: ignore[attr-defined]

    def sync_dir(self, path: str) -> None:
        pass


class FilesWorld(World):
    """Topics and a cleaner on real files."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.told: list[Foreign] = []
        disk: Any = HastyDisk()
        super().__init__(disk, log_flush="never", offsets_topic_num_partitions=2)

    def open_data(self) -> DataDirectory:
        self.told.clear()
        return DataDirectory.open(
            str(self.path),
            disk=self.disk,
            config_for=lambda name: Topics.log_config(self.settings, name),
            catalogued=catalogue_file.catalogued,
            on_foreign=self.told.append,
        )

    def clean(self) -> int:
        """Let the cleaner do all it wants to; how many logs it has cleaned."""
        worker = HandWorker()
        cleaner = Cleaner(
            self.data, self.writer, self.loop, CleanerSettings(), workshop=InProcess(self.disk), worker=worker,
            now_ms=lambda: START_MS + 10**9,
        )  # fmt: skip
        cleaner.look()
        while cleaner.busy or self.loop.ready or worker.jobs or self.worker.jobs:
            self.loop.turn()
            self.worker.run_one()
            worker.run_one()
        runs = cleaner.state.runs
        cleaner.close()
        return runs

    def fill(self, topic: str, partition: int) -> None:
        """Two segments that can be compacted."""
        for value in (b"1", b"2", b"3"):
            assert self.produce(topic, batch(value, keys=b"k"), partition).error_code == 0
        self.writer.roll(self.topics.catalogue.by_name[topic].partitions[partition].log)
        self.settle()


def compacted(world: FilesWorld, topic: str, partitions: int) -> None:
    world.create(topic, partitions, cleanup_policy="compact", min_cleanable_dirty_ratio="0")


def is_sound(content: object) -> bool:
    return not isinstance(content, bytes) or content.startswith(b"version: 0")


def may_be_set_aside(name: str, content: object) -> bool:
    """Whether somebody else's entry may get another name: one that looks like a partition, or is in the way of ours."""
    looks_like_one = isinstance(content, Mapping) and not {FIRST_SEGMENT, "partition.metadata"}.isdisjoint(content)
    return looks_like_one or name in ("late-0", "late-1", "orders-2")


@given(data=st.data())
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_foreign_tree_stays_what_it_is(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    top = tmp_path_factory.mktemp("tree")
    outside = put(top, "outside", {"file": b"precious", "directory": {FIRST_SEGMENT: b"p", "notes.txt": b"q", "d": {}}})
    contents = contents_of(outside)
    tree = data.draw(st.dictionaries(st.sampled_from(NAMES), contents, min_size=1, max_size=10))
    # In the place of a partition of ours, one that cannot be read is refused: it may be ours, and damaged.
    assume(not isinstance(tree.get("orders-2"), Mapping) or is_sound(tree["orders-2"].get("partition.metadata")))
    own = data.draw(st.dictionaries(st.sampled_from(OWN_NAMES), contents, max_size=4))

    world = FilesWorld(top / "data")
    compacted(world, "orders", 3)
    for partition in (0, 1):
        world.fill("orders", partition)
    world.stop()
    for name, content in tree.items():
        put(world.path, name, content)
    # What our own partition looks like if a crash has interrupted its creation is ours, whoever has made it.
    assume(not is_begun(world.disk, str(world.path / "orders-2")))
    for name, content in own.items():
        put(world.path / "orders-0", name, content)
    before, before_outside = pictures(world.path, list(tree)), picture(outside)
    before_own = {name: picture(world.path / "orders-0" / name) for name in own}

    world.open()
    names_told = [each.name for each in world.told]
    assert len(set(names_told)) == len(names_told)
    directories = {name for name, content in tree.items() if isinstance(content, Mapping | Link)}
    assert directories == set(names_told)
    compacted(world, "late", 2)
    for place in (("late", 0), ("late", 1), ("orders", 2), ("orders", 0)):
        world.fill(*place)
    assert world.clean() >= 4
    assert {name: picture(world.path / "orders-0" / name) for name in own} == before_own
    world.topics.enforce_retention(START_MS + 10**12)
    world.settle()
    world.call(20, 5, DeleteTopicsRequest([], ["late"]))
    world.call(20, 5, DeleteTopicsRequest([], ["orders"]))
    world.settle()
    world.stop()
    for _ in range(2):  # as after a clean stop, and after another
        world.open()
        world.stop()
        (world.path / ".kafka_cleanshutdown").unlink()

    assert pictures(world.path, list(tree)) == before
    assert picture(outside) == before_outside
    for name, content in tree.items():
        assert os.path.lexists(world.path / name) or may_be_set_aside(name, content), name
    gone = [path for path in world.path.glob("orders-0.*-delete") if path.name not in tree]
    assert len(gone) == (1 if own else 0)
    if own:
        assert {name: picture(gone[0] / name) for name in own} == before_own
        assert {each.name for each in gone[0].iterdir()} == {*own, "partition.metadata"}


def test_a_snapshot_that_is_a_link_is_not_ours_to_drop(tmp_path: Path) -> None:
    world = FilesWorld(tmp_path / "data")
    world.create("orders")
    world.fill("orders", 0)
    world.stop()
    (world.path / ".kafka_cleanshutdown").unlink()
    outside = put(tmp_path, "outside", b"precious")
    link = put(world.path / "orders-0", f"{99:020d}.snapshot", Link(outside))  # ahead of the log
    mine = put(world.path / "orders-0", f"{98:020d}.snapshot", b"ours")
    before = picture(link), picture(outside)
    world.open()
    assert (picture(link), picture(outside), mine.exists()) == (*before, False)
    world.stop()


@pytest.mark.parametrize("workers", first_quick([1, 2]))
def test_a_daemon_leaves_a_foreign_tree_as_it_is(tmp_path: Path, workers: int) -> None:
    outside = put(tmp_path, "outside", {"file": b"precious", "directory": {FIRST_SEGMENT: b"p", "d": {}}})
    tree: dict[str, Any] = {
        name: {FIRST_SEGMENT: b"x", "deep": {"er": b"y"}, "link": Link(outside / "directory")} for name in NAMES[::2]
    }
    tree |= {name: Link(outside / "directory") for name in NAMES[1::4]}
    tree |= dict.fromkeys(NAMES[3::4], b"a file")
    put(tmp_path, "data", tree)
    before, before_outside = pictures(tmp_path / "data", list(tree)), picture(outside)
    with running(
        tmp_path, {"log.cleaner.backoff.ms": "20", "offsets.topic.num.partitions": "4"}, workers=workers
    ) as daemon:
        admin = KafkaAdminClient(bootstrap_servers=daemon.bootstrap)
        admin.create_topics({"fresh": {"num_partitions": 3, "replication_factor": 1}})
        producer = KafkaProducer(bootstrap_servers=daemon.bootstrap)
        for partition in range(3):
            producer.send("fresh", b"x", partition=partition).get(timeout=30)
        producer.close(timeout=10)
        admin.delete_topics(["fresh"])
        admin.close()
        assert daemon.stop() == 0
        daemon.start()
        told = {each["entry"] for event in (LEFT, ASIDE) for each in daemon.events(event)}
        assert {name for name in tree if not isinstance(tree[name], bytes)} <= told
        assert len(daemon.events(LEFT, entry="lost+found")) == 2  # starts
    assert pictures(tmp_path / "data", list(tree)) == before
    assert picture(outside) == before_outside
    assert not list((tmp_path / "data").glob("fresh*"))


KILLS_ITSELF = """
import os, signal, sys
from coordinatord.broker.log.disk import File, OsDisk, OsFile
left, unlink = int(sys.argv.pop(1)), OsDisk.unlink
def counted(self, path):
    global left
    left -= "-delete/" in path
    if left < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    unlink(self, path)
OsDisk.unlink = counted
from coordinatord.cli import main
main()
"""


@dataclasses.dataclass
class Doomed(Daemon):
    """Gets SIGKILL when it has removed so many files of topics."""

    removals: int = 0

    def command(self) -> list[str]:
        [_python, _module, _name, *arguments] = super().command()
        return [sys.executable, "-c", KILLS_ITSELF, str(self.removals), *arguments]


@pytest.mark.parametrize("removals", first_quick([4, 0, 13]))
def test_killed_while_it_deletes_a_topic_the_next_start_ends_that(tmp_path: Path, removals: int) -> None:
    doomed = Doomed(tmp_path, removals=removals)
    doomed.start()
    assert doomed.process is not None
    admin = KafkaAdminClient(bootstrap_servers=doomed.bootstrap)
    admin.create_topics({name: {"num_partitions": 3, "replication_factor": 1} for name in ("orders", "kept")})
    producer = KafkaProducer(bootstrap_servers=doomed.bootstrap)
    for partition in range(3):
        for topic in ("orders", "kept"):
            producer.send(topic, b"x", partition=partition).get(timeout=30)
    producer.close(timeout=10)
    with contextlib.suppress(KafkaConnectionError):  # it may die before it has answered
        admin.delete_topics(["orders"])
    admin.close()
    assert doomed.process.wait(30) == -signal.SIGKILL
    data = doomed.data_dir
    left = {path.name: sorted(each.name for each in path.iterdir()) for path in data.glob("orders-*-delete")}
    assert left, "it was killed too late"
    with running(tmp_path) as daemon:
        assert not list(data.glob("orders*"))
        assert sorted(path.name for path in data.glob("kept*")) == ["kept-0", "kept-1", "kept-2"]
        assert daemon.events(LEFT) == daemon.events(ASIDE) == []
