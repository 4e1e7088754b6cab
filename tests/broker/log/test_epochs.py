"""Leader epochs: the next one begins whenever records may have been lost, and consumers may ask where each ended."""

from __future__ import annotations

from pathlib import Path

import pytest

from coordinatord.broker.log import (
    DataDirectory,
    DataDirectoryError,
    LogConfig,
    LogDamaged,
    PartitionLog,
    checkpoint,
    leader_epoch_cache,
    worker_checkpoints,
)
from coordinatord.broker.log.disk import OsDisk, read_text
from coordinatord.broker.log.leader_epoch_cache import LeaderEpochs
from coordinatord.broker.log.repair import carry_out, plan
from coordinatord.broker.log.simulated_disk import SimulatedDisk
from coordinatord.broker.log.worker_checkpoints import WorkerShare
from coordinatord.broker.log.writer import FlushPolicy
from kafka_wire.records.batch import build_batch
from tests.broker.log.world import PATH, World

EPOCHS = ((2, 10), (3, 25), (6, 40))
END_OFFSET = 50


@pytest.mark.parametrize(
    ("epoch", "found"),
    [
        (-1, None),
        (0, (0, 10)),  # before the first that is known: nothing of it is left, so it ended where that begins
        (2, (2, 25)),
        (3, (3, 40)),
        (5, (3, 40)),  # nobody led with it
        (6, (6, END_OFFSET)),
        (7, None),
    ],
)
def test_where_an_epoch_ended(epoch: int, found: tuple[int, int] | None) -> None:
    """As Kafka's LeaderEpochFileCache.endOffsetFor says for the same entries."""
    assert leader_epoch_cache.end_of(EPOCHS, epoch, END_OFFSET) == found


@pytest.mark.parametrize(
    ("epoch", "offset", "known"),
    [
        (6, 40, EPOCHS),
        (6, 45, EPOCHS),  # it began before
        (7, 41, (*EPOCHS, (7, 41))),
        (7, 40, ((2, 10), (3, 25), (7, 40))),  # 6 has no record
        (7, 25, ((2, 10), (7, 25))),
        (6, 30, ((2, 10), (3, 25), (6, 30))),
        (3, 50, ((2, 10), (3, 50))),
        (0, 0, ((0, 0),)),
    ],
)
def test_an_epoch_begins(epoch: int, offset: int, known: LeaderEpochs) -> None:
    """As LeaderEpochFileCache.assign says: entries that contradict a new one are dropped."""
    assert leader_epoch_cache.assigned(EPOCHS, epoch, offset) == known
    assert leader_epoch_cache.assigned((), epoch, offset) == ((epoch, offset),)


def test_the_end_of_a_log_is_cut_off() -> None:
    """As LeaderEpochFileCache.truncateFromEnd says."""
    found = {end: leader_epoch_cache.cut_from(EPOCHS, end) for end in (0, 10, 11, 25, 26, 40, 41)}
    assert found == {0: (), 10: (), 11: EPOCHS[:1], 25: EPOCHS[:1], 26: EPOCHS[:2], 40: EPOCHS[:2], 41: EPOCHS}


def test_the_start_of_a_log_is_removed() -> None:
    """As LeaderEpochFileCache.truncateFromStart says: the epoch of the first record that is left begins with it."""
    found = {start: leader_epoch_cache.from_start(EPOCHS, start) for start in (0, 10, 24, 25, 39, 40, 99)}
    assert found == {
        0: EPOCHS,
        10: EPOCHS,
        24: ((2, 24), (3, 25), (6, 40)),
        25: ((3, 25), (6, 40)),
        39: ((3, 39), (6, 40)),
        40: ((6, 40),),
        99: ((6, 99),),
    }


def produced(world: World, count: int) -> PartitionLog:
    """`count` batches of one record each."""
    for number in range(count):
        world.writer.append(world.log(), build_batch([(None, b"%d" % number)], 1))
        world.settle()
    return world.log()


def checkpointed(disk: SimulatedDisk) -> str | None:
    return read_text(disk, f"{PATH}/events-0/{leader_epoch_cache.FILE}")


