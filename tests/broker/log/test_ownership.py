"""What lies in a data directory and is not ours stays as it is, or is set aside as Kafka does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from coordinatord.broker.log import DataDirectory, DataDirectoryError, LogConfig, LogDamaged, LogWriter, PartitionLog
from coordinatord.broker.log import names as file_names
from coordinatord.broker.log.disk import OsDisk
from coordinatord.broker.log.journal import MAGIC
from coordinatord.broker.log.ownership import Catalogued, Foreign
from coordinatord.broker.log.repair import RepairRefused, lock
from coordinatord.cli import cli
from coordinatord.server.workers.peer_sockets import Rendezvous
from kafka_wire.records.batch import build_batch
from tests.broker.log.foreign import FIRST_SEGMENT, Link, metadata, picture, put
from tests.broker.log.world import HandLoop, HandWorker

ORDERS, OTHER = b"O" * 16, b"X" * 16
OWNED = b"version=1\ncluster.id=mine\nnode.id=0\n"
BATCH = bytes(build_batch([(b"k", b"v")], 1))


class Start:
    """A data directory of real files, opened; the catalogue has `orders` with two partitions."""

    def __init__(self, path: Path, catalogued: Catalogued | None = Catalogued({"orders": (ORDERS, 2)}, {})) -> None:
        self.path = path
        self.told: list[Foreign] = []
        self.data = DataDirectory.open(
            str(path), catalogued=lambda _disk, _path: catalogued, on_foreign=self.told.append
        )
        self.worker = HandWorker()
        self.loop = HandLoop()
        self.failures: list[BaseException] = []
        self.writer = LogWriter(self.data, self.loop, self.failures.append, worker=self.worker)

    def orders(self, partition: int = 0) -> PartitionLog:
        found = self.data.get("orders", partition)
        return found or self.data.create("orders", [partition], ORDERS, LogConfig(), lazy=True)[0]

    def write(self, log: PartitionLog) -> None:
        self.writer.append(log, bytearray(BATCH))
        self.settle()

    def settle(self) -> None:
        while self.loop.ready or self.worker.jobs:
            self.loop.turn()
            self.worker.run_one()
        assert self.failures == []

    def stop(self) -> None:
        self.writer.close()
        self.data.close()

    @property
    def told_of(self) -> dict[str, str]:
        """Reasons, by name; each entry is told of once."""
        assert len({each.name for each in self.told}) == len(self.told)
        return {each.name: each.reason for each in self.told}


@pytest.fixture
def used(tmp_path: Path) -> Path:
    """A directory that was used: orders-0 has a record."""
    start = Start(tmp_path / "data")
    start.write(start.orders())
    start.stop()
    return tmp_path / "data"


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A directory elsewhere that links lead to."""
    return put(tmp_path, "outside", {"file": b"precious", FIRST_SEGMENT: BATCH, "partition.metadata": metadata(ORDERS)})


# --- directories ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("catalogued", [None, Catalogued({}, {}), Catalogued({"backup": (OTHER, 3000)}, {})])
def test_a_directory_with_a_number_is_no_partition_for_that(tmp_path: Path, catalogued: Catalogued | None) -> None:
    data = put(tmp_path, "data", {"backup-2024": {"a.txt": b"a", "app.log": b"b", "5.log": b"c", "more": {"d": b"d"}}})
    before = picture(data / "backup-2024")
    for _ in range(2):
        start = Start(data, catalogued)
        assert start.data.logs == {}
        assert start.told_of == {"backup-2024": "it has neither a segment nor a topic's id"}
        start.stop()
    assert picture(data / "backup-2024") == before


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("backup-2024", {"partition.metadata": metadata(OTHER)}, "there is no such topic"),
        ("backup-2024", {FIRST_SEGMENT: BATCH + b"torn"}, "there is no such topic"),
        ("backup-2024", {FIRST_SEGMENT: BATCH, "partition.metadata": metadata(ORDERS)}, "there is no such topic"),
        ("backup-2024", {"partition.metadata": b"garbage"}, "its topic's id cannot be read"),
        ("orders-2", {"partition.metadata": metadata(ORDERS), FIRST_SEGMENT: BATCH}, "the topic has 2 partitions"),
        ("orders-2024", {FIRST_SEGMENT: BATCH, "mine": {"x": b"x"}}, "the topic has 2 partitions"),
        ("orders-1", {"partition.metadata": metadata(OTHER), FIRST_SEGMENT: BATCH}, "it has the id of another topic"),
        ("orders-1", {FIRST_SEGMENT: BATCH + b"torn"}, "it has no topic's id"),
        ("orders-1", {"partition.metadata": metadata(bytes(16))}, "it has no topic's id"),
    ],
)
def test_a_partition_that_we_do_not_know_is_set_aside(used: Path, name: str, content: Any, reason: str) -> None:
    put(used, name, content)
    before = picture(used / name)
    start = Start(used)
    assert set(start.data.logs) == {("orders", 0)}
    [told] = start.told
    assert (told.name, told.reason) == (name, reason)
    assert told.renamed_to is not None
    assert picture(used / told.renamed_to) == before
    assert not (used / name).exists()
    start.stop()
    again = Start(used)
    assert again.told_of == {told.renamed_to: "it is a stray partition"}
    again.stop()
    assert picture(used / told.renamed_to) == before


