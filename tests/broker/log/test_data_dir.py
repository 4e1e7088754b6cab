"""Whose the data directory is, and when it is refused."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from coordinatord.broker.log import DataDirectory, DataDirectoryError, LogConfig, LogDamaged
from coordinatord.broker.log.checkpoint import uuid_bytes, uuid_text
from coordinatord.broker.log.disk import CHECK_S, Disk, OsDisk, read_text
from coordinatord.broker.log.dump import describe
from coordinatord.broker.log.simulated_disk import SimulatedDisk
from kafka_wire.records.batch import build_batch, build_control_batch
from kafka_wire.records.control import ControlType
from tests.broker.log.world import PATH, World


def test_a_new_directory_gets_an_owner(tmp_path: Path) -> None:
    path = tmp_path / "some" / "where"
    data = DataDirectory.open(str(path), node_id=4)
    assert len(uuid_bytes(data.cluster_id)) == 16
    data.close()
    properties = (path / "meta.properties").read_text()
    for line in ("version=1", f"cluster.id={data.cluster_id}", "node.id=4", "directory.id="):
        assert line in properties
    again = DataDirectory.open(str(path), node_id=4)
    assert again.cluster_id == data.cluster_id
    again.close()


def test_another_process_holds_it(tmp_path: Path) -> None:
    path = str(tmp_path)
    holder = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys; from coordinatord.broker.log import DataDirectory\n"
            "d = DataDirectory.open(sys.argv[1]); print('held', flush=True); sys.stdin.read()",
            path,
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[3],
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(DataDirectoryError, match=f"in use by process {holder.pid}"):
            DataDirectory.open(path)
    finally:
        holder.kill()
        holder.communicate()
    DataDirectory.open(path).close()  # the lock went with the process


def test_this_process_holds_it(tmp_path: Path) -> None:
    data = DataDirectory.open(str(tmp_path))
    with pytest.raises(DataDirectoryError, match="in use"):
        DataDirectory.open(str(tmp_path))
    data.close()
    DataDirectory.open(str(tmp_path)).close()


def test_the_lock_is_one_that_java_sees(tmp_path: Path) -> None:
    """FileChannel.tryLock is a POSIX record lock: another process cannot get one while we hold the directory."""
    data = DataDirectory.open(str(tmp_path))
    script = "import fcntl, sys; fcntl.lockf(open(sys.argv[1], 'r+'), fcntl.LOCK_EX | fcntl.LOCK_NB)"
    command = [sys.executable, "-c", script, str(tmp_path / ".lock")]
    assert b"BlockingIOError" in subprocess.run(command, capture_output=True, check=False).stderr
    data.close()
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize("operation", ["makedirs", "lock", "rename"])
def test_not_writable(operation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: object, path: str, *_: str) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", path)

    monkeypatch.setattr(SimulatedDisk, operation, refuse)
    with pytest.raises(DataDirectoryError, match="data directory /data is not writable: Permission denied"):
        DataDirectory.open(PATH, disk=SimulatedDisk())


def test_not_a_directory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataDirectoryError, match="is not a directory"):
        DataDirectory.open(str(tmp_path / "file"))


def test_a_full_disk_at_the_first_start() -> None:
    with pytest.raises(DataDirectoryError, match="no space left"):
        DataDirectory.open(PATH, disk=SimulatedDisk(capacity=20))


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ("version=0\nnode.id=0\ncluster.id=x\n", "has version 0, which a Kafka broker before KRaft wrote"),
        ("version=1\nnode.id=3\ncluster.id=x\n", "belongs to node 3, this is node 0"),
        ("version=1\nnode.id=0\ncluster.id=x\n", "belongs to cluster x, not mine"),
    ],
)
def test_another_owners_directory(tmp_path: Path, properties: str, message: str) -> None:
    (tmp_path / "meta.properties").write_text(properties)
    with pytest.raises(DataDirectoryError, match=message):
        DataDirectory.open(str(tmp_path), cluster_id="mine")


def test_broken_small_files_are_named() -> None:
    for name, text in (
        ("meta.properties", "version=1\n"),
        ("recovery-point-offset-checkpoint", "0\n2\nevents 0 1\n"),
        ("log-start-offset-checkpoint", "7\n0\n"),
        ("events-0/partition.metadata", "version: 0\ntopic_id: short\n"),
    ):
        world = World(SimulatedDisk())
        world.log()
        world.close()
        content = _file(world.disk, f"{PATH}/{name}")
        content[:] = text.encode()
        with pytest.raises(LogDamaged, match=name):
            World(world.disk)


def _file(disk: SimulatedDisk, path: str) -> bytearray:
    disk.open(path, create=True)
    return disk.content(path)


def test_kafkas_directory_is_understood() -> None:
    """Other files of a broker's directory are left alone; a partition without an id is one of Kafka before 2.8."""
    disk = SimulatedDisk()
    DataDirectory.open(PATH, disk=disk).close()  # its meta.properties
    disk.makedirs(f"{PATH}/old-3")
    _file(disk, f"{PATH}/old-3/{0:020d}.log")[:] = build_batch([(b"a", b"1")], 1) + build_batch([(b"b", b"2")], 1, 1)
    for name in (f"{0:020d}.txnindex", f"{2:020d}.snapshot"):
        _file(disk, f"{PATH}/old-3/{name}")
    _file(disk, f"{PATH}/replication-offset-checkpoint")[:] = b"0\n0\n"
    disk.makedirs(f"{PATH}/__cluster_metadata-0")
    world = World(disk)
    log = world.data.get("old", 3)
    assert log is not None
    assert log.end_offset == 2
    assert log.topic_id == bytes(16)
    world.close()
    assert disk.exists(f"{PATH}/old-3/{2:020d}.snapshot")