def test_a_clean_stop_begins_no_epoch() -> None:
    world = World(SimulatedDisk())
    produced(world, 3)
    world.close()
    again = World(world.disk)
    assert (again.log().leader_epoch, again.log().leader_epochs) == (0, leader_epoch_cache.FIRST)
    again.close()
    assert b"leader.epoch" not in world.disk.content(f"{PATH}/meta.properties")


def test_a_start_without_a_clean_stop_begins_an_epoch() -> None:
    """It is stored with the first record of it, as the start writes nothing for each partition, and before that is
    visible.
    """
    world = World(SimulatedDisk())
    produced(world, 3)
    world.log("idle")
    disk = world.disk
    disk.crash("kill")
    world = World(disk)
    assert (world.log().leader_epoch, world.log().leader_epochs) == (1, ((0, 0), (1, 3)))
    assert (world.log("idle").leader_epoch, world.log("idle").leader_epochs) == (1, ((1, 0),))
    assert checkpointed(disk) == "0\n1\n0 0\n"
    produced(world, 2)
    assert checkpointed(disk) == "0\n2\n0 0\n1 3\n"
    assert [header.leader_epoch for header in world.log().batches(0)] == [0, 0, 0, 1, 1]
    world.close()
    world = World(disk)  # after a clean stop the same goes on
    assert (world.log().leader_epochs, world.log("new").leader_epochs) == (((0, 0), (1, 3)), ((1, 0),))
    disk.crash("kill")
    world = World(disk)
    disk.crash("kill")
    world = World(disk)
    assert (world.log().leader_epoch, world.log().leader_epochs) == (3, ((0, 0), (1, 3), (3, 5)))


@pytest.mark.parametrize("flush", ["always", "interval", "never"])
def test_an_epoch_is_stored_before_its_records_are_visible(flush: FlushPolicy) -> None:
    """If a power failure takes all of them, no later record has their epoch."""
    world = World(SimulatedDisk(), flush=flush)
    produced(world, 3)
    world.close()
    world.disk.unlink(f"{PATH}/.kafka_cleanshutdown")
    for life in range(1, 20):
        world = World(world.disk, flush=flush)
        log = produced(world, 1)
        assert [log.leader_epoch, log.high_watermark] == [life, log.end_offset]
        world.disk.crash("power")


def test_the_first_epochs_of_many_partitions_are_stored_a_few_at_a_time() -> None:
    """Otherwise all others would wait for their flushes (commit_batching.py)."""
    world = World(SimulatedDisk())
    for number in range(6):
        world.writer.append(world.log(partition=number), build_batch([(None, b"a")], 1))
    world.settle()
    world.disk.crash("kill")
    world = World(world.disk)
    first = world.writer.epoch
    found = [
        world.writer.append(world.log(partition=number), build_batch([(None, b"b")], 1), may_wait=True)[1] - first
        for number in range(6)
    ]
    assert found == [0, 0, 1, 1, 2, 2]
    world.settle()
    assert [world.log(partition=number).leader_epochs for number in range(6)] == [((0, 0), (1, 1))] * 6


def test_the_workers_of_a_directory_tell_one_epoch() -> None:
    """One that dies comes back with the same: nothing is lost, and the others must know it."""
    world = World(SimulatedDisk())
    produced(world, 3)
    disk = world.disk
    disk.crash("kill")
    topic_id = World(disk).log().topic_id  # the supervisor's start
    worker_checkpoints.hand_out(disk, PATH, 2, lambda _topic, _partition: 0)
    other = World(disk, share=WorkerShare(1, lambda _topic, _partition: False, is_recovered=True))
    for is_recovered in (True, False, False):
        owner = World(disk, share=WorkerShare(0, lambda _topic, _partition: True, is_recovered=is_recovered))
        assert owner.log().leader_epoch == other.data.elsewhere("events", 0, topic_id).leader_epoch == 1
        produced(owner, 1)
    assert owner.log().leader_epochs == ((0, 0), (1, 3))