def test_strays_have_kafkas_names() -> None:
    assert file_names.aside("t" * 249, 12, "ab" * 16, file_names.STRAY_SUFFIX) == f"{'t' * 213}-12.{'ab' * 16}-stray"
    assert len(file_names.aside("t" * 249, 12, "ab" * 16, file_names.STRAY_SUFFIX)) == 255


def test_without_a_catalogue_what_looks_like_a_partition_is_one(tmp_path: Path) -> None:
    """A Kafka broker's directory, and those of before catalogues."""
    controllers = {FIRST_SEGMENT: BATCH, "partition.metadata": metadata(bytes(15) + b"\1"), "quorum-state": b"{}"}
    content = {
        "meta.properties": OWNED,
        "a-0": {"partition.metadata": metadata(OTHER)},
        "b-3": {FIRST_SEGMENT: BATCH},
        "c-1": {"file": b"x"},
        "__cluster_metadata-0": controllers,
    }
    data = put(tmp_path, "data", content)
    before = picture(data / "__cluster_metadata-0")
    start = Start(data, None)
    assert {key: log.topic_id for key, log in start.data.logs.items()} == {("a", 0): OTHER, ("b", 3): bytes(16)}
    assert set(start.told_of) == {"c-1", "__cluster_metadata-0"}
    start.stop()
    assert picture(data / "__cluster_metadata-0") == before


def test_a_partition_without_an_id_stays_ours(tmp_path: Path) -> None:
    """One that was taken in without a catalogue, empty or not."""
    data = put(tmp_path, "data", {"meta.properties": OWNED, "a-0": {FIRST_SEGMENT: BATCH}, "a-1": {FIRST_SEGMENT: b""}})
    Start(data, None).stop()
    for _ in range(2):
        start = Start(data, Catalogued({"a": (ORDERS, 2)}, {}))
        assert {key: log.end_offset for key, log in start.data.logs.items()} == {("a", 0): 1, ("a", 1): 0}
        assert start.told == []
        start.stop()
        (data / ".kafka_cleanshutdown").unlink()


def test_in_a_directory_that_nobody_has_owned_no_partition_is_ours(tmp_path: Path) -> None:
    data = put(tmp_path, "data", {"a-0": {"partition.metadata": metadata(OTHER), FIRST_SEGMENT: BATCH + b"torn"}})
    before = picture(data / "a-0")
    start = Start(data, None)
    assert start.data.logs == {}
    [told] = start.told
    assert told.renamed_to is not None
    assert picture(data / told.renamed_to) == before
    start.stop()


@pytest.mark.parametrize("name", ["orders-01", "orders-0\n", "orders-\u0660", "orders--1", "orders-4294967296", ".-0"])
def test_names_that_are_written_otherwise(used: Path, name: str) -> None:
    """Each of them would be another one's, or nobody's, by its number."""
    put(used, name, {"partition.metadata": metadata(ORDERS), FIRST_SEGMENT: BATCH})
    before = picture(used / name)
    start = Start(used, None)
    expected = {("orders", 0), ("orders-", 1)} if name == "orders--1" else {("orders", 0)}
    assert set(start.data.logs) == expected
    assert start.told_of.keys() == (set() if name == "orders--1" else {name})
    start.stop()
    assert name == "orders--1" or picture(used / name) == before


