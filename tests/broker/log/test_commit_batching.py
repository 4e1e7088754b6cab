"""Appends that need many new files share the log's thread: what others commit goes through between them."""

from __future__ import annotations

import pytest

from coordinatord.broker.log import LogConfig, LogFailed, PartitionLog
from coordinatord.broker.log.commit_batching import NEW_FILES
from coordinatord.broker.log.simulated_disk import SimulatedDisk
from coordinatord.broker.log.writer import FlushPolicy
from kafka_wire.records.batch import KeyValues, build_batch
from tests.broker.log.world import World, contents

MANY = 100


class CountingDisk(SimulatedDisk):
    """Counts flushes of files and directories."""

    flushes = 0

    def datasync(self, inode: object) -> None:
        self.flushes += 1
        super().datasync(inode)  # type: ignore[arg-type]

    def sync_dir(self, path: str) -> None:
        self.flushes += 1
        super().sync_dir(path)


def many(world: World, count: int = MANY) -> list[PartitionLog]:
    """Partitions without files."""
    return world.data.create("wide", range(count), b"W" * 16, world.config, lazy=True)


def turn(world: World) -> None:
    """One epoch: the loop seals it, the worker writes it, the loop hears of it."""
    world.loop.turn()
    world.worker.run_one()
    world.loop.turn()


@pytest.mark.parametrize("flush", ["always", "interval", "never"])
def test_a_commit_waits_for_a_few_new_partitions_only(flush: FlushPolicy) -> None:
    world = World(CountingDisk(), flush=flush)
    group = world.data.create("__consumer_offsets", [0], b"O" * 16, LogConfig())[0]
    world.writer.append_records(group, KeyValues([(b"k", b"v")]), 1)
    world.settle()
    produced: list[int] = []
    for number, log in enumerate(many(world)):
        _, epoch = world.writer.append(log, build_batch([(b"k", b"v")], 1), may_wait=True)
        world.writer.hold(epoch, lambda number=number: produced.append(number))  # type: ignore[misc]
    assert isinstance(world.disk, CountingDisk)
    waits = []
    while len(produced) < MANY:
        told: list[int] = []
        before = world.disk.flushes
        world.writer.hold(
            world.writer.append_records(group, KeyValues([(b"k", b"v")]), 1), lambda told=told: told.append(1)
        )
        turn(world)
        if not told:  # an epoch was on its way
            turn(world)
        assert told
        waits.append(world.disk.flushes - before)
    assert produced == list(range(MANY))
    assert len(waits) >= MANY // 4
    assert max(waits) <= 30, "two epochs with two new partitions each"
    world.close()


def test_what_a_new_partition_costs() -> None:
    """Two small files, and the directory that names them; the journal stands for the names of the segment's files."""
    world = World(CountingDisk())
    logs = many(world, 12)
    world.writer.append(logs[0], build_batch([(b"k", b"v")], 1))
    world.settle()
    assert isinstance(world.disk, CountingDisk)
    before = world.disk.flushes
    for log in logs[1:]:
        world.writer.append(log, build_batch([(b"k", b"v")], 1))
    turn(world)
    assert world.disk.flushes - before <= 11 * 3 + 2


def test_segments_that_are_begun_again_and_again() -> None:
    """No new partition is needed for it: every batch that begins a segment takes a place."""
    world = World(CountingDisk(), config=LogConfig(segment_ms=1))
    logs = many(world, 10)
    for log in logs:
        world.writer.append(log, build_batch([(b"k", b"v")], 1), may_wait=True)
    world.settle()
    assert isinstance(world.disk, CountingDisk)
    ends: list[int] = []
    for turn_ms in range(1, 6):
        for log in logs:
            batch = build_batch([(b"k", b"v")], 1 + 1000 * turn_ms)
            _, epoch = world.writer.append(log, batch, may_wait=True)
            world.writer.hold(epoch, lambda log=log: ends.append(log.high_watermark))  # type: ignore[misc]
    while world.writer.is_writing:
        before = world.disk.flushes
        turn(world)
        assert world.disk.flushes - before <= 2 * 4 + 4
    assert len(ends) == 50
    assert [len(log.segments) for log in logs] == [6] * 10
    world.close()
    again = World(world.disk)
    assert [log.end_offset for log in (again.log("wide", number) for number in range(10))] == [6] * 10


def test_a_partition_keeps_the_order_of_its_appends() -> None:
    world = World(SimulatedDisk())
    logs = many(world)
    order: list[tuple[str, int]] = []
    for serial, may_wait in enumerate([True, True, False]):
        for log in logs:
            _, epoch = world.writer.append(log, build_batch([(b"%d" % serial, b"v")], 1), may_wait=may_wait)
            world.writer.hold(epoch, lambda at=(log.name, serial): order.append(at))  # type: ignore[misc]
            later = world.writer.append_records(log, KeyValues([(b"r%d" % serial, b"v")]), 1)
            assert later >= epoch
    world.settle()
    for log in logs:
        assert [serial for name, serial in order if name == log.name] == [0, 1, 2]
        keys = [key for _offset, key, _value in contents(log)]
        assert keys == [b"0", b"r0", b"1", b"r1", b"2", b"r2"]


def test_a_topic_that_is_deleted_meanwhile_keeps_nobody_waiting() -> None:
    world = World(SimulatedDisk())
    told = []
    logs = many(world)
    for log in logs:
        _, epoch = world.writer.append(log, build_batch([(b"k", b"v")], 1), may_wait=True)
    world.writer.hold(epoch, lambda: told.append("last"))
    assert world.writer.last_epoch == epoch
    turn(world)
    world.writer.delete(logs)
    world.settle()
    assert told == ["last"]
    assert not world.writer.is_writing
    assert world.writer.waiting_bytes == 0


def test_a_stop_writes_what_waits() -> None:
    world = World(SimulatedDisk())
    told: list[int] = []
    for number, log in enumerate(many(world)):
        _, epoch = world.writer.append(log, build_batch([(b"k", b"v")], 1), may_wait=True)
        world.writer.hold(epoch, lambda number=number: told.append(number))  # type: ignore[misc]
    turn(world)
    world.close()
    assert told == list(range(MANY))
    again = World(world.disk)
    assert again.data.was_clean
    assert sum(log.end_offset for log in again.data.logs.values()) == MANY


def test_a_failure_reaches_all_that_wait() -> None:
    world = World(SimulatedDisk())
    told: list[str] = []
    logs = many(world)
    for log in logs:
        _, epoch = world.writer.append(log, build_batch([(b"k", b"v")], 1), may_wait=True)
        world.writer.hold(epoch, lambda: told.append("durable"), lambda: told.append("failed"))
    turn(world)
    assert told == ["durable"] * NEW_FILES
    world.disk.datasyncs_left = 0
    world.settle()
    assert told == ["durable"] * NEW_FILES + ["failed"] * (MANY - NEW_FILES)
    with pytest.raises(LogFailed):
        world.writer.append(logs[0], build_batch([(b"k", b"v")], 1), may_wait=True)