def test_deleted_records_take_their_epochs_along() -> None:
    world = World(SimulatedDisk(), config=LogConfig(segment_bytes=100))
    produced(world, 3)
    world.disk.crash("kill")
    world = World(world.disk, config=LogConfig(segment_bytes=100))
    produced(world, 3)
    log = world.log()
    world.writer.delete_records(log, 2)
    assert log.leader_epochs == ((0, 2), (1, 3))
    log.drop_segments(2)
    assert log.leader_epochs == ((1, 4),)
    world.writer.delete_records(log, 6)
    world.settle()
    world.close()
    again = World(world.disk).log()
    assert (again.log_start_offset, again.leader_epochs) == (6, ((1, 6),))


def test_a_repair_begins_an_epoch() -> None:
    world = World(SimulatedDisk())
    log = produced(world, 10)
    world.close()
    disk = world.disk
    made = plan(disk, f"{PATH}/events-0/{0:020d}.log", log.segments[0].size // 2)
    assert made.end_offset == 5
    carry_out(disk, made, 4096)
    assert checkpointed(disk) == "0\n2\n0 0\n1 5\n"
    world = World(disk)
    assert world.data.was_clean
    assert world.log().leader_epoch == 1
    log = produced(world, 8)
    assert [header.leader_epoch for header in log.batches(0)] == [0] * 5 + [1] * 8
    assert leader_epoch_cache.end_of(log.leader_epochs, 0, log.end_offset) == (0, 5)


def test_what_kafka_left_behind_goes_on(tmp_path: Path) -> None:
    path = str(tmp_path)
    data = DataDirectory.open(path)
    data.create("orders", [0, 1], b"0123456789abcdef", LogConfig())
    data.mark_clean()
    data.close()
    assert (tmp_path / "orders-1" / leader_epoch_cache.FILE).read_text() == "0\n1\n0 0\n"
    leader_epoch_cache.write(OsDisk(), str(tmp_path / "orders-0"), EPOCHS)
    data = DataDirectory.open(path)
    found = [(log.leader_epoch, log.leader_epochs) for log in data.logs.values()]
    assert found == [(6, ((6, 0),)), (0, leader_epoch_cache.FIRST)], "nothing is left of the epochs before"
    data.close()
    data = DataDirectory.open(path)
    found = [(log.leader_epoch, log.leader_epochs) for log in data.logs.values()]
    assert found == [(7, ((7, 0),))] * 2, "one number for all that the directory leads"
    assert checkpoint.leader_epoch_of(OsDisk(), path) == 7
    data.close()


def test_an_epoch_beyond_the_last_one_is_refused(tmp_path: Path) -> None:
    data = DataDirectory.open(str(tmp_path))
    data.create("orders", [0], b"0123456789abcdef", LogConfig())
    data.close()
    leader_epoch_cache.write(OsDisk(), str(tmp_path / "orders-0"), ((leader_epoch_cache.MAX_EPOCH, 0),))
    with pytest.raises(DataDirectoryError, match="last leader epoch"):
        DataDirectory.open(str(tmp_path))


@pytest.mark.parametrize("text", ["-1", "", "one", "2147483648", "9" * 5000])
def test_a_directory_whose_epoch_is_none_is_damaged(tmp_path: Path, text: str) -> None:
    checkpoint.write_properties(OsDisk(), f"{tmp_path}/meta.properties", {"version": "1", "leader.epoch": text})
    with pytest.raises(LogDamaged, match=r"leader\.epoch"):
        checkpoint.leader_epoch_of(OsDisk(), str(tmp_path))


@pytest.mark.parametrize("text", ["1\n0\n", "0\n1\n5\n", "0\n1\nfive 3\n", "nonsense"])
def test_a_malformed_file_is_damage(tmp_path: Path, text: str) -> None:
    (tmp_path / leader_epoch_cache.FILE).write_text(text)
    with pytest.raises(LogDamaged, match="leader epoch checkpoint"):
        leader_epoch_cache.read(OsDisk(), str(tmp_path))


@pytest.mark.parametrize("text", [None, "", "0\n0\n"])
def test_without_entries_it_is_the_first_epoch(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / leader_epoch_cache.FILE).write_text(text)
    assert leader_epoch_cache.read(OsDisk(), str(tmp_path)) == leader_epoch_cache.FIRST