def test_what_was_flushed_is_ours_whatever_the_catalogue_says(used: Path) -> None:
    start = Start(used, Catalogued({}, {}))
    assert set(start.data.logs) == {("orders", 0)}
    assert start.told == []
    start.stop()


def test_what_was_flushed_and_is_gone_is_missed(used: Path) -> None:
    for file in (used / "orders-0").iterdir():
        file.unlink()
    put(used / "orders-0", "mine", b"x")
    before = picture(used)
    with pytest.raises(DataDirectoryError, match="orders-0 is not a directory now"):
        Start(used)
    after = picture(used)
    assert {path: seen for path, seen in after.items() if path != b"/.lock"} == {
        path: seen for path, seen in before.items() if path != b"/.lock"
    }


def test_a_directory_that_cannot_be_looked_into(used: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody else's, of another user perhaps."""
    put(used, "secret-1", {FIRST_SEGMENT: BATCH})
    listdir = OsDisk.listdir

    def refuse(self: OsDisk, path: str) -> list[str]:
        if path.endswith("secret-1"):
            raise PermissionError(13, "Permission denied", path)
        return listdir(self, path)

    monkeypatch.setattr(OsDisk, "listdir", refuse)
    start = Start(used)
    assert start.told_of == {"secret-1": "it cannot be read: Permission denied"}
    start.stop()


# --- what we were making ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content",
    [
        {},
        {"leader-epoch-checkpoint.tmp": b"0\n1"},
        {"leader-epoch-checkpoint": b"0\n1\n0 0\n", "partition.metadata.tmp": b""},
    ],
)
@pytest.mark.parametrize(
    "catalogued", [None, Catalogued({"orders": (ORDERS, 2)}, {}), Catalogued({}, {ORDERS: "orders"})]
)
def test_what_a_crash_left_of_a_new_partition_is_begun_anew(
    used: Path, content: Any, catalogued: Catalogued | None
) -> None:
    put(used, "orders-1", content)
    start = Start(used, catalogued)
    assert (used / "orders-1").exists() == (catalogued is None)
    assert start.told_of.keys() == (
        {"orders-1"} if catalogued is None else set()
    )  # without a catalogue it may be anybody's
    start.write(start.orders(1))
    start.stop()
    again = Start(used)
    assert again.orders(1).end_offset == 1
    assert again.told == []
    again.stop()


@pytest.mark.parametrize(
    "content",
    [
        {"mine": b"x"},
        {"leader-epoch-checkpoint": b"0\n1\n7 3\n"},
        {"leader-epoch-checkpoint.tmp": b"x" * 101},
        {"partition.metadata.tmp": Link(Path("/etc/passwd"))},
        {"leader-epoch-checkpoint": {}},
        Link(Path("nowhere")),
        Link(Path("../outside")),
        b"a file",
        None,
    ],
)
def test_what_has_the_name_of_a_new_partition_is_set_aside_when_that_is_needed(
    used: Path, outside: Path, content: Any
) -> None:
    put(used, "orders-1", content)
    before, before_outside = picture(used / "orders-1"), picture(outside)
    start = Start(used)
    assert picture(used / "orders-1") == before
    first = list(start.told)
    start.write(start.orders(1))
    [told] = start.told[len(first) :]
    assert (told.name, told.reason) == ("orders-1", "it has the name of one of our partitions")
    assert told.renamed_to is not None
    assert picture(used / told.renamed_to) == before
    assert start.orders(1).end_offset == 1
    start.writer.delete([start.orders(1)])
    start.settle()
    start.stop()
    assert picture(used / told.renamed_to) == before
    assert picture(outside) == before_outside
    assert not (used / "orders-1").exists()


# --- what we were removing --------------------------------------------------------------------------------------------