@pytest.mark.parametrize("simulated", [True, False])
def test_many_partitions_are_made_and_found(tmp_path: Path, simulated: bool) -> None:
    disk: Disk = SimulatedDisk() if simulated else OsDisk()
    path = PATH if simulated else str(tmp_path)
    data = DataDirectory.open(path, disk=disk)
    made = data.create("a.b_c-7", range(12), b"A" * 16, LogConfig())
    assert [log.name for log in made] == [f"a.b_c-7-{number}" for number in range(12)]
    with pytest.raises(ValueError, match="exists"):
        data.create("a.b_c-7", [3], b"A" * 16, LogConfig())
    data.remove([made[2]])
    data.close()
    again = DataDirectory.open(path, disk=disk)
    assert sorted(again.logs) == [("a.b_c-7", number) for number in range(12) if number != 2]
    assert {log.topic_id for log in again.logs.values()} == {b"A" * 16}
    again.close()


def test_long_names_can_be_deleted(tmp_path: Path) -> None:
    data = DataDirectory.open(str(tmp_path))
    (log,) = data.create("t" * 249, [0], b"A" * 16, LogConfig())
    data.remove_trees(data.remove([log]))
    assert [name for name in os.listdir(tmp_path) if name.startswith("t")] == []
    data.close()


def test_uuids() -> None:
    raw = bytes(range(16))
    assert uuid_text(raw) == "AAECAwQFBgcICQoLDA0ODw"
    assert uuid_bytes(uuid_text(raw)) == raw
    for bad in ("", "AAAA", "!" * 22):
        with pytest.raises(ValueError, match="not a UUID"):
            uuid_bytes(bad)


def test_descriptions() -> None:
    world = World(SimulatedDisk(), config=LogConfig(index_interval_bytes=10))
    log = world.log()
    world.writer.append(log, build_batch([(b"key", b"value"), (b"\0\1", None)], 1000))
    world.writer.append(log, build_control_batch(ControlType.ABORT, 7, 1, 0, 1001))
    world.settle()
    (journal,) = (name for name in world.disk.listdir(PATH) if name.startswith("journal-"))
    lines = list(describe(f"{PATH}/{journal}", disk=world.disk))
    assert lines[1] == f"  events-0: {log.size_bytes} bytes at 0 of segment 0"
    world.close()
    lines = list(describe(log.directory, disk=world.disk))
    assert lines[0] == f"{log.directory}/{0:020d}.log:"
    assert lines[1].startswith("  batch at 0: offsets 0..1, 2 records, 85 bytes, crc 0x")
    assert lines[2] == "    0 @1000 key 'key' value 'value'"
    assert lines[3] == "    1 @1000 key 0001 value null"
    assert "producer 7/1" in lines[4]
    assert lines[4].endswith("transactional, control")
    assert lines[5] == "    2 @1001 ABORT marker"
    assert lines[6] == "  2 batches, 3 records, 163 bytes, all sound"
    index = list(describe(f"{log.directory}/{0:020d}.index", disk=world.disk))
    assert index[1:] == ["  offset 2 position 85"]
    times = list(describe(f"{log.directory}/{0:020d}.timeindex", disk=world.disk))
    assert times[1:] == ["  timestamp 1001 offset 2"]
    world.disk.damage(f"{log.directory}/{0:020d}.log", 160)
    lines = list(describe(f"{log.directory}/{0:020d}.log", disk=world.disk, with_records=False))
    assert len(lines) == 3
    assert lines[2].startswith("damaged at byte 85: record batch is corrupt")


def test_text_of_what_is_not_there() -> None:
    assert read_text(SimulatedDisk(), "/nothing") is None


def test_what_is_written_to_a_removed_file_is_an_error(tmp_path: Path) -> None:
    """Linux would take it, and all of it would be gone with the last descriptor."""
    disk = OsDisk()
    file = disk.open(f"{tmp_path}/a", create=True)
    file.pwrite(b"x", 0)
    disk.rename(f"{tmp_path}/a", f"{tmp_path}/b")
    file.pwrite(b"y", 1)
    disk.unlink(f"{tmp_path}/b")
    with pytest.raises(FileNotFoundError, match="removed while it was open"):
        file.datasync()
    time.sleep(CHECK_S)
    with pytest.raises(FileNotFoundError, match="removed while it was open"):
        file.pwrite(b"z", 2)
    assert file.size() == 2
    file.close()