def test_removals_are_finished(used: Path) -> None:
    name = f"orders-7.{ORDERS.hex()}-delete"
    put(used, name, {"partition.metadata": metadata(ORDERS), FIRST_SEGMENT: BATCH, f"{0:020d}.log.9.removed": b"x"})
    put(used, f"orders-8.{ORDERS.hex()}-delete", {})
    start = Start(used)
    assert not list(used.glob("*-delete"))
    assert start.told == []
    start.stop()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x-0.abc-delete", {FIRST_SEGMENT: BATCH}),
        ("please-delete", {"x": b"x"}),
        (f"x-0.{ORDERS.hex()}-delete", {FIRST_SEGMENT: BATCH}),
        (f"x-0.{ORDERS.hex()}-delete", {"partition.metadata": metadata(OTHER), FIRST_SEGMENT: BATCH}),
        (f"x-0.{ORDERS.hex()}-delete", {"partition.metadata": b"garbage"}),
        (f"x-0.{ORDERS.hex()}-delete", {"partition.metadata": {"deep": {"er": b""}}}),
        (f"x-0.{ORDERS.hex()}-delete", {"sub": {"x": b"x"}}),
        (f"x-0.{ORDERS.hex()}-delete", Link(Path("../outside"))),
        ("x-0.abc-delete", Link(Path("../outside"))),
        ("orders-1", Link(Path("../outside"))),
        ("orders-1", {"partition.metadata": Link(Path("../../outside/partition.metadata")), FIRST_SEGMENT: BATCH}),
        ("orders-1", {"partition.metadata": None}),
        (f"x-0.{ORDERS.hex()}-delete", {"partition.metadata": Link(Path("../../outside/partition.metadata"))}),
    ],
)
def test_what_we_were_not_removing_stays(used: Path, outside: Path, name: str, content: Any) -> None:
    put(used, name, content)
    before = picture(used / name), picture(outside)
    for _ in range(2):
        start = Start(used)
        assert list(start.told_of) == [name]
        start.stop()
        assert (picture(used / name), picture(outside)) == before


def test_in_a_directory_that_goes_what_is_not_ours_stays(used: Path, outside: Path) -> None:
    theirs = {
        "notes.txt": b"n",
        "app.log": b"l",
        "deep": {FIRST_SEGMENT: BATCH},
        f"{7:020d}.log": Link(outside / FIRST_SEGMENT),
        f"{8:020d}.index": {"dir": b"x"},
    }
    for name, content in theirs.items():
        put(used / "orders-0", name, content)
    (used / "orders-0" / f"{7:020d}.log").unlink()  # a segment would have to be one
    before_outside = picture(outside)
    start = Start(used)
    put(used / "orders-0", f"{7:020d}.log", theirs[f"{7:020d}.log"])
    before = {name: picture(used / "orders-0" / name) for name in theirs}
    start.writer.delete([start.orders()])
    start.settle()
    start.stop()
    directory = used / f"orders-0.{ORDERS.hex()}-delete"
    for _ in range(2):  # the next start tries again, and tells again
        assert {each.name for each in directory.iterdir()} == {*theirs, "partition.metadata"}
        assert {name: picture(directory / name) for name in theirs} == before
        assert picture(outside) == before_outside
        start = Start(used)
        assert list(start.told_of) == [directory.name]
        assert "in it is not ours, nor are 4 more" in start.told_of[directory.name]
        start.stop()


def test_a_name_for_removals_that_is_taken(used: Path, outside: Path) -> None:
    taken = [f"orders-0.{ORDERS.hex()}-delete", f"orders-0.{ORDERS.hex()}.1-delete"]
    put(used, taken[0], {"mine": b"x"})
    put(used, taken[1], Link(Path("nowhere")))
    before = [picture(used / name) for name in taken]
    start = Start(used)
    [renamed] = start.data.remove([start.orders()])
    assert os.path.basename(renamed) == f"orders-0.{ORDERS.hex()}.2-delete"
    start.data.files.close()
    start.data.close()  # and did not come to removing it
    start = Start(used)
    assert not os.path.exists(renamed)
    start.stop()
    assert [picture(used / name) for name in taken] == before


def test_partitions_of_a_long_name_do_not_share_a_name_for_removals(tmp_path: Path) -> None:
    data = DataDirectory.open(str(tmp_path))
    logs = data.create("t" * 249, [0, 1, 11], ORDERS, LogConfig())
    renamed = data.remove(logs)
    assert len(set(renamed)) == 3
    data.close()
    DataDirectory.open(str(tmp_path)).close()
    assert not list(tmp_path.glob("t*"))


def test_a_partition_without_an_id_can_be_removed_in_two_starts(tmp_path: Path) -> None:
    """One of Kafka before 2.8: nothing in it showed whose it was."""
    data = put(tmp_path, "data", {"meta.properties": OWNED, "old-3": {FIRST_SEGMENT: BATCH}})
    start = Start(data, None)
    start.data.remove(list(start.data.logs.values()))
    start.data.close()
    assert list(data.glob("*-delete"))
    start = Start(data, None)
    assert start.told == []
    assert not list(data.glob("old*"))
    start.stop()


# --- files ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["journal-2024", "journal-worker-1-7", "spare-journal\n", "x-spare-journal"])
def test_a_file_that_is_called_something_like_a_journal(used: Path, name: str) -> None:
    before = picture(put(used, name, b"Dear diary"))
    start = Start(used)
    assert start.data.was_clean
    start.stop()
    assert picture(used / name) == before


@pytest.mark.parametrize("name", [f"journal-{1:020d}", f"journal-worker-3-{1:020d}", "spare-journal"])
def test_a_file_that_is_called_a_journal_and_is_none_is_refused(used: Path, name: str) -> None:
    before = picture(put(used, name, b"Dear diary"))
    with pytest.raises(LogDamaged, match=f"{name} is damaged at byte 0: it does not begin like a journal"):
        Start(used)
    assert picture(used / name) == before


@pytest.mark.parametrize("head", [b"", MAGIC[:2], bytes(4), MAGIC[:1] + bytes(3), bytes(3) + MAGIC[3:], MAGIC + b"x"])
def test_what_a_crash_leaves_of_a_journal_is_removed(used: Path, head: bytes) -> None:
    put(used, f"journal-{1:020d}", head)
    start = Start(used)
    assert not (used / f"journal-{1:020d}").exists()
    start.stop()


@pytest.mark.parametrize(
    "name",
    [
        ".lock", ".kafka_cleanshutdown", "meta.properties", "recovery-point-offset-checkpoint",
        "log-start-offset-checkpoint.worker-3", "cleaner-offset-checkpoint", f"journal-{1:020d}", "spare-journal",
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["link", "dangling", "directory", "pipe"])
def test_what_has_the_name_of_a_file_of_ours_is_refused(used: Path, outside: Path, name: str, kind: str) -> None:
    (used / name).unlink(missing_ok=True)
    content = {
        "link": Link(outside / "file"),
        "dangling": Link(outside / "new"),
        "directory": {"x": b"x"},
        "pipe": None,
    }
    put(used, name, content[kind])
    before = picture(used / name), picture(outside)
    with pytest.raises(DataDirectoryError, match=f"{name} is a .*: move it out of the data directory"):
        Start(used)
    assert (picture(used / name), picture(outside)) == before


def test_a_link_where_a_small_file_is_replaced_is_not_followed(used: Path, outside: Path) -> None:
    before = picture(outside)
    put(used, "recovery-point-offset-checkpoint.tmp", Link(outside / "file"))
    with pytest.raises(OSError, match="is a symbolic link, which is not followed"):
        Start(used)
    assert picture(outside) == before


def test_files_in_a_partition_that_are_not_ours(used: Path) -> None:
    """What recovery and the cleaner sweep away has 20 digits and one of their endings."""
    names = ["notes.deleted", "todo.swap", "a.cleaned", "5.log", "5.log.swap", "5.log.deleted", "x.snapshot", "7.index"]
    directory = used / "orders-0"
    for name in names:
        put(directory, name, b"mine")
    put(directory, f"{3:020d}.log.deleted", {"mine": b"x"})
    put(directory, f"{3:020d}.index.swap", Link(Path("../outside")))
    put(directory, f"{4:020d}.log.deleted", b"ours")
    kept = [*names, f"{3:020d}.log.deleted", f"{3:020d}.index.swap"]
    before = [picture(directory / name) for name in kept]
    for is_clean in (True, False):
        start = Start(used)
        assert start.orders().end_offset == 1
        start.stop()
        if is_clean:
            (used / ".kafka_cleanshutdown").unlink()
        assert [picture(directory / name) for name in kept] == before
    assert not (directory / f"{4:020d}.log.deleted").exists()


@pytest.mark.parametrize("clean", [True, False])
def test_a_segment_that_is_a_link_is_refused(used: Path, outside: Path, clean: bool) -> None:
    segment = used / "orders-0" / FIRST_SEGMENT
    segment.unlink()
    segment.symlink_to(outside / FIRST_SEGMENT)
    if not clean:
        (used / ".kafka_cleanshutdown").unlink()
    before = picture(outside)
    with pytest.raises(LogDamaged, match="it is a symbolic link, not a file"):
        Start(used)
    assert picture(outside) == before


def test_a_partition_that_is_a_link_is_missed(used: Path, tmp_path: Path) -> None:
    (used / "orders-0").rename(tmp_path / "moved")
    (used / "orders-0").symlink_to(tmp_path / "moved")
    before = picture(tmp_path / "moved")
    with pytest.raises(DataDirectoryError, match="orders-0 is not a directory now"):
        Start(used)
    assert picture(tmp_path / "moved") == before


def test_a_data_directory_that_is_a_link_is_a_data_directory(used: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(used)
    start = Start(tmp_path / "link")
    assert start.orders().end_offset == 1
    start.write(start.orders())
    start.writer.delete([start.orders()])
    start.settle()
    start.stop()
    assert not list(used.glob("orders*"))


@pytest.mark.parametrize("kind", ["symbolic link", "directory"])
def test_a_catalogue_that_is_no_file_is_refused_in_a_sentence(used: Path, outside: Path, kind: str) -> None:
    put(used, "topics.json", Link(outside / "file") if kind == "symbolic link" else {"x": b"x"})
    before = picture(used / "topics.json"), picture(outside)
    command = [sys.executable, "-m", "coordinatord", "serve", "--listen", "127.0.0.1:0", "--data-dir", str(used)]
    refused = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert refused.returncode == 1
    assert f"topics.json is a {kind}, where coordinatord keeps a file" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert (picture(used / "topics.json"), picture(outside)) == before


# --- beside the log ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["segment", "partition"])
def test_a_repair_does_not_follow_links(used: Path, outside: Path, what: str) -> None:
    if what == "segment":
        (used / "orders-0" / f"{5:020d}.log").symlink_to(outside / FIRST_SEGMENT)
        path = used / "orders-0" / f"{5:020d}.log"
    else:
        (used / "orders-1").symlink_to(outside)
        path = used / "orders-1" / FIRST_SEGMENT
    before = picture(outside)
    with pytest.raises(RepairRefused, match="is a symbolic link"):
        lock(OsDisk(), str(path))
    result = CliRunner().invoke(cli, ["log", "repair", "--yes", "--from-position", "0", str(path)])
    assert (result.exit_code, "is a symbolic link" in result.output) == (1, True)
    assert picture(outside) == before


def test_links_are_followed_where_one_only_looks(used: Path, outside: Path) -> None:
    (outside / "link.log").symlink_to(used / "orders-0" / FIRST_SEGMENT)
    result = CliRunner().invoke(cli, ["log", "dump", str(outside / "link.log")])
    assert result.exit_code == 0
    assert "1 batches, 1 records" in result.output


def test_workers_meet_elsewhere_when_something_is_in_their_place(used: Path) -> None:
    put(used, ".worker-1.sock", b"mine")
    before = picture(used / ".worker-1.sock")
    meeting = Rendezvous(str(used), 2, 10)
    assert not meeting.paths[0].startswith(str(used))
    assert all(Path(path).is_socket() for path in meeting.paths)
    meeting.remove()
    assert picture(used / ".worker-1.sock") == before
    assert not (used / ".worker-0.sock").exists()
    assert not any(Path(path).exists() for path in meeting.paths)
